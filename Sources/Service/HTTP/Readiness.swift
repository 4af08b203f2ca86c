/// Whether the service can answer, as the database last said.
///
/// Anybody may ask, so the database is asked by one at a time, and its answer holds for a moment for all who come then.
actor Readiness {
    /// What the database said; `nil` when it did not answer in time.
    typealias Standing = (refusal: String?, position: Int64)?

    private let lifetime: Duration
    private let ask: @Sendable () async throws -> Standing
    private var last: (answer: Task<Standing, any Error>, until: ContinuousClock.Instant?)?

    /// - Parameter lifetime: for how long an answer holds.
    init(lifetime: Duration, ask: @escaping @Sendable () async throws -> Standing) {
        self.lifetime = lifetime
        self.ask = ask
    }

    /// What the database says now, or said a moment ago; bounded in time as `ask` is.
    func standing() async throws -> Standing {
        if let last, last.until.map({ .now < $0 }) ?? true { return try await last.answer.value }
        let answer = Task { [ask] in try await ask() }
        last = (answer, nil)
        defer { last?.until = .now + lifetime }
        return try await answer.value
    }
}
