import EntitlementAPI
import EntitlementCore
import Ledger
import Service

/// `rightful webhooks redeliver ID`.
struct WebhooksRedeliverCommand: Command {
    static let usage = CommandUsage(
        "webhooks redeliver", "Send an endpoint again what it was sent, or what was given up.", operands: ["ID"],
        options: [
            CommandUsage.Option("--from", "N", "the first position of the log that it is about"),
            CommandUsage.Option("--to", "M", "the last one"),
            CommandUsage.Option("--failed", nil, "what was given up, instead"),
            CommandUsage.Option("--webhook-id", "ID", "one message, by what receivers know it by, instead"),
            CommandUsage.Option("--since", "T", "what there was to tell from this instant on, instead"),
            CommandUsage.Option("--until", "T", "and before this one; now where it is left out"),
        ],
        details: """
            What is older than 30 days is not kept. A receiver can tell by webhook-id that it had a message before.
            """)

    private let arguments: ParsedArguments
    private let redelivery: Redelivery

    init(_ arguments: ParsedArguments) throws(UsageError) {
        self.arguments = arguments
        let (from, to) = (try arguments.number("--from"), try arguments.number("--to"))
        let (since, until) = (try arguments.timestamp("--since"), try arguments.timestamp("--until"))
        let message = arguments.value("--webhook-id")
        let named = [
            from != nil || to != nil, arguments.has("--failed"), message != nil, since != nil || until != nil,
        ]
        guard named.filter(\.self).count == 1 else {
            throw arguments.error("one of these is needed: --from and --to, --failed, --webhook-id, --since")
        }
        if from != nil || to != nil {
            guard let from, let to else { throw arguments.error("--from and --to are needed, both") }
            guard from <= to else { throw arguments.error("--to must not be before --from") }
            redelivery = .positions(from...to)
        } else if let message {
            guard let stored = WebhookMessage.stored(message) else {
                throw arguments.error("--webhook-id is msg_ and 32 hexadecimal digits")
            }
            redelivery = .message(stored)
        } else if arguments.has("--failed") {
            redelivery = .failed
        } else {
            guard let since else { throw arguments.error("--until needs --since") }
            redelivery = .span(since: since, until: until)
        }
    }

    func run(_ context: CommandContext) async throws {
        let count = try await DatabaseSession.with(arguments, context) { session in
            let (_, endpoint) = try await session.endpoint(arguments.operands[0])
            let list = DeliveryList(pool: session.pool)
            var (count, after): (Int, Int64?) = (0, 0)
            while let next = after {
                let done = try await list.redeliver(redelivery, to: endpoint.id, after: next)
                (count, after) = (count + done.count, done.next)
                if context.isTerminal { context.draw("\(count) to be sent again") }
            }
            if context.isTerminal { context.draw("") }
            return count
        }
        try context.output.write("\(count) \(count == 1 ? "delivery" : "deliveries") to be sent again\n")
    }
}

/// `rightful webhooks deliveries ID`.
struct WebhooksDeliveriesCommand: Command {
    static let usage = CommandUsage(
        "webhooks deliveries", "List what an endpoint was sent, and what came of it; never what stood in it.",
        operands: ["ID"],
        options: [
            CommandUsage.Option(
                "--state", "S", "one of \(ListedDelivery.State.allCases.map(\.rawValue).joined(separator: ", "))"),
            CommandUsage.Option("--after", "N", "those after this number"),
            CommandUsage.Option("--limit", "N", "at most so many; default 100"),
            CommandUsage.Option("--json", nil, "print the answer of GET /v1/webhook_endpoints/ID/deliveries"),
        ])

    private let arguments: ParsedArguments
    private let state: ListedDelivery.State?
    private let after: Int64
    private let limit: Int

    init(_ arguments: ParsedArguments) throws(UsageError) {
        self.arguments = arguments
        if let name = arguments.value("--state") {
            guard let state = ListedDelivery.State(rawValue: name) else {
                let known = ListedDelivery.State.allCases.map(\.rawValue).joined(separator: ", ")
                throw arguments.error("--state is one of \(known), not '\(name)'")
            }
            self.state = state
        } else {
            state = nil
        }
        after = try arguments.number("--after") ?? 0
        let limit = try arguments.number("--limit") ?? 100
        guard limit > 0 else { throw arguments.error("--limit is 1 or more") }
        self.limit = Int(min(limit, Int64(LedgerReader.pageLimit)))
    }

