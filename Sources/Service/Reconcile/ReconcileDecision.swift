import AppStorePayloads
import AppStoreServer
import EntitlementAPI
import EntitlementCore
import Ledger

/// What was posted, read beside one state of the ledger: who is spoken for, and what is to be recorded.
struct ReconcileDecision: Sendable {
    let customer: CustomerID
    let posting: ReconcilePosting
    let snapshot: LedgerSnapshot
    let proof: ReconciliationDocument.Proof
    /// The accepted transactions' facts, in the order in which they were posted.
    let transactions: [TransactionFact]
    let reconciliation: Reconciliation
    /// The link that is to be made before anything else, since customer and app transaction came together.
    private(set) var login: LinkFact?
    /// Why an app transaction that was verified proves nothing here; `nil` where it may.
    private(set) var appTransactionRefusal: ReconcilePosting.Refusal?
    /// Whose app transaction came along, as a number of the ledger.
    let app: IdentityRef?
    /// Everybody who is this customer, every link followed, as a number of the ledger.
    let person: IdentityRef
    /// The only app about which the sender is told anything; `nil`: about everything that is the customer's.
    let only: AppScope?
    /// The part of the customer's facts that is about `only`; it is looked up when the answer is made.
    var ownFacts: CustomerFacts?
    /// The customer ids named by the posting that the ledger does not know.
    let unknown: Set<String>
    private let renewals: [RenewalFact]

    /// What has to be read to decide.
    ///
    /// For a publishable key alone only the number of the named customer is looked up, so that the time to answer tells
    /// neither whether the customer exists nor how much there is of them. The key is told about them only where the
    /// posted app transaction or purchases lead to them.
    static func question(
        _ posting: ReconcilePosting, of customer: CustomerID, credential: Credential?
    ) -> LedgerQuestion {
        var people = IdentityList()
        for statement in posting.accepted { _ = statement.fact(&people) }
        let isTrusted =
            switch credential {
            case .secretKey, .customerToken: true
            case .publishableKey, nil: false
            }
        return LedgerQuestion(
            of: isTrusted ? customer : posting.appCustomer, posting.environment,
            originals: Set(posting.accepted.map(\.payload.originalTransactionID)).sorted(),
            customers: people.customerIDs + (isTrusted ? [customer.value] : [])
                + [posting.appCustomer?.value].compactMap(\.self),
            numbered: isTrusted ? [] : [customer.value])
    }

    /// - Parameter snapshot: the answer to `question`, which `question(_:of:credential:)` made of the same posting.
    /// - Parameter repeating: the original transactions of which repetitions are not recorded.
    init(
        _ posting: ReconcilePosting, of customer: CustomerID, credential: Credential?, _ question: LedgerQuestion,
        snapshot: LedgerSnapshot, repeating: Set<String>
    ) {
        self.customer = customer
        self.posting = posting
        unknown = Set((question.customers + question.numbered).filter { snapshot.identities[ExactText($0)] == nil })
        self.snapshot = snapshot
        var people = People(snapshot.identities)
        let ownership = snapshot.facts.ownership
        let person = ownership.customer(of: people.number(of: customer.value))
        self.person = person
        let app = posting.appCustomer.map { people.number(of: $0.value) }
        self.app = app
        let links = snapshot.links
        let proof: ReconciliationDocument.Proof
        var login: LinkFact?
        var refusal: ReconcilePosting.Refusal?
        var only = credential?.scope.app
        switch credential {
        case .secretKey:
            proof = .secretKey
        case .customerToken(let token):
            proof = .customerToken
            if let app, posting.trust.linksOnLogin {
                login = ownership.decideLogin(with: app, of: people.number(of: customer.value), links: links)
                if token.bundleID != nil { login?.cause = .appLogin }
            }
        case .publishableKey, nil:
            refusal = app.flatMap {
                posting.refusal(isTaken: ownership.isTaken(appTransaction: $0, links: links))
            }
            let isProven = refusal == nil && app.map { ownership.customer(of: $0) } == person
            proof = isProven ? .appTransaction : .none
            // Who holds a key of one app could have made that link with an Apple account of their own.
            if isProven, let app, ownership.restsOnAppLogin(app, links: links) { only = AppScope(posting.app) }
        }
        self.only = only
        (self.proof, self.login, appTransactionRefusal) = (proof, login, refusal)
        transactions = posting.accepted.map { statement in
            var ids = IdentityList()
            let fact = statement.fact(&ids)
            return fact.replacingIdentities { people.number(of: ids.customerIDs[Int($0.number)]) }
        }
        renewals = posting.acceptedRenewals.map(\.fact)
        reconciliation = Reconciliation(
            of: transactions, renewals: renewals, for: proof == .none ? nil : person,
            states: snapshot.facts.originals, ownership: ownership, repeating: repeating)
    }

