import EntitlementAPI
import Ledger

/// `rightful catalog show`.
struct CatalogShowCommand: Command {
    static let usage = CommandUsage(
        "catalog show", "Show the catalog in force, as JSON.",
        details: "What it prints can be edited and given to `rightful catalog apply`.")

    private let arguments: ParsedArguments

    init(_ arguments: ParsedArguments) { self.arguments = arguments }

    func run(_ context: CommandContext) async throws {
        let document = try await DatabaseSession.with(arguments, context) { session in
            let current = try await LedgerReader(pool: session.pool, clock: session.clock).catalog()
            return try CatalogDocument(current.catalog).encoded(writtenAt: current.writtenAt)
        }
        try context.output.write(document + [UInt8(ascii: "\n")])
    }
}
