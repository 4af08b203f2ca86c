import AppStorePayloads
import EntitlementAPI
import EntitlementCore
import Foundation

extension DeviceLedger {
    /// What the device holds to be its own, product by product: the server compares it with the truth.
    func claims(at now: Timestamp) -> [ReconcileRequest.Claim] {
        var facts = DeviceFold(self).facts
        // The server compares them with what is the customer's by its own book.
        for transaction in book.transactions.values where isOfAnotherAccount(transaction) {
            facts.originals[transaction.payload.originalTransactionID] = nil
        }
        let products = Set(facts.originals.values.flatMap { $0.transactions.map(\.fact.productID) }).sorted()
        facts.catalog = Catalog(
            products: products.map {
                CatalogProduct(productID: $0, entitlements: [$0], duration: facts.catalog.product($0)?.duration)
            }, policy: facts.catalog.policy)
        facts.grants = []
        return facts.answers(at: now).filter(\.givesAccess).prefix(ReconcileRequest.claimLimit).map {
            ReconcileRequest.Claim(productID: $0.entitlementID, state: $0.state, until: $0.until)
        }
    }

    /// Whether a transaction is the customer's, as far as is known.
    ///
    /// - Parameter bound: how long what nobody confirms counts, in milliseconds; `nil`: for ever.
    func isOwn(_ transaction: DeviceTransaction, at now: Timestamp, bound: Int64?) -> Bool {
        let payload = transaction.payload
        let facts = DeviceFold(self).known(at: now, bound: bound)
        let told = facts.originals[payload.originalTransactionID]?.transactions.first {
            $0.fact.transactionID == payload.transactionID
        }
        return told.map { facts.ownership.currentOwner(of: $0.fact) == facts.customer } ?? false
    }

    /// Every purchase and renewal of the customer that is known, the newest first.
    ///
    /// - Parameter bound: how long what nobody confirms counts, in milliseconds; `nil`: for ever.
    func history(at now: Timestamp, bound: Int64?) -> [PurchaseRecord] {
        let facts = DeviceFold(self).known(at: now, bound: bound)
        let records = facts.originals.values.flatMap { state in
            state.purchases(facts.catalog).filter { facts.ownership.currentOwner(of: $0) == facts.customer }.map {
                fact in
                let kept = book.transactions[fact.transactionID]
                return PurchaseRecord(
                    fact, source: state.web == nil ? .appStore : .webCheckout, quantity: kept?.quantity ?? 1,
                    isSynced: kept.map(hasAnswered) ?? true,
                    appAccountToken: kept?.payload.appAccountToken)
            }
        }
        return records.sorted { ($1.purchaseDate, $1.transactionID) < ($0.purchaseDate, $0.transactionID) }
    }
}

extension PurchaseRecord {
    /// What the device's store signed.
    init(_ transaction: DeviceTransaction, isSynced: Bool) {
        var ids = IdentityList()
        self.init(
            transaction.fact(&ids), quantity: transaction.quantity, isSynced: isSynced,
            appAccountToken: transaction.payload.appAccountToken)
    }

    fileprivate init(
        _ fact: TransactionFact, source: Entitlement.Source = .appStore, quantity: Int, isSynced: Bool,
        appAccountToken: String?
    ) {
        let revocation = ToldRevocation(fact.revocation)
        self.init(
            transactionID: fact.transactionID, originalTransactionID: fact.originalTransactionID,
            productID: fact.productID, kind: fact.kind?.raw, purchaseDate: fact.purchaseDate.date,
            expiresDate: fact.expiresDate?.date, revocationDate: revocation?.date,
            isRenewal: fact.reason == .known(.renewal), isUpgraded: fact.isUpgraded,
            ownership: fact.ownership == .known(.familyShared) ? .familyShared : .purchased,
            offer: fact.offer.map { PurchaseOffer($0) }, quantity: quantity, isSynced: isSynced,
            source: source, appAccountToken: appAccountToken.flatMap { UUID(uuidString: $0) },
            revocationType: revocation?.type, revocationPercentage: revocation?.percentage)
    }
}

extension Timestamp {
    /// `distantFuture` for what has no end.
    var date: Date {
        self == .endless ? .distantFuture : Date(timeIntervalSince1970: Double(milliseconds) / 1000)
    }

    /// Floored to milliseconds.
    init(_ date: Date) {
        // A Date counts in Doubles, which is exact only to a fraction of a millisecond.
        self = Timestamp(milliseconds: (date.timeIntervalSince1970 * 1000 + 0.001)) ?? .earliest
    }
}

extension Duration {
    /// Whole milliseconds, clamped.
    var milliseconds: Int64 {
        let (seconds, attoseconds) = components
        let (product, overflow) = seconds.multipliedReportingOverflow(by: 1000)
        guard !overflow else { return seconds < 0 ? .min / 2 : .max / 2 }
        return min(max(product, .min / 2), .max / 2) + attoseconds / 1_000_000_000_000_000
    }
}
