import Ledger

/// `rightful keys rotate-tokens`.
struct KeysRotateTokensCommand: Command {
    static let usage = CommandUsage(
        "keys rotate-tokens", "Make a new key for customer tokens.",
        options: [
            CommandUsage.Option(
                "--at-once", nil,
                "end the earlier keys, and all tokens made with them; running services notice within five seconds")
        ],
        details: """
            Running services make tokens with it after ten seconds, when all of them know it. Tokens that were made with an
            earlier key count until they run out, a day later at most. After a theft, end them with --at-once: devices
            then ask your server for new ones. The keys are in the database, or in the file that token_key_path of the
            service's configuration names: give its --config.
            """)

    private let arguments: ParsedArguments

    init(_ arguments: ParsedArguments) { self.arguments = arguments }

    func run(_ context: CommandContext) async throws {
        let configuration = try context.configuration(arguments)
        let endsEarlier = arguments.has("--at-once")
        let key = try await DatabaseSession.with(arguments, context) { session in
            let keys = configuration.tokenKeys(pool: session.pool)
            // A service makes the first key where it looks for them: whoever adds one elsewhere would believe that stolen ones
            // had ended.
            if configuration.tokenKeyPath == nil, try await keys.read().isEmpty {
                throw CommandFailure(
                    description:
                        "no service keeps its token keys in this database, so nothing was changed: if it keeps them "
                        + "in a file (token_key_path), give its --config; if it has made no token yet, there is none to end"
                )
            }
            return try await keys.rotate(now: session.clock.now(), endsEarlier: endsEarlier)
        }
        let place = configuration.tokenKeyPath ?? "the database"
        try context.output.write(
            "key \(key.id) makes customer tokens from \(key.firstUse); those of earlier keys end by \(key.endOfEarlier); the keys "
                + "are in \(place)\n")
    }
}
