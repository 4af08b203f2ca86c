import AppStoreServer
package import EntitlementCore
package import Ledger

/// Asks the store, behind the service, about what a device says and nothing explains.
///
/// What it says that is new explains the difference as any event does. Where it says what the ledger says, that is an event
/// too: the device is the one that has not heard.
package struct DriftChecks: Sendable {
    /// How long the store may take for one.
    private static let patience = Duration.seconds(120)
    /// After the store could not be asked.
    private static let retry = Duration.seconds(600)
    /// After so many in a row that could not be asked about it is taken for an outage.
    static let mostInARow = 5

    let checks: [(check: StoreCheck, environment: StoreEnvironment)]
    private let register: DriftRegister
    private let reader: LedgerReader
    private let metrics: Metrics
    private let logger: Logger
    private let now: @Sendable () -> Timestamp
    private let pause: Duration

    /// - Parameters:
    ///   - checks: one for each app and each of its environments.
    ///   - pause: between looks.
    package init(
        _ checks: [(check: StoreCheck, environment: StoreEnvironment)], register: DriftRegister, reader: LedgerReader,
        metrics: Metrics, logger: Logger, pause: Duration = .seconds(15), now: @escaping @Sendable () -> Timestamp
    ) {
        self.checks = checks
        self.register = register
        self.reader = reader
        self.metrics = metrics
        self.logger = logger
        self.pause = pause
        self.now = now
    }

    /// Works until the current task is cancelled.
    package func run() async {
        await withTaskGroup(of: Void.self) { group in
            for (check, environment) in checks {
                group.addTask {
                    while !Task.isCancelled {
                        // Where the database is away, everything says so.
                        let round = try? await goThrough(check, environment)
                        try? await Task.sleep(for: round?.outage == nil ? pause : Self.retry)
                    }
                }
            }
        }
    }

    /// What came of going through what is unexplained.
    struct Round: Sendable {
        /// About how many the store was asked, or need not be.
        var asked = 0
        var failed = 0
        /// Why the rest was left; `nil` where nothing is left.
        var outage: StoreAPIError?
    }

    /// Asks about one after the other, beside those about which the store cannot be asked, until nothing is left or it looks
    /// as if nothing could be asked.
    func goThrough(_ check: StoreCheck, _ environment: StoreEnvironment) async throws -> Round {
        var round = Round()
        var inARow = 0
        while true {
            try Task.checkCancellation()
            do {
                guard try await ask(check, environment) else { return round }
                round.asked += 1
                inARow = 0
            } catch let error as StoreAPIError {
                try Task.checkCancellation()
                round.failed += 1
                inARow += 1
                metrics.count(.storeChecks, ["drift", "failed"])
                logger.log(
                    .error, "the store cannot be asked what explains a difference; it is tried again",
                    [("app", .string(check.app)), ("error", .string("\(error)"))])
                guard error.reach == .oneRequest, inARow < Self.mostInARow else {
                    round.outage = error
                    return round
                }
            }
        }
    }

    /// Returns whether there was something to ask about.
    private func ask(_ check: StoreCheck, _ environment: StoreEnvironment) async throws -> Bool {
        let stream = StoreStream(app: check.app, environment: environment)
        guard let drift = try await register.takeUnexplained(stream), let original = drift.originalTransactionID,
            let report = drift.report
        else { return false }
        // Of somebody who was forgotten the answer would name them again.
        guard let customer = drift.customerID.flatMap({ CustomerID($0) }) else { return true }
        let finding: StoreCheck.Finding
        do {
            if let known = try await reader.subscription(original, environment: environment).subscription,
                try await reader.isForgotten(known)
            {
                return true
            }
            finding = try await check.run(original, in: environment, within: Self.patience)
        } catch {
            // Also when this task is cancelled: nothing was asked then.
            let isAtOnce = (error as? StoreAPIError).map { $0.reach == .everyRequest } ?? true
            await Task { [register] in try? await register.giveBack(drift, isAtOnce: isAtOnce) }.value
            throw error
        }
        let isNews = finding.recorded.contains { $0.originalTransactionID == original }
        let isKnown = finding.originalTransactionID != nil
        metrics.count(.storeChecks, ["drift", isNews ? "recorded" : isKnown ? "known" : "unknown"])
        guard isKnown, !isNews else { return true }
        let snapshot = try await reader.snapshot(LedgerQuestion(of: customer, environment))
        let facts = snapshot.facts
        let claim = report.claim
        guard !facts.agrees(with: claim, at: now()), let answer = facts.answer(to: claim, at: now())
        else { return true }
        let agreement = DriftFact(
            customer: IdentityRef(0), bundleID: report.bundleID, productID: report.productID, claimed: answer.state,
            claimedUntil: answer.until, actual: answer.state, actualUntil: answer.until)
        do {
            _ = try await check.append(
                EventDraft(
                    environment: environment, source: .serverAPI, occurredAt: nil, fact: .drift(agreement),
                    identities: [customer.value], deduplication: .unique,
                    unchangedSince: UnchangedSince(snapshot.mark, customers: [customer.value])))
        } catch AppendRefusal.conflict {
            // A device has just reported, or a command changed what was compared: it is told apart anew.
        }
        return true
    }
}
