import AppStorePayloads
import EntitlementCore
import Ledger
import StripeAPI
import StripePayloads

/// What of one account of Stripe's only the operator can mend: a key that may not read something, or is of another account, and
/// a clock that is wrong. It is said where `rightful status` finds it, and tried again soon after it may have been mended.
actor StripeKeyWatch {
    /// From here on it is said that the clocks differ; a webhook is believed that is five minutes old.
    private static let clockTolerance: Int64 = 10_000
    /// Stripe shows an event for thirty days.
    private static let eventsShown = 29 * Timestamp.millisecondsPerDay

    private let client: StripeClient
    private let ingestion: StripeIngestion
    private let register: WebLookupRegister
    private let interval: Duration

    /// What the key may not ask for, as far as that is known here.
    private var denied: Set<String> = []
    private var lookedAt: ContinuousClock.Instant?
    /// Whether the key is of the account whose webhooks come here; `nil` while nothing tells.
    private var isOfSameAccount: Bool?
    private var saysClock = false

    /// - Parameter interval: between attempts at what the key may not read, and looks at whose the key is while that is in
    ///   doubt.
    init(_ client: StripeClient, _ ingestion: StripeIngestion, register: WebLookupRegister, interval: Duration) {
        self.client = client
        self.ingestion = ingestion
        self.register = register
        self.interval = interval
    }

    /// Looks, from time to time, whether something was mended; the first time all that waits for it is tried.
    func look() async throws {
        if let lookedAt, lookedAt.duration(to: .now) < interval { return }
        if lookedAt == nil { try await register.hasten(client.environment, now: ingestion.now()) }
        denied = try await register.probe(client.environment, now: ingestion.now())
        lookedAt = .now
    }

    /// The key may not make a request.
    func deny(_ operation: String) { denied.insert(operation) }

    /// A request was answered: what waits for others of its kind is tried now.
    func allow(_ operation: String) async throws {
        guard denied.remove(operation) != nil else { return }
        try await register.hasten(client.environment, .permission(operation), now: ingestion.now())
    }

    /// What the operator has to mend; `nil` where nothing is known.
    func complaint() async throws -> String? {
        var complaints: [String] = []
        if try await isOfAnotherAccount() { complaints.append(Self.anotherAccount) }
        if let clock = clockComplaint() { complaints.append(clock) }
        if let fault = try await register.fault(client.environment) {
            complaints.append(
                "\(fault.count) of what is to be read cannot be read, the newest because: \(fault.reason)")
        }
        return complaints.isEmpty ? nil : complaints.joined(separator: ". ")
    }

    // MARK: - Whose the key is

    private static let anotherAccount =
        "the key of secret_key_path is of another account of Stripe's than the webhooks: under this key Stripe does not know the "
        + "event that came last, so refunds cannot be read. Put a key of the account into the file whose webhook "
        + "secret is configured, and start the service again"

    /// When that was asked last.
    private var askedAt: ContinuousClock.Instant?
    /// The event that was looked at last, and tells nothing.
    private var tellsNothing: Int64?

    /// Whether Stripe has shown under this key what it has sent by a webhook.
    func isOfRightAccount() async throws -> Bool {
        _ = try await isOfAnotherAccount()
        return isOfSameAccount == true
    }

    /// Whether Stripe does not know under this key what it has sent by a webhook.
    private func isOfAnotherAccount() async throws -> Bool {
        if isOfSameAccount == true { return false }
        if let askedAt, askedAt.duration(to: .now) < interval { return isOfSameAccount == false }
        guard let position = try await register.lastHeard(client.environment), position != tellsNothing else {
            return isOfSameAccount == false
        }
        guard let id = try await ownEvent(at: position) else {
            tellsNothing = position
            return isOfSameAccount == false
        }
        askedAt = .now
        do throws(StripeAPIError) {
            _ = try await client.send(.get("/v1/events/\(id)"), within: .seconds(20))
            isOfSameAccount = true
        } catch {
            switch error.kind {
            case .notFound:
                if isOfSameAccount == nil { tellOfAnotherAccount(position) }
                isOfSameAccount = false
            // A key that may not read events tells nothing; the sweep says so.
            case .forbidden, .refused: break
            case .limited, .unauthorized, .unavailable, .unreadable, .outOfTime: throw error
            }
        }
        return isOfSameAccount == false
    }

    private func tellOfAnotherAccount(_ position: Int64) {
        ingestion.logger.log(
            .error, "the key is of another account of Stripe's than the webhooks",
            [
                ("environment", .string(client.environment.rawValue)), ("position", .integer(position)),
                ("error", .string(Self.anotherAccount)),
            ])
    }

    /// Stripe's name for an event that it shows under a key of the account that it is of; `nil` for all others.
    private func ownEvent(at position: Int64) async throws -> String? {
        guard let (shown, evidence) = try await ingestion.reader.event(at: position), let evidence,
            let event = try? StripeEvent(evidence: evidence, of: shown.record), !event.isThin,
            !event.fact.remarks.contains(Remark.connectedAccount.text),
            event.created > ingestion.now().adding(milliseconds: -Self.eventsShown),
            StripeRequest.isPlain(event.eventID)
        else { return nil }
        return event.eventID
    }

    // MARK: - The clock

    private func clockComplaint() -> String? {
        guard let ahead = client.clock.aheadMilliseconds(at: ingestion.now()), abs(ahead) >= Self.clockTolerance else {
            if saysClock { ingestion.logger.log(.info, "the clock agrees with Stripe's again") }
            saysClock = false
            return nil
        }
        let seconds = abs(ahead) / 1000
        let words =
            "this machine's clock is \(seconds) s \(ahead > 0 ? "ahead of" : "behind") Stripe's: set it right. "
            + "Webhooks are refused that look older than five minutes"
        if !saysClock {
            ingestion.logger.log(
                .warning, "this machine's clock differs from Stripe's; set it right",
                [
                    ("environment", .string(client.environment.rawValue)),
                    ("ahead_seconds", .number(Double(ahead) / 1000)),
                ])
        }
        saysClock = true
        return words
    }
}
