import EntitlementCore

/// A list of transaction ids: one a line, in its first column; empty lines and those that begin with # are passed over.
struct TransactionIDFile: Sendable {
    /// The largest file that is taken, in bytes: some three million ids, about a day and a half by the store's limits.
    ///
    /// The list is held in memory, where it takes several times as much.
    private static let sizeLimit = 64 << 20
    /// The longest id, in bytes.
    private static let idLimit = 64

    let ids: [Substring]
    /// Names the list: the same ids in the same order, and nothing else.
    let hash: Digest

    /// - Throws: `CommandFailure` for a file that cannot be read, or that holds anything else.
    init(_ path: String) throws {
        var ids: [Substring] = []
        try TableFile.read(path, limit: Self.sizeLimit) { line, place in
            let id = try Self.id(line, place)
            if !id.isEmpty { ids.append(id) }
        }
        guard !ids.isEmpty else { throw CommandFailure(description: "\(path) holds no transaction ids") }
        self.ids = ids
        hash = TableFile.hash(of: ids)
    }

    /// The id of a line; empty where it has none.
    private static func id(_ line: Substring, _ place: String) throws -> Substring {
        let columns = TableFile.words(line)
        guard let id = columns.first?.first, !id.hasPrefix("#") else { return "" }
        guard id.utf8.count <= idLimit, isNumber(id) else {
            throw CommandFailure(
                description: "\(place): '\(id.prefix(40))' is no transaction id of the App Store, "
                    + "which is a number; nothing was imported")
        }
        // In other columns prices, dates and counts may stand beside it.
        let other =
            columns[0].dropFirst().first(where: isNumber)
            ?? columns.dropFirst().joined().first {
                isNumber($0) && ($0.utf8.count == id.utf8.count || (idLength...idLimit).contains($0.utf8.count))
            }
        if let other {
            throw CommandFailure(
                description: "\(place): '\(other)' beside '\(id)' looks like another transaction id; put one on each "
                    + "line, and in a table leave the one column; nothing was imported")
        }
        return id
    }

    /// How many digits the store's ids have at least.
    private static let idLength = 14

    private static func isNumber(_ text: Substring) -> Bool {
        !text.isEmpty && text.utf8.allSatisfy { (48...57).contains($0) }
    }
}
