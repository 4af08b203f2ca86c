import AppStoreServer
import EntitlementCore
import Ledger
import Service

/// `rightful extend ORIGINAL`.
struct ExtendCommand: Command {
    static let usage = CommandUsage(
        "extend", "Give a subscriber some days: move the renewal date. Shows what it would do, unless told to send.",
        operands: ["ORIGINAL"],
        options: [
            CommandUsage.Option("--days", "N", "how many days, 1 to 90"),
            CommandUsage.Option(
                "--reason-code", "WORD",
                "the reason as the store has it: one of \(ExtensionReason.allCases.map(\.rawValue).joined(separator: ", "))"
            ),
            CommandUsage.environment,
            CommandUsage.Option("--send", nil, "ask the store for it; without this nothing is sent"),
            CommandUsage.reason, CommandUsage.actor,
            CommandUsage.Option("--again", nil, "also where the store extended it within the last 24 hours"),
        ],
        details: """
            ORIGINAL is the original transaction of a subscription that is paid and running. What was asked is an event before
            it is sent, and what the store answered is another. Where the answer never came, run the same command again: the
            request bears the same name, and the store carries it out once. Then the store is asked how the subscription
            stands, so that the new expiry is in the ledger. The events say who ordered it, and why; neither is told to the store.
            """)

    /// How long the store may take.
    private static let patience = Duration.seconds(60)

    private let arguments: ParsedArguments
    private let original: String
    private let days: Int64
    private let reason: ExtensionReason
    private let environment: StoreEnvironment
    private let why: String?

    init(_ arguments: ParsedArguments) throws(UsageError) {
        self.arguments = arguments
        original = arguments.operands[0]
        guard let days = Int64(try arguments.required("--days")), RenewalExtension.dayRange.contains(days) else {
            throw arguments.error("--days must be a whole number from 1 to 90, as the store has it")
        }
        let word = try arguments.required("--reason-code")
        guard let reason = ExtensionReason(rawValue: word) else {
            let words = ExtensionReason.allCases.map(\.rawValue).joined(separator: ", ")
            throw arguments.error("--reason-code '\(word)' is none of \(words)")
        }
        (self.days, self.reason) = (days, reason)
        environment = try arguments.environment() ?? .production
        why = try arguments.reasonToSend()
    }

    func run(_ context: CommandContext) async throws {
        let configuration = try context.configuration(arguments)
        let anchors = try TrustedMaterial.anchors(configuration)
        let lines = try await DatabaseSession.with(arguments, context) { session in
            let reader = LedgerReader(pool: session.pool, clock: session.clock)
            do {
                let known = try await StoreExtension.Subject(original, environment, reader)
                let plan = plan(of: known, now: session.clock.now())
                guard arguments.has("--send") else {
                    return plan + ["nothing was sent; --send asks the store for it"]
                }
                let access = try StoreAccess.of(known.app, environment, configuration)
                let writer = LedgerWriter(pool: session.pool, clock: session.clock)
                let verifier = StoreAccess.statementVerifier(try JWSVerifier(trusting: anchors), configuration)
                let check = access.check(
                    session, writer: writer, reader: reader, verifier: verifier, now: session.clock.now)
                let order = try context.order(arguments, reason: why)
                let asking = StoreExtension(
                    check: check, writer: writer, reader: reader, source: .operatorCommand)
                return try await plan + send(known, order, asking, now: session.clock.now())
            } catch let refusal as StoreExtensionRefusal {
                let hint = refusal.kind == .unknown ? "; `rightful check` asks the store about it" : ""
                throw CommandFailure(description: refusal.description + hint)
            } catch let error as LedgerError {
                throw CommandFailure(description: "nothing was sent: \(error)")
            }
        }
        try context.output.write(lines.map { $0 + "\n" }.joined())
    }

    private func send(
        _ known: StoreExtension.Subject, _ order: StoreRequestOrder, _ asking: StoreExtension, now: Timestamp
    ) async throws -> [String] {
        let outcome = try await asking.send(
            known, days: days, reason: reason, order: order, again: arguments.has("--again"), within: Self.patience,
            now: now)
        let again = outcome.wasAsked ? ", asked for before under the same name" : ""
        let until = outcome.until.map { " until \($0)" } ?? ""
        let line = "the store extended it\(until)\(again) (events \(outcome.position) and \(outcome.settled))"
        do {
            return [line, "the ledger has it until \(try await asking.confirm(known, within: Self.patience))"]
        } catch let error as StoreAPIError {
            return [
                line,
                "the ledger hears of it with the store's notification: the store could not be asked now (\(error))",
            ]
        }
    }

    /// What would be asked for, and what is known against it.
    private func plan(of known: StoreExtension.Subject, now: Timestamp) -> [String] {
        let after = known.expiry.adding(milliseconds: days * Timestamp.millisecondsPerDay)
        var lines = [
            "\(original) (\(known.app), \(environment.rawValue))", "  product       \(known.productID)",
            "  customer      \(known.customerID ?? "nobody")",
            "  expires       \(known.expiry)", "  would expire  \(after), \(days) days later (\(reason.rawValue))",
            "  extended      \(known.extensionsWithinYear(now: now)) times within 365 days, as far as known; the store does "
                + "it \(RenewalExtension.mostWithinYear) times",
        ]
        let doubts = known.doubts(again: arguments.has("--again"), now: now)
        lines += doubts.map { "  doubtful      it will be refused: \($0)" }
        if known.isForgotten { lines.append("  forgotten     somebody whose it is or was: nothing will be sent") }
        if let open = known.dialogue.openExtension {
            lines.append("  unsettled     event \(open.position): nobody knows whether the store was asked")
        }
        return lines
    }
}
