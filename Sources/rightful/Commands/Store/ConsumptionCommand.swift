import AppStoreServer
import EntitlementCore
import Foundation
import Ledger
import Service

/// `rightful consumption TRANSACTION`.
struct ConsumptionCommand: Command {
    static let usage = CommandUsage(
        "consumption", "Tell the store how much of a purchase was used. Shows what it would tell, unless told to send.",
        operands: ["TRANSACTION"],
        options: [
            CommandUsage.environment,
            CommandUsage.Option("--original", "ID", "its original transaction, where the ledger does not find it"),
            CommandUsage.Option(
                "--delivery", "WORD",
                "whether it was delivered, in place of what the ledger knows: "
                    + ConsumptionInformation.DeliveryStatus.allCases.map(\.rawValue).joined(separator: ", ")),
            CommandUsage.Option(
                "--consumed", "PERCENT", "how much of it was used, 0 to 100, in place of what the ledger knows"),
            CommandUsage.Option(
                "--preference", "WORD",
                "what you would like: "
                    + ConsumptionInformation.RefundPreference.allCases.map(\.rawValue).joined(separator: ", ")),
            CommandUsage.Option("--sample-content", nil, "the customer could try it before the purchase"),
            CommandUsage.Option(
                "--consented", nil, "this customer consented that it is told, where the configuration does not say so"),
            CommandUsage.Option("--send", nil, "tell the store; without this nothing is sent"),
            CommandUsage.reason, CommandUsage.actor,
            CommandUsage.Option("--anyway", nil, "also where no question of the store's is open, or its time is over"),
        ],
        details: """
            The store asks when somebody wants their money back, and takes the answer for 12 hours. Nothing is sent unless the
            customer consented: by consumption_information in the configuration, or by --consented. The order is an event
            before it is sent, with who gave it and why, of which the store is told nothing; so is what the store answered. A
            service whose configuration has consumption_information answers by itself.
            """)

    /// How long the store may take.
    private static let patience = Duration.seconds(60)

    /// How long another order may still be under way, in milliseconds: longer than the store and the log may take together.
    private static let settlingTime = 2 * patience.components.seconds * 1000

    private let arguments: ParsedArguments
    private let transaction: String
    private let environment: StoreEnvironment
    private let delivery: ConsumptionInformation.DeliveryStatus?
    private let preference: ConsumptionInformation.RefundPreference?
    private let consumed: Int64?
    private let why: String?

    init(_ arguments: ParsedArguments) throws(UsageError) {
        self.arguments = arguments
        transaction = arguments.operands[0]
        environment = try arguments.environment() ?? .production
        delivery = try arguments.word("--delivery")
        preference = try arguments.word("--preference")
        consumed = try arguments.value("--consumed").map { text throws(UsageError) in
            guard let percent = Double(text), (0...100).contains(percent) else {
                throw arguments.error("--consumed must be a number from 0 to 100")
            }
            return Int64((percent * 1000).rounded())
        }
        why = try arguments.reasonToSend()
    }

    func run(_ context: CommandContext) async throws {
        let configuration = try context.configuration(arguments)
        let lines = try await DatabaseSession.with(arguments, context) { session in
            let reader = LedgerReader(pool: session.pool, clock: session.clock)
            let subject = try await subject(reader, configuration, now: session.clock.now())
            var lines = subject.lines(now: session.clock.now())
            let information = try told(subject)
            lines += Self.lines(information)
            let isConsented = subject.isConsented || arguments.has("--consented")
            guard arguments.has("--send") else {
                let consent = isConsented ? "" : ", with --consented, of a customer who consented to it"
                return lines + ["nothing was sent; --send tells the store\(consent)"]
            }
            guard isConsented else {
                throw CommandFailure(
                    description:
                        "nothing was sent: \(subject.app) has no consumption_information in the configuration, and without "
                        + "--consented nobody says that the customer consented to it")
            }
            if let reason = subject.unasked(now: session.clock.now()), !arguments.has("--anyway") {
                throw CommandFailure(description: "nothing was sent: \(reason); --anyway tells the store all the same")
            }
            if let other = subject.unsettled, other.information != information,
                session.clock.now() < other.recordedAt.adding(milliseconds: Self.settlingTime)
            {
                throw CommandFailure(
                    description:
                        "nothing was sent: event \(other.position) was about to tell the store something else a moment ago"
                        + "\(other.order.map { ", by order of \($0.actor)" } ?? ""). Look again in two minutes")
            }
            let access = try StoreAccess.of(subject.app, environment, configuration)
            let writer = LedgerWriter(pool: session.pool, clock: session.clock)
            let client = access.client(session, now: session.clock.now)
            let order = try context.order(arguments, reason: why)
            return try await lines + [send(information, subject, order, client, writer)]
        }
        try context.output.write(lines.map { $0 + "\n" }.joined())
    }

