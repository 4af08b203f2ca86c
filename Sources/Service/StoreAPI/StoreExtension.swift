import AppStoreServer
package import EntitlementCore
import Foundation
package import Ledger

/// Why no extension was sent, or what came of it that is no success.
package struct StoreExtensionRefusal: Error, Hashable, Sendable, CustomStringConvertible {
    package enum Kind: Hashable, Sendable {
        /// The ledger knows no such original transaction.
        case unknown
        /// It makes no sense as things stand.
        case unprocessable
        /// Somebody else came first.
        case overtaken
        /// The store took it and said no; nothing was changed.
        case refused
        /// Whether the store carried it out is not known.
        case unanswered
    }

    package let kind: Kind
    package let description: String

    init(_ kind: Kind, _ description: String) {
        self.kind = kind
        self.description = description
    }
}

/// The moving of one subscription's renewal date: what would be asked for, what is known against it, and the asking.
///
/// What was asked is an event before it is sent, and what the store answered is another. The request bears a name that stands
/// in the first of them, under which the store carries it out once, however often it is sent.
package struct StoreExtension: Sendable {
    /// The subscription that is to be extended, as the ledger knows it.
    package struct Subject: Sendable {
        package let original: String
        package let environment: StoreEnvironment
        package let app: String
        package let dialogue: StoreDialogue
        /// Whether somebody whose it is or was, or whom it names, was forgotten.
        package let isForgotten: Bool
        /// Up to where the log was known when this was read.
        package let position: Int64
        /// The end of the log then.
        let end: EventMark
        package let productID: String
        /// When it runs out by itself.
        package let expiry: Timestamp
        /// Whose it is; `nil` where it is nobody's.
        package let customerID: String?
        let key: OriginalKey
        private let period: Period

        /// - Parameter event: reads what was known before an event; without one, what is known now.
        /// - Throws: `StoreExtensionRefusal` where there is no renewal date to move.
        package init(
            _ original: String, _ environment: StoreEnvironment, _ reader: LedgerReader, only scope: AppScope? = nil,
            before event: Int64? = nil
        ) async throws {
            let (known, position) = try await reader.subscription(
                original, environment: environment, knownAt: event.map { .position($0 - 1) } ?? .head, app: scope)
            guard let known else {
                throw StoreExtensionRefusal(
                    .unknown, "the ledger knows no original transaction \(original) in \(environment.rawValue)")
            }
            guard known.state.web == nil else {
                throw StoreExtensionRefusal(
                    .unprocessable,
                    "the original transaction \(original) was bought on the web, and the App Store alone can be asked for days"
                )
            }
            guard let app = known.state.transactions.first?.fact.bundleID else {
                throw StoreExtensionRefusal(
                    .unprocessable,
                    "the ledger knows no transaction of \(original), and so not its app; have the store checked first")
            }
            (self.original, self.environment, self.app) = (original, environment, app)
            (self.position, end, key) = (position, known.end, known.key)
            isForgotten = try await reader.isForgotten(known)
            dialogue = try await reader.storeDialogue(about: key, before: event)
            // The one that began last: one that an upgrade or a new plan has superseded may have been paid for longer.
            let latest = known.state.chains(known.catalog).flatMap(\.periods).filter(\.isSubscription)
                .max { ($0.start, $0.expiry) < ($1.start, $1.expiry) }
            guard let latest else {
                throw StoreExtensionRefusal(
                    .unprocessable,
                    "the original transaction \(original) is no auto-renewable subscription: it has no renewal date to move"
                )
            }
            (period, productID, expiry) = (latest, latest.fact.productID, latest.expiry)
            customerID = known.ownership.currentOwner(of: latest.fact).flatMap { known.customerIDs[$0] }
        }

        /// The extension that the store made within the last 24 hours.
        fileprivate func extensionOfToday(
            now: Timestamp
        ) -> (position: Int64, recordedAt: Timestamp, wish: RenewalExtension)? {
            dialogue.lastExtension.flatMap {
                $0.recordedAt.adding(milliseconds: Timestamp.millisecondsPerDay) > now ? $0 : nil
            }
        }

        /// How often it was extended within the last year, as far as known.
        package func extensionsWithinYear(now: Timestamp) -> Int {
            dialogue.extensions(since: now.adding(milliseconds: -RenewalExtension.year))
        }

        /// Why it will be refused, as far as can be told.
        ///
        /// - Parameter again: whether it is wished for though it was extended within the last 24 hours.
        package func doubts(again: Bool, now: Timestamp) -> [String] {
            var doubts: [String] = []
            if !again, let last = extensionOfToday(now: now) {
                doubts.append("it was extended less than 24 hours ago (event \(last.position))")
            }
            if period.revokedAt != nil {
                doubts.append("it was refunded")
            } else if expiry <= now {
                doubts.append("it has expired")
            }
            if period.fact.ownership == .known(.familyShared) { doubts.append("it came through Family Sharing") }
            if period.fact.offer?.discount == "FREE_TRIAL" { doubts.append("it is free now") }
            if extensionsWithinYear(now: now) >= RenewalExtension.mostWithinYear {
                doubts.append("it was extended as often as it may be")
            }
            return doubts
        }
    }

    /// What the store has done.
    package struct Outcome: Sendable {
        /// The event that says what was asked, and its time.
        package let (position, askedAt): (Int64, Timestamp)
        /// The event that says what the store answered.
        package let settled: Int64
        /// The event that bears the command's key: of the two the second, where the first was another command's.
        package let keyed: Int64
        /// Until when it runs, as the store says.
        package let until: Timestamp?
        /// Whether it had been asked before under the same name.
        package let wasAsked: Bool
        /// Whether that was the same command, which was sent again.
        package let isRepetition: Bool
    }

    /// An extension that the log holds.
    private struct Begun {
        let position: Int64
        let recordedAt: Timestamp
        let wish: RenewalExtension
        var wasAsked = true
        var isRepetition = false
        /// Whether another command's event was taken up, so that the settlement is to bear this command's key.
        var isOfAnotherCommand = false
        var settlement: (position: Int64, fact: StoreRequestFact)?
    }

    private let check: StoreCheck
    private let writer: LedgerWriter
    private let reader: LedgerReader
    private let source: EventSource

    /// - Parameter source: who orders it.
    package init(check: StoreCheck, writer: LedgerWriter, reader: LedgerReader, source: EventSource) {
        self.check = check
        self.writer = writer
        self.reader = reader
        self.source = source
    }

    /// Asks the store, and records that and what came of it.
    ///
    /// A command that is sent again is answered what came of it, and asks the store for nothing more.
    ///
    /// - Parameters:
    ///   - again: also where the store extended it within the last 24 hours.
    ///   - command: what makes the command and its repetition one.
    ///   - first: the event that this command became when it was sent before; `nil` where it was not.
    ///   - patience: how long the store may take.
    /// - Throws: `StoreExtensionRefusal`, or what reading and appending throw.
    package func send(
        _ known: Subject, days: Int64, reason: ExtensionReason, order: StoreRequestOrder, again: Bool,
        command: Deduplication = .unique, first: Int64? = nil, within patience: Duration, now: Timestamp
    ) async throws -> Outcome {
        guard !known.isForgotten else {
            throw StoreExtensionRefusal(
                .unprocessable,
                "nothing was sent: somebody whose purchase \(known.original) is or was, or whom it names, was forgotten, and "
                    + "the store's answer would name them again")
        }
        let begun =
            if let first {
                try await takeUp(first, of: known)
            } else {
                try await begin(known, days: days, reason: reason, order, again: again, command, now: now)
            }
        let answer: StoreRequestFact
        let settled: Int64
        let refusal: String
        if let settlement = begun.settlement {
            (settled, answer) = settlement
            let code = if case .refused(let code) = answer.outcome { code } else { Int64?.none }
            refusal = Self.words(
                for: code,
                said:
                    "The store said no\(code.map { " (\($0))" } ?? "") when this request was sent first; under another "
                    + "Idempotency-Key it is asked again")
        } else {
            (answer, refusal) = try await ask(known, begun, order, within: patience)
            var draft = EventDraft(answer, in: known.environment, source: source)
            if begun.isOfAnotherCommand { draft.deduplication = command }
            do {
                settled = try await writer.append(draft).position
            } catch let error as LedgerError {
                // The store has answered all the same.
                throw error.inDoubt
            }
        }
        guard answer.outcome == .accepted, case .renewalExtension(let answered) = answer.content else {
            throw StoreExtensionRefusal(.refused, "\(refusal) (events \(begun.position) and \(settled))")
        }
        return Outcome(
            position: begun.position, askedAt: begun.recordedAt, settled: settled,
            keyed: begun.isOfAnotherCommand ? settled : begun.position, until: answered.until,
            wasAsked: begun.wasAsked, isRepetition: begun.isRepetition)
    }

    /// Asks the store; returns what is to be recorded of its answer, and in words why it said no, if it did.
    private func ask(
        _ known: Subject, _ begun: Begun, _ order: StoreRequestOrder, within patience: Duration
    ) async throws -> (StoreRequestFact, refusal: String) {
        var answered = begun.wish
        let outcome: StoreRequestFact.Outcome
        var refusal = "the store says that it did not succeed, and gives no reason"
        do {
            let answer = try await check.client.send(
                try .extend(known.original, by: begun.wish), in: known.environment, within: patience)
            answered.until = answer.effectiveDate.flatMap { Timestamp(storeMilliseconds: $0) }
            outcome = answer.success ? .accepted : .refused(code: nil)
        } catch let error as StoreAPIError {
            guard error.isFinal else {
                throw StoreExtensionRefusal(
                    .unanswered,
                    "\(error). Whether the store carried it out is not known. \(repetition): it is sent under the same name, "
                        + "which the store carries out once (event \(begun.position))")
            }
            refusal = Self.words(for: error.code, said: "\(error)")
            outcome = .refused(code: error.code)
        }
        let fact = StoreRequestFact(
            bundleID: known.app, originalTransactionID: known.original, content: .renewalExtension(answered),
            outcome: outcome, settles: begun.position, order: order)
        return (fact, refusal)
    }

    /// Has the store say how the subscription stands now, so that the new expiry is in the ledger.
    ///
    /// - Returns: when it runs out, as the ledger has it then.
    /// - Throws: `StoreAPIError`; the ledger hears of it with the store's notification in any case.
    package func confirm(_ known: Subject, within patience: Duration) async throws -> Timestamp {
        _ = try await check.run(known.original, in: known.environment, within: patience)
        return try await Subject(known.original, known.environment, reader).expiry
    }

    /// Whether somebody asks for it by the command line.
    private var isCommand: Bool { source == .operatorCommand }

    /// How somebody sends it once more.
    private var repetition: String { isCommand ? "Run the same command again" : "Send the same request again" }

    /// Says in the log what is about to be asked, or finds that it was said before and nobody knows what came of it.
    private func begin(
        _ known: Subject, days: Int64, reason: ExtensionReason, _ order: StoreRequestOrder, again: Bool,
        _ command: Deduplication, now: Timestamp
    ) async throws -> Begun {
        if let (position, recordedAt, wish) = known.dialogue.openExtension {
            guard wish.days == days, wish.reason == reason else {
                throw StoreExtensionRefusal(
                    .overtaken,
                    "event \(position) was about to ask for \(wish.days) days (\(wish.reason.rawValue)), and nobody knows "
                        + "whether the store was asked. Ask for that again first: it is carried out once")
            }
            return Begun(position: position, recordedAt: recordedAt, wish: wish, isOfAnotherCommand: true)
        }
        if !again { try checkPause(known, now: now) }
        let wish = RenewalExtension(days: days, reason: reason, requestIdentifier: UUID().uuidString.lowercased())
        var draft = EventDraft(
            StoreRequestFact(
                bundleID: known.app, originalTransactionID: known.original, content: .renewalExtension(wish),
                outcome: .pending, order: order), in: known.environment, source: source)
        // Of several people at once one begins; each of the others would be a request of its own to the store.
        draft.unchangedSince = UnchangedSince(known.end, originals: [known.key])
        draft.deduplication = command
        do {
            let appended = try await writer.append(draft)
            // The same command, sent twice at once, was begun by the other.
            if appended.isDuplicate { return try await takeUp(appended.position, of: known) }
            return Begun(position: appended.position, recordedAt: now, wish: wish, wasAsked: false)
        } catch AppendRefusal.conflict {
            let open = try await reader.storeDialogue(about: known.key).openExtension
            let other = open.map { " by event \($0.position) (\($0.wish.days) days, \($0.wish.reason.rawValue))" } ?? ""
            throw StoreExtensionRefusal(
                .overtaken,
                "nothing was sent: meanwhile somebody else asked for an extension\(other), or changed whose it is. Look "
                    + "at it again first")
        }
    }

    /// What a command that is sent again has begun before, and what came of it.
    private func takeUp(_ position: Int64, of known: Subject) async throws -> Begun {
        let requests = try await reader.storeDialogue(about: known.key).requests
        let begun = requests.first { $0.position == position }?.fact.settles ?? position
        guard let request = requests.first(where: { $0.position == begun }),
            case .renewalExtension(let wish) = request.fact.content
        else {
            throw StoreExtensionRefusal(
                .overtaken,
                "nothing was sent: what was sent under this Idempotency-Key before took up what somebody else had begun. Look at "
                    + "the subscription; another Idempotency-Key extends it once more")
        }
        let settlement = requests.first { $0.fact.settles == begun }
        return Begun(
            position: begun, recordedAt: request.recordedAt, wish: wish, isRepetition: true,
            isOfAnotherCommand: begun != position, settlement: settlement.map { ($0.position, $0.fact) })
    }

    /// Keeps two people who answer the same complaint from giving twice.
    private func checkPause(_ known: Subject, now: Timestamp) throws(StoreExtensionRefusal) {
        guard let last = known.extensionOfToday(now: now) else { return }
        throw StoreExtensionRefusal(
            .overtaken,
            "nothing was sent: the store extended it by \(last.wish.days) days at \(last.recordedAt) (event "
                + "\(last.position)), less than 24 hours ago; \(isCommand ? "--again" : "again: true") extends it once more"
        )
    }

    /// The store's refusals in plain words, beside its number.
    ///
    /// - Parameter said: what else is known of it.
    private static func words(for code: Int64?, said: String) -> String {
        let reason: String? =
            switch code {
            case 4_030_004:
                "the store does not extend it as it stands: it is free, in billing retry, past its expiry, or was extended "
                    + "twice within 365 days"
            case 4_030_005: "the store extended it as often as it does, twice within 365 days"
            case 4_030_007: "it came through Family Sharing: extend the purchaser's subscription, and theirs is too"
            case 4_040_005, 4_000_008, 4_000_187: "the store knows no subscription by this original transaction"
            default: nil
            }
        return reason.map { "\($0); nothing was changed. \(said)" } ?? "\(said); nothing was changed"
    }
}

extension Timestamp {
    /// An instant as the store's JSON has it; `nil` where it is none.
    fileprivate init?(storeMilliseconds value: Double) {
        guard value.isFinite, abs(value) < 1e15 else { return nil }
        self.init(milliseconds: Int64(value.rounded(.down)))
    }
}
