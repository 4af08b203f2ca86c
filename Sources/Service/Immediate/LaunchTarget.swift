/// The target of `POST /v1/customers/{id}/reconcile`, read from its bytes.
enum LaunchTarget {
    static let route = "/v1/customers/{id}/reconcile"
    private static let prefix = Array("/v1/customers/".utf8)
    private static let suffix = Array("/reconcile".utf8)

    /// Whether a target, with or without a query, leads to the route.
    static func matches(_ target: UnsafeBufferPointer<UInt8>) -> Bool {
        let path = target.prefix { $0 != UInt8(ascii: "?") }
        return path.count > prefix.count + suffix.count && path.starts(with: prefix)
            && path.suffix(suffix.count).elementsEqual(suffix)
    }
}
