import EntitlementCore
import Ledger

/// `rightful webhooks resume ID`.
struct WebhooksResumeCommand: Command {
    static let usage = CommandUsage(
        "webhooks resume",
        "Go on sending to an endpoint that was paused, or asked to be left alone (429, 503), where it was, and try at once "
            + "what waits for its next try.",
        operands: ["ID"])

    private let arguments: ParsedArguments

    init(_ arguments: ParsedArguments) { self.arguments = arguments }

    func run(_ context: CommandContext) async throws {
        try await DatabaseSession.with(arguments, context) { session in
            let (register, endpoint) = try await session.endpoint(arguments.operands[0])
            guard try await register.isHeldUp(endpoint) else {
                throw CommandFailure(
                    description:
                        "\(endpoint.id) is not paused, did not ask to be left alone, and nothing waits for its next try: it is "
                        + "sent what there is")
            }
            try await register.change(endpoint.id, .resumed)
        }
    }
}
