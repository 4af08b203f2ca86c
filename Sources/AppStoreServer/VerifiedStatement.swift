package import AppStorePayloads
package import EntitlementCore

/// A statement on its own, as a device holds it, whose signature leads to a trusted root.
///
/// Only `StatementVerifier` makes one, or gives back one that it made before, so that nothing unverified becomes a fact.
package struct VerifiedStatement<Payload: Hashable & Sendable>: Hashable, Sendable {
    package let environment: StoreEnvironment
    package let payload: Payload
    /// SHA-256 of the decoded payload: with the statement's own id, its identity.
    package let payloadHash: Digest
    /// `nil` where it bears no date.
    package let signedDate: Timestamp?
    /// Whether it is dated later than the clock may be wrong.
    package let isFuture: Bool
    /// What was received, taken apart on the way: the evidence, ready to be stored.
    package let evidenceParts: JWSParts
    /// The compact JWS, exactly as received.
    package var evidence: [UInt8] { evidenceParts.compact }

    init(
        _ payload: Payload, payloadHash: Digest, evidenceParts: JWSParts, signedDate: Timestamp?,
        environment: StoreEnvironment, now: Timestamp
    ) {
        self.environment = environment
        self.payload = payload
        self.payloadHash = payloadHash
        self.signedDate = signedDate
        isFuture = NotificationVerifier.isFuture(signedDate, now: now)
        self.evidenceParts = evidenceParts
    }
}

/// A transaction of a configured app.
package typealias VerifiedTransaction = VerifiedStatement<TransactionPayload>
/// Renewal information of whatever app: it counts only beside a transaction of the same original and environment.
package typealias VerifiedRenewal = VerifiedStatement<RenewalPayload>
/// Somebody's copy of a configured app.
package typealias VerifiedAppTransaction = VerifiedStatement<AppTransactionPayload>

extension VerifiedStatement<TransactionPayload> {
    package var bundleID: String { payload.bundleID }
}

extension VerifiedStatement<AppTransactionPayload> {
    package var bundleID: String { payload.bundleID }
}
