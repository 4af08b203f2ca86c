import EntitlementCore
import Ledger

/// `rightful keys list`.
struct KeysListCommand: Command {
    static let usage = CommandUsage("keys list", "List the API keys, revoked ones included; never the keys themselves.")

    private let arguments: ParsedArguments

    init(_ arguments: ParsedArguments) { self.arguments = arguments }

    func run(_ context: CommandContext) async throws {
        let keys = try await DatabaseSession.with(arguments, context) { session in
            try await session.apiKeys.list()
        }
        let header = ["ID", "NAME", "SCOPES", "ENVIRONMENT", "APP", "CREATED", "REVOKED"]
        try context.output.write(TextTable([header] + keys.map(Self.row)).text)
    }

    private static func row(_ key: APIKey) -> [String] {
        [
            key.id, key.name,
            key.isPublishable ? "reconcile" : key.scopes.map(\.rawValue).sorted().joined(separator: ","),
            key.environment?.rawValue ?? "-", key.bundleID ?? "-", key.createdAt.description,
            key.revokedAt?.description ?? "-",
        ]
    }
}
