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
        let limit = now.adding(milliseconds: NotificationVerifier.toleratedClockSkewMilliseconds)
        return [outer, transaction, renewal, appTransaction].contains { part in
            (part?.signedDate).map { $0 > limit } ?? false
        }
    }

    /// Decodes each as what its place says it is.
    ///
    /// - Throws: `inconsistent_payload` when a mandatory field is missing, or one thing is in the place of another.
    func decode() throws(NotificationRefusal) -> NotificationPayloads {
        do throws(PayloadError) {
            // Renewal information has few mandatory fields, and a transaction has them all.
            if let renewal, (try? TransactionPayload(renewal.json)) != nil {
                throw .inconsistent("a transaction is in the place of the renewal information")
            }
            return NotificationPayloads(
                notification: try NotificationPayload(outer.json),
                transaction: try Self.decode(transaction, TransactionPayload.init(_:)),
                renewal: try Self.decode(renewal, RenewalPayload.init(_:)),
                appTransaction: try Self.decode(appTransaction, AppTransactionPayload.init(_:)))
        } catch {
            throw NotificationRefusal(.inconsistentPayload, error.description)
        }
    }

    private static func decode<Payload>(
        _ part: SignedPart?, _ make: (JSONObject) throws(PayloadError) -> Payload
    ) throws(PayloadError) -> Payload? {
        guard let part else { return nil }
        return try make(part.json)
    }
}

/// One JWS, parsed and not yet trusted.
struct SignedPart {
    let signedDate: Timestamp?
    var json: JSONObject { jws.json }
    private let jws: UnverifiedJWS
    private let name: String

    init(_ compact: [UInt8], name: String, dateField: String = "signedDate") throws(NotificationRefusal) {
        do {
            jws = try UnverifiedJWS(compact)
        } catch {
            throw NotificationRefusal(.malformedJWS, "\(name): \(error)")
        }
        signedDate = jws.json[dateField]?.timestamp
        self.name = name
    }

    init?(_ compact: String?, name: String, dateField: String = "signedDate") throws(NotificationRefusal) {
        guard let compact else { return nil }
        try self.init(Array(compact.utf8), name: name, dateField: dateField)
    }

    /// Verifies the signature, and returns the SHA-256 of the decoded payload.
    func verify(
        with verifier: JWSVerifier, fallbackDate: Timestamp, now: Timestamp
    ) throws(NotificationRefusal) -> Digest {
        let date = signedDate ?? fallbackDate
        do throws(JWSError) {
            let verified = try verifier.verify(jws, signedAt: date.milliseconds, now: now.milliseconds)
            guard let hash = Digest(verified.payloadSHA256) else { throw .untrusted("its payload has no SHA-256") }
            return hash
        } catch {
            switch error {
            case .malformed: throw NotificationRefusal(.malformedJWS, "\(name): \(error)")
            case .untrusted: throw NotificationRefusal(.untrustedSignature, "\(name): \(error)")
            }
        }
    }
}
