import EntitlementCore

/// Endpoints that hear the same: what is told of these customers in one format.
struct EndpointAudience: Hashable, Sendable {
    /// `nil`: every app.
    let app: AppScope?
    let format: EndpointFormat

    init(bundleID: String?, format: EndpointFormat) {
        app = bundleID.flatMap { $0.isEmpty ? nil : AppScope($0) }
        self.format = format
    }

    /// No bundle id has a slash.
    static let mark = EndpointFormat.revenueCat.rawValue + "/"

    /// As columns `app` hold it.
    var name: String {
        let bundleID = app?.bundleID ?? ""
        return switch format {
        case .standard: bundleID
        case .revenueCat: Self.mark + bundleID
        }
    }

    init(name: String) {
        if name.hasPrefix(Self.mark) {
            self.init(bundleID: String(name.dropFirst(Self.mark.count)), format: .revenueCat)
        } else {
            self.init(bundleID: name, format: .standard)
        }
    }
}
