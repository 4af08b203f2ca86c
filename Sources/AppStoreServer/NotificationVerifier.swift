import AppStorePayloads
package import EntitlementCore

/// A notification whose every signature leads to a trusted root, and which is about a configured app.
///
/// Only `NotificationVerifier` makes one, so that nothing unverified becomes a fact.
package struct VerifiedNotification: Sendable {
    package let environment: StoreEnvironment
    package let bundleID: String
    /// SHA-256 of the decoded payload: with the UUID, the identity of the notification.
    package let payloadHash: Digest
    /// As signed; see ``eventLabel`` for the ledger's word.
    package let type: String
    package let subtype: String?
    /// In lower case.
    package let uuid: String
    package let signedDate: Timestamp?
    /// The ledger's word for what it reports.
    package let eventLabel: String
    /// What it states; whose it is, as indexes into `identities`.
    package let fact: NotificationFact
    /// The customer ids the fact refers to, in clear.
    package let identities: [String]
    /// What was received, taken apart on the way: the evidence, ready to be stored.
    package let evidenceParts: JWSParts
    /// The compact JWS, exactly as received.
    package var evidence: [UInt8] { evidenceParts.compact }
    /// What a person should look at; the fact holds the same.
    package var remarks: [String] { fact.remarks }

    fileprivate init(
        environment: StoreEnvironment, evidenceParts: JWSParts, fact: NotificationFact, identities: IdentityList
    ) {
        self.environment = environment
        bundleID = fact.bundleID
        payloadHash = fact.payloadHash
        type = fact.type
        subtype = fact.subtype
        uuid = fact.uuid
        signedDate = fact.signedDate
        eventLabel = AppStorePayloads.eventLabel(type: fact.type, subtype: fact.subtype)
        self.fact = fact
        self.identities = identities.customerIDs
        self.evidenceParts = evidenceParts
    }
}

/// Turns a signed notification into facts, or refuses it.
///
/// It blocks for a few hundred microseconds and may be called from any number of threads at once.
package struct NotificationVerifier: Sendable {
    private let jws: JWSVerifier
    private let apps: ConfiguredApps

    /// How far a statement may be dated ahead of our clock without a remark.
    package static let toleratedClockSkewMilliseconds: Int64 = 60_000

    /// Whether a signed date is later than our clock may be wrong.
    static func isFuture(_ signedDate: Timestamp?, now: Timestamp) -> Bool {
        signedDate.map { $0 > now.adding(milliseconds: toleratedClockSkewMilliseconds) } ?? false
    }

    package init(jws: JWSVerifier, apps: [AppBinding]) {
        self.jws = jws
        self.apps = ConfiguredApps(apps)
    }

    /// Verifies notifications of any app: of those that were bound to a configured one when they came.
    package init(ofAnyApp jws: JWSVerifier) {
        self.jws = jws
        apps = .any
    }

    /// Verifies a notification's `signedPayload`, and all it carries.
    ///
    /// `now` stands in for a signed date where nothing bears one, and bounds what chains are remembered; `work` bounds and
    /// tells what is done in vain.
    package func verify(
        signedPayload: [UInt8], now: Timestamp, work: inout SignatureWork
    ) throws(NotificationRefusal) -> VerifiedNotification {
        let parts = try NotificationParts(verifying: signedPayload, with: jws, now: now, work: &work)
        let payloads = try parts.decode()
        let (bundleID, environment) = try apps.bind(payloads.notification.statedApp)
        try payloads.checkBinding(to: bundleID, environment)

        var identities = IdentityList()
        let fact = payloads.fact(
            bundleID: bundleID, parts: parts, isFuture: parts.isDated(after: now), identities: &identities)
        return VerifiedNotification(
            environment: environment, evidenceParts: parts.takenApart, fact: fact, identities: identities)
    }

    /// Verifies a notification's `signedPayload`, and all it carries, whatever that costs.
    package func verify(
        signedPayload: [UInt8], now: Timestamp
    ) throws(NotificationRefusal) -> VerifiedNotification {
        var work = SignatureWork()
        return try verify(signedPayload: signedPayload, now: now, work: &work)
    }

    /// Verifies a notification's `signedPayload`, and all it carries, whatever that costs.
    package func verify(
        signedPayload: String, now: Timestamp
    ) throws(NotificationRefusal) -> VerifiedNotification {
        try verify(signedPayload: Array(signedPayload.utf8), now: now)
    }
}
