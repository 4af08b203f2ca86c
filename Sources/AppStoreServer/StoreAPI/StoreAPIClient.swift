package import EntitlementCore
package import Foundation
import OutgoingHTTP

/// Asks the App Store Server API about one app.
///
/// What it returns is as the store sent it: the signed statements in it are text, and nothing of them is believed before a
/// verifier has looked. Each request bears a token of its own, waits for its turn under the store's limits, and is sent
/// again where that may help, all within a deadline.
package struct StoreAPIClient: Sendable {
    /// Where the API is; Apple's own hosts unless the configuration says otherwise.
    package struct Servers: Sendable {
        package let production: URL
        package let sandbox: URL

        package init(production: URL = Self.apple, sandbox: URL = Self.appleSandbox) {
            self.production = production
            self.sandbox = sandbox
        }

        package static let apple = literal("https://api.storekit.apple.com")
        package static let appleSandbox = literal("https://api.storekit-sandbox.apple.com")

        private static func literal(_ text: StaticString) -> URL {
            guard let url = URL(string: "\(text)") else { preconditionFailure("\(text) is no URL") }
            return url
        }

        subscript(environment: StoreEnvironment) -> URL {
            switch environment {
            case .production: production
            case .sandbox: sandbox
            }
        }
    }

    /// The clocks and chances that the client uses.
    package struct Surroundings: Sendable {
        package let now: @Sendable () -> Timestamp
        /// This machine's own clock, also where the ledger goes by the database's: tokens are dated by it.
        package let machineNow: @Sendable () -> Timestamp
        package let sleep: @Sendable (Duration) async throws -> Void
        /// From 0 to 1, by chance.
        package let fraction: @Sendable () -> Double

        package init(
            now: @escaping @Sendable () -> Timestamp, machineNow: (@Sendable () -> Timestamp)? = nil,
            sleep: @escaping @Sendable (Duration) async throws -> Void, fraction: @escaping @Sendable () -> Double
        ) {
            self.now = now
            self.machineNow = machineNow ?? now
            self.sleep = sleep
            self.fraction = fraction
        }
    }

    package let credentials: StoreAPICredentials
    private let servers: Servers
    private let quota: any StoreAPIQuota
    private let transport: any StoreAPITransport
    private let retry: StoreAPIRetry
    private let surroundings: Surroundings

    package init(
        _ credentials: StoreAPICredentials, servers: Servers = Servers(), quota: any StoreAPIQuota,
        transport: any StoreAPITransport, retry: StoreAPIRetry = StoreAPIRetry(), surroundings: Surroundings
    ) {
        self.credentials = credentials
        self.servers = servers
        self.quota = quota
        self.transport = transport
        self.retry = retry
        self.surroundings = surroundings
    }

    /// Sends a call, again where that may help.
    ///
    /// - Parameters:
    ///   - limit: how long all of it may take: each attempt, waiting for its turn, and waiting for when the store wants to be
    ///     asked again.
    ///   - persistence: for how long it is sent again while it fails, where not as the client is set.
    /// - Throws: the last attempt's error, or that there was no time for another; `CancellationError` is one of kind
    ///   `outOfTime`.
    package func send<Answer>(
        _ call: StoreAPICall<Answer>, in environment: StoreEnvironment, within limit: Duration = .seconds(120),
        persistence: Duration? = nil
    ) async throws(StoreAPIError) -> Answer {
        let request = call.request
        var retry = retry
        if let persistence { retry.persistence = persistence }
        let start = surroundings.now()
        // Added up as well, for a clock may be set back.
        var (paused, failing) = (Duration.zero, Duration.zero)
        var failedFirst: Timestamp?
        var attempt = 1
        while true {
            func left() -> Duration { limit - max(paused, start.duration(to: surroundings.now())) }
            try await waitForTurn(request, in: environment, patience: left())
            let error: StoreAPIError
            do throws(StoreAPIError) {
                return try await attemptOnce(call, in: environment, within: left())
            } catch let caught {
                error = caught
            }
            await remember(error, of: request, in: environment)
            let now = surroundings.now()
            failing = max(failing, failedFirst?.duration(to: now) ?? .zero)
            failedFirst = failedFirst ?? now
            guard
                let pause = retry.pause(
                    after: error, of: request, attempt: attempt, failing: failing, now: surroundings.machineNow(),
                    fraction: surroundings.fraction()),
                max(paused, start.duration(to: now)) + pause < limit
            else { throw error }
            do {
                try await surroundings.sleep(pause)
            } catch {
                throw StoreAPIError(.outOfTime, of: request.limit, "stopped while waiting to ask again")
            }
            paused += pause
            failing += pause
            attempt += 1
        }
    }

    /// Tells all instances when the store wants to be asked again.
    private func remember(
        _ error: StoreAPIError, of request: StoreAPIRequest, in environment: StoreEnvironment
    ) async {
        guard case .limited(let until?) = error.kind else { return }
        let pause = surroundings.machineNow().duration(to: until)
        guard pause > .zero else { return }
        // Who cannot remember it asks again, and is told again.
        try? await quota.block(request.limit, app: credentials.bundleID, in: environment, for: pause)
    }

    private func attemptOnce<Answer>(
        _ call: StoreAPICall<Answer>, in environment: StoreEnvironment, within limit: Duration
    ) async throws(StoreAPIError) -> Answer {
        let request = call.request
        guard limit > .zero else {
            throw StoreAPIError(.outOfTime, of: request.limit, "the time was up before it was sent")
        }
        let response: StoreAPIResponse
        do {
            response = try await transport.send(
                request, to: try url(of: request, in: environment),
                token: try credentials.token(now: surroundings.machineNow()), within: limit)
        } catch {
            if error is CancellationError {
                throw StoreAPIError(.outOfTime, of: request.limit, "stopped before the answer came")
            }
            throw StoreAPIError(
                .unavailable, of: request.limit,
                "no answer from \(servers[environment].host() ?? "the server"): \(Self.words(for: error))")
        }
        guard (200..<300).contains(response.status) else {
            throw StoreAPIError(
                response, to: request, now: surroundings.machineNow(), ledgerNow: surroundings.now())
        }
        do {
            return try call.read(response.body)
        } catch {
            throw StoreAPIError(
                .unreadable, status: response.status, of: request.limit,
                "an answer of \(response.body.count) bytes from \(servers[environment].host() ?? "the server") cannot be read: "
                    + "\(Self.words(for: error))")
        }
    }

    private func waitForTurn(
        _ request: StoreAPIRequest, in environment: StoreEnvironment, patience: Duration
    ) async throws(StoreAPIError) {
        do {
            switch try await quota.reserve(
                request.limit, app: credentials.bundleID, in: environment, patience: max(.zero, patience))
            {
            case .after(let wait): if wait > .zero { try await surroundings.sleep(wait) }
            case .usedUp:
                throw StoreAPIError(
                    .limited(until: nil), of: request.limit, "this service's share of the store's limit is used up")
            case .blocked(let wait):
                throw StoreAPIError(
                    .limited(
                        until: surroundings.machineNow().adding(milliseconds: Int64(wait / .milliseconds(1)))),
                    of: request.limit, "the store said to come again later, and nothing was sent")
            }
        } catch let error as StoreAPIError {
            throw error
        } catch {
            throw StoreAPIError(.outOfTime, of: request.limit, "while waiting for its turn: \(Self.words(for: error))")
        }
    }

    private func url(of request: StoreAPIRequest, in environment: StoreEnvironment) throws -> URL {
        var base = servers[environment].absoluteString
        while base.hasSuffix("/") { base.removeLast() }
        guard let url = URL(string: base + request.target) else { throw URLError(.badURL) }
        return url
    }

    /// Foundation's own description of an error holds the URL, with ids in it.
    private static func words(for error: any Error) -> String {
        switch error {
        case let error as URLError: error.words
        case let error as AnswerTooLarge: error.description
        case is DecodingError: "it is not the JSON that the App Store sends"
        default: "\(type(of: error))"
        }
    }
}

extension Timestamp {
    fileprivate func duration(to other: Timestamp) -> Duration { .milliseconds(other.milliseconds - milliseconds) }
}
