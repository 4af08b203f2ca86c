import AppStorePayloads
import EntitlementAPI
import EntitlementCore
import Ledger
import Service

/// `rightful catalog apply FILE`.
struct CatalogApplyCommand: Command {
    static let usage = CommandUsage(
        "catalog apply", "Write a catalog to the log.", operands: ["FILE"],
        details: """
            The file says which entitlements each product gives, and the access policy:

              {"products": [{"product_id": "com.example.pro.yearly", "entitlements": ["premium"]},
                            {"product_id": "com.example.season", "entitlements": ["season"], "duration": "P90D"}],
               "policy": {"grace_gives_access": true, "billing_retry_gives_access": false, "leeway_seconds": 0,
                          "prorated_refund": "ends_access"}}

            It replaces the catalog before it, for every instant. One that is in force already is not written again.
            """)

    private let arguments: ParsedArguments

    init(_ arguments: ParsedArguments) { self.arguments = arguments }

    func run(_ context: CommandContext) async throws {
        let path = arguments.operands[0]
        let catalog: Catalog
        do {
            let text = try Files.read(path, as: "the catalog")
            guard let json = JSONValue(parsing: text) else {
                throw CommandFailure(description: "\(path): the catalog is not JSON")
            }
            if let name = json.repeatedMember {
                throw CommandFailure(description: "\(path): \(name) is there twice in one object")
            }
            catalog = try CatalogDocument(parsing: text, from: .file).catalog
        } catch let error as CatalogDocumentError {
            throw CommandFailure(description: "\(path): \(error)")
        }
        let line = try await DatabaseSession.with(arguments, context, needsLedger: false) { session in
            let current = try await LedgerReader(pool: session.pool, clock: session.clock).catalog()
            if current.catalog == catalog, current.writtenAt > 0 {
                return "the catalog is in force already, since position \(current.writtenAt)\n"
            }
            let writer = LedgerWriter(pool: session.pool, clock: session.clock)
            let outcome = try await writer.append(
                EventDraft(
                    environment: nil, source: .operatorCommand, type: "catalog_applied", occurredAt: nil,
                    fact: .catalog(catalog), identities: [], deduplication: .unique))
            return "the catalog is written at position \(outcome.position)\n"
        }
        try context.output.write(line)
    }
}

/// Why a command could not do what it was told.
struct CommandFailure: Error, CustomStringConvertible {
    let description: String
}
