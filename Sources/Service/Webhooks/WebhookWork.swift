import EntitlementAPI
package import EntitlementCore
package import Ledger
import RevenueCatAPI

/// What goes on behind the answers for outgoing webhooks: finding what there is to tell, and sending it.
package struct WebhookWork: Sendable {
    /// Between looks at what others appended, in milliseconds.
    private static let follow: Int64 = 200
    /// How long what this instance appended gathers before it is looked at.
    private static let gather = Duration.milliseconds(10)
    private static let retry = Duration.seconds(1)
    /// Between looks whether the stores are heard.
    private static let listen = Duration.seconds(10)

    private let projector: WebhookProjector
    private let notices: StreamNotices
    private let streams: StreamsReading
    private let dispatcher: WebhookDispatcher
    private let endpoints: EndpointRegister
    private let appended: Doorbell
    private let sends: Bool
    private let metrics: Metrics
    private let logger: Logger
    private let now: @Sendable () -> Timestamp

    /// - Parameters:
    ///   - appended: rung when this instance has appended something.
    ///   - sends: whether what there is to tell is sent; else it waits.
    package init(
        projector: WebhookProjector, notices: StreamNotices, streams: StreamsReading, dispatcher: WebhookDispatcher,
        endpoints: EndpointRegister, appended: Doorbell, sends: Bool = true, metrics: Metrics, logger: Logger,
        now: @escaping @Sendable () -> Timestamp
    ) {
        self.projector = projector
        self.notices = notices
        self.streams = streams
        self.dispatcher = dispatcher
        self.endpoints = endpoints
        self.appended = appended
        self.sends = sends
        self.metrics = metrics
        self.logger = logger
        self.now = now
    }

    /// An answer as messages have it: the list `entitlements` of `GET …/entitlements`.
    package static let show: @Sendable ([EntitlementAnswer]) throws -> [UInt8] = { answers in
        try WireJSON.encode(answers.map { EntitlementDocument($0) })
    }

    /// What became of purchases, as endpoints of RevenueCat's format have it.
    package static let teller: any PurchaseTeller = EventTeller()

    /// A difference as messages have it: as `GET /v1/drift` lists it.
    package static let showDrift: @Sendable (FoundDrift) throws -> [UInt8] = { drift in
        try WireJSON.encode(DriftListDocument.Item(drift))
    }

    /// Works until the current task is cancelled.
    ///
    /// - Parameter watch: says when it fails.
    package func run(_ watch: WorkWatch? = nil) async {
        await withTaskGroup(of: Void.self) { group in
            group.addTask { await dispatcher.run(sends: sends, watch) }
            group.addTask { await project(watch) }
            group.addTask { await lookAround() }
        }
    }

    private func project(_ watch: WorkWatch?) async {
        while !Task.isCancelled {
            switch await step(watch) {
            case .more: dispatcher.wake()
            // Under a steady load there is always something new: steps that are too small cost more than they gain.
            case .news:
                dispatcher.wake()
                try? await Task.sleep(for: endpoints.count > 0 ? Self.gather : .milliseconds(Self.follow))
            // Whatever others append is looked for by then, too.
            case .done(let next):
                let pause = Duration.milliseconds(max(0, min(next.milliseconds - now().milliseconds, Self.follow)))
                if endpoints.count > 0 {
                    await appended.wait(for: pause)
                    try? await Task.sleep(for: min(pause, Self.gather))
                } else {
                    try? await Task.sleep(for: pause)
                }
            case .elsewhere: try? await Task.sleep(for: .milliseconds(Self.follow))
            case nil: try? await Task.sleep(for: Self.retry)
            }
        }
    }

    /// `nil` where it failed.
    private func step(_ watch: WorkWatch?) async -> WebhookProjector.Progress? {
        if let watch { return await watch.watch(.webhooks) { try await projector.step(now: now) } }
        return try? await projector.step(now: now)
    }

    /// Tells when a store falls silent, or is heard again; and shows in the metrics how the endpoints fare.
    private func lookAround() async {
        while !Task.isCancelled {
            do {
                metrics.note(try await endpoints.health())
                try await lookAtStreams()
            } catch is CancellationError {
                return
            } catch {
                logger.log(.warning, "silent streams cannot be looked for now", [("error", .string("\(error)"))])
            }
            try? await Task.sleep(for: Self.listen)
        }
    }

    func lookAtStreams() async throws {
        guard try await notices.isWanted() else { return }
        let instant = now()
        let items = try await streams.document(only: .whole, at: instant).items
        try await notices.note(
            try items.map { item in
                NoticedStream(
                    app: item.app ?? "", environment: item.environment, source: item.source, isSilent: item.silent,
                    body: try WireJSON.encode(item))
            }, at: instant)
    }
}