    // MARK: - What is known

    /// The purchase as the ledger knows it, and what it would tell of it.
    private struct Subject: Sendable {
        let transaction: String
        let original: String
        let app: String
        let key: OriginalKey
        /// The end of the log when this was read.
        let end: EventMark
        let fact: TransactionFact
        let question: ConsumptionRequest?
        /// An order to tell the store, of which nobody knows whether it was carried out.
        let unsettled: StoreDialogue.ConsumptionOrder?
        let isConsented: Bool
        let decision: ConsumptionDecision
        let policy: ConsumptionPolicy

        /// Why the store waits for no answer; `nil` where it does.
        func unasked(now: Timestamp) -> String? {
            guard let question else { return "no question of the store's about \(transaction) is open" }
            guard question.deadline <= now else { return nil }
            return "the store took answers about \(transaction) until \(question.deadline)"
        }

        func lines(now: Timestamp) -> [String] {
            var lines = [
                "\(transaction) (\(app), \(fact.productID), \(fact.kind?.raw ?? "of no kind that is known"))",
                "  bought        \(fact.purchaseDate)\(fact.expiresDate.map { ", until \($0)" } ?? "")",
            ]
            if let question {
                let isOver = question.deadline <= now
                lines.append(
                    "  asked about   \(question.askedAt) (event \(question.position)); the store "
                        + (isOver ? "took answers until" : "takes an answer until") + " \(question.deadline)")
            } else {
                lines.append("  asked about   no question of the store's is open")
            }
            if let unsettled {
                let actor = unsettled.order.map { ", ordered by \($0.actor)" } ?? ""
                lines.append(
                    "  unsettled     event \(unsettled.position)\(actor): nobody knows whether the store was told; it keeps what "
                        + "it is told last")
            }
            return lines
        }
    }

    private func subject(
        _ reader: LedgerReader, _ configuration: Configuration, now: Timestamp
    ) async throws -> Subject {
        let found = try await reader.original(of: transaction, in: environment)
        guard let original = arguments.value("--original") ?? found,
            let known = try await reader.subscription(original, environment: environment).subscription,
            let fact = known.state.winningStatements().first(where: { $0.transactionIDs.contains(transaction) })?.fact
        else {
            throw CommandFailure(
                description:
                    "the ledger knows no transaction \(transaction) in \(environment.rawValue); `rightful check` asks the "
                    + "store about it, and --original names the original transaction that it belongs to")
        }
        let configured = configuration.apps.first {
            $0.bundleID == fact.bundleID && $0.environments.contains(environment)
        }?.consumption
        let policy = ConsumptionPolicy(
            sampleContentProvided: arguments.has("--sample-content") || configured?.sampleContentProvided ?? false,
            refundPreference: preference ?? configured?.refundPreference,
            deliversConsumables: configured?.deliversConsumables ?? false)
        let key = OriginalKey(environment: environment, originalTransactionID: original)
        let dialogue = try await reader.storeDialogue(about: key)
        let question = dialogue.openQuestion(about: transaction)
        return Subject(
            transaction: transaction, original: original, app: fact.bundleID, key: key, end: known.end, fact: fact,
            question: question, unsettled: dialogue.unsettledOrder(about: transaction),
            isConsented: configured != nil,
            decision: try await reader.consumption(
                of: transaction, original: original, in: environment, askedAt: question?.askedAt ?? now,
                policy: policy), policy: policy)
    }

    /// What is told: the operator's word, where there is one, before the ledger's.
    private func told(_ subject: Subject) throws -> ConsumptionInformation {
        var information: ConsumptionInformation
        switch subject.decision {
        case .tell(let known): information = known
        case .withhold(.deliveryUnknown):
            guard let delivery else { throw Self.nothing(.deliveryUnknown) }
            information = ConsumptionInformation(
                sampleContentProvided: subject.policy.sampleContentProvided, deliveryStatus: delivery)
        case .withhold(let reason): throw Self.nothing(reason)
        }
        information.deliveryStatus = delivery ?? information.deliveryStatus
        information.consumptionPercentage = consumed ?? information.consumptionPercentage
        guard case .known(let kind) = subject.fact.kind else { throw Self.nothing(.unsupported) }
        if kind == .autoRenewable, consumed != nil {
            throw CommandFailure(
                description: "--consumed is not for a subscription: the store reckons it itself, and refuses a number")
        }
        if information.deliveryStatus != .delivered {
            guard consumed ?? 0 == 0 else {
                throw CommandFailure(description: "what was not delivered was not used either: --consumed must be 0")
            }
            information.consumptionPercentage = kind == .autoRenewable ? nil : 0
        }
        information.refundPreference = nil
        if let wanted = subject.policy.refundPreference {
            if information.allows(wanted, kind) {
                information.refundPreference = wanted
            } else if preference != nil {
                throw CommandFailure(
                    description: "the store takes GRANT_PRORATED only beside --consumed between 0 and 100")
            }
        }
        return information
    }

