import EntitlementAPI
package import EntitlementCore
import Foundation
package import Ledger
package import OutgoingHTTP
import RevenueCatAPI

/// Sends what is due to the endpoints of webhooks, many at once, and notes what came of it.
package struct WebhookDispatcher: Sendable {
    /// How long one attempt may take, its connection included, where nobody says.
    package static let defaultAttempt = Duration.seconds(15)
    /// The longest that one may be said to take.
    package static let longestAttempt = Duration.seconds(60)
    /// After how many times as long another instance sends what one took and said nothing of.
    package static let patience = 4
    /// The largest answer of a receiver that is read, in bytes; what it says counts for nothing.
    package static let answerLimit = 1 << 16

    package struct Intervals: Sendable {
        /// Between looks for what is due, where nothing was.
        package var idle = Duration.milliseconds(200)
        /// Between looks for endpoints, where there are none; the first one of this instance is heard of at once.
        package var unused = Duration.seconds(1)
        /// How long outcomes gather before they are noted together.
        package var gather = Duration.milliseconds(10)
        /// After something failed that is not the receivers': the database is away.
        package var retry = Duration.seconds(1)
        /// Between looks whether the database's clock went back.
        package var clock = Duration.seconds(5)
        /// Between looks for deliveries that are too old to be kept.
        package var prune = Duration.seconds(3600)
        /// Before the first of them, in which a wrong clock may still be set.
        package var settle = Duration.seconds(60)

        package init() {}
    }

    private let register: DeliveryRegister
    private let endpoints: EndpointRegister
    private let reader: LedgerReader
    private let transport: any OutgoingTransport
    private let allowsPrivate: Bool
    private let underWayLimit: Int
    private let metrics: Metrics
    private let logger: Logger
    private let intervals: Intervals
    private let troubleTold = Throttle(.seconds(60), beginsOpen: true)
    private let now: @Sendable () -> Timestamp
    private let bell = Doorbell()
    private let notices: EndpointNotices
    private let upkeep: WebhookUpkeep

    /// - Parameters:
    ///   - transport: makes no connection to an address that is not allowed.
    ///   - allowsPrivate: whether endpoints may be at private addresses, and by plain http.
    ///   - underWayLimit: the most deliveries under way at once.
    package init(
        register: DeliveryRegister, list: DeliveryList, endpoints: EndpointRegister, reader: LedgerReader,
        transport: any OutgoingTransport, allowsPrivate: Bool, underWayLimit: Int = mostUnderWay, metrics: Metrics,
        logger: Logger, intervals: Intervals = Intervals(),
        now: @escaping @Sendable () -> Timestamp
    ) {
        self.register = register
        self.endpoints = endpoints
        self.reader = reader
        self.transport = transport
        self.allowsPrivate = allowsPrivate
        self.underWayLimit = underWayLimit
        self.metrics = metrics
        self.logger = logger
        self.intervals = intervals
        self.now = now
        notices = EndpointNotices(endpoints: endpoints, logger: logger, now: now)
        upkeep = WebhookUpkeep(
            list: list, endpoints: endpoints, notices: notices, intervals: intervals, logger: logger, now: now)
    }

    /// What carries messages: never to a private address, unless that is allowed, whatever name leads to it.
    package static func transport(
        allowsPrivate: Bool, attempt: Duration = defaultAttempt, connections: Int = mostUnderWay
    ) -> OutgoingSession {
        OutgoingSession(
            timeout: attempt / .seconds(1), answerLimit: answerLimit, wantsBodies: false, connections: connections,
            // Many endpoints may be of one host, a gateway's: each has its own share of what is under way.
            hostConnections: connections
        ) { allowsPrivate || PublicAddress.contains($0.bytes) }
    }

    /// The most deliveries under way at once, where there are enough descriptors, and the most endpoints taken together.
    package static let mostUnderWay = 1024
    private static let endpointsTaken = 512

    /// Something may be due: it is looked for at once.
    func wake() { bell.ring() }

    /// Works until the current task is cancelled; what is under way then is sent again by whoever comes next, at once.
    ///
    /// - Parameters:
    ///   - sends: whether anything is sent; else what is too old is let go of, and nothing more.
    ///   - watch: says when what is too old cannot be let go of.
    package func run(sends: Bool = true, _ watch: WorkWatch? = nil) async {
        guard sends else { return await upkeep.run(watch) }
        let work = DeliveriesUnderWay(limit: underWayLimit)
        await withTaskGroup(of: Void.self) { group in
            group.addTask { await noteOutcomes(of: work) }
            group.addTask { await upkeep.run(watch) }
            group.addTask {
                await WebhookHaste(
                    register: register, endpoints: endpoints, interval: intervals.clock, logger: logger
                ) { bell.ring() }.run()
            }
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
        let (results, left) = (work.takeResults(), work.takeLeft())
        guard !results.isEmpty || !left.isEmpty else { return }
        // In a task of its own, since this one is cancelled: what was taken need not be sent again, and the rest need not wait.
        // Each by itself: where what came of some cannot be noted, the rest is left to others all the same.
        await Task { [register] in
            _ = try? await register.note(results.map(\.outcome))
            try? await register.giveBack(left)
        }.value
    }

    /// Returns how long to wait before the next look.
    private func sendWhatIsDue(_ work: DeliveriesUnderWay, in attempts: inout DiscardingTaskGroup) async -> Duration? {
        let room = underWayLimit - work.count
        guard room > 0 else { return intervals.gather }
        do {
            try await endpoints.refresh()
            guard endpoints.count > 0 else { return intervals.unused }
            let due = try await register.take(
                full: work.full(), limit: Self.endpointsTaken, total: room
            ) { work.room(of: $0) }
            guard !due.isEmpty else { return intervals.idle }
            work.begin(due)
            guard let contents = await contents(of: due, work) else { return intervals.retry }
            for delivery in due {
                attempts.addTask {
                    let start = ContinuousClock.now
                    let result = await attempt(delivery, contents)
                    work.end(delivery, result, after: start.duration(to: .now))
                }
            }
            return nil
        } catch {
            // It is tried again at once, and an outage may last.
            if troubleTold.passes() { logger.warn("webhooks cannot be sent now", error) }
            return intervals.retry
        }
    }

    /// What deliveries tell of and do not hold themselves: read once for all of them.
    private struct Contents: Sendable {
        struct Key: Hashable {
            let scope: LogScope
            let position: Int64
        }

        var events: [Key: EventDocument] = [:]
        var names: [IdentityRef: String] = [:]
    }

    /// `nil` where it cannot be read now: what was taken is given back, for that is nobody's failure but ours.
    private func contents(of due: [DueDelivery], _ work: DeliveriesUnderWay) async -> Contents? {
        do {
            var contents = Contents()
            var people: Set<IdentityRef> = []
            var positions: [LogScope: Set<Int64>] = [:]
            for delivery in due {
                switch delivery.type {
                case .eventRecorded, .ownershipConflict:
                    guard let scope = endpoints.endpoint(delivery.endpoint)?.scope else { continue }
                    positions[scope, default: []].insert(delivery.position)
                case .entitlementsChanged, .driftFound, .streamSilent, .streamRecovered, .test: break
                case .initialPurchase, .renewal, .productChange, .cancellation, .uncancellation, .billingIssue,
                    .expiration, .nonRenewingPurchase, .subscriptionExtended, .refundReversed, .transfer:
                    people.formUnion(try EventMessage.people(in: delivery.body ?? []))
                }
            }
            let read = try await reader.contents(of: due, events: positions, people: people)
            for (scope, events) in read.events {
                for event in events {
                    contents.events[Contents.Key(scope: scope, position: event.record.position)] = EventDocument(
                        event, to: scope)
                }
            }
            contents.names = read.names
            return contents
        } catch {
            logger.warn("what webhooks tell of cannot be read now", error)
            for delivery in due { work.end(delivery, nil) }
            do { try await register.giveBack(work.takeLeft()) } catch {
                logger.warn("webhooks cannot be given back now", error)
            }
            return nil
        }
    }

    private func noteOutcomes(of work: DeliveriesUnderWay) async {
        while !Task.isCancelled {
            await work.waitForResults()
            try? await Task.sleep(for: intervals.gather)
            let results = work.takeResults()
            guard !results.isEmpty else { continue }
            do {
                let outcomes = results.map(\.outcome)
                let turns = try await register.note(outcomes)
                bell.ring()
                notices.tell(turns, outcomes)
                // One after the other, so that each is paused once however many attempts failed.
                for result in results {
                    if let reason = result.pause { await pause(result.outcome.endpoint, reason, after: result) }
                }
            } catch {
                work.giveBack(results)
                logger.warn("what came of webhooks cannot be noted now", error)
                try? await Task.sleep(for: intervals.retry)
            }
        }
    }

    // MARK: - One attempt

    /// Sends a delivery once; `nil` where that was not brought to its end.
    private func attempt(_ delivery: DueDelivery, _ contents: Contents) async -> AttemptResult? {
        let target = endpoints.target(delivery.endpoint, now: now())
        func result(
            _ result: DeliveryOutcome.Result, status: Int? = nil, _ failure: String?, hold: Int64? = nil,
            pause: EndpointFact.Pause? = nil
        ) -> AttemptResult {
            metrics.count(.webhooks, [result.word])
            return AttemptResult(
                outcome: DeliveryOutcome(
                    endpoint: delivery.endpoint, number: delivery.number, messageID: delivery.id, result: result,
                    at: now(), status: status, failure: failure, hold: hold,
                    isForgottenNotice: delivery.isForgottenNotice),
                pause: pause,
                resumedPosition: target?.endpoint.resumedPosition)
        }
        guard let target else {
            return result(later(delivery), "the endpoint's address or secret is not in the database")
        }
        do {
            // What the database says an endpoint is told counts as far as the log says so, too.
            guard delivery.isMeant(for: target.endpoint) else {
                return result(.dropped, "the endpoint is not told of this")
            }
            guard let message = try message(of: delivery, to: target.endpoint, contents) else {
                return result(.dropped, "what it was about is gone")
            }
            let url = try EndpointURL(target.url, allowsPrivate: allowsPrivate).url
            let answer = try await transport.send(
                OutgoingRequest(
                    "POST", url, headers: message.headers(at: now(), for: target), body: message.body,
                    timeout: target.endpoint.terms.knownFormat == .revenueCat ? RevenueCatMessage.patience : nil))
            if (200..<300).contains(answer.status) { return result(.delivered, status: answer.status, nil) }
            let wish = wish(answer)
            let next = later(delivery, wished: wish)
            return result(
                next, status: answer.status, "status \(answer.status)",
                hold: Self.hold(status: answer.status, wish: wish, pause: next.pause),
                pause: answer.status == Self.gone ? .gone : unreachable(delivery))
        } catch is CancellationError {
            return nil
        } catch {
            return result(later(delivery), Self.words(error), pause: unreachable(delivery))
        }
    }

    /// How long an answer asks to be left alone, in milliseconds (RFC 9110, "Retry-After": seconds, or a date).
    private func wish(_ answer: OutgoingAnswer) -> Int64 {
        guard let text = answer.header("Retry-After") else { return 0 }
        // Whoever says more than a number can hold means long, too.
        let isNumber = !text.isEmpty && text.utf8.allSatisfy { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }
        let seconds = isNumber ? Int64(text) ?? .max : nil
        let wished =
            seconds.map { min($0, Self.longestWish) * 1000 } ?? HTTPDate.milliseconds(text).map {
                $0 - now().milliseconds
            } ?? 0
        return min(max(0, wished), Self.longestWish * 1000)
    }

    /// For how long nothing more is sent to a receiver, in milliseconds: where it has too much (429), as long as it says, or until
    /// the next try; where it is away (503), as long as it says.
    private static func hold(status: Int, wish: Int64, pause: Int64?) -> Int64? {
        switch status {
        case 429: wish > 0 ? wish : min(pause ?? 0, longestHold)
        case 503 where wish > 0: wish
        default: nil
        }
    }

    /// Of a receiver that does not say, in milliseconds.
    private static let longestHold: Int64 = 60_000
    /// In seconds.
    private static let longestWish: Int64 = 21_600
    /// A receiver that wants nothing any more (Standard Webhooks, "Delivery"; RFC 9110, 15.5.11).
    private static let gone = 410

    private func later(_ delivery: DueDelivery, wished: Int64 = 0) -> DeliveryOutcome.Result {
        let pause = DeliverySchedule.pause(
            after: delivery.attempts + 1, firstAt: delivery.firstAt ?? now(), now: now(), wished: wished,
            chance: Double.random(in: 0...1))
        return pause.map { .failed(pause: $0) } ?? .givenUp
    }

    /// Of an endpoint that took nothing for as long as is tried.
    private func unreachable(_ delivery: DueDelivery) -> EndpointFact.Pause? {
        guard let since = delivery.failingSince else { return nil }
        return now() >= since.adding(milliseconds: DeliverySchedule.patience) ? .unreachable : nil
    }

    /// Sends nothing to an endpoint any more, until somebody resumes it; what was tried before somebody did says nothing of it now.
    private func pause(_ id: String, _ reason: EndpointFact.Pause, after result: AttemptResult) async {
        guard let endpoint = endpoints.endpoint(id), endpoint.pause == nil,
            endpoint.resumedPosition == result.resumedPosition
        else { return }
        do {
            try await endpoints.change(id, .paused(reason))
            try await endpoints.refresh()
            let what = reason == .gone ? "answered that it is gone (410)" : "took nothing for three days"
            logger.log(
                .error, "an endpoint of webhooks \(what) and is paused; resume it when it is mended",
                [("endpoint", .string(id)), ("origin", .string(endpoint.terms.origin))])
        } catch {
            logger.warn("an endpoint of webhooks cannot be paused now", error)
        }
    }

    private func message(
        of delivery: DueDelivery, to endpoint: Endpoint, _ contents: Contents
    ) throws -> WebhookMessage? {
        try WebhookMessage(
            delivery, by: endpoint.terms,
            event: contents.events[Contents.Key(scope: endpoint.scope, position: delivery.position)],
            names: contents.names)
    }

    private static func words(_ error: any Error) -> String {
        switch error {
        case let error as URLError: error.words
        case let error as AddressRefused: error.description
        case let error as EndpointURL.Refusal: error.reason
        default: "\(error)"
        }
    }
}

extension Endpoint {
    /// What of the log it may hear of.
    fileprivate var scope: LogScope {
        LogScope(environment: terms.environment, app: terms.bundleID.map { AppScope($0) })
    }
}

extension DeliveryOutcome.Result {
    /// As metrics name it.
    fileprivate var word: String {
        switch self {
        case .delivered: "delivered"
        case .failed: "failed"
        case .givenUp: "given_up"
        case .dropped: "dropped"
        }
    }
}
