import AppStorePayloads
import EntitlementCore

/// The JWS of which a notification consists, parsed and not yet trusted.
struct NotificationParts {
    let outer: SignedPart
    let transaction: SignedPart?
    let renewal: SignedPart?
    let appTransaction: SignedPart?

    /// The SHA-256 of each decoded payload.
    struct Hashes {
        let outer: Digest
        let transaction: Digest?
        let renewal: Digest?
    }

    /// Takes everything apart.
    ///
    /// - Throws: `malformed_jws`.
    init(parsing compact: [UInt8]) throws(NotificationRefusal) {
        outer = try SignedPart(compact, name: "the notification")
        var data: NotificationData?
        var appData: NotificationAppData?
        switch NotificationContainer(in: outer.json) {
        case .data(let value): data = value
        case .appData(let value): appData = value
        case .summary, .externalPurchaseToken, nil: break
        }
        transaction = try SignedPart(data?.signedTransactionInfo, name: "the transaction information")
        renewal = try SignedPart(data?.signedRenewalInfo, name: "the renewal information")
        appTransaction = try SignedPart(
            appData?.signedAppTransactionInfo, name: "the app transaction", dateField: "receiptCreationDate")
    }

    /// Verifies each, as of its own date, else the notification's, else now.
    ///
    /// - Throws: `untrusted_signature`, or `malformed_jws` for a header or signature of the wrong form.
    func verifySignatures(with verifier: JWSVerifier, now: Timestamp) throws(NotificationRefusal) -> Hashes {
        let date = outer.signedDate ?? now
        let outerHash = try outer.verify(with: verifier, fallbackDate: now, now: now)
        let transactionHash = try transaction?.verify(with: verifier, fallbackDate: date, now: now)
        let renewalHash = try renewal?.verify(with: verifier, fallbackDate: date, now: now)
        _ = try appTransaction?.verify(with: verifier, fallbackDate: date, now: now)
        return Hashes(outer: outerHash, transaction: transactionHash, renewal: renewalHash)
    }

    /// Whether any part is dated later than the clock may be wrong.
    func isDated(after now: Timestamp) -> Bool {
        [outer, transaction, renewal, appTransaction].contains { $0?.isDated(after: now) ?? false }
    }

    /// Decodes each as what its place says it is.
    ///
    /// - Throws: `inconsistent_payload` when a mandatory field is missing, or one thing is in the place of another.
    func decode() throws(NotificationRefusal) -> NotificationPayloads {
        NotificationPayloads(
            notification: try outer.decode(NotificationPayload.init(_:)),
            transaction: try transaction?.decode(TransactionPayload.init(_:)),
            renewal: try renewal?.decode(RenewalPayload.init(_:)),
            appTransaction: try appTransaction?.decode(AppTransactionPayload.init(_:)))
    }
}
