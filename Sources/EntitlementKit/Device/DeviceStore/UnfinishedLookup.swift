/// Looks many transactions up in one pass over what the store shows as unfinished.
///
/// StoreKit finishes a transaction's object, not its id, and verifies each object it shows. So a pass for each of thousands
/// would take hours; whoever asks while one is under way is served by the next.
actor UnfinishedLookup<Found: Sendable> {
    /// How long a pass holds up the next one; a call of StoreKit can hang.
    private let patience: Duration
    private let pass: @Sendable (_ ids: Set<String>) async -> [String: Found]
    /// Who waits for a pass that has not begun.
    private(set) var waiting: [String: [CheckedContinuation<Found?, Never>]] = [:]
    private var begunAt: ContinuousClock.Instant?
    private var passes = 0

    init(patience: Duration = .seconds(20), _ pass: @escaping @Sendable (_ ids: Set<String>) async -> [String: Found]) {
        self.patience = patience
        self.pass = pass
    }

    /// The object of an id; `nil` where a pass that began after the call did not show it.
    func find(_ id: String) async -> Found? {
        await withCheckedContinuation { continuation in
            waiting[id, default: []].append(continuation)
            begin()
        }
    }

    private func begin() {
        if let begunAt, begunAt.duration(to: .now) < patience { return }
        guard !waiting.isEmpty else { return }
        let asked = waiting
        waiting = [:]
        passes += 1
        begunAt = .now
        let number = passes
        Task {
            let found = await pass(Set(asked.keys))
            for (id, continuations) in asked {
                for continuation in continuations { continuation.resume(returning: found[id]) }
            }
            // Another one may have begun, because this one took too long.
            if number == passes { begunAt = nil }
            begin()
        }
    }
}
