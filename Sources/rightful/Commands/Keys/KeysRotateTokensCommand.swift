import Ledger

/// `rightful keys rotate-tokens`.
struct KeysRotateTokensCommand: Command {
    static let usage = CommandUsage(
        "keys rotate-tokens", "Make a new key for customer tokens.",
        options: [
            CommandUsage.Option("--at-once", nil, "end the earlier keys, and all tokens made with them, now")
        ],
        details: """
            Running services make tokens with it after ten seconds, when all of them know it. Tokens that were made with an
            earlier key count until they run out, a day later at most. After a theft, end them with --at-once: devices
            then ask your server for new ones. The keys are in the database, or in the file that token_key_path names.
            """)

    private let arguments: ParsedArguments

    init(_ arguments: ParsedArguments) { self.arguments = arguments }

    func run(_ context: CommandContext) async throws {
        let configuration = try context.configuration(arguments)
        let endsEarlier = arguments.has("--at-once")
        let key = try await DatabaseSession.with(arguments, context) { session in
            try await configuration.tokenKeys(pool: session.pool).rotate(
                now: session.clock.now(), endsEarlier: endsEarlier)
        }
        try context.output.write(
            "key \(key.id) makes customer tokens from \(key.firstUse); those of earlier keys end by \(key.endOfEarlier)\n"
        )
    }
}
