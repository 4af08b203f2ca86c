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
            guard since <= until ?? since else { throw arguments.error("--until must not be before --since") }
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
