import EntitlementCore
import Ledger

/// `rightful webhooks delete ID`.
struct WebhooksDeleteCommand: Command {
    static let usage = CommandUsage(
        "webhooks delete", "Tell an endpoint nothing any more, for good.", operands: ["ID"])

    private let arguments: ParsedArguments

    init(_ arguments: ParsedArguments) { self.arguments = arguments }

    func run(_ context: CommandContext) async throws {
        try await DatabaseSession.with(arguments, context) { session in
            let (register, endpoint) = try await session.endpoint(arguments.operands[0])
            try await register.change(endpoint.id, .removed)
        }
    }
}

/// `rightful webhooks resume ID`.
struct WebhooksResumeCommand: Command {
    static let usage = CommandUsage(
        "webhooks resume", "Go on sending to an endpoint that was paused, where it was.", operands: ["ID"])

    private let arguments: ParsedArguments

    init(_ arguments: ParsedArguments) { self.arguments = arguments }

    func run(_ context: CommandContext) async throws {
        try await DatabaseSession.with(arguments, context) { session in
            let (register, endpoint) = try await session.endpoint(arguments.operands[0])
            guard endpoint.pause != nil else {
                throw CommandFailure(description: "\(endpoint.id) is not paused")
            }
            try await register.change(endpoint.id, .resumed)
        }
    }
}

/// `rightful webhooks redeliver ID`.
struct WebhooksRedeliverCommand: Command {
    static let usage = CommandUsage(
        "webhooks redeliver", "Send an endpoint again what it was sent, or what was given up.", operands: ["ID"],
        options: [
            CommandUsage.Option("--from", "N", "the first position of the log that it is about"),
            CommandUsage.Option("--to", "M", "the last one"),
            CommandUsage.Option("--failed", nil, "what was given up, instead"),
        ],
        details: """
            What is older than 30 days is not kept. A receiver can tell by webhook-id that it had a message before.
            """)

    private let arguments: ParsedArguments
    private let redelivery: Redelivery

    init(_ arguments: ParsedArguments) throws(UsageError) {
        self.arguments = arguments
        let (from, to) = (try arguments.number("--from"), try arguments.number("--to"))
        switch (from, to, arguments.has("--failed")) {
        case (let from?, let to?, false):
            guard from <= to else { throw arguments.error("--to must not be before --from") }
            redelivery = .positions(from...to)
        case (nil, nil, true): redelivery = .failed
        default: throw arguments.error("--from and --to are needed, or --failed")
        }
    }

    func run(_ context: CommandContext) async throws {
        let count = try await DatabaseSession.with(arguments, context) { session in
            let (_, endpoint) = try await session.endpoint(arguments.operands[0])
            return try await DeliveryList(pool: session.pool).redeliver(redelivery, to: endpoint.id)
        }
        try context.output.write("\(count) \(count == 1 ? "delivery" : "deliveries") to be sent again\n")
    }
}
