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

    /// What the device says of products, as far as it is compared: without proof only of those it has just proven to hold.
    func compared(_ claims: [ReconcileRequest.Claim]) -> [DeviceClaim] {
        let proven = Set(transactions.map(\.productID))
        let app = AppScope(posting.app)
        return claims.filter { proof != .none || proven.contains($0.productID) }.map {
            DeviceClaim(productID: $0.productID, of: app, state: $0.state, until: $0.until)
        }
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
