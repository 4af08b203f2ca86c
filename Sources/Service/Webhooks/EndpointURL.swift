import EntitlementAPI
package import Foundation

/// Where an endpoint's messages go: an address that may be spoken to.
package struct EndpointURL: Sendable, Hashable {
    package let url: URL
    let text: String
    /// Scheme, host and port.
    let origin: String

    package struct Refusal: Error, Sendable {
        package let reason: String
    }

    /// Reads an address.
    ///
    /// - Parameter allowsPrivate: also plain http, and hosts that are no address of the public internet. A name is looked
    ///   at only when a connection is made.
    package init(_ text: String, allowsPrivate: Bool) throws(Refusal) {
        guard (1...EndpointLimits.url).contains(text.utf8.count),
            let parts = URLComponents(string: text, encodingInvalidCharacters: false),
            let url = parts.url, let scheme = parts.scheme?.lowercased(), let host = parts.host, !host.isEmpty
        else {
            throw Refusal(
                reason:
                    "url is an address of 1 to \(EndpointLimits.url) bytes, such as https://example.com/webhooks, in "
                    + "which what is not plain ASCII is percent-encoded.")
        }
        guard scheme == "https" || (scheme == "http" && allowsPrivate) else {
            throw Refusal(
                reason: "url begins with https://; plain http is taken only where \"webhooks\": "
                    + "{\"allow_private_addresses\": true} is configured.")
        }
        guard parts.user == nil, parts.password == nil, parts.fragment == nil else {
            throw Refusal(reason: "url has no user, no password and no fragment.")
        }
        guard Self.isPlain(host), parts.percentEncodedHost == host,
            parts.port.map({ (1...65_535).contains($0) }) ?? true
        else {
            throw Refusal(
                reason: "url names a host by its name in ASCII, or by its IP address, and a port from 1 to 65535.")
        }
        // A name may end with a dot, which says that it is whole.
        let named = host.hasSuffix(".") ? String(host.dropLast()) : host
        let bare = host.hasPrefix("[") ? String(host.dropFirst().dropLast()) : named
        if !allowsPrivate, let address = IPAddress(bare), !PublicAddress.contains(address.bytes) {
            throw Refusal(
                reason: "url leads to a private address, which is taken only where \"webhooks\": "
                    + "{\"allow_private_addresses\": true} is configured.")
        }
        if !allowsPrivate, bare.lowercased() == "localhost" || bare.lowercased().hasSuffix(".localhost") {
            throw Refusal(
                reason: "url leads to this machine, which is taken only where \"webhooks\": "
                    + "{\"allow_private_addresses\": true} is configured.")
        }
        self.url = url
        self.text = text
        origin = "\(scheme)://\(host.lowercased())" + (parts.port.map { ":\($0)" } ?? "")
    }

    /// Whether a host is an IP address as it is usually written, or a name of letters, digits and hyphens whose last label is no
    /// number: else it may stand for an address in another notation, such as `0x7f.1`.
    private static func isPlain(_ host: String) -> Bool {
        if host.hasPrefix("[") { return host.hasSuffix("]") && IPAddress(String(host.dropFirst().dropLast())) != nil }
        if IPAddress(host) != nil { return true }
        let labels = host.split(separator: ".", omittingEmptySubsequences: false)
        let named = labels.last == "" ? labels.dropLast() : labels[...]
        guard let last = named.last, host.utf8.count <= 253 else { return false }
        return named.allSatisfy { label in
            (1...63).contains(label.utf8.count)
                && label.utf8.allSatisfy { byte in
                    (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(byte | 0x20)
                        || (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) || byte == UInt8(ascii: "-")
                        || byte == UInt8(ascii: "_")
                }
        } && !(last.utf8.first.map { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) } ?? true)
    }
}
