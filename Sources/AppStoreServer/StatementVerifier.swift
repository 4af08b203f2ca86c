package import AppStorePayloads
package import EntitlementCore

/// A statement on its own, as a device holds it, whose signature leads to a trusted root.
///
/// Only `StatementVerifier` makes one, so that nothing unverified becomes a fact.
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

    fileprivate init(
        _ part: SignedPart, _ verified: VerifiedJWS, _ payload: Payload, environment: StoreEnvironment, now: Timestamp
    ) {
        self.environment = environment
        self.payload = payload
        payloadHash = verified.payloadHash
        signedDate = part.signedDate
        isFuture = part.isDated(after: now)
        evidenceParts = verified.parts
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

/// Verifies what a device posts, each statement by itself.
///
/// What is asked first is the trust, then the content, then the app, then the environment. It blocks for a few hundred
/// microseconds and may be called from any number of threads at once.
package struct StatementVerifier: Sendable {
    private let jws: JWSVerifier
    private let apps: ConfiguredApps

    package init(jws: JWSVerifier, apps: [AppBinding]) {
        self.jws = jws
        self.apps = ConfiguredApps(apps)
    }

    /// Where an app is served; `nil` for one that is not configured.
    package func environments(of bundleID: String) -> Set<StoreEnvironment>? { apps.environments(of: bundleID) }

    /// Verifies a transaction, as of its own date, else now.
    package func transaction(_ compact: String, now: Timestamp) throws(NotificationRefusal) -> VerifiedTransaction {
        let name = "the transaction"
        let part = try SignedPart(Array(compact.utf8), name: name)
        let verified = try part.verify(with: jws, fallbackDate: now, now: now)
        let payload = try part.decode(TransactionPayload.init(_:))
        // Transactions bear no number of the app, in production either.
        let (_, environment) = try apps.bind(
            StatedApp(
                statement: name, bundleID: payload.bundleID, environment: payload.environment, number: .none))
        return VerifiedTransaction(part, verified, payload, environment: environment, now: now)
    }

    /// Verifies renewal information, as of its own date, else now.
    ///
    /// It names no app, so whoever asks has to find the transaction it belongs to.
    package func renewal(_ compact: String, now: Timestamp) throws(NotificationRefusal) -> VerifiedRenewal {
        let name = "the renewal information"
        let part = try SignedPart(Array(compact.utf8), name: name)
        let verified = try part.verify(with: jws, fallbackDate: now, now: now)
        let payload = try part.decode(RenewalPayload.init(_:))
        let environment = try apps.bind(name, environment: payload.environment)
        return VerifiedRenewal(part, verified, payload, environment: environment, now: now)
    }

    /// Verifies an app transaction, as of its own date, else now.
    package func appTransaction(
        _ compact: String, now: Timestamp
    ) throws(NotificationRefusal) -> VerifiedAppTransaction {
        let name = "the app transaction"
        let part = try SignedPart(Array(compact.utf8), name: name, dateField: "receiptCreationDate")
        let verified = try part.verify(with: jws, fallbackDate: now, now: now)
        let payload = try part.decode(AppTransactionPayload.init(_:))
        let (_, environment) = try apps.bind(
            StatedApp(
                statement: name, bundleID: payload.bundleID, environment: payload.environment,
                number: .borne(payload.appAppleID)))
        return VerifiedAppTransaction(part, verified, payload, environment: environment, now: now)
    }
}
