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
            let waiting = try await register.standings(of: [endpoint.id])[endpoint.id]?.waiting ?? 0
            try await register.change(endpoint.id, .removed)
            if waiting > 0 {
                context.progress("\(waiting) message\(waiting == 1 ? "" : "s") that waited for it will not be sent")
            }
        }
    }
}
