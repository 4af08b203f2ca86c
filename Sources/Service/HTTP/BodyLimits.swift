/// How large bodies may be, as the routes say it, in a form that is cheap to ask before there is a request to find a route for.
///
/// A path is told by how it begins and how it ends, so one that leads nowhere may be allowed as much as the route it looks
/// like.
struct BodyLimits: Sendable {
    private struct Path: Sendable {
        let start: String
        /// Behind what the template leaves open; `nil` where it leaves nothing open.
        let end: String?
        let limit: Int

        init(_ template: String, limit: Int) {
            self.limit = limit
            guard let open = template.firstIndex(of: "{"), let close = template.lastIndex(of: "}") else {
                (start, end) = (template, nil)
                return
            }
            (start, end) = (String(template[..<open]), String(template[template.index(after: close)...]))
        }

        func matches(_ path: String) -> Bool {
            guard let end else { return path == start }
            return path.hasPrefix(start) && path.hasSuffix(end)
        }
    }

    /// Only what differs from the others, by method: most requests are none of these, and are through with it at once.
    private let exceptions: [(method: String, paths: [Path])]
    private let other: Int

    init(_ routes: [Route], _ limits: Application.Limits) {
        var paths: [String: [Path]] = [:]
        for route in routes {
            guard let limit = route.operation.body?.limit(limits), limit != limits.otherBytes else { continue }
            paths[route.method, default: []].append(Path(route.template, limit: limit))
        }
        exceptions = paths.map { ($0.key, $0.value) }
        other = limits.otherBytes
    }

    /// The largest body for a method and a percent-encoded path, in bytes.
    func limit(_ method: String, _ path: String) -> Int {
        for exception in exceptions where exception.method == method {
            for candidate in exception.paths where candidate.matches(path) { return candidate.limit }
        }
        return other
    }
}
