import AppStorePayloads
import EntitlementCore

/// The JWS of which a notification consists, each with its signature verified, and not yet decoded.
struct NotificationParts {
    /// A JWS with what was read of it.
    struct Part {
        let signed: SignedPart
        let verified: VerifiedJWS
    }

    let outer: Part
    let transaction: Part?
    let renewal: Part?
    let appTransaction: Part?
    private let container: NotificationContainer?

    /// Takes a notification apart and verifies every signature, each as of its own date, else the notification's, else now.
    ///
    /// What it carries is not looked at before its own signature is found right: anybody can send anything.
    ///
    /// - Throws: `untrusted_signature`, or `malformed_jws`.
    init(
        verifying compact: [UInt8], with verifier: JWSVerifier, now: Timestamp, work: inout SignatureWork
    ) throws(NotificationRefusal) {
        func part(
            _ signed: SignedPart, fallbackDate: Timestamp, _ work: inout SignatureWork
        ) throws(NotificationRefusal) -> Part {
            Part(
                signed: signed,
                verified: try signed.verify(with: verifier, fallbackDate: fallbackDate, now: now, work: &work))
        }
        let outer = try part(SignedPart(compact, name: "the notification"), fallbackDate: now, &work)
        let date = outer.signed.signedDate ?? now
        func part(
            _ embedded: EmbeddedJWS?, _ name: String, dateField: String = "signedDate", _ work: inout SignatureWork
        ) throws(NotificationRefusal) -> Part? {
            guard let signed = try SignedPart(embedded, name: name, dateField: dateField) else { return nil }
            return try part(signed, fallbackDate: date, &work)
        }
        let container = NotificationContainer(in: outer.signed.json)
        self.outer = outer
        self.container = container
        transaction = try part(container?.signedTransactionInfo, "the transaction information", &work)
        renewal = try part(container?.signedRenewalInfo, "the renewal information", &work)
        appTransaction = try part(
            container?.signedAppTransactionInfo, "the app transaction", dateField: "receiptCreationDate", &work)
    }

    /// The verified notification taken apart, with the statements that stand in its payload as they are.
    var takenApart: JWSParts {
        let statements = [
            (transaction?.verified, container?.signedTransactionInfo),
            (renewal?.verified, container?.signedRenewalInfo),
            (appTransaction?.verified, container?.signedAppTransactionInfo),
        ]
        let whole = outer.verified.parts
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
        [outer, transaction, renewal, appTransaction].contains { $0?.signed.isDated(after: now) ?? false }
    }

    /// Decodes each as what its place says it is.
    ///
    /// - Throws: `inconsistent_payload` when a mandatory field is missing, or one thing is in the place of another.
    func decode() throws(NotificationRefusal) -> NotificationPayloads {
        NotificationPayloads(
            notification: try outer.signed.decode { json throws(PayloadError) in
                try NotificationPayload(json, container: container)
            },
            transaction: try transaction?.signed.decode(TransactionPayload.init(_:)),
            renewal: try renewal?.signed.decode(RenewalPayload.init(_:)),
            appTransaction: try appTransaction?.signed.decode(AppTransactionPayload.init(_:)))
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