    /// The facts the sender may be told of: all of the customer's on proof, else only what was proven in this request.
    var facts: CustomerFacts {
        var facts = ownFacts ?? snapshot.facts
        facts.customer = person
        guard proof == .none else { return facts }
        let proven = Set(transactions.map(\.originalTransactionID))
        facts.originals = facts.originals.filter { proven.contains($0.key) }
        facts.grants = []
        return facts
    }

    /// The same with what is about the app to which the sender is held, as of the same position.
    func withOwnFacts(from reader: LedgerReader) async throws -> ReconcileDecision {
        guard let only, proof != .none else { return self }
        var decision = self
        decision.ownFacts = try await reader.customerFacts(
            customer, environment: posting.environment, knownAt: .position(snapshot.position), app: only
        ).facts
        return decision
    }

    /// The customer's own facts, and by which numbers they mean whom the device knows itself.
    ///
    /// The numbers are good in this answer alone, and whom its facts do not name has none: what a key of one app or one
    /// environment is told is the same, whatever is known of them elsewhere.
    var factsCopy: FactsCopy {
        let (facts, local) = facts.ofCustomerAlone().withLocalNumbers()
        var numbers = [customer.value: facts.customer.number]
        for (id, identity) in snapshot.identities {
            if let number = local[identity]?.number { numbers[id.text] = number }
        }
        return FactsCopy(facts, identities: numbers)
    }

    /// The event of `login`: refused where anybody is linked with either of the two meanwhile.
    ///
    /// - Parameter others: whose links and transfers it rests on beside those of the two.
    func loginDraft(restingOn others: [String] = []) -> EventDraft? {
        guard var fact = login, let app = posting.appCustomer else { return nil }
        (fact.identity, fact.customer) = (IdentityRef(0), IdentityRef(1))
        return EventDraft(
            environment: posting.environment, source: .device, occurredAt: nil, fact: .link(fact),
            identities: [app.value, customer.value], deduplication: .unique,
            unchangedSince: UnchangedSince(snapshot.mark, customers: [app.value, customer.value] + others))
    }

    /// The same without the link: the Apple account has to do with another app than the one to which the token is bound.
    func withoutLogin() -> ReconcileDecision {
        var decision = self
        decision.login = nil
        decision.appTransactionRefusal = ReconcilePosting.Refusal(
            code: ProblemCode.forbidden.rawValue,
            detail:
                "it is not linked to the customer by a token of one app: link it by a command, or send a token that was "
                + "made with a key of every app", id: nil)
        return decision
    }

    /// The events of statements that say something new.
    func statementDrafts() -> [EventDraft] {
        reconciliation.news.map { news in
            var identities = IdentityList()
            var remarks = RemarkList()
            var evidence: [JWSParts] = []
            let stated = news.transactions.compactMap { wanted in
                zip(transactions, posting.accepted).first { $0.0 == wanted }?.1
            }
            for statement in stated {
                remarks.formUnion(statement.payload.remarks)
                if statement.isFuture { remarks.insert(.futureSignedDate) }
                evidence.append(statement.evidenceParts)
            }
            for statement in posting.acceptedRenewals where news.renewals.contains(statement.fact) {
                remarks.formUnion(statement.payload.remarks)
                if statement.isFuture { remarks.insert(.futureSignedDate) }
                evidence.append(statement.evidenceParts)
            }
            let fact = StatementsFact(
                originalTransactionID: news.originalTransactionID, transactions: stated.map { $0.fact(&identities) },
                renewals: news.renewals, remarks: remarks.texts)
            return EventDraft(
                environment: posting.environment, source: .device, type: StatementsFact.label,
                occurredAt: fact.latestSignedDate, fact: .statements(fact), identities: identities.customerIDs,
                deduplication: .news,
                evidence: .verified(evidence))
        }
    }

