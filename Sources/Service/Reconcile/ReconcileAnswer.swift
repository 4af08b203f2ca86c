import AppStorePayloads
import AppStoreServer
import EntitlementAPI
import EntitlementCore
import Ledger

extension ReconcileDecision {
    /// The transactions that are durable and need nothing more, each once.
    var finish: [String] {
        var seen: Set<String> = []
        return zip(transactions, reconciliation.verdicts).filter { transaction, verdict in
            verdict.standing.allowsFinishing(transaction, catalog: snapshot.facts.catalog)
        }.map(\.0.transactionID).filter { seen.insert($0).inserted }
    }

    /// What became of each transaction; `first` is what was found before anything was recorded.
    func results(_ first: ReconcileDecision) -> [TransactionResult] {
        var verdicts = zip(
            zip(transactions, reconciliation.periods), zip(first.reconciliation.verdicts, reconciliation.verdicts)
        ).makeIterator()
        return posting.transactions.map { item in
            switch item {
            case .failure(let refusal):
                return TransactionResult(
                    transactionID: refusal.id, status: .refused, code: refusal.code, detail: refusal.detail)
            case .success:
                guard let ((transaction, period), (before, after)) = verdicts.next() else {
                    preconditionFailure("every accepted transaction has a verdict")
                }
                if case .conflict = after.standing {
                    let reason = snapshot.facts.ownership.conflictReason(
                        of: period, for: person, app: app, links: snapshot.links)
                    return TransactionResult(
                        transactionID: transaction.transactionID, status: .conflict,
                        code: ProblemCode.ownershipConflict.rawValue, reason: reason, detail: reason.detail)
                }
                let isRecorded = before.isNews || before.standing == .claimed
                return TransactionResult(
                    transactionID: transaction.transactionID, status: isRecorded ? .recorded : .known)
            }
        }
    }

    func renewalResults(_ first: ReconcileDecision) -> [RenewalResult] {
        var news = first.reconciliation.renewalNews.makeIterator()
        return posting.renewals.map { item in
            switch item {
            case .failure(let refusal):
                RenewalResult(
                    originalTransactionID: refusal.id, status: .refused, code: refusal.code, detail: refusal.detail)
            case .success(let renewal):
                RenewalResult(
                    originalTransactionID: renewal.payload.originalTransactionID,
                    status: news.next() == true ? .recorded : .known)
            }
        }
    }

    var appTransactionResult: AppTransactionResult? {
        guard let posted = posting.appTransaction else { return nil }
        var refusal = appTransactionRefusal
        if case .failure(let other) = posted { refusal = other }
        guard let refusal else { return AppTransactionResult(status: .accepted) }
        return AppTransactionResult(status: .refused, code: refusal.code, detail: refusal.detail)
    }

    /// What the device believes otherwise, and until when that is so; without proof only of the products it has just
    /// proven to hold.
    func drift(from claims: [ReconcileRequest.Claim], at instant: Timestamp) -> (drift: [Drift], until: Timestamp) {
        let proven = Set(transactions.map(\.productID))
        return facts.drift(
            from: claims.filter { proof != .none || proven.contains($0.productID) }.map {
                DeviceClaim(productID: $0.productID, state: $0.state, until: $0.until)
            }, at: instant)
    }
}

extension ReconcileDecision {
    /// What the answer depends on; `nil` where it is not to be given again: it is held to one app, something posted was
    /// refused, is somebody else's, or was verified only as of now, or nothing is proven.
    var dependencies: CustomerDependencies? {
        let isDated =
            posting.accepted.allSatisfy { $0.signedDate != nil }
            && posting.acceptedRenewals.allSatisfy { $0.signedDate != nil }
        guard ownFacts == nil, proof != .none, reconciliation.conflicts.isEmpty, isDated,
            posting.accepted.count == posting.transactions.count,
            posting.acceptedRenewals.count == posting.renewals.count
        else { return nil }
        if let appTransaction = posting.appTransaction {
            guard let accepted = try? appTransaction.get(), accepted.signedDate != nil else { return nil }
        }
        return CustomerDependencies(
            identities: snapshot.connected.union(snapshot.identities.values).union([person, snapshot.facts.customer]),
            originals: Set(snapshot.facts.originals.keys).union(posting.accepted.map(\.payload.originalTransactionID)),
            unknown: unknown)
    }
}

