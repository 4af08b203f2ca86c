import EmbeddedPostgres
import Ledger
import PostgresClient
import Service

/// `rightful migrate`.
struct MigrateCommand: Command {
    static let usage = CommandUsage(
        "migrate", "Bring the database to this program's schema.",
        options: [
            CommandUsage.Option(
                "--migrate-database-url", "URL", "log in as the owner of the tables; default: the database's URL")
        ],
        details: """
            With a role of its own for serving (database_url) beside the owner's (migrate_database_url), the serving
            role is granted what it needs and nothing more: it can append to the log, and not change it.
            """)

    private let arguments: ParsedArguments

    init(_ arguments: ParsedArguments) { self.arguments = arguments }

    func run(_ context: CommandContext) async throws {
        let configuration = try context.configuration(arguments)
        let applied: [String]
        var granted: String?
        switch configuration.database {
        case .embedded:
            let cluster = try await DatabaseSession.acquire(configuration, context) { context.progress($0) }
            do {
                applied = try await DatabaseSession.migrateEmbedded(cluster, leavesCurrent: false)
            } catch {
                try? await uninterrupted { try await cluster.release() }
                throw error
            }
            try await uninterrupted { try await cluster.release() }
        case .external(let url, let migrateURL):
            do {
                (applied, granted) = try await migrate(owner: (migrateURL ?? url).reveal(), serving: url.reveal())
            } catch let error as PostgresError where error.kind == .insufficientPrivilege {
                throw CommandFailure(
                    description: "the role that migrates may not: log in as the owner of the database with "
                        + "--migrate-database-url (\(error.message))")
            }
        }
        for name in applied { try context.output.write("applied \(name)\n") }
        if let granted { try context.output.write("granted \(granted)\n") }
        if applied.isEmpty { try context.output.write("the schema is current\n") }
    }

    /// - Returns: the steps that were applied, and what the serving role was granted that it lacked.
    private func migrate(owner: String, serving: String) async throws -> (applied: [String], granted: String?) {
        let connection = try await PostgresConnection.connect(owner, options: .migrating)
        let ownerRole = try await Self.role(of: connection)
        let server = owner == serving ? nil : try await PostgresConnection.connect(serving, options: .migrating)
        let servingRole = if let server { try await Self.role(of: server) } else { ownerRole }
        let lacked = try await server?.run { try ServingPrivileges.all.missing(on: $0) } ?? []
        let applied = try await connection.run { connection in
            try Migrator().migrate(servingRole: servingRole == ownerRole ? nil : servingRole, on: connection)
        }
        guard let server else { return (applied, nil) }
        let lacks = try await server.run { server in
            try Migrator().pinServingSettings(on: server)
            return try ServingPrivileges.all.missing(on: server)
        }
        let granted = lacked.filter { !lacks.contains($0) }
        guard !granted.isEmpty else { return (applied, nil) }
        let isAll = granted.count == ServingPrivileges.all.count
        return (applied, "the role \(servingRole) \(isAll ? "all that it needs" : granted.joined(separator: ", "))")
    }

    private static func role(of connection: PostgresConnection) async throws -> String {
        try await connection.run { try $0.query("SELECT current_user::text").first?.text(0) ?? "" }
    }
}
