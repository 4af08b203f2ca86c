import AppStorePayloads
import AppStoreServer
import EntitlementCore
import Ledger

/// Signed statements that the store gave when it was asked about one app: each verified by itself, like a device's.
struct StoreStatements: Sendable {
    private(set) var transactions: [VerifiedTransaction] = []
    private(set) var renewals: [VerifiedRenewal] = []
    /// Why others were not believed.
    private(set) var refusals: [String] = []

    /// Verifies everything; it keeps a core busy for a fraction of a millisecond a statement.
    ///
    /// - Parameters:
    ///   - pairs: transactions, each with the renewal information beside it, where there is one. That names no app, so it
    ///     counts only beside a transaction of the same original that is believed.
    ///   - app: the bundle id that everything must be of, in `environment`.
    init(
        _ pairs: [(transaction: UnverifiedStatement, renewal: UnverifiedStatement?)], of app: String,
        in environment: StoreEnvironment, with verifier: StatementVerifier, now: Timestamp
    ) {
        var work = SignatureWork()
        for pair in pairs {
            do throws(NotificationRefusal) {
                let transaction = try verifier.transaction(pair.transaction.compact, now: now, work: &work)
                // Byte for byte, as the configuration names it.
                guard transaction.bundleID.utf8.elementsEqual(app.utf8), transaction.environment == environment else {
                    refusals.append("a transaction is of another app or environment than was asked about")
                    continue
                }
                transactions.append(transaction)
                guard let compact = pair.renewal?.compact else { continue }
                let renewal = try verifier.renewal(compact, now: now, work: &work)
                guard renewal.payload.originalTransactionID == transaction.payload.originalTransactionID,
                    renewal.environment == environment
                else {
                    refusals.append("renewal information is about something else than the transaction beside it")
                    continue
                }
                renewals.append(renewal)
            } catch {
                refusals.append("\(error)")
            }
        }
    }

    /// The original transactions that are spoken of.
    var originals: Set<String> { Set(transactions.map(\.payload.originalTransactionID)) }

    /// What has to be read to tell which of it is news.
    func question(_ environment: StoreEnvironment) -> LedgerQuestion {
        var people = IdentityList()
        for statement in transactions { _ = statement.fact(&people) }
        return LedgerQuestion(of: nil, environment, originals: originals.sorted(), customers: people.customerIDs)
    }

    /// The events of what the ledger does not know yet, one for each original transaction.
    ///
    /// - Parameter forgotten: whom known statements name who was forgotten since. That the store names them still is no news.
    func drafts(
        _ environment: StoreEnvironment, beside snapshot: LedgerSnapshot, forgotten: Set<IdentityRef>
    ) -> [EventDraft] {
        originals.sorted().compactMap { original in
            draft(of: original, environment, snapshot, forgotten)
        }
    }

    private func draft(
        of original: String, _ environment: StoreEnvironment, _ snapshot: LedgerSnapshot,
        _ forgotten: Set<IdentityRef>
    ) -> EventDraft? {
        var state = snapshot.facts.originals[original] ?? OriginalState()
        var identities = IdentityList()
        var remarks = RemarkList()
        var evidence: [JWSParts] = []
        var facts: [TransactionFact] = []
        var renewalFacts: [RenewalFact] = []
        for statement in transactions where statement.payload.originalTransactionID == original {
            var local = IdentityList()
            var fact = statement.fact(&local).replacingIdentities { reference in
                // Whom the ledger does not know has no number in any state.
                snapshot.identities[ExactText(local.customerIDs[Int(reference.number)])] ?? LedgerSnapshot.nobody
            }
            if let known = state.newestStatement(about: fact), known.names(anyOf: forgotten) {
                (fact.accountToken, fact.appTransaction) = (known.accountToken, known.appTransaction)
            }
            guard state.learns(fromStore: fact) else { continue }
            state.join(fact, source: .serverAPI, position: state.lastPosition)
            facts.append(statement.fact(&identities))
            remarks.formUnion(statement.payload.remarks)
            if statement.isFuture { remarks.insert(.futureSignedDate) }
            evidence.append(statement.evidenceParts)
        }
        for statement in renewals where statement.payload.originalTransactionID == original {
            guard state.learns(fromStore: statement.fact) else { continue }
            state.join(statement.fact, source: .serverAPI, position: state.lastPosition)
            renewalFacts.append(statement.fact)
            remarks.formUnion(statement.payload.remarks)
            if statement.isFuture { remarks.insert(.futureSignedDate) }
            evidence.append(statement.evidenceParts)
        }
        guard !evidence.isEmpty else { return nil }
        let fact = StatementsFact(
            originalTransactionID: original, transactions: facts, renewals: renewalFacts, remarks: remarks.texts)
        return EventDraft(
            environment: environment, source: .serverAPI, type: EventSource.serverAPI.statementsLabel,
            occurredAt: fact.latestSignedDate, fact: .statements(fact), identities: identities.customerIDs,
            deduplication: .news, evidence: .verified(evidence))
    }
}

extension TransactionFact {
    fileprivate func names(anyOf people: Set<IdentityRef>) -> Bool {
        [accountToken, appTransaction].contains { $0.map(people.contains) ?? false }
    }
}

extension VerifiedStatement<TransactionPayload> {
    /// What it states, apart from whose it is.
    var bareFact: TransactionFact {
        var identities = IdentityList()
        var fact = fact(&identities)
        (fact.accountToken, fact.appTransaction) = (nil, nil)
        return fact
    }
}
