import Ledger

/// `rightful keys revoke ID`.
struct KeysRevokeCommand: Command {
    static let usage = CommandUsage(
        "keys revoke", "Revoke an API key for good.", operands: ["ID"],
        details: "ID is the one that `rightful keys list` shows; running services notice within seconds.")

    private let arguments: ParsedArguments

    init(_ arguments: ParsedArguments) { self.arguments = arguments }

    func run(_ context: CommandContext) async throws {
        let id = arguments.operands[0]
        let existed = try await DatabaseSession.with(arguments, context) { session in
            try await session.apiKeys.revoke(id)
        }
        guard existed else {
            throw CommandFailure(description: "there is no API key '\(id)'; `rightful keys list` shows them")
        }
        try context.output.write("revoked \(id)\n")
    }
}