    /// How many bytes of evidence the log would keep of statements that say again what is known, by original transaction.
    var repeatedBytes: [String: Int64] {
        var bytes: [String: Int64] = [:]
        let repetitions = reconciliation.repetitions
        guard !repetitions.transactions.isEmpty || !repetitions.renewals.isEmpty else { return bytes }
        let repeated = Set(repetitions.transactions)
        for (transaction, statement) in zip(transactions, posting.accepted) where repeated.contains(transaction) {
            bytes[transaction.originalTransactionID, default: 0] += statement.keptBytes
        }
        let repeatedRenewals = Set(repetitions.renewals)
        for (renewal, statement) in zip(renewals, posting.acceptedRenewals) where repeatedRenewals.contains(renewal) {
            bytes[renewal.originalTransactionID, default: 0] += statement.keptBytes
        }
        return bytes
    }

    /// The conflicts about purchases that name nobody themselves: their owner claimed them, or was given them.
    var nameless: [(originalTransactionID: String, owner: IdentityRef)] {
        reconciliation.conflicts.filter { conflict in
            reconciliation.periods.allSatisfy {
                $0.originalTransactionID != conflict.originalTransactionID || $0.statedOwner == nil
            }
        }
    }

    /// The claims of what is nobody's, and the conflicts to report: each only while nobody says otherwise first.
    ///
    /// A conflict is reported once since its purchase last changed hands, so it comes after a claim of the same purchase: drafts
    /// are appended in any order, and one that came before the claim would be reported again after it.
    ///
    /// - Parameters:
    ///   - reported: who was found claiming what since it last changed hands.
    ///   - abandoned: the original transactions whose owner was forgotten. A claim would come too late, behind theirs, so
    ///     they are transferred.
    func ownershipDrafts(reported: [String: [IdentityRef]], abandoned: Set<String>) -> [EventDraft] {
        let conflicts = reconciliation.conflicts.map(\.originalTransactionID).filter { original in
            guard !abandoned.contains(original), !reconciliation.claims.contains(original) else { return false }
            let claimants = reported[original] ?? []
            return claimants.count < LedgerReader.conflictLimit
                && !claimants.contains { snapshot.facts.ownership.customer(of: $0) == person }
        }
        let me = IdentityRef(0)
        return reconciliation.claims.map {
            draft(.claim(ClaimFact(originalTransactionID: $0, customer: me)), about: $0)
        }
            + abandoned.sorted().map {
                draft(.transfer(TransferFact(originalTransactionID: $0, customer: me)), about: $0)
            } + conflicts.map { draft(.conflict(ConflictFact(originalTransactionID: $0, claimant: me)), about: $0) }
    }

    private func draft(_ fact: LedgerFact, about originalTransactionID: String) -> EventDraft {
        let key = OriginalKey(environment: posting.environment, originalTransactionID: originalTransactionID)
        return EventDraft(
            environment: posting.environment, source: .device, occurredAt: nil, fact: fact,
            identities: [customer.value], deduplication: .unique,
            unchangedSince: UnchangedSince(snapshot.mark, originals: [key]))
    }
}

extension ReconcilePosting {
    /// Why the app does not take its app transaction as proof; `nil` where it does.
    fileprivate func refusal(isTaken: Bool) -> Refusal? {
        let detail: String
        switch trust.appTransactionProof {
        case .on: return nil
        case .unlinkedOnly:
            guard isTaken else { return nil }
            detail = "a customer is linked with it, and this app then takes a customer token only"
        case .off: detail = "this app takes no app transaction as proof: send a customer token"
        }
        return Refusal(code: ProblemCode.forbidden.rawValue, detail: detail, id: nil)
    }
}

/// Numbers for customer ids: the ledger's, and for those it does not know numbers that nobody has.
private struct People {
    private var numbers: [ExactText: IdentityRef]

    init(_ known: [ExactText: IdentityRef]) { numbers = known }

    mutating func number(of customerID: String) -> IdentityRef {
        let id = ExactText(customerID)
        if let known = numbers[id] { return known }
        let number = IdentityRef(-1 - Int64(numbers.count))
        numbers[id] = number
        return number
    }
}

extension VerifiedStatement {
    /// The header is kept once for all statements that have the same.
    fileprivate var keptBytes: Int64 { Int64(evidenceParts.payload.count + evidenceParts.signature.count) }
}

extension VerifiedStatement<TransactionPayload> {
    func fact(_ identities: inout IdentityList) -> TransactionFact {
        payload.fact(payloadHash: payloadHash, fallbackSignedDate: nil, identities: &identities)
    }
}

extension VerifiedStatement<RenewalPayload> {
    var fact: RenewalFact {
        payload.fact(payloadHash: payloadHash, fallbackSignedDate: nil, isGraceNotification: false)
    }
}
