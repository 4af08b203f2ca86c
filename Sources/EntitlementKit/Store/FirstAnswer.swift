/// The first of two answers to one question: what a call says, or that its time is over.
actor FirstAnswer<Answer: Sendable> {
    private var answer: Answer??
    private var waiter: CheckedContinuation<Answer?, Never>?

    /// Answers, unless somebody has before; `nil` stands for the end of the time.
    func give(_ answer: Answer?) {
        guard self.answer == nil else { return }
        self.answer = .some(answer)
        waiter?.resume(returning: answer)
        waiter = nil
    }

    /// The first answer, once it is there; for one who waits.
    func wait() async -> Answer? {
        if let answer { return answer }
        return await withCheckedContinuation { waiter = $0 }
    }
}

extension EntitlementStore {
    /// What a call answers within a time limit; `nil` where it takes longer, or the store is stopped meanwhile.
    ///
    /// A call of StoreKit can hang for minutes and does not listen to cancellation. So it goes on by itself, and only
    /// whoever waits for it goes away.
    func bounded<Answer: Sendable>(
        _ limit: Duration, _ call: @escaping @Sendable () async -> Answer
    ) async -> Answer? {
        guard !isStopped else { return nil }
        let first = FirstAnswer<Answer>()
        Task { await first.give(await call()) }
        let end = clock.uptime() + limit
        let timer = Task { [clock] in
            guard (try? await clock.sleep(until: end)) != nil else { return }
            await first.give(nil)
        }
        let number = noteWait { await first.give(nil) }
        defer {
            timer.cancel()
            waits[number] = nil
        }
        return await first.wait()
    }

    func noteWait(_ end: @escaping @Sendable () async -> Void) -> Int {
        waitCount += 1
        waits[waitCount] = end
        return waitCount
    }

    /// Lets everybody go who waits for a call.
    func endWaits() {
        for end in waits.values { Task { await end() } }
    }
}