    func run(_ context: CommandContext) async throws {
        let (found, isPaused) = try await DatabaseSession.with(arguments, context) { session in
            let (_, endpoint) = try await session.endpoint(arguments.operands[0])
            let found = try await DeliveryList(pool: session.pool).deliveries(
                of: endpoint.id, after: after, limit: limit + 1, state: state)
            return (found, endpoint.pause != nil)
        }
        let page = found.prefix(limit).map { DeliveryDocument($0, isPaused: isPaused) }
        if arguments.has("--json") {
            let document = ListDocument(
                items: page, hasMore: found.count > limit, nextAfter: page.last?.number ?? after)
            try context.output.write(WireJSON.encode(document) + [UInt8(ascii: "\n")])
        } else {
            let header = ["NUMBER", "ID", "TYPE", "CUSTOMER", "STATE", "ATTEMPTS", "LAST", "NEXT", "CAME OF IT"]
            try context.output.write(TextTable([header] + page.map(Self.row)).text)
        }
    }

    private static func row(_ delivery: DeliveryDocument) -> [String] {
        [
            "\(delivery.number)", delivery.id ?? "-", delivery.type ?? "-", delivery.customerID ?? "-", delivery.state,
            "\(delivery.attempts)", delivery.lastAttemptAt?.description ?? "-",
            delivery.nextAttemptAt?.description ?? "-",
            delivery.failure ?? delivery.status.map { "status \($0)" } ?? "-",
        ]
    }
}

/// `rightful webhooks test ID`.
struct WebhooksTestCommand: Command {
    static let usage = CommandUsage(
        "webhooks test", "Have the service send an endpoint something to try it with, and say what came of it.",
        operands: ["ID"])

    private let arguments: ParsedArguments

    init(_ arguments: ParsedArguments) { self.arguments = arguments }

    /// For what comes before it: other work on the log, and a receiver that takes its time.
    private static let patience = Duration.seconds(20)

    func run(_ context: CommandContext) async throws {
        guard try context.configuration(arguments).sendsWebhooks else {
            throw CommandFailure(description: "webhooks.enabled is false in the configuration: nothing is sent")
        }
        let sent = try await DatabaseSession.with(arguments, context) { session in
            let (register, endpoint) = try await session.endpoint(arguments.operands[0])
            guard endpoint.pause == nil else {
                throw CommandFailure(
                    description: "\(endpoint.id) is paused; resume it first: `rightful webhooks resume \(endpoint.id)`")
            }
            if let until = try await register.standings(of: [endpoint.id])[endpoint.id]?.heldUntil {
                throw CommandFailure(
                    description:
                        "\(endpoint.id) asked to be left alone until \(until); to go on now: `rightful webhooks resume \(endpoint.id)`"
                )
            }
            let projector = WebhookProjector(
                pool: session.pool, teller: WebhookWork.teller, showDrift: WebhookWork.showDrift,
                show: WebhookWork.show)
            _ = try await projector.catchUp(
                to: endpoint.position, within: Self.patience, now: session.clock.now)
            let list = DeliveryList(pool: session.pool)
            let body = try WireJSON.encode(EndpointTestDocument(endpoint: endpoint.id))
            let answer = try await list.test(endpoint.id, body: body, at: session.clock.now()) {
                try WireJSON.encode(DeliveryDocument($0, isPaused: false))
            }
            guard let number = try answer.map({ try WireJSON.decode(DeliveryDocument.self, from: $0).number }) else {
                throw CommandFailure(description: "the log is not followed up to this endpoint yet; try again")
            }
            let end = ContinuousClock.now + Self.patience
            while true {
                let sent = try await list.deliveries(of: endpoint.id, after: number - 1, limit: 1).first
                if let sent, sent.number == number, sent.attempts > 0 { return sent }
                guard ContinuousClock.now < end else {
                    let standing = try await register.standings(of: [endpoint.id])[endpoint.id]
                    throw CommandFailure(
                        description: Self.delay(standing, isServed: try await !ServingUser.all(session.pool).isEmpty))
                }
                try await Task.sleep(for: .milliseconds(50))
            }
        }
        guard sent.state == .delivered else {
            throw CommandFailure(description: "it was not taken: \(sent.failure ?? sent.state.rawValue)")
        }
        try context.output.write("it was taken, with status \(sent.status ?? 0)\n")
    }

    /// Why it was not sent in time, as far as that can be told.
    private static func delay(_ standing: EndpointStanding?, isServed: Bool) -> String {
        let waited = "it was not sent within \(patience)"
        guard isServed else { return "\(waited): no service is connected to this database" }
        let since = standing?.failingSince.map { ", and the receiver has taken nothing since \($0)" } ?? ""
        return
            "\(waited), and is sent when its turn comes: \(max(0, (standing?.waiting ?? 0) - 1)) deliveries wait beside it\(since)"
    }
}
