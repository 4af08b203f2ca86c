import AppStorePayloads
import EntitlementCore

/// One JWS, parsed and not yet trusted.
struct SignedPart {
    /// What its payload says; `nil` where it bears no date.
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

    /// The part that another one carries, if it carries any.
    init?(_ embedded: EmbeddedJWS?, name: String, dateField: String = "signedDate") throws(NotificationRefusal) {
        guard let embedded else { return nil }
        try self.init(embedded.compact, name: name, dateField: dateField)
    }

    /// Verifies the signature.
    func verify(
        with verifier: JWSVerifier, fallbackDate: Timestamp, now: Timestamp, work: inout SignatureWork
    ) throws(NotificationRefusal) -> VerifiedJWS {
        let date = signedDate ?? fallbackDate
        do throws(JWSError) {
            return try verifier.verify(jws, signedAt: date.milliseconds, now: now.milliseconds, work: &work)
        } catch {
            switch error {
            case .malformed: throw NotificationRefusal(.malformedJWS, "\(name): \(error)")
            case .untrusted: throw NotificationRefusal(.untrustedSignature, "\(name): \(error)")
            }
        }
    }

    /// Decodes it as what its place says it is.
    ///
    /// - Throws: `inconsistent_payload` when a mandatory field is missing, or it is something else.
    func decode<Payload>(
        _ make: (JSONObject) throws(PayloadError) -> Payload
    ) throws(NotificationRefusal) -> Payload {
        do throws(PayloadError) {
            return try make(json)
        } catch {
            throw NotificationRefusal(.inconsistentPayload, error.description)
        }
    }

    /// Whether it is dated later than the clock may be wrong.
    func isDated(after now: Timestamp) -> Bool {
        NotificationVerifier.isFuture(signedDate, now: now)
    }
}
