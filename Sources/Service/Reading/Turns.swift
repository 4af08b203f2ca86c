/// Lets one piece of work go on at a time, in the order in which they came; few wait.
actor Turns {
    private let mostWaiting: Int
    private let refusal: String
    private var isTaken = false
    private(set) var waiting: [CheckedContinuation<Void, Never>] = []

    /// - Parameter refusal: what those are told who find too many waiting.
    init(mostWaiting: Int, refusal: String) {
        (self.mostWaiting, self.refusal) = (mostWaiting, refusal)
    }

    /// - Throws: what the work throws, `CancellationError` where nobody waits any more when its turn comes, or `unavailable` when
    ///   too many wait.
    func run<Value: Sendable>(_ work: @Sendable () async throws -> Value) async throws -> Value {
        if isTaken {
            guard waiting.count < mostWaiting else { throw Problem.unavailable(refusal) }
            await withCheckedContinuation { waiting.append($0) }
        }
        isTaken = true
        // Whoever is next has the turn before anybody who comes now.
        defer { if waiting.isEmpty { isTaken = false } else { waiting.removeFirst().resume() } }
        try Task.checkCancellation()
        return try await work()
    }
}
