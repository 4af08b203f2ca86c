import Foundation
import Ledger

/// `rightful checkpoint`.
struct CheckpointCommand: Command {
    static let usage = CommandUsage(
        "checkpoint", "Print a signed checkpoint: how long the log is, and what it holds.",
        options: [CommandUsage.Option("--output", "FILE", "write to this file; default: print")],
        details: """
            Keep it where nobody who can change the database can change it too. `rightful verify --since FILE` proves
            later that the log still begins with exactly these events.
            """)

    private let arguments: ParsedArguments

    init(_ arguments: ParsedArguments) { self.arguments = arguments }

    func run(_ context: CommandContext) async throws {
        let configuration = try context.configuration(arguments)
        let (checkpoint, note) = try await DatabaseSession.with(arguments, context) { session in
            let tree = LogTree(pool: session.pool)
            // Beside a database that somebody else runs a command may be run anywhere, where a key made for it would be
            // another than the service's.
            let key = try LogKeyFile.read(
                configuration, ownID: try await tree.end().ownID, isMade: session.cluster != nil)
            return try await CheckpointSigner(tree: tree, key: key).sign()
        }
        guard let path = arguments.value("--output") else { return try context.output.write(note) }
        do {
            try Data(note.utf8).write(to: URL(fileURLWithPath: path), options: .atomic)
        } catch {
            // Foundation's words are for programs; the system's are for people.
            let reason = ((error as? CocoaError)?.underlying as? POSIXError).map {
                String(cString: strerror($0.code.rawValue))
            }
            throw CommandFailure(description: "\(path): cannot be written: \(reason ?? "\(error)")")
        }
        try context.output.write("wrote a checkpoint of \(checkpoint.size) events to \(path)\n")
    }
}
