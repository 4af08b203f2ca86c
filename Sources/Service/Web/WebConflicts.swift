import EntitlementCore
package import Ledger

/// Says when an event or a reading of Stripe's lets a purchase name another customer beside its owner.
///
/// In whichever order the two names come, the second makes the conflict; by the rules it may even make another the owner,
/// which must not happen silently.
package struct WebConflicts: Sendable {
    private let reader: LedgerReader
    private let metrics: Metrics
    private let logger: Logger

    /// How long an answer waits for what is looked at for an operator's eyes alone.
    private static let patience = Duration.seconds(1)

    package init(reader: LedgerReader, metrics: Metrics, logger: Logger) {
        self.reader = reader
        self.metrics = metrics
        self.logger = logger
    }

    /// Appends an event, and says what conflict it makes.
    package func append(
        _ draft: EventDraft, by append: (EventDraft) async throws -> AppendOutcome
    ) async throws -> AppendOutcome {
        let outcome = try await append(draft)
        if !outcome.isDuplicate, case .web(let fact) = draft.fact, let environment = draft.environment {
            await note(fact, environment, at: outcome.position)
        }
        return outcome
    }

    /// Counts the names that an event brought into contradiction, and says so in the log.
    func note(_ fact: WebFact, _ environment: StoreEnvironment, at position: Int64) async {
        guard let original = fact.originalTransactionID, !fact.owners.isEmpty else { return }
        let count: Int?
        do {
            count = try await within(Self.patience) { [reader] () async throws -> Int in
                func rivals(at position: Int64) async throws -> Set<IdentityRef> {
                    let known = try await reader.subscription(
                        original, environment: environment, knownAt: .position(position))
                    guard let facts = known.subscription, let web = facts.state.web, let owner = web.statedOwner else {
                        return []
                    }
                    // Once an original without an owner was transferred to somebody, every customer named later is in
                    // conflict with that.
                    if let transfer = facts.ownership.transferInForce(of: original),
                        case .transfer(let fact)? = try await reader.event(at: transfer.position)?.event.fact,
                        fact.hadNoOwner
                    {
                        let holder = facts.ownership.customer(of: transfer.customer)
                        return Set(
                            web.owners.map(\.value.customer).filter { facts.ownership.customer(of: $0) != holder })
                    }
                    let person = facts.ownership.customer(of: owner)
                    return Set(web.contradictingOwners.filter { facts.ownership.customer(of: $0) != person })
                }
                let now = try await rivals(at: position)
                return now.isEmpty ? 0 : now.subtracting(try await rivals(at: position - 1)).count
            }
        } catch {
            count = nil
        }
        guard let count else {
            return logger.log(
                .warning, "whether an event of Stripe's names another customer than the owner cannot be told now",
                [("position", .integer(position))])
        }
        guard count > 0 else { return }
        metrics.count(.conflicts, [], by: count)
        metrics.count(.remarks, ["ownership_conflict"])
        logger.log(
            .warning, "a purchase on the web names two customers",
            [("position", .integer(position)), ("environment", .string(environment.rawValue))])
    }
}
