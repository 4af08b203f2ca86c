import EntitlementAPI
import EntitlementCore
import Ledger
import Synchronization

/// `rightful verify`.
struct VerifyCommand: Command {
    static let usage = CommandUsage(
        "verify", "Fold the whole log again and compare it with everything stored.",
        options: [
            CommandUsage.Option("--json", nil, "print the result as JSON"),
            CommandUsage.Option(
                "--since", "FILE",
                "a checkpoint that `rightful checkpoint` or `serve` wrote: the log must begin with it"),
            CommandUsage.Option(
                "--log-key", "KEY",
                "what checks the checkpoint's signature, as it was published; default: the log's key"),
        ],
        details: """
            It checks that positions have no gaps, that every event has the hash its columns give and names the hash of
            the one before, that the evidence is the bytes each event names (or was erased by an event that says so),
            that every statement is known by its key, and that every view row is the fold of its events. At the first
            difference it says where, and exits 1.

            All this shows that the database agrees with itself. With a checkpoint that was kept elsewhere it shows too
            that nothing was rewritten or cut off since, and that no older backup was restored.

            It reads in short transactions, locks nothing and writes nothing: it may run, and be stopped, at any time.
            """)

    private let arguments: ParsedArguments

    init(_ arguments: ParsedArguments) { self.arguments = arguments }

    private static func logKey(_ configuration: Configuration, ownID: String) throws -> LogVerifier {
        do {
            return try LogKeyFile.read(configuration, ownID: ownID, isMade: false).verifier
        } catch let error as ConfigurationError {
            throw CommandFailure(
                description: "\(error.description); give what checks the checkpoint's signature with --log-key")
        }
    }

    func run(_ context: CommandContext) async throws {
        let since = try arguments.value("--since").map { try CheckpointFile($0) }
        let givenKey = try arguments.value("--log-key").map { text in
            guard let key = LogVerifier(text) else {
                throw CommandFailure(
                    description: "--log-key: '\(text.prefix(300))' is no key as /.well-known/rightful-log-key gives it")
            }
            return key
        }
        let configuration = try context.configuration(arguments)
        do {
            let summary = try await DatabaseSession.with(arguments, context) { session in
                if let since {
                    let ownID = try await LogTree(pool: session.pool).end().ownID
                    try since.check(givenKey ?? Self.logKey(configuration, ownID: ownID))
                }
                let report = ProgressReport(context)
                return try await Verifier(pool: session.pool, since: since?.checkpoint) { report.say($0) }.run()
            }
            if arguments.has("--json") {
                try print(VerificationDocument(summary.document, foldVersion: OriginalState.foldVersion), context)
            } else {
                try context.output.write(summary.line(since: since?.checkpoint) + "\n")
            }
        } catch let difference as VerificationDifference {
            if arguments.has("--json") {
                let found = VerificationDocument.Difference(
                    table: difference.table, key: difference.key, problem: difference.problem)
                try print(VerificationDocument(found, foldVersion: OriginalState.foldVersion), context)
            }
            throw CommandFailure(description: "the first difference: \(difference)")
        }
    }

    private func print(_ document: VerificationDocument, _ context: CommandContext) throws {
        try context.output.write(WireJSON.encode(document) + [UInt8(ascii: "\n")])
    }
}

/// A file with a signed checkpoint.
private struct CheckpointFile: Sendable {
    let checkpoint: Checkpoint
    private let note: SignedNote
    private let path: String

    init(_ path: String) throws {
        let text = String(decoding: try Files.read(path, for: "--since"), as: UTF8.self)
        guard let note = SignedNote(text), let checkpoint = Checkpoint(text: note.text) else {
            throw CommandFailure(description: "\(path): is no checkpoint of `rightful checkpoint`")
        }
        self.path = path
        self.note = note
        self.checkpoint = checkpoint
    }

    /// Whether a key of the log's signed it, under the log's name.
    func check(_ key: LogVerifier) throws {
        guard checkpoint.origin == key.name else {
            throw CommandFailure(
                description: "\(path): is a checkpoint of \(checkpoint.origin), and the key is that of \(key.name)")
        }
        guard note.isSigned(by: key) else {
            throw CommandFailure(
                description:
                    "\(path): was not signed by the log's key \(key.text); if that is a later one, give --log-key")
        }
    }
}

/// Says how far verification has come, about once a second.
private final class ProgressReport: Sendable {
    private let context: CommandContext
    private let nextAt = Mutex(ContinuousClock.now + .seconds(1))

    init(_ context: CommandContext) { self.context = context }

    func say(_ progress: VerificationProgress) {
        let isDue = nextAt.withLock { nextAt in
            guard ContinuousClock.now >= nextAt else { return false }
            nextAt = .now + .seconds(1)
            return true
        }
        guard isDue else { return }
        let whole = progress.total.map { " of \($0)" } ?? ""
        let what =
            switch progress.stage {
            case .headers: "certificate headers"
            case .log: "events"
            case .names: "names"
            case .views: "views"
            }
        context.progress("verifying: \(progress.done)\(whole) \(what)")
    }
}

extension VerificationSummary {
    fileprivate var document: VerificationDocument.Checked {
        VerificationDocument.Checked(
            position: position, hash: hash.hex, root: root.hex, evidence: evidence, evidenceErased: erasedEvidence,
            views: views,
            viewsOutdated: outdatedViews, viewsMissing: missingViews)
    }

    fileprivate func line(since: Checkpoint?) -> String {
        var parts = ["\(position) events", "\(evidence) pieces of evidence", "\(views) views"]
        if erasedEvidence > 0 { parts.append("\(erasedEvidence) pieces of evidence erased as the log says") }
        if outdatedViews > 0 { parts.append("\(outdatedViews) views of another fold version, which do not count") }
        if missingViews > 0 { parts.append("\(missingViews) views not made yet") }
        if let since { parts.append("the first \(since.size) events are those of the checkpoint") }
        return "verified: \(parts.joined(separator: ", ")); the log ends in \(hash.hex)"
    }
}
