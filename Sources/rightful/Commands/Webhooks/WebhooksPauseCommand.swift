import EntitlementCore
import Ledger

/// `rightful webhooks pause ID`.
struct WebhooksPauseCommand: Command {
    static let usage = CommandUsage(
        "webhooks pause", "Send nothing to an endpoint until it is resumed; what there is to tell waits.",
        operands: ["ID"])

    private let arguments: ParsedArguments

    init(_ arguments: ParsedArguments) { self.arguments = arguments }

    func run(_ context: CommandContext) async throws {
        try await DatabaseSession.with(arguments, context) { session in
            let (register, endpoint) = try await session.endpoint(arguments.operands[0])
            guard endpoint.pause == nil else {
                throw CommandFailure(description: "\(endpoint.id) is paused already")
            }
            try await register.change(endpoint.id, .paused(.ordered))
        }
    }
}
