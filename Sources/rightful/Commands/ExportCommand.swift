import EntitlementAPI
import EntitlementCore
import Foundation
import Ledger
import Service

/// `rightful export CUSTOMER`.
struct ExportCommand: Command {
    static let usage = CommandUsage(
        "export", "Write what the log ties to a customer as one JSON file.", operands: ["CUSTOMER"],
        options: [
            CommandUsage.Option("--environment", "E", "production or sandbox; default both"),
            CommandUsage.Option("--output", "FILE", "write to this file, for its owner's eyes only; default: print"),
        ],
        details: """
            It holds the customer's events with their facts and signed evidence, the customer's identities, and the
            catalogs; of others, those included who were linked with the customer and are not any more, only the numbers
            that stand for them. A checkpoint of the log is signed together with it, so that nobody without the log's
            key can change it. `rightful explain --from FILE` folds it without a database. It leaves out what only a search
            through all evidence finds, such as a change of the customer's address at Stripe: `rightful forget --dry-run`
            counts that.
            """)

    private let arguments: ParsedArguments
    private let customer: CustomerID
    private let environments: [StoreEnvironment]

    init(_ arguments: ParsedArguments) throws(UsageError) {
        self.arguments = arguments
        customer = try arguments.customer()
        environments = try arguments.environment().map { [$0] } ?? StoreEnvironment.allCases
    }

    func run(_ context: CommandContext) async throws {
        let configuration = try context.configuration(arguments)
        let document = try await DatabaseSession.with(arguments, context) {
            session -> CustomerExportDocument? in
            let export = try await LedgerReader(pool: session.pool, clock: session.clock).export(
                of: customer, environments: environments)
            guard let export else { return nil }
            var document = try CustomerExportDocument(export, customer: customer, environments: environments)
            let tree = LogTree(pool: session.pool)
            let ownID = try await tree.end().ownID
            do {
                let key = try LogKeyFile.read(configuration, ownID: ownID, isMade: session.cluster != nil)
                try await document.bind(with: CheckpointSigner(tree: tree, key: key))
            } catch let error as ConfigurationError {
                context.complain("the file is bound to no checkpoint, for there is no key to sign one with: \(error)")
            }
            return document
        }
        guard let document else {
            let place = environments.map(\.rawValue).joined(separator: " or ")
            throw CommandFailure(description: "nothing is known of the customer '\(customer.value)' in \(place)")
        }
        let bytes = try document.encoded()
        guard let path = arguments.value("--output") else { return try context.output.write(bytes) }
        // Root keeps it, wherever it lies: it is about a customer.
        try SecretFile.replace(path, holding: bytes, heir: .nobody)
        try context.output.write("wrote \(document.events.count) events to \(path)\n")
    }
}
