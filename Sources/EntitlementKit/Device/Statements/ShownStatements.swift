/// The statements that the store has shown in this process, as they were signed.
///
/// A store may sign everything anew at each look. Only what the book holds can be asked about, so the rest is forgotten
/// now and then, and this holds about twice as many as the book at most.
struct ShownStatements: Sendable {
    /// How many are kept without forgetting any.
    static let freeCount = 256

    private var texts: Set<String> = []
    private var limit = freeCount

    /// How many are kept.
    var count: Int { texts.count }

    func contains(_ jws: String) -> Bool { texts.contains(jws) }

    /// Notes a statement that is about to be joined to a book.
    mutating func insert(_ jws: String, in book: StatementBook) {
        if texts.count >= limit {
            texts.formIntersection(book.texts)
            limit = max(Self.freeCount, 2 * texts.count)
        }
        texts.insert(jws)
    }
}
