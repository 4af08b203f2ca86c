import EntitlementAPI
package import EntitlementCore
package import Ledger

/// What goes on behind the answers for outgoing webhooks: finding what there is to tell, and sending it.
package struct WebhookWork: Sendable {
    /// Between looks at what was appended: what time alone changes is told by then, too.
    private static let follow = Duration.milliseconds(200)
    private static let retry = Duration.seconds(1)

    private let projector: WebhookProjector
    private let dispatcher: WebhookDispatcher
    private let logger: Logger
    private let now: @Sendable () -> Timestamp

    package init(
        projector: WebhookProjector, dispatcher: WebhookDispatcher, logger: Logger,
        now: @escaping @Sendable () -> Timestamp
    ) {
        self.projector = projector
        self.dispatcher = dispatcher
        self.logger = logger
        self.now = now
    }

    /// An answer as messages have it: the list `entitlements` of `GET …/entitlements`.
    package static let show: @Sendable ([EntitlementAnswer]) throws -> [UInt8] = { answers in
        try WireJSON.encode(answers.map { EntitlementDocument($0) })
    }

    /// Works until the current task is cancelled.
    package func run() async {
        await withTaskGroup(of: Void.self) { group in
            group.addTask { await dispatcher.run() }
            group.addTask { await project() }
        }
    }

    private func project() async {
        while !Task.isCancelled {
            do {
                if try await projector.step(now: now) != .more { try await Task.sleep(for: Self.follow) }
            } catch is CancellationError {
                return
            } catch {
                logger.log(
                    .warning, "what webhooks are to tell cannot be looked for now", [("error", .string("\(error)"))])
                try? await Task.sleep(for: Self.retry)
            }
        }
    }
}
