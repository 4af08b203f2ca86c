import AppStorePayloads
package import AppStoreServer
import EntitlementAPI
import EntitlementCore
import HTTPServer
package import Ledger

/// Takes the App Store's notifications.
struct NotificationHandler: Sendable {
    let context: ServiceContext
    let writer: LedgerWriter
    let verifier: NotificationVerifier
    let admission: Admission
    /// Hears of every delivery.
    let deliveries: StreamDeliveries
    /// Hears of every one that the ledger could not take.
    let missed: MissedDeliveries
    let catalogWatch: CatalogWatch

    /// `POST /v1/notifications/appstore`: verify, append, and only then say so.
    func receive(_ call: Call) async throws -> HTTPResponse {
        do {
            let notification = try await verify(try Self.signedPayload(of: call.request), call)
            let outcome = try await record(notification)
            context.metrics.count(.verdicts, [outcome.isDuplicate ? "duplicate" : "accepted"])
            deliveries.hear(
                StoreStream(app: notification.bundleID, environment: notification.environment), at: context.now())
            if !outcome.isDuplicate { await note(notification, outcome) }
            return try .document(
                NotificationReceipt(position: outcome.position, isDuplicate: outcome.isDuplicate),
                position: outcome.position)
        } catch {
            let problem = Problem(error)
            context.metrics.count(.verdicts, [problem.code.rawValue])
            if let refusal = error as? NotificationRefusal { noteRefusal(refusal) }
            throw problem
        }
    }

    /// Appends a notification; where the ledger cannot take it, the store's history is read for it once it can.
    private func record(_ notification: VerifiedNotification) async throws -> AppendOutcome {
        do {
            let outcome = try await writer.append(EventDraft(notification))
            missed.take()
            return outcome
        } catch {
            if Problem(error).code == .unavailable {
                missed.refuse(
                    StoreStream(app: notification.bundleID, environment: notification.environment))
            }
            throw error
        }
    }

    private static func signedPayload(of request: HTTPRequest) throws(Problem) -> [UInt8] {
        let member = try? JSONObject(parsing: request.body)["signedPayload"]
        if let payload = member?.signed { return payload.compact }
        guard member?.string != nil else {
            throw Problem(
                .malformedRequest, "The body is a JSON object with a text signedPayload.", param: "signedPayload")
        }
        // An empty text, which the verifier has the words for.
        return []
    }

    private func verify(_ signedPayload: [UInt8], _ call: Call) async throws -> VerifiedNotification {
        try await admission.verifying(for: call.request) { work in
            let start = ContinuousClock.now
            defer { context.metrics.observe(.verificationDuration, [], start.duration(to: .now) / .seconds(1)) }
            return try verifier.verify(signedPayload: signedPayload, now: context.now(), work: &work)
        }
    }

    /// Remembers that what the store had signed was refused, which is a mistake in the configuration or in this program:
    /// to whoever looks, its notifications do not arrive.
    private func noteRefusal(_ refusal: NotificationRefusal) {
        switch refusal.code {
        // Anybody can send that.
        case .malformedJWS, .untrustedSignature: return
        case .unknownApp, .wrongEnvironment, .inconsistentPayload: break
        }
        guard deliveries.refuse("\(refusal)", at: context.now()) else { return }
        context.logger.log(
            .warning,
            "a notification that the store had signed is refused, and perhaps others since this was said last: compare `apps` in "
                + "the configuration with App Store Connect", [("reason", .string(refusal.detail))])
    }

    /// Counts what it is and what is odd about it, and says the latter.
    private func note(_ notification: VerifiedNotification, _ outcome: AppendOutcome) async {
        context.metrics.count(.notifications, [notification.eventLabel])
        var odd: [String] = []
        if let transaction = notification.fact.transaction { odd = await catalogWatch.remarks(on: transaction) }
        context.tell(notification.remarks, and: odd, of: "a notification", outcome, in: notification.environment)
    }
}

extension EventDraft {
    /// What a verified notification appends.
    ///
    /// - Parameter source: who delivered it: the store by itself, or because it was asked.
    package init(_ notification: VerifiedNotification, source: EventSource = .notification) {
        self.init(
            environment: notification.environment, source: source, type: notification.eventLabel,
            occurredAt: notification.signedDate, fact: .notification(notification.fact),
            identities: notification.identities,
            deduplication: LedgerFact.notification(notification.fact).deduplication(in: notification.environment),
            evidence: .verified([notification.evidenceParts]))
    }
}
