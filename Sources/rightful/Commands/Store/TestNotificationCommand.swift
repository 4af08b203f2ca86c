import AppStoreServer
import EntitlementCore
import Ledger

/// `rightful test-notification`.
struct TestNotificationCommand: Command {
    static let usage = CommandUsage(
        "test-notification", "Let the store send a test notification, and see whether it arrives.",
        options: [
            CommandUsage.Option("--app", "B", "the bundle id of an app with app_store_api"),
            CommandUsage.environment,
        ],
        details: """
            The store sends it to the address that App Store Connect has for the app and environment; a running service
            records it. The command waits for half a minute for the store's word and for the event, and fails where either is
            missing.
            """)

    /// How long it waits for the store's word and for the event.
    private static let patience = Duration.seconds(30)
    private static let interval = Duration.seconds(1)

    private let arguments: ParsedArguments
    private let app: String
    private let environment: StoreEnvironment

    init(_ arguments: ParsedArguments) throws(UsageError) {
        self.arguments = arguments
        app = try arguments.required("--app")
        environment = try arguments.environment() ?? .production
    }

    func run(_ context: CommandContext) async throws {
        let configuration = try context.configuration(arguments)
        let access = try StoreAccess.of(app, environment, configuration)
        let anchors = try TrustedMaterial.anchors(configuration)
        let verifier = NotificationVerifier(
            jws: try JWSVerifier(trusting: anchors), apps: configuration.apps.map(\.binding))
        let line = try await DatabaseSession.with(arguments, context) { session in
            let client = access.client(session, now: session.clock.now)
            let reader = LedgerReader(pool: session.pool, clock: session.clock)
            let before = try await reader.status().position
            do {
                let token = try await client.send(.testNotification, in: environment).token
                return try await fate(of: token, client, verifier, reader, after: before, session.clock.now)
            } catch let error as StoreAPIError {
                throw CommandFailure(description: "\(error)")
            }
        }
        try context.output.write(line + "\n")
    }

    /// Waits until the store says that it was delivered, and the log that it came.
    private func fate(
        of token: String, _ client: StoreAPIClient, _ verifier: NotificationVerifier, _ reader: LedgerReader,
        after position: Int64, _ now: @Sendable () -> Timestamp
    ) async throws -> String {
        let end = ContinuousClock.now + Self.patience
        var result: String?
        repeat {
            if let item = try await status(of: token, client) {
                result = item.sendAttempts?.compactMap(\.result).last ?? result
                let uuid = try Self.uuid(of: item, verifier, now())
                if let found = try await event(uuid, reader, after: position), result == "SUCCESS" {
                    return "\(app), \(environment.rawValue): the test notification arrived, and is event \(found)"
                }
            }
            try await Task.sleep(for: Self.interval)
        } while ContinuousClock.now < end
        let word = result.map { "the store says \($0)" } ?? "the store has not said yet what became of it"
        let arrival =
            result == "SUCCESS"
            ? "it was delivered, but not to a service on this ledger: compare the URL in App Store Connect"
            : "it did not arrive: check the URL in App Store Connect, its certificate, and whether the store can reach it"
        throw CommandFailure(
            description: "\(app), \(environment.rawValue): after \(Self.patience), \(word); \(arrival)")
    }

    /// What the store says of it; `nil` while it knows nothing yet.
    private func status(of token: String, _ client: StoreAPIClient) async throws -> NotificationPage.Item? {
        do {
            return try await client.send(.testNotificationStatus(token), in: environment)
        } catch {
            if case .notFound = error.kind { return nil }
            throw error
        }
    }

    private static func uuid(
        of item: NotificationPage.Item, _ verifier: NotificationVerifier, _ now: Timestamp
    ) throws -> String {
        guard let payload = item.payload else {
            throw CommandFailure(description: "the store's answer is without what it sent, the signedPayload")
        }
        do {
            return try verifier.verify(signedPayload: payload.compact, now: now).uuid
        } catch {
            throw CommandFailure(
                description: "what the store sent would be refused when it arrives, as \(error.code.rawValue): \(error)"
            )
        }
    }

    /// The position of the event with this notification's id.
    private func event(_ uuid: String, _ reader: LedgerReader, after position: Int64) async throws -> Int64? {
        var after = position
        while true {
            let page = try await reader.events(after: after, limit: LedgerReader.pageLimit)
            for shown in page.events {
                if case .notification(let fact) = shown.fact, fact.uuid == uuid { return shown.record.position }
            }
            guard page.hasMore else { return nil }
            after = page.nextAfter
        }
    }
}
