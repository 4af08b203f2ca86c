import EntitlementAPI
import EntitlementCore
import Ledger
import Service

/// `rightful webhooks rotate ID`.
struct WebhooksRotateCommand: Command {
    static let usage = CommandUsage(
        "webhooks rotate", "Give an endpoint another secret and print it, this once, alone on a line.",
        operands: ["ID"],
        options: [
            CommandUsage.Option(
                "--keep-old-seconds", "N",
                "for how long the old ones sign along; a day where it is left out, 0: not at all")
        ])

    private let arguments: ParsedArguments
    private let request: SecretRotationRequest

    init(_ arguments: ParsedArguments) throws(UsageError) {
        self.arguments = arguments
        let keepOldSeconds = try arguments.number("--keep-old-seconds")
        do throws(EndpointChoices.Refusal) {
            request = try EndpointChoices.checked(SecretRotationRequest(keepOldSeconds: keepOldSeconds))
        } catch {
            throw arguments.error(error.reason)
        }
    }

    func run(_ context: CommandContext) async throws {
        let secret = try await DatabaseSession.with(arguments, context) { session in
            let (register, endpoint) = try await session.endpoint(arguments.operands[0])
            let position = try await register.rotateSecret(
                of: endpoint.id, keepOldSeconds: request.keepOldSeconds)
            return try await session.secret(at: position, register).secret
        }
        do {
            try context.output.write(secret + "\n")
        } catch {
            throw CommandFailure(
                description:
                    "the endpoint has another secret, which could not be printed (\(error)): rotate it once more")
        }
    }
}
