package import EntitlementCore
package import Ledger
import OpenSSLCrypto
import SeededRandom

/// Random but well-formed notifications about a few originals: material for the log, not for the meaning of the fold.
package struct RandomDrafts: Sendable {
    package let seed: UInt64
    package let originals: Int

    package init(seed: UInt64, originals: Int) {
        self.seed = seed
        self.originals = originals
    }

    /// The drafts of a seed; the same list in every process.
    package func drafts(_ count: Int) -> [EventDraft] {
        var random = SplitMix64(seed: seed)
        return (0..<count).map { draft($0, &random) }
    }

    private func draft(_ index: Int, _ random: inout SplitMix64) -> EventDraft {
        let original = "2000\(Int.random(in: 0..<originals, using: &random))"
        let environment: StoreEnvironment = Int.random(in: 0..<8, using: &random) == 0 ? .sandbox : .production
        let month: Int64 = 30 * Timestamp.millisecondsPerDay
        let number = Int64.random(in: 0..<12, using: &random)
        let purchase = Timestamp(milliseconds: 1_700_000_000_000 + number * month)
        let signed = purchase.adding(milliseconds: Int64.random(in: 0..<(2 * month), using: &random))
        let isRevoked = Int.random(in: 0..<6, using: &random) == 0
        let transaction = TransactionFact(
            payloadHash: Self.digest("transaction \(seed) \(index)"), signedDate: signed,
            transactionID: "\(original)-\(number)", originalTransactionID: original,
            webOrderLineItemID: "line-\(original)-\(number)", productID: "com.example.pro", bundleID: "com.example",
            kind: .known(.autoRenewable), purchaseDate: purchase, expiresDate: purchase.adding(milliseconds: month),
            revocation: isRevoked ? Revocation(date: signed) : nil,
            reason: .known(number == 0 ? .purchase : .renewal), ownership: .known(.purchased),
            accountToken: IdentityRef(0))
        let failing = Int.random(in: 0..<4, using: &random) == 0
        let renewal = RenewalFact(
            payloadHash: Self.digest("renewal \(seed) \(index)"), signedDate: signed, originalTransactionID: original,
            autoRenews: Bool.random(using: &random), isInBillingRetry: failing,
            graceEnd: failing ? signed.adding(milliseconds: month / 2) : nil)
        let payloadHash = Self.digest("notification \(seed) \(index)")
        let uuid = "uuid-\(seed)-\(index)"
        return EventDraft(
            environment: environment, source: .notification, type: "renewed", occurredAt: signed,
            fact: .notification(
                NotificationFact(
                    type: "DID_RENEW", subtype: nil, uuid: uuid, signedDate: signed, payloadHash: payloadHash,
                    bundleID: "com.example", transaction: transaction, renewal: renewal, remarks: [])),
            identities: [customer(of: original)],
            deduplication: .statement(id: "notification:\(uuid)", payloadHash: payloadHash),
            evidence: .received(Array("evidence \(seed) \(index)".utf8)))
    }

    package func customer(of original: String) -> String { "customer-of-\(original)" }

    package static func digest(_ text: String) -> Digest { Digest(SHA256.hash(Array(text.utf8))) ?? .zero }
}