    private static func nothing(_ reason: ConsumptionWithholding) -> CommandFailure {
        let words =
            switch reason {
            case .unknownTransaction: "the ledger does not know the transaction"
            case .refunded: "it is refunded already"
            case .familyShared: "it came through Family Sharing, of which the store takes no answer"
            case .unsupported: "it is of a kind, or owned in a way, that this version does not know"
            case .deliveryUnknown:
                "the ledger does not know whether the customer was given it, because the catalog gives its product no "
                    + "entitlement, or nobody owns it; --delivery says so in its place"
            case .forgotten: "whoever is named in it, or whose it is or was, was forgotten"
            case .heardTooLate: "the ledger heard of the question when its time was over"
            }
        return CommandFailure(description: "nothing can be told: \(words) (\(reason.rawValue))")
    }

    private static func lines(_ information: ConsumptionInformation) -> [String] {
        let share = information.consumptionPercentage.map {
            String(format: "%.3f %% (%d)", Double($0) / 1000, $0)
        }
        return [
            "  delivery      \(information.deliveryStatus.rawValue)",
            "  consumed      \(share ?? "not told")",
            "  sample        \(information.sampleContentProvided ? "provided" : "not provided")",
            "  preference    \(information.refundPreference?.rawValue ?? "none")",
        ]
    }

    // MARK: - Sending

    private func send(
        _ information: ConsumptionInformation, _ subject: Subject, _ order: StoreRequestOrder,
        _ client: StoreAPIClient, _ writer: LedgerWriter
    ) async throws -> String {
        try await begin(information, subject, order, writer)
        var outcome = StoreRequestFact.Outcome.accepted
        var refusal = ""
        do {
            try await client.send(
                try .consumption(information, of: transaction), in: environment, within: Self.patience)
        } catch let error as StoreAPIError {
            guard error.isFinal else {
                throw CommandFailure(
                    description: "\(error). Run the same command again: the store keeps what it is told last")
            }
            refusal = "\(error)"
            outcome = .refused(code: error.code)
        }
        let recorded = try await StoreRequestFact(
            bundleID: subject.app, originalTransactionID: subject.original,
            content: .consumption(transactionID: transaction, information), outcome: outcome,
            settles: subject.question?.position, order: order
        ).recorded(in: environment, source: .operatorCommand) { try await writer.append($0) }
        guard outcome == .accepted else {
            throw CommandFailure(description: "the store refused it (event \(recorded.position)). \(refusal)")
        }
        return "the store was told (event \(recorded.position))"
    }
}

extension ConsumptionCommand {
    /// Says in the log what the store is about to be told, and by whose order: whatever becomes of this process, that is known.
    private func begin(
        _ information: ConsumptionInformation, _ subject: Subject, _ order: StoreRequestOrder, _ writer: LedgerWriter
    ) async throws {
        var draft = EventDraft(
            StoreRequestFact(
                bundleID: subject.app, originalTransactionID: subject.original,
                content: .consumption(transactionID: transaction, information), outcome: .pending, order: order),
            in: environment, source: .operatorCommand)
        // Of several people at once one tells the store: it would keep the last one's word, and the log another's.
        draft.unchangedSince = UnchangedSince(subject.end, originals: [subject.key])
        do {
            _ = try await writer.append(draft)
        } catch AppendRefusal.conflict {
            throw CommandFailure(
                description:
                    "nothing was sent: meanwhile the store was told of \(subject.original), or is about to be, or whose it is was "
                    + "changed. Look at it again without --send")
        } catch let error as LedgerError {
            throw CommandFailure(description: "nothing was sent: \(error)")
        }
    }
}

extension ParsedArguments {
    /// One of the store's own words; `nil` where the option is not given.
    fileprivate func word<Word: RawRepresentable<String> & CaseIterable>(
        _ option: String
    ) throws(UsageError) -> Word? {
        guard let text = value(option) else { return nil }
        guard let word = Word(rawValue: text) else {
            let words = Word.allCases.map(\.rawValue).joined(separator: ", ")
            throw error("\(option) '\(text)' is none of \(words)")
        }
        return word
    }
}
