/// What types are called in a description.
enum ComponentName {
    /// Such as `TimelineInterval` for `EntitlementAPI.TimelineDocument.Interval`.
    ///
    /// What ends in `Document`, `Word` or `Form` loses that; types of a module other than the contract's own bear its name.
    static func of(_ type: any Any.Type) -> String { name(String(reflecting: type)) }

    private static func name(_ path: String) -> String {
        if let open = path.firstIndex(of: "<"), path.hasSuffix(">") {
            let outer = name(String(path[..<open]))
            let inner = name(String(path[path.index(after: open)...].dropLast()))
            return inner + outer
        }
        var parts = path.split(separator: ".").map(String.init)
        let module = parts.count > 1 ? parts.removeFirst() : ""
        // What stands in parentheses is where a type is private.
        let words = parts.filter { !$0.hasPrefix("(") }.map { part in
            ["Document", "Word", "Form"].first { part.hasSuffix($0) && part != $0 }.map {
                String(part.dropLast($0.count))
            } ?? part
        }
        return (prefixes[module] ?? "") + words.joined()
    }

    private static let prefixes = ["RevenueCatAPI": "RevenueCat"]
}
