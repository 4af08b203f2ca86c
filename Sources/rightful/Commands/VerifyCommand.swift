import AppStoreServer
import EntitlementAPI
import EntitlementCore
import Ledger
import Service
import Synchronization

/// `rightful verify`.
struct VerifyCommand: Command {
    static let usage = CommandUsage(
        "verify", "Fold the whole log again and compare it with everything stored.",
        options: [
            CommandUsage.Option("--json", nil, "print the result as JSON"),
            CommandUsage.Option("--quick", nil, "check no signatures and derive no facts from evidence again"),
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
            that every webhook of Stripe's was signed with a secret that is configured, as far as it still is, that
            every signature leads to a root that is configured, or that `serve` trusted before (it keeps them in the
            data directory), that every fact and every person it names is what the evidence says, that every identity is
            the one its number was given to, that every statement is known by its key, that every view row is the
            fold of its events, and that what is counted for the charts is what the events give. At the first difference it says where, and exits 1.

            All this shows that the store signed what the log says, and that the database agrees with itself. With a
            checkpoint that was kept elsewhere it shows too that nothing was rewritten or cut off since, and that no
            older backup was restored.

            It reads in short transactions, locks nothing and writes nothing: it may run, and be stopped, at any time.
            """)

    private let arguments: ParsedArguments

    init(_ arguments: ParsedArguments) { self.arguments = arguments }

    /// Reads evidence again, by the roots that are configured now or that a service trusted before.
    private static func derivation(_ configuration: Configuration) throws -> EvidenceDerivation {
        let reading = EvidenceReading(
            jws: try JWSVerifier(trusting: try TrustedMaterial.anchorsOfEvidence(configuration)),
            bundleIDs: Set(configuration.apps.map(\.binding.bundleID)),
            stripe: try StripeFiles(configuration).webhooks)
        return { evidence, event, fact in try reading.derive(evidence, of: event, fact: fact) }
    }

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
        let givenKey = try arguments.logKey()
        let configuration = try context.configuration(arguments)
        let derive = arguments.has("--quick") ? nil : try Self.derivation(configuration)
        do {
            let (summary, guardsOff) = try await DatabaseSession.with(arguments, context) {
                session in
                if let since {
                    let ownID = try await LogTree(pool: session.pool).end().ownID
                    try since.check(givenKey ?? Self.logKey(configuration, ownID: ownID))
                }
                let report = ProgressReport(context)
                let summary = try await Verifier(pool: session.pool, since: since?.checkpoint, derive: derive) {
                    report.say($0)
                }.run()
                return (summary, try await LedgerGuards.off(session.pool))
            }
            if arguments.has("--json") {
                try print(
                    VerificationDocument(
                        summary.document(guardsOff: guardsOff), foldVersion: OriginalState.foldVersion), context)
            } else {
                try context.output.write(summary.line(since: since?.checkpoint) + "\n")
                for guardOff in guardsOff {
                    context.complain("a guard of the log needs a look: \(guardOff)")
                }
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
        try context.output.report(WireJSON.encode(document) + [UInt8(ascii: "\n")])
    }
}

extension ParsedArguments {
    /// The value of `--log-key`: a log's key as it was published.
    func logKey() throws -> LogVerifier? {
        try value("--log-key").map { text in
            guard let key = LogVerifier(text) else {
                throw error("--log-key: '\(text.prefix(300))' is no key as /.well-known/rightful-log-key gives it")
            }
            return key
        }
    }
}

/// A file with a signed checkpoint.
private struct CheckpointFile: Sendable {
    let checkpoint: Checkpoint
    private let note: SignedNote
    private let path: String

    init(_ path: String) throws {
        let text = String(decoding: try Files.read(path, as: "the checkpoint"), as: UTF8.self)
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
    private struct State {
        var nextAt = ContinuousClock.now + .seconds(1)
        var stage: VerificationProgress.Stage?
        var stageBegan = ContinuousClock.now
    }

    private let context: CommandContext
    private let state = Mutex(State())

    init(_ context: CommandContext) { self.context = context }

    func say(_ progress: VerificationProgress) {
        let now = ContinuousClock.now
        let began = state.withLock { state -> ContinuousClock.Instant? in
            if state.stage != progress.stage { (state.stage, state.stageBegan) = (progress.stage, now) }
            guard now >= state.nextAt else { return nil }
            state.nextAt = now + .seconds(1)
            return state.stageBegan
        }
        guard let began else { return }
        let seconds = began.duration(to: now) / .seconds(1)
        let rate = seconds >= 1 ? ", \(Int(Double(progress.done) / seconds)) a second" : ""
        let whole = progress.total.map { " of \($0)" } ?? ""
        let what =
            switch progress.stage {
            case .headers: "certificate headers"
            case .log: "events"
            case .names: "names"
            case .views: "views"
            case .seen: "events for what they speak of"
            case .watch: "original transactions for what the store has to say next"
            case .drift: "events for differences"
            case .charts: "events for the charts"
            }
        context.progress("verifying: \(progress.done)\(whole) \(what)\(rate)")
    }
}

extension VerificationSummary {
    fileprivate func document(guardsOff: [String]) -> VerificationDocument.Checked {
        VerificationDocument.Checked(
            position: position, hash: hash.hex, root: root.hex, evidence: evidence, signatures: isProven,
            signaturesUnchecked: uncheckedSignatures, evidenceUnsigned: unsignedEvidence,
            evidenceErased: erasedEvidence, views: views,
            viewsOutdated: outdatedViews, viewsMissing: missingViews,
            chartParts: chartParts, guardsOff: guardsOff)
    }

    fileprivate func line(since: Checkpoint?) -> String {
        var parts = ["\(position) events", "\(evidence) pieces of evidence", "\(views) views"]
        if !isProven {
            parts.append("signatures were not checked (--quick)")
        } else if uncheckedSignatures > 0 {
            parts.append(
                "every signature checked but \(uncheckedSignatures) of webhooks whose secrets are not in this configuration"
            )
        } else {
            parts.append("every signature checked")
        }
        if unsignedEvidence > 0 {
            parts.append("\(unsignedEvidence) pieces of evidence are what Stripe's API answered, which nobody signs")
        }
        if erasedEvidence > 0 { parts.append("\(erasedEvidence) pieces of evidence erased as the log says") }
        if outdatedViews > 0 { parts.append("\(outdatedViews) views of another fold version, which do not count") }
        if missingViews > 0 { parts.append("\(missingViews) views not made yet") }
        if chartParts > 0 { parts.append("\(chartParts) stretches counted for the charts") }
        if let since { parts.append("the first \(since.size) events are those of the checkpoint") }
        return "verified: \(parts.joined(separator: ", ")); the log ends in \(hash.hex)"
    }
}
