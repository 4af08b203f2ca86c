import AppStorePayloads
import EntitlementCore

/// The JWS of which a notification consists, parsed and not yet trusted.
struct NotificationParts {
    let outer: SignedPart
    let transaction: SignedPart?
    let renewal: SignedPart?
    let appTransaction: SignedPart?
    private let container: NotificationContainer?

    /// The same parts, each with its signature verified.
    struct Verified {
        let outer: VerifiedJWS
        let transaction: VerifiedJWS?
        let renewal: VerifiedJWS?
        let appTransaction: VerifiedJWS?
    }

    /// Takes everything apart.
    ///
    /// - Throws: `malformed_jws`.
    init(parsing compact: [UInt8]) throws(NotificationRefusal) {
        outer = try SignedPart(compact, name: "the notification")
        let container = NotificationContainer(in: outer.json)
        self.container = container
        transaction = try SignedPart(container?.signedTransactionInfo, name: "the transaction information")
        renewal = try SignedPart(container?.signedRenewalInfo, name: "the renewal information")
        appTransaction = try SignedPart(
            container?.signedAppTransactionInfo, name: "the app transaction", dateField: "receiptCreationDate")
    }

    /// Verifies each, as of its own date, else the notification's, else now.
    ///
    /// - Throws: `untrusted_signature`, or `malformed_jws` for a header or signature of the wrong form.
    func verifySignatures(with verifier: JWSVerifier, now: Timestamp) throws(NotificationRefusal) -> Verified {
        let date = outer.signedDate ?? now
        return Verified(
            outer: try outer.verify(with: verifier, fallbackDate: now, now: now),
            transaction: try transaction?.verify(with: verifier, fallbackDate: date, now: now),
            renewal: try renewal?.verify(with: verifier, fallbackDate: date, now: now),
            appTransaction: try appTransaction?.verify(with: verifier, fallbackDate: date, now: now))
    }

    /// The verified notification taken apart, with the statements that stand in its payload as they are.
    func takenApart(_ verified: Verified) -> JWSParts {
        let statements = [
            (verified.transaction, container?.signedTransactionInfo),
            (verified.renewal, container?.signedRenewalInfo),
            (verified.appTransaction, container?.signedAppTransactionInfo),
        ]
        let whole = verified.outer.parts
        return JWSParts(
            compact: whole.compact, hash: whole.hash, header: whole.header, payload: whole.payload,
            signature: whole.signature,
            embedded: statements.compactMap { statement, member in
                guard let statement, let range = member?.range else { return nil }
                return JWSParts.Embedded(range: range, parts: statement.parts)
            }, isExact: whole.isExact)
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
            notification: try outer.decode { json throws(PayloadError) in
                try NotificationPayload(json, container: container)
            },
            transaction: try transaction?.decode(TransactionPayload.init(_:)),
            renewal: try renewal?.decode(RenewalPayload.init(_:)),
            appTransaction: try appTransaction?.decode(AppTransactionPayload.init(_:)))
    }
}

extension NotificationContainer {
    fileprivate var signedTransactionInfo: EmbeddedJWS? {
        guard case .data(let data) = self else { return nil }
        return data.signedTransactionInfo
    }

    fileprivate var signedRenewalInfo: EmbeddedJWS? {
        guard case .data(let data) = self else { return nil }
        return data.signedRenewalInfo
    }

    fileprivate var signedAppTransactionInfo: EmbeddedJWS? {
        guard case .appData(let data) = self else { return nil }
        return data.signedAppTransactionInfo
    }
}
