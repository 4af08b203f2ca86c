import EmbeddedPostgres
import Ledger
import Service

/// `rightful backup DIRECTORY`.
struct BackupCommand: Command {
    static let usage = CommandUsage(
        "backup", "Copy the embedded ledger into a new data directory, while it is served.", operands: ["DIRECTORY"],
        details: """
            The copy holds all that was acknowledged before it began, and is a data directory: `--data-dir DIRECTORY` reads it.
            With it are the keys that lie in the data directory, but not what the configuration names elsewhere. Whoever can
            read it can read the ledger, and sign in its name. Nobody is kept waiting meanwhile. A PostgreSQL that is named by
            its URL has tools of its own, such as pg_basebackup.
            """)

    private let arguments: ParsedArguments

    init(_ arguments: ParsedArguments) { self.arguments = arguments }

    func run(_ context: CommandContext) async throws {
        let destination = arguments.operands[0]
        guard case .embedded = try context.configuration(arguments).database else {
            throw CommandFailure(
                description:
                    "this copies the embedded PostgreSQL, and the database is named by its URL: back it up with "
                    + "PostgreSQL's own tools, such as pg_basebackup")
        }
        // One that another program's version has made can be copied too, before it is migrated, for example.
        let (position, outcome) = try await DatabaseSession.with(arguments, context, refusesSchema: false) { session in
            guard let cluster = session.cluster else {
                throw CommandFailure(description: "the database is not embedded")
            }
            let meter = BackupMeter(context)
            defer { meter.end() }
            let position = try await LedgerReader(pool: session.pool, clock: session.clock).headPosition()
            return (position, try await cluster.backUp(to: destination) { meter.show($0) })
        }
        try context.output.write(
            "copied the ledger, with its \(position) events and what came meanwhile, to \(destination)\n")
        if !outcome.leftOut.isEmpty {
            try context.output.write("not copied: \(outcome.leftOut.joined(separator: ", "))\n")
        }
        if outcome.isArchivingStopped {
            try context.output.write(
                "archive_mode is off in the copy, which would write into the archive of the original: turn it on where the copy "
                    + "takes the original's place\n")
        }
    }
}

/// One line on a terminal that says how far a backup is.
private struct BackupMeter: Sendable {
    private let context: CommandContext

    init(_ context: CommandContext) { self.context = context }

    func show(_ progress: BackupProgress) {
        guard context.isTerminal else { return }
        let share = progress.total.map { " of about \($0 >> 20)" } ?? ""
        context.draw("copied \(progress.copied >> 20)\(share) MiB")
    }

    func end() { if context.isTerminal { context.draw("") } }
}
