import AppStorePayloads
package import EntitlementCore

/// Verifies what a device posts, each statement by itself.
///
/// What is asked first is the trust, then the content, then the app, then the environment. A statement that was verified
/// before is given back from memory, by the SHA-256 of its exact bytes: an app posts the same ones at every launch. What was
/// refused is never remembered. It blocks for up to a few hundred microseconds, and may be called from any number of
/// threads at once.
package struct StatementVerifier: Sendable {
    private let jws: JWSVerifier
    private let apps: ConfiguredApps
    private let remembered: RememberedStatements

    /// - Parameters:
    ///   - jws: says whose signatures are trusted.
    ///   - apps: the apps whose statements are taken.
    ///   - remembered: the statements verified by this verifier before. It must not be shared with one that trusts other
    ///     roots or serves other apps.
    package init(jws: JWSVerifier, apps: [AppBinding], remembered: RememberedStatements = RememberedStatements()) {
        self.jws = jws
        self.apps = ConfiguredApps(apps)
        self.remembered = remembered
    }

    /// Verifies statements of any app, and remembers none: of those that were bound to a configured one when they came.
    package init(ofAnyApp jws: JWSVerifier) {
        self.jws = jws
        apps = .any
        remembered = RememberedStatements(byteLimit: 0)
    }

    /// Where an app is served; `nil` for one that is not configured.
    package func environments(of bundleID: String) -> Set<StoreEnvironment>? { apps.environments(of: bundleID) }

    /// Verifies a transaction, as of its own date, else now.
    package func transaction(
        _ compact: String, now: Timestamp, work: inout SignatureWork
    ) throws(NotificationRefusal) -> VerifiedTransaction {
        let name = "the transaction"
        return try verify(
            compact, name: name, now: now, work: &work,
            decode: { json throws(PayloadError) in try TransactionPayload(json) },
            bind: { payload throws(NotificationRefusal) in
                // Transactions bear no number of the app, in production either.
                try apps.bind(
                    StatedApp(
                        statement: name, bundleID: payload.bundleID, environment: payload.environment, number: .none)
                ).environment
            })
    }

    /// Verifies renewal information, as of its own date, else now.
    ///
    /// It names no app, so whoever asks has to find the transaction it belongs to.
    package func renewal(
        _ compact: String, now: Timestamp, work: inout SignatureWork
    ) throws(NotificationRefusal) -> VerifiedRenewal {
        let name = "the renewal information"
        return try verify(
            compact, name: name, now: now, work: &work,
            decode: { json throws(PayloadError) in try RenewalPayload(json) },
            bind: { payload throws(NotificationRefusal) in try apps.bind(name, environment: payload.environment) })
    }

    /// Verifies an app transaction, as of its own date, else now.
    package func appTransaction(
        _ compact: String, now: Timestamp, work: inout SignatureWork
    ) throws(NotificationRefusal) -> VerifiedAppTransaction {
        let name = "the app transaction"
        return try verify(
            compact, name: name, dateField: "receiptCreationDate", now: now, work: &work,
            decode: { json throws(PayloadError) in try AppTransactionPayload(json) },
            bind: { payload throws(NotificationRefusal) in
                try apps.bind(
                    StatedApp(
                        statement: name, bundleID: payload.bundleID, environment: payload.environment,
                        number: .borne(payload.appAppleID))
                ).environment
            })
    }

    /// Whether a statement whose exact bytes have this SHA-256 was verified before and is still remembered.
    ///
    /// Whoever names a statement by its hash alone can then have it from ``rememberedTransaction(_:now:)``;
    /// it may be forgotten in between.
    package func isRemembered(_ hash: Digest) -> Bool { remembered.contains(hash) }

    /// The transaction whose exact bytes have this SHA-256; `nil` where none was verified before, or it was forgotten.
    package func rememberedTransaction(_ hash: Digest, now: Timestamp) -> VerifiedTransaction? {
        remembered.statement(hash, now: now)
    }

    private func verify<Payload: RememberedPayload>(
        _ text: String, name: String, dateField: String = "signedDate", now: Timestamp, work: inout SignatureWork,
        decode: (JSONObject) throws(PayloadError) -> Payload,
        bind: (Payload) throws(NotificationRefusal) -> StoreEnvironment
    ) throws(NotificationRefusal) -> VerifiedStatement<Payload> {
        let compact = Array(text.utf8)
        if compact.count <= UnverifiedJWS.maximumLength, let hash = jws.hash(of: compact, now: now.milliseconds),
            let known: VerifiedStatement<Payload> = remembered.statement(hash, received: compact, now: now)
        {
            return known
        }
        let part = try SignedPart(compact, name: name, dateField: dateField)
        let verified = try part.verify(with: jws, fallbackDate: now, now: now, work: &work)
        let payload = try part.decode(decode)
        let statement = VerifiedStatement(
            payload, payloadHash: verified.payloadHash, evidenceParts: verified.parts, signedDate: part.signedDate,
            environment: try bind(payload), now: now)
        remembered.remember(statement)
        return statement
    }
}
