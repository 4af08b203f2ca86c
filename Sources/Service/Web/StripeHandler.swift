import AppStorePayloads
import AppStoreServer
import EntitlementAPI
import EntitlementCore
import HTTPServer
import Ledger
import StripePayloads

/// Takes Stripe's webhooks.
struct StripeHandler: Sendable {
    let context: ServiceContext
    let writer: LedgerWriter
    /// Without a secret each webhook is refused.
    let webhooks: StripeWebhooks
    /// Reads what an event does not say by itself; `nil`: nobody does here.
    let lookups: StripeLookups?
    let admission: Admission
    let streams: StreamsReading
    let catalogWatch: CatalogWatch

    /// `POST /v1/notifications/stripe`: verify, append, and only then say so.
    func receive(_ call: Call) async throws -> HTTPResponse {
        do {
            let (event, webhook) = try await verifiedStripeEvent(call)
            let outcome = try await writer.append(EventDraft(event, webhook))
            context.metrics.count(.verdicts, [outcome.isDuplicate ? "duplicate" : "accepted"])
            // Also what was sent again: the first may still be at it.
            await complete(event, at: outcome.position)
            if outcome.isDuplicate {
                await streams.hearWeb(event.environment, at: context.now())
            } else {
                await note(event, outcome)
            }
            return try .document(
                NotificationReceipt(position: outcome.position, isDuplicate: outcome.isDuplicate),
                position: outcome.position)
        } catch {
            let problem = Problem(error)
            context.metrics.count(.verdicts, [problem.code.rawValue])
            throw problem
        }
    }

    /// Verifies the signature before anything of the body is read.
    private func verifiedStripeEvent(_ call: Call) async throws -> (StripeEvent, SignedWebhook) {
        guard !webhooks.isEmpty else {
            throw Problem(.unknownApp, "No account of Stripe's is configured here: see `stripe` in the configuration.")
        }
        let header = try call.value(of: .stripeSignature) ?? ""
        let body = call.request.body
        return try await admission.verifying(for: call.request) { work in
            let start = ContinuousClock.now
            defer { context.metrics.observe(.verificationDuration, [], start.duration(to: .now) / .seconds(1)) }
            let (signer, webhook) = try verifySignature(header, body, &work)
            let event: StripeEvent
            do throws(PayloadError) {
                event = try StripeEvent(parsing: body, sha256: context.sha256)
            } catch {
                switch error {
                case .malformed(let what): throw Problem(.malformedRequest, "The body is no JSON object: \(what).")
                case .inconsistent(let what): throw NotificationRefusal(.inconsistentPayload, what)
                }
            }
            guard event.environment == signer else {
                throw NotificationRefusal(
                    .wrongEnvironment,
                    "The event is of \(event.environment.rawValue), and was signed with a webhook secret that is configured "
                        + "for \(signer.rawValue).")
            }
            return (event, webhook)
        }
    }

    /// - Throws: `untrusted_signature`, which the sender pays for.
    private func verifySignature(
        _ header: String, _ body: [UInt8], _ work: inout SignatureWork
    ) throws(NotificationRefusal) -> (StoreEnvironment, SignedWebhook) {
        do throws(StripeSignatureFailure) {
            let webhook = try SignedWebhook(signature: header, body: body)
            return (try webhooks.verify(webhook, now: context.now()), webhook)
        } catch {
            work.waste(webhooks.cost(of: body))
            throw NotificationRefusal(.untrustedSignature, "\(error)")
        }
    }

    /// Counts what it is and what is odd about it, and says the latter.
    private func note(_ event: StripeEvent, _ outcome: AppendOutcome) async {
        context.metrics.count(.notifications, [event.label])
        context.tell(
            event.fact.remarks, and: await catalogWatch.remarks(on: event.fact), of: "an event of Stripe's", outcome,
            in: event.environment)
        await WebConflicts(reader: context.reader, metrics: context.metrics, logger: context.logger)
            .note(event.fact, event.environment, at: outcome.position)
    }

    /// How long the answer to a webhook waits for what its event cannot take effect without; then that is read behind it.
    private static let longestLookup = Duration.seconds(5)

    /// Reads at once what an event means nothing without, so that it has taken effect when it is answered.
    ///
    /// Where Stripe cannot be asked now, the event is kept all the same: what is owed stands in the database.
    private func complete(_ event: StripeEvent, at position: Int64) async {
        guard let lookups else { return }
        do {
            try await within(Self.longestLookup) {
                // First, because that needs nothing of Stripe's.
                try await lookups.settle(tracedBy: event.fact, event.environment)
                guard event.followUps.contains(where: { $0.urgency == .now }) else { return }
                try await lookups.settle(position, event.environment, within: Self.longestLookup)
            }
        } catch {
            context.logger.log(
                .warning, "what an event of Stripe's means cannot be read now; it is tried again",
                [("position", .integer(position)), ("error", .string("\(error)"))])
        }
    }
}

extension EventDraft {
    /// What a verified webhook appends.
    init(_ event: StripeEvent, _ webhook: SignedWebhook) {
        self.init(
            environment: event.environment, source: .stripeNotification, type: event.label, occurredAt: event.created,
            fact: .web(event.fact), identities: event.identities.customerIDs,
            deduplication: LedgerFact.web(event.fact).deduplication(in: event.environment),
            evidence: .plain(webhook.evidence))
    }
}
