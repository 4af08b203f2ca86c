import AppStorePayloads
import EntitlementCore

/// One JWS, parsed and not yet trusted.
struct SignedPart {
    /// What its payload says; `nil` where it bears no date.
    let signedDate: Timestamp?
    var json: JSONObject { jws.json }
    /// The exact bytes that were received.
    var compact: [UInt8] { jws.compact }
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
            return try verifier.verify(jws, signedAt: date.milliseconds, now: now.milliseconds).payloadHash
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
        let limit = now.adding(milliseconds: NotificationVerifier.toleratedClockSkewMilliseconds)
        return signedDate.map { $0 > limit } ?? false
    }
}
