/// Gathers what the store hands over by itself, so that all that came meanwhile is joined at once.
///
/// At a launch a store may deliver hundreds of updates, and each joining costs as much as all that is known.
actor Deliveries {
    private var statements: [SignedStatement] = []
    private var isOver = false
    private var waiter: CheckedContinuation<Void, Never>?

    /// Listens until the stream ends, or the task is cancelled.
    func collect(_ updates: AsyncStream<SignedStatement>) async {
        for await statement in updates {
            statements.append(statement)
            wake()
        }
        isOver = true
        wake()
    }

    /// All that has come since the last call, in its order; waits where that is nothing, and is `nil` after the end.
    func next() async -> [SignedStatement]? {
        while statements.isEmpty, !isOver { await withCheckedContinuation { waiter = $0 } }
        defer { statements = [] }
        return statements.isEmpty ? nil : statements
    }

    private func wake() {
        waiter?.resume()
        waiter = nil
    }
}
