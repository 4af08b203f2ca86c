import EntitlementCore

/// What becomes of members of a catalog that mean nothing here.
struct UnknownCatalogMembers {
    /// More of them say no more to whoever wrote them.
    private static let mostNamed = 8

    /// Where the catalog comes from.
    let origin: CatalogDocument.Origin
    /// Where the first ones stand that were ignored.
    private(set) var ignored: [String] = []

    init(in origin: CatalogDocument.Origin) { self.origin = origin }

    /// Takes note of one.
    ///
    /// - Parameter known: the names that mean something there.
    mutating func meet(_ path: String, known: Set<String>) throws(CatalogDocumentError) {
        guard origin != .file else {
            throw CatalogDocumentError(
                path: path, reason: "is unknown; known are: \(known.sorted().joined(separator: ", "))")
        }
        if ignored.count < Self.mostNamed { ignored.append(path) }
    }
}

/// The members of one object of a catalog, and where it stands.
struct CatalogMembers {
    private let members: [String: WireValue]
    private let path: String
    private let origin: CatalogDocument.Origin

    init(
        _ value: WireValue, path: String, known: Set<String>, _ unknown: inout UnknownCatalogMembers
    ) throws(CatalogDocumentError) {
        guard case .object(let members) = value else {
            throw CatalogDocumentError(path: path, reason: "must be an object")
        }
        self.members = members
        self.path = path
        origin = unknown.origin
        for name in members.keys.filter({ !known.contains($0) }).sorted() {
            try unknown.meet(place(String(name.prefix(64))), known: known)
        }
    }

    /// The member of that name; `nil` where it is absent or `null`.
    subscript(name: String) -> WireValue? {
        guard let value = members[name], value != .null else { return nil }
        return value
    }

    func array(_ name: String, limit: Int) throws(CatalogDocumentError) -> [WireValue] {
        guard let value = self[name] else { throw CatalogDocumentError(path: place(name), reason: "is missing") }
        guard case .array(let values) = value else {
            throw CatalogDocumentError(path: place(name), reason: "must be a list")
        }
        guard values.count <= limit else {
            throw CatalogDocumentError(
                path: place(name), reason: "has \(values.count) entries; at most \(limit) may be")
        }
        return values
    }

    func identifier(_ name: String, limit: Int) throws(CatalogDocumentError) -> String {
        guard let value = self[name] else { throw CatalogDocumentError(path: place(name), reason: "is missing") }
        return try identifier(value, path: place(name), limit: limit)
    }

    func bool(_ name: String) throws(CatalogDocumentError) -> Bool? {
        guard let value = self[name] else { return nil }
        guard case .bool(let flag) = value else {
            throw CatalogDocumentError(path: place(name), reason: "must be true or false")
        }
        return flag
    }

    func identifier(_ value: WireValue, path: String, limit: Int) throws(CatalogDocumentError) -> String {
        guard case .string(let text) = value, !text.isEmpty, text.utf8.count <= limit,
            origin == .answer || !text.unicodeScalars.contains(where: \.isControl)
        else {
            throw CatalogDocumentError(
                path: path, reason: "must be a text of 1 to \(limit) bytes without control characters")
        }
        return text
    }

    private func place(_ name: String) -> String { path.isEmpty ? name : path + "." + name }
}