extension ConflictReason {
    /// For the app's developer: what it is, and what can be done.
    fileprivate var detail: String {
        switch self {
        case .transferred:
            "it was transferred to another customer; your server can undo that"
        case .anotherAccountToken:
            "it bears another customer's account token; your server can transfer it, or link the two"
        case .linkedToAnother:
            "the Apple account that bought it is linked with another customer; your server can transfer it, or link the "
                + "two"
        case .linkUndone:
            "the Apple account that bought it was linked to this customer, and the link was taken back; your server can "
                + "link it anew"
        case .notLinked:
            "the Apple account that bought it is not linked to this customer; your server can link it, or the app's "
                + "configuration can let a login do so"
        case .anotherAppleAccount:
            "it was bought with another Apple account than this device's; your server can link that one to the customer"
        case .claimedByAnother:
            "another customer claimed it first; your server can transfer it"
        }
    }
}

extension DriftDocument {
    init(_ drift: Drift) {
        self.init(
            productID: drift.claim.productID, claimed: drift.claim.state, claimedUntil: drift.claim.until,
            actual: drift.actual, actualUntil: drift.actualUntil, explanation: drift.explanation)
    }
}

extension Application {
    /// The most drifts recorded of one customer within 24 hours; further ones are counted only.
    private static let driftLimit = 20

    /// Records drift that is proven and new, within limits; all of it is counted.
    ///
    /// Of somebody who speaks for one app, only what is about a product that the customer bought there: such drift is shown
    /// to that app alone, and takes nothing of what other apps may have recorded.
    func record(_ drift: [Drift], _ decision: ReconcileDecision) async throws {
        guard !drift.isEmpty else { return }
        guard decision.proof != .none else {
            for _ in drift { metrics.count(.drift, ["unproven"]) }
            return
        }
        let environment = decision.posting.environment
        let dayAgo = now().adding(milliseconds: -Timestamp.millisecondsPerDay)
        let own = decision.ownProducts
        let past = try await reader.drifts(of: decision.customer, environment, limit: Self.driftLimit * 10)
            .filter { own?.contains($0.fact.productID) ?? true }
        // Moves on with what is recorded here, so that only what others append is in conflict with it.
        var decidedAt = decision.snapshot.position
        var left = Self.driftLimit - past.count { $0.recordedAt > dayAgo }
        // A device that says two things of one product would have news at every launch.
        var products: Set<String> = []
        for item in drift {
            guard own?.contains(item.claim.productID) ?? true else {
                metrics.count(.drift, ["foreign"])
                continue
            }
            guard products.insert(item.claim.productID).inserted else {
                metrics.count(.drift, ["known"])
                continue
            }
            let fact = DriftFact(
                customer: IdentityRef(0), productID: item.claim.productID, claimed: item.claim.state,
                claimedUntil: item.claim.until, actual: item.actual, actualUntil: item.actualUntil)
            let last = past.first { $0.fact.productID == fact.productID }?.fact
            guard last.map({ !$0.saysTheSame(as: fact) }) ?? true else {
                metrics.count(.drift, ["known"])
                continue
            }
            guard left > 0 else {
                metrics.count(.drift, ["limited"])
                continue
            }
            left -= 1
            do {
                let outcome = try await writer.append(
                    EventDraft(
                        environment: environment, source: .device, occurredAt: nil, fact: .drift(fact),
                        identities: [decision.customer.value], deduplication: .unique,
                        unchangedSince: UnchangedSince(decidedAt, customers: [decision.customer.value])))
                decidedAt = outcome.position
                metrics.count(.drift, ["recorded"])
            } catch AppendRefusal.conflict {
                // Another device of the customer has just reported, or a command changed what was compared.
                metrics.count(.drift, ["overtaken"])
            }
        }
    }
}

extension ReconcileDecision {
    /// The products that the customer bought in the only app that is spoken for; `nil` where that is not held to one.
    fileprivate var ownProducts: Set<String>? {
        ownFacts.map { Set($0.originals.values.flatMap(\.transactions).map(\.fact.productID)) }
    }
}

extension DriftFact {
    fileprivate func saysTheSame(as other: DriftFact) -> Bool {
        claimed == other.claimed && claimedUntil == other.claimedUntil && actual == other.actual
            && actualUntil == other.actualUntil
    }
}
