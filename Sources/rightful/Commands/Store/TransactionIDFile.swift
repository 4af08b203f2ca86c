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

    /// - Parameter hasOwners: whether a list of owners stands beside it: then other columns may be the customers' ids, and numbers.
    /// - Throws: `CommandFailure` for a file that cannot be read, or that holds anything else.
    init(_ path: String, hasOwners: Bool) throws {
        var ids: [Substring] = []
        try TableFile.read(path, limit: Self.sizeLimit) { line, place in
            let id = try Self.id(line, place, hasOwners: hasOwners)
            if !id.isEmpty { ids.append(id) }
        }
        guard !ids.isEmpty else { throw CommandFailure(description: "\(path) holds no transaction ids") }
        self.ids = ids
        hash = TableFile.hash(of: ids)
    }

    /// The id of a line; empty where it has none.
    private static func id(_ line: Substring, _ place: String, hasOwners: Bool) throws -> Substring {
        let columns = TableFile.words(line)
        guard let id = columns.first?.first, !id.hasPrefix("#") else { return "" }
        guard isID(id) else {
            throw CommandFailure(
                description: "\(place): '\(id.prefix(40))' is no transaction id of the App Store, "
                    + "which is a number; \(headingHint); nothing was imported")
        }
        // In other columns prices, dates and counts may stand beside it.
        let other =
            columns[0].dropFirst().first(where: isNumber)
            ?? columns.dropFirst(hasOwners ? columns.count : 1).joined().first {
                isNumber($0) && ($0.utf8.count == id.utf8.count || (idLength...idLimit).contains($0.utf8.count))
            }
        if let other {
            throw CommandFailure(
                description: "\(place): '\(other)' beside '\(id)' looks like another transaction id; put one on each "
                    + "line, and in a table leave the one column; nothing was imported")
        }
        return id
    }

    /// Whether it may be the id of a transaction.
    static func isID(_ text: Substring) -> Bool { text.utf8.count <= idLimit && isNumber(text) }

    /// What to do about a line that is no entry.
    static let headingHint = "a heading is to begin with #"

    /// How many digits the store's ids have at least.
    private static let idLength = 14

    private static func isNumber(_ text: Substring) -> Bool {
        !text.isEmpty && text.utf8.allSatisfy { (48...57).contains($0) }
    }
}
