import EntitlementAPI
package import EntitlementCore
package import Foundation
package import Ledger
package import OutgoingHTTP
import Synchronization

/// Sends what is due to the endpoints of webhooks, many at once, and notes what came of it.
package struct WebhookDispatcher: Sendable {
    /// How long one attempt may take, in seconds, its connection included.
    package static let attemptSeconds: TimeInterval = 15
    /// The largest answer of a receiver that is read, in bytes; what it says counts for nothing.
    package static let answerLimit = 1 << 20

    package struct Intervals: Sendable {
        /// Between looks for what is due, where nothing was.
        package var idle = Duration.milliseconds(200)
        /// How long outcomes gather before they are noted together.
        package var gather = Duration.milliseconds(10)
        /// After something failed that is not the receivers': the database is away.
        package var retry = Duration.seconds(1)
        /// Between looks for deliveries that are too old to be kept.
        package var prune = Duration.seconds(3600)

        package init() {}
    }

    private let desk: DeliveryDesk
    private let list: DeliveryList
    private let endpoints: EndpointRegister
    private let reader: LedgerReader
    private let transport: any OutgoingTransport
    private let metrics: Metrics
    private let logger: Logger
    private let intervals: Intervals
    private let now: @Sendable () -> Timestamp
    private let bell = Doorbell()

    /// - Parameter transport: makes no connection to an address that is not allowed.
    package init(
        desk: DeliveryDesk, list: DeliveryList, endpoints: EndpointRegister, reader: LedgerReader,
        transport: any OutgoingTransport, metrics: Metrics, logger: Logger, intervals: Intervals = Intervals(),
        now: @escaping @Sendable () -> Timestamp
    ) {
        self.desk = desk
        self.list = list
        self.endpoints = endpoints
        self.reader = reader
        self.transport = transport
        self.metrics = metrics
        self.logger = logger
        self.intervals = intervals
        self.now = now
    }

    /// What carries messages: never to a private address, unless that is allowed, whatever name leads to it.
    package static func transport(allowsPrivate: Bool) -> OutgoingSession {
        OutgoingSession(
            timeout: attemptSeconds, answerLimit: answerLimit, connections: underWayLimit,
            hostConnections: DeliveryDesk.endpointLimit
        ) { allowsPrivate || PublicAddress.contains($0.bytes) }
    }

    /// The most deliveries under way at once, and the most endpoints taken together.
    private static let underWayLimit = 1024
    private static let endpointsTaken = 128

    /// Something may be due: it is looked for at once.
    func wake() { bell.ring() }

    /// Works until the current task is cancelled; what is under way then is sent again by whoever comes next.
    package func run() async {
        await withTaskGroup(of: Void.self) { group in
            let work = Work()
            group.addTask { await noteOutcomes(of: work) }
            group.addTask { await prune() }
            group.addTask {
                await withDiscardingTaskGroup { attempts in
                    while !Task.isCancelled {
                        let pause = await sendWhatIsDue(work, in: &attempts)
                        if let pause { await bell.wait(for: pause) }
                    }
                    attempts.cancelAll()
                }
            }
        }
    }

    /// What this process has under way, and what came of it.
    private final class Work: Sendable {
        private struct State {
            var underWay: [String: Int] = [:]
            var count = 0
            var outcomes: [DeliveryOutcome] = []
        }

        private let state = Mutex(State())

        var underWay: [String: Int] { state.withLock { $0.underWay } }

        var count: Int { state.withLock { $0.count } }

        func begin(_ deliveries: [DueDelivery]) {
            state.withLock { state in
                for delivery in deliveries { state.underWay[delivery.endpoint, default: 0] += 1 }
                state.count += deliveries.count
            }
        }

        /// - Parameter outcome: `nil` where nothing is to be noted.
        func end(_ endpoint: String, _ outcome: DeliveryOutcome?) {
            state.withLock { state in
                let left = (state.underWay[endpoint] ?? 1) - 1
                state.underWay[endpoint] = left > 0 ? left : nil
                state.count -= 1
                if let outcome { state.outcomes.append(outcome) }
            }
        }

        func takeOutcomes() -> [DeliveryOutcome] {
            state.withLock { state in
                defer { state.outcomes = [] }
                return state.outcomes
            }
        }

        func giveBack(_ outcomes: [DeliveryOutcome]) { state.withLock { $0.outcomes = outcomes + $0.outcomes } }
    }

    /// Returns how long to wait before the next look.
    private func sendWhatIsDue(_ work: Work, in attempts: inout DiscardingTaskGroup) async -> Duration? {
        guard work.count < Self.underWayLimit else { return intervals.gather }
        do {
            try await endpoints.refresh()
            let due = try await desk.take(underWay: work.underWay, limit: Self.endpointsTaken)
            guard !due.isEmpty else { return intervals.idle }
            work.begin(due)
            for delivery in due {
                attempts.addTask { work.end(delivery.endpoint, await attempt(delivery)) }
            }
            return nil
        } catch {
            log("webhooks cannot be sent now", error)
            return intervals.retry
        }
    }

    private func noteOutcomes(of work: Work) async {
        while !Task.isCancelled {
            try? await Task.sleep(for: intervals.gather)
            let outcomes = work.takeOutcomes()
            guard !outcomes.isEmpty else { continue }
            do {
                try await desk.note(outcomes)
                bell.ring()
            } catch {
                work.giveBack(outcomes)
                log("what came of webhooks cannot be noted now", error)
                try? await Task.sleep(for: intervals.retry)
            }
        }
    }

    private func prune() async {
        while !Task.isCancelled {
            do {
                while try await list.prune(now: now()) { try Task.checkCancellation() }
            } catch is CancellationError {
                return
            } catch {
                log("old deliveries of webhooks cannot be let go of now", error)
            }
            try? await Task.sleep(for: intervals.prune)
        }
    }

    private func log(_ what: String, _ error: any Error) {
        guard !(error is CancellationError) else { return }
        logger.log(.warning, what, [("error", .string("\(error)"))])
    }

    // MARK: - One attempt

    /// Sends a delivery once; `nil` where there is nothing to note.
    private func attempt(_ delivery: DueDelivery) async -> DeliveryOutcome? {
        func outcome(_ result: DeliveryOutcome.Result, status: Int? = nil, _ failure: String?) -> DeliveryOutcome {
            metrics.count(.webhooks, [result.word])
            return DeliveryOutcome(
                endpoint: delivery.endpoint, number: delivery.number, result: result, at: now(), status: status,
                failure: failure)
        }
        guard let target = endpoints.target(delivery.endpoint, now: now()) else {
            return outcome(later(delivery), "the endpoint's address or secret is not in the database")
        }
        do {
            guard let message = try await message(of: delivery, to: target.endpoint), let url = URL(string: target.url)
            else { return outcome(.givenUp, "what it was about is gone") }
            let answer = try await transport.send(
                OutgoingRequest(
                    "POST", url, headers: message.headers(at: now(), secrets: target.secrets), body: message.body))
            if (200..<300).contains(answer.status) { return outcome(.delivered, status: answer.status, nil) }
            let wished = answer.header("Retry-After").flatMap { Int64($0) } ?? 0
            let result = later(delivery, wished: min(max(0, wished), Self.longestWish) * 1000)
            await pauseIfDead(delivery)
            return outcome(result, status: answer.status, "status \(answer.status)")
        } catch is CancellationError {
            return nil
        } catch {
            let result = later(delivery)
            await pauseIfDead(delivery)
            return outcome(result, Self.words(error))
        }
    }

    /// In seconds.
    private static let longestWish: Int64 = 21_600

    private func later(_ delivery: DueDelivery, wished: Int64 = 0) -> DeliveryOutcome.Result {
        let pause = DeliverySchedule.pause(
            after: delivery.attempts + 1, firstAt: delivery.firstAt ?? now(), now: now(), wished: wished,
            chance: Double.random(in: 0...1))
        return pause.map { .failed(pause: $0) } ?? .givenUp
    }

    /// Pauses an endpoint that took nothing for as long as is tried.
    private func pauseIfDead(_ delivery: DueDelivery) async {
        guard let since = delivery.failingSince,
            now() >= since.adding(milliseconds: DeliverySchedule.patience),
            let endpoint = endpoints.endpoints.first(where: { $0.id == delivery.endpoint }), endpoint.pause == nil
        else { return }
        do {
            try await endpoints.change(endpoint.id, .paused(.unreachable))
            try await endpoints.refresh()
            logger.log(
                .error,
                "an endpoint of webhooks took nothing for three days and is paused; resume it when it is mended",
                [("endpoint", .string(endpoint.id)), ("origin", .string(endpoint.terms.origin))])
        } catch {
            log("an endpoint of webhooks cannot be paused now", error)
        }
    }

    private func message(of delivery: DueDelivery, to endpoint: Endpoint) async throws -> WebhookMessage? {
        var event: EventDocument?
        switch delivery.type {
        case .eventRecorded, .ownershipConflict:
            let scope = LogScope(
                environment: endpoint.terms.environment, app: endpoint.terms.bundleID.map { AppScope($0) })
            event = try await reader.event(at: delivery.position, only: scope).map {
                EventDocument($0.event, to: scope)
            }
        case .entitlementsChanged, .driftFound, .streamSilent, .streamRecovered, .test: break
        }
        return try WebhookMessage(delivery, event: event)
    }

    private static func words(_ error: any Error) -> String {
        switch error {
        case let error as URLError: error.words(answerLimit: answerLimit)
        case let error as AddressRefused: error.description
        default: "\(error)"
        }
    }
}

extension DeliveryOutcome.Result {
    /// As metrics name it.
    fileprivate var word: String {
        switch self {
        case .delivered: "delivered"
        case .failed: "failed"
        case .givenUp: "given_up"
        }
    }
}
