package import EntitlementCore
package import Foundation
package import OutgoingHTTP
package import StripePayloads

/// Asks Stripe's API about one account in one environment.
///
/// What it returns is as Stripe sent it. Each request bears the key, which shows nowhere else, waits for its turn, and is
/// sent again where that may help, all within a deadline.
package struct StripeClient: Sendable {
    /// The version in which Stripe is asked to answer, whatever the account's own is.
    package static let version = "2026-07-29.dahlia"
    /// The largest answer that is taken, in bytes.
    package static let answerLimit = StripeList.byteLimit
    /// How long one attempt may take, in seconds.
    package static let timeout: TimeInterval = 20

    /// Stripe's own server.
    package static let stripe = "https://api.stripe.com"

    /// The clocks and chances that the client uses.
    package struct Surroundings: Sendable {
        package let now: @Sendable () -> Timestamp
        package let sleep: @Sendable (Duration) async throws -> Void
        /// From 0 to 1, by chance.
        package let fraction: @Sendable () -> Double

        package init(
            now: @escaping @Sendable () -> Timestamp, sleep: @escaping @Sendable (Duration) async throws -> Void,
            fraction: @escaping @Sendable () -> Double
        ) {
            self.now = now
            self.sleep = sleep
            self.fraction = fraction
        }
    }

    private let key: StripeKey
    private let base: String
    private let transport: any OutgoingTransport
    private let retry: StripeRetry
    private let pace: StripePace
    private var share = StripePace.Share.background
    private let surroundings: Surroundings
    /// What its answers tell of the clocks.
    package let clock = StripeClock()

    /// Of which environment all is that it is told.
    package var environment: StoreEnvironment { key.environment }

    /// - Parameters:
    ///   - base: another server in place of Stripe's, such as `http://127.0.0.1:12111`.
    ///   - pace: spreads the requests of all clients that share it; its own where none is given.
    package init(
        _ key: StripeKey, base: String? = nil,
        transport: any OutgoingTransport = OutgoingSession(
            timeout: StripeClient.timeout, answerLimit: StripeClient.answerLimit),
        retry: StripeRetry = StripeRetry(), pace: StripePace? = nil, surroundings: Surroundings
    ) {
        self.key = key
        var base = base ?? Self.stripe
        while base.hasSuffix("/") { base.removeLast() }
        self.base = base
        self.transport = transport
        self.retry = retry
        self.pace = pace ?? StripePace(key.environment)
        self.surroundings = surroundings
    }

    /// The same client for whoever waits for what it asks; without one, nobody does.
    package func taking(_ share: StripePace.Share) -> StripeClient {
        var client = self
        client.share = share
        return client
    }

    /// What Stripe says to a look-up; `nil` where it says that there is no such thing.
    ///
    /// - Parameter limit: how long all of it may take, pauses included.
    package func answer(
        to lookup: StripeLookup, within limit: Duration = .seconds(60)
    ) async throws(StripeAPIError) -> [UInt8]? {
        do {
            return try await send(.get(lookup), within: limit)
        } catch {
            if error.kind == .notFound { return nil }
            throw error
        }
    }

    /// Sends a request, again where that may help.
    ///
    /// - Parameter limit: how long all of it may take, pauses included.
    /// - Returns: the body of the answer.
    /// - Throws: the last attempt's error, or that there was no time for another; `CancellationError` is one of kind
    ///   `outOfTime`.
    package func send(
        _ request: StripeRequest, within limit: Duration = .seconds(60)
    ) async throws(StripeAPIError) -> [UInt8] {
        let start = surroundings.now()
        // Added up as well, for a clock may be set back.
        var paused = Duration.zero
        var attempt = 1
        while true {
            func spent() -> Duration {
                max(paused, .milliseconds(surroundings.now().milliseconds - start.milliseconds))
            }
            // While it waits for its turn, another may be told to come again later.
            var heeded: Timestamp?
            repeat {
                let block = pace.blocked(now: surroundings.now())
                let pause =
                    block.map { Duration.milliseconds($0.milliseconds - surroundings.now().milliseconds) } ?? .zero
                guard spent() + pause < limit else {
                    throw StripeAPIError(
                        .limited(until: block), of: request.operation,
                        "it said to come again later, and nothing was sent")
                }
                try await sleep(pause, request)
                paused += pause
                heeded = block ?? heeded
                try await turn(request, within: limit - spent())
            } while pace.blocked(now: surroundings.now()).map { $0 != heeded } ?? false
            let error: StripeAPIError
            do throws(StripeAPIError) {
                return try await attemptOnce(request, within: limit - spent())
            } catch let caught {
                error = caught
            }
            if case .limited(let until?) = error.kind { pace.block(until: until) }
            guard let pause = retry.pause(after: error, attempt: attempt, fraction: surroundings.fraction()),
                spent() + pause < limit
            else { throw error }
            try await sleep(pause, request)
            paused += pause
            attempt += 1
        }
    }

    /// Waits for a turn, which leaves as much time for the answer.
    private func turn(_ request: StripeRequest, within limit: Duration) async throws(StripeAPIError) {
        let isInTime: Bool
        do {
            isInTime = try await pace.turn(share, within: limit / 2, surroundings)
        } catch {
            throw StripeAPIError(.outOfTime, of: request.operation, Self.stopped)
        }
        guard isInTime else {
            throw StripeAPIError(
                .outOfTime, of: request.operation,
                "nothing was sent: as much as is asked of Stripe each second waits for its turn already")
        }
    }

    private static let stopped = "stopped while waiting to be sent"

    private func sleep(_ pause: Duration, _ request: StripeRequest) async throws(StripeAPIError) {
        guard pause > .zero else { return }
        do {
            try await surroundings.sleep(pause)
        } catch {
            throw StripeAPIError(.outOfTime, of: request.operation, Self.stopped)
        }
    }

    private func attemptOnce(
        _ request: StripeRequest, within limit: Duration
    ) async throws(StripeAPIError) -> [UInt8] {
        let answer: OutgoingAnswer
        let start = surroundings.now()
        do {
            answer = try await carry(request, within: limit)
        } catch {
            throw failure(error, of: request)
        }
        clock.compare(answer, sentAt: start, receivedAt: surroundings.now())
        guard (200..<300).contains(answer.status) else {
            throw StripeAPIError(answer, to: request, key: key, now: surroundings.now())
        }
        return answer.body
    }

    /// Sends a request once; it ends when the time for all attempts is up.
    private func carry(_ request: StripeRequest, within limit: Duration) async throws -> OutgoingAnswer {
        guard let url = URL(string: base + request.target) else { throw URLError(.badURL) }
        var headers = [
            (name: "Authorization", value: "Bearer \(key.value)"), (name: "Stripe-Version", value: Self.version),
            (name: "Accept", value: "application/json"),
        ]
        if request.body != nil { headers.append((name: "Content-Type", value: "application/x-www-form-urlencoded")) }
        if let key = request.idempotencyKey { headers.append((name: "Idempotency-Key", value: key)) }
        let outgoing = OutgoingRequest(request.method, url, headers: headers, body: request.body)
        return try await withThrowingTaskGroup(of: OutgoingAnswer.self) { group in
            group.addTask { [transport] in try await transport.send(outgoing) }
            group.addTask {
                try await Task.sleep(for: limit)
                throw URLError(.timedOut)
            }
            defer { group.cancelAll() }
            guard let answer = try await group.next() else { throw URLError(.unknown) }
            return answer
        }
    }

    private func failure(_ error: any Error, of request: StripeRequest) -> StripeAPIError {
        switch error {
        case is CancellationError: StripeAPIError(.outOfTime, of: request.operation, "stopped before the answer came")
        case let error as URLError:
            StripeAPIError(.unavailable, of: request.operation, "no answer: \(error.words)")
        case let error as AnswerTooLarge: StripeAPIError(.unavailable, of: request.operation, "no answer: \(error)")
        default: StripeAPIError(.unavailable, of: request.operation, "no answer: \(type(of: error))")
        }
    }
}
