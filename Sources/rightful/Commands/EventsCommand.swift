import EntitlementAPI
import Ledger
import Service

/// `rightful events`.
struct EventsCommand: Command {
    static let usage = CommandUsage(
        "events", "Print the log's events, one line of JSON each.",
        options: [
            CommandUsage.Option("--after", "N", "begin after this position; default 0, the beginning"),
            CommandUsage.Option("--follow", nil, "go on with new events as they are recorded, until interrupted"),
        ],
        details: "Each line is an event as GET /v1/events lists it.")

    /// How long it waits for new events.
    private static let interval = Duration.milliseconds(250)

    private let arguments: ParsedArguments
    private let after: Int64
    private let follows: Bool

    init(_ arguments: ParsedArguments) throws(UsageError) {
        self.arguments = arguments
        follows = arguments.has("--follow")
        guard let text = arguments.value("--after") else {
            after = 0
            return
        }
        guard let position = Int64(text), position >= 0 else {
            throw arguments.error("--after must be a position: a whole number, 0 or more")
        }
        after = position
    }

    func run(_ context: CommandContext) async throws {
        try await DatabaseSession.with(arguments, context) { session in
            let reader = LedgerReader(pool: session.pool, clock: session.clock)
            do {
                try await print(reader, to: context.output)
            } catch is CancellationError where follows {
                // Being interrupted is how following ends.
            }
        }
    }

    private func print(_ reader: LedgerReader, to output: Output) async throws {
        var position = after
        while true {
            try Task.checkCancellation()
            let page = try await reader.events(after: position, limit: LedgerReader.pageLimit)
            for event in page.events {
                try output.write(WireJSON.encode(EventDocument(event)) + [UInt8(ascii: "\n")])
            }
            position = page.nextAfter
            if page.hasMore { continue }
            guard follows else { return }
            try await Task.sleep(for: Self.interval)
        }
    }
}
