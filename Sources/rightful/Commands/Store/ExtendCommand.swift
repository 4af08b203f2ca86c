import AppStoreServer
import EntitlementCore
import Foundation
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
                "the reason as the store has it: one of \(RenewalExtension.Reason.allCases.map(\.word).joined(separator: ", "))"
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
    private let reason: RenewalExtension.Reason
    private let environment: StoreEnvironment
    private let why: String?

    init(_ arguments: ParsedArguments) throws(UsageError) {
        self.arguments = arguments
        original = arguments.operands[0]
        guard let days = Int64(try arguments.required("--days")), RenewalExtension.dayRange.contains(days) else {
            throw arguments.error("--days must be a whole number from 1 to 90, as the store has it")
        }
        let word = try arguments.required("--reason-code")
        guard let reason = RenewalExtension.Reason.allCases.first(where: { $0.word == word }) else {
            let words = RenewalExtension.Reason.allCases.map(\.word).joined(separator: ", ")
            throw arguments.error("--reason-code '\(word)' is none of \(words)")
        }
        (self.days, self.reason) = (days, reason)
        environment = try arguments.environment() ?? .production
        why = try arguments.reasonToSend()
    }

    func run(_ context: CommandContext) async throws {
        let configuration = try context.configuration(arguments)
        let anchors = try TrustedMaterial.anchors(configuration)
        let lines = try await DatabaseSession.with(arguments, context, needsLedger: true) { session in
            let reader = LedgerReader(pool: session.pool, now: session.clock.now)
            let known = try await Subject(original, environment, reader)
            let plan = known.plan(days: days, reason: reason, now: session.clock.now())
            guard arguments.has("--send") else {
                return plan + ["nothing was sent; --send asks the store for it"]
            }
            guard !known.isForgotten else {
                throw CommandFailure(
                    description:
                        "nothing was sent: somebody whose purchase \(original) is or was, or whom it names, was forgotten, and "
                        + "the store's answer would name them again")
            }
            let access = try StoreAccess.of(known.app, environment, configuration)
            let writer = LedgerWriter(pool: session.pool, clock: session.clock)
            let verifier = StoreAccess.statementVerifier(try JWSVerifier(trusting: anchors), configuration)
            let check = access.check(
                session, writer: writer, reader: reader, verifier: verifier, now: session.clock.now)
            let order = try context.order(arguments, reason: why)
            return try await plan + send(known, order, check, writer, reader, now: session.clock.now())
        }
        try context.output.write(lines.map { $0 + "\n" }.joined())
    }

    /// Asks the store, and records that and what came of it.
    private func send(
        _ known: Subject, _ order: StoreRequestOrder, _ check: StoreCheck, _ writer: LedgerWriter,
        _ reader: LedgerReader, now: Timestamp
    ) async throws -> [String] {
        let (position, wish, wasAsked) = try await begin(known, order, writer, reader, now: now)
        var answered = wish
        let outcome: StoreRequestFact.Outcome
        var refusal = "the store says that it did not succeed, and gives no reason"
        do {
            let answer = try await check.client.send(
                try .extend(original, by: wish), in: environment, within: Self.patience)
            answered.until = answer.effectiveDate.flatMap { Timestamp(storeMilliseconds: $0) }
            outcome = answer.success ? .accepted : .refused(code: nil)
        } catch let error as StoreAPIError {
            guard error.isFinal else {
                throw CommandFailure(
                    description:
                        "\(error). Whether the store carried it out is not known. Run the same command again: it is sent "
                        + "under the same name, which the store carries out once (event \(position))")
            }
            refusal = Self.words(for: error)
            outcome = .refused(code: error.code)
        }
        let settled = try await writer.append(
            EventDraft(
                StoreRequestFact(
                    bundleID: known.app, originalTransactionID: original, content: .renewalExtension(answered),
                    outcome: outcome, settles: position, order: order), in: environment, source: .operatorCommand))
        guard outcome == .accepted else {
            throw CommandFailure(description: "\(refusal) (events \(position) and \(settled.position))")
        }
        let again = wasAsked ? ", asked for before under the same name" : ""
        let until = answered.until.map { " until \($0)" } ?? ""
        return ["the store extended it\(until)\(again) (events \(position) and \(settled.position))"]
            + [try await confirm(check, reader)]
    }

    /// Says in the log what is about to be asked, or finds that it was said before and nobody knows what came of it.
    private func begin(
        _ known: Subject, _ order: StoreRequestOrder, _ writer: LedgerWriter, _ reader: LedgerReader, now: Timestamp
    ) async throws -> (position: Int64, wish: RenewalExtension, wasAsked: Bool) {
        if let (position, wish) = known.dialogue.openExtension {
            guard wish.days == days, wish.reason == reason else {
                throw CommandFailure(
                    description:
                        "event \(position) was about to ask for \(wish.days) days (\(wish.reason.word)), and nobody knows "
                        + "whether the store was asked. Run that command again first: it is carried out once")
            }
            return (position, wish, true)
        }
        try checkPause(known, now: now)
        let wish = RenewalExtension(days: days, reason: reason, requestIdentifier: UUID().uuidString.lowercased())
        var draft = EventDraft(
            StoreRequestFact(
                bundleID: known.app, originalTransactionID: original, content: .renewalExtension(wish),
                outcome: .pending, order: order), in: environment, source: .operatorCommand)
        // Of several people at once one begins; each of the others would be a request of its own to the store.
        draft.unchangedSince = UnchangedSince(known.position, originals: [known.key])
        do {
            return (try await writer.append(draft).position, wish, false)
        } catch AppendRefusal.conflict {
            let open = try await reader.storeDialogue(about: known.key).openExtension
            let other = open.map { " by event \($0.position) (\($0.wish.days) days, \($0.wish.reason.word))" } ?? ""
            throw CommandFailure(
                description:
                    "nothing was sent: meanwhile somebody else asked for an extension\(other), or changed whose it is. Look "
                    + "at it again without --send")
        } catch let error as LedgerError {
            throw CommandFailure(description: "nothing was sent: \(error)")
        }
    }

    /// Keeps two people who answer the same complaint from giving twice.
    private func checkPause(_ known: Subject, now: Timestamp) throws {
        guard !arguments.has("--again"), let last = known.dialogue.lastExtension,
            last.recordedAt.adding(milliseconds: Timestamp.millisecondsPerDay) > now
        else { return }
        throw CommandFailure(
            description:
                "nothing was sent: the store extended it by \(last.wish.days) days at \(last.recordedAt) (event "
                + "\(last.position)), less than 24 hours ago; --again extends it once more")
    }

    /// Has the store say how the subscription stands now.
    private func confirm(_ check: StoreCheck, _ reader: LedgerReader) async throws -> String {
        do {
            _ = try await check.run(original, in: environment, within: Self.patience)
            let now = try await Subject(original, environment, reader)
            return "the ledger has it until \(now.expiry?.description ?? "an instant that it does not know")"
        } catch let error as StoreAPIError {
            return "the ledger hears of it with the store's notification: the store could not be asked now (\(error))"
        }
    }

    /// The store's refusals in plain words, beside its number.
    private static func words(for error: StoreAPIError) -> String {
        let reason: String? =
            switch error.code {
            case 4_030_004:
                "the store does not extend it as it stands: it is free, in billing retry, past its expiry, or was extended "
                    + "twice within 365 days"
            case 4_030_005: "the store extended it as often as it does, twice within 365 days"
            case 4_030_007: "it came through Family Sharing: extend the purchaser's subscription, and theirs is too"
            case 4_040_005, 4_000_008, 4_000_187: "the store knows no subscription by this original transaction"
            default: nil
            }
        return reason.map { "\($0); nothing was changed. \(error)" } ?? "\(error); nothing was changed"
    }
}

