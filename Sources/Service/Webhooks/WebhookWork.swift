import EntitlementAPI
package import EntitlementCore
package import Ledger

/// What goes on behind the answers for outgoing webhooks: finding what there is to tell, and sending it.
package struct WebhookWork: Sendable {
    /// Between looks at what was appended, in milliseconds.
    private static let follow: Int64 = 200
    private static let retry = Duration.seconds(1)
    /// Between looks whether the stores are heard.
    private static let listen = Duration.seconds(10)

    private let projector: WebhookProjector
    private let notices: StreamNotices
    private let streams: StreamsReading
    private let dispatcher: WebhookDispatcher
    private let logger: Logger
    private let now: @Sendable () -> Timestamp

    package init(
        projector: WebhookProjector, notices: StreamNotices, streams: StreamsReading, dispatcher: WebhookDispatcher,
        logger: Logger,
        now: @escaping @Sendable () -> Timestamp
    ) {
        self.projector = projector
        self.notices = notices
        self.streams = streams
        self.dispatcher = dispatcher
        self.logger = logger
        self.now = now
    }

    /// An answer as messages have it: the list `entitlements` of `GET …/entitlements`.
    package static let show: @Sendable ([EntitlementAnswer]) throws -> [UInt8] = { answers in
        try WireJSON.encode(answers.map { EntitlementDocument($0) })
    }

    /// A difference as messages have it: as `GET /v1/drift` lists it.
    package static let showDrift: @Sendable (FoundDrift) throws -> [UInt8] = { drift in
        try WireJSON.encode(DriftListDocument.Item(drift))
    }

    /// Works until the current task is cancelled.
    package func run() async {
        await withTaskGroup(of: Void.self) { group in
            group.addTask { await dispatcher.run() }
            group.addTask { await project() }
            group.addTask { await watchStreams() }
        }
    }

    private func project() async {
        while !Task.isCancelled {
            do {
                switch try await projector.step(now: now) {
                case .more: dispatcher.wake()
                case .done(let next):
                    // Whatever comes into the log is looked for by then, too.
                    let left = max(0, min(next.milliseconds - now().milliseconds, Self.follow))
                    try await Task.sleep(for: .milliseconds(left))
                case .elsewhere: try await Task.sleep(for: .milliseconds(Self.follow))
                }
            } catch is CancellationError {
                return
            } catch {
                logger.log(
                    .warning, "what webhooks are to tell cannot be looked for now", [("error", .string("\(error)"))])
                try? await Task.sleep(for: Self.retry)
            }
        }
    }

    /// Tells when a store falls silent, or is heard again.
    private func watchStreams() async {
        while !Task.isCancelled {
            do {
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