/// The subscription that is to be extended, as the ledger knows it.
private struct Subject: Sendable {
    let original: String
    let environment: StoreEnvironment
    let app: String
    let key: OriginalKey
    let dialogue: StoreDialogue
    /// Whether somebody whose it is or was, or whom it names, was forgotten.
    let isForgotten: Bool
    /// Up to where the log was known when this was read.
    let position: Int64
    private let state: OriginalState
    private let period: Period?

    init(_ original: String, _ environment: StoreEnvironment, _ reader: LedgerReader) async throws {
        let (known, position) = try await reader.subscription(original, environment: environment)
        guard let known, let app = known.state.transactions.first?.fact.bundleID else {
            throw CommandFailure(
                description:
                    "the ledger knows no original transaction \(original) in \(environment.rawValue); `rightful check` asks "
                    + "the store about it")
        }
        (self.original, self.environment, self.app, state) = (original, environment, app, known.state)
        (self.position, key) = (position, known.key)
        isForgotten = try await reader.isForgotten(known)
        dialogue = try await reader.storeDialogue(about: key)
        // The one that began last: one that an upgrade or a new plan has superseded may have been paid for longer.
        period = known.state.chains(known.catalog).flatMap(\.periods).filter(\.isSubscription)
            .max { ($0.start, $0.expiry) < ($1.start, $1.expiry) }
        guard period != nil else {
            throw CommandFailure(
                description: "\(original) is no auto-renewable subscription: it has no renewal date to move")
        }
    }

    /// When it runs out by itself.
    var expiry: Timestamp? { period?.expiry }

    /// What would be asked for, and what is known against it.
    func plan(days: Int64, reason: RenewalExtension.Reason, now: Timestamp) -> [String] {
        guard let period else { return [] }
        let before = period.expiry
        let after = before.adding(milliseconds: days * Timestamp.millisecondsPerDay)
        let given = dialogue.extensions(since: now.adding(milliseconds: -RenewalExtension.year))
        var lines = [
            "\(original) (\(app), \(environment.rawValue))", "  product       \(period.fact.productID)",
            "  expires       \(before)", "  would expire  \(after), \(days) days later (\(reason.word))",
            "  extended      \(given) times within 365 days, as far as known; the store does it "
                + "\(RenewalExtension.mostWithinYear) times",
        ]
        func doubt(_ text: String) { lines.append("  doubtful      the store will refuse: \(text)") }
        if period.revokedAt != nil { doubt("it was refunded") } else if before <= now { doubt("it has expired") }
        if period.fact.ownership == .known(.familyShared) { doubt("it came through Family Sharing") }
        if period.fact.offer?.discount == "FREE_TRIAL" { doubt("it is free now") }
        if given >= RenewalExtension.mostWithinYear { doubt("it was extended as often as it may be") }
        if isForgotten { lines.append("  forgotten     somebody whose it is or was: nothing will be sent") }
        if let (position, _) = dialogue.openExtension {
            lines.append("  unsettled     event \(position): nobody knows whether the store was asked")
        }
        return lines
    }
}

extension Timestamp {
    /// An instant as the store's JSON has it; `nil` where it is none.
    fileprivate init?(storeMilliseconds value: Double) {
        guard value.isFinite, abs(value) < 1e15 else { return nil }
        self.init(milliseconds: Int64(value.rounded(.down)))
    }
}
