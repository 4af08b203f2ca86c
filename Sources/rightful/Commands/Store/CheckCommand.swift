import AppStoreServer
import EntitlementAPI
import EntitlementCore
import Ledger
import Service
import StripeAPI

/// `rightful check CUSTOMER|ORIGINAL`.
struct CheckCommand: Command {
    static let usage = CommandUsage(
        "check", "Ask the store about a customer or an original transaction now, compare, and record what is missing.",
        operands: ["CUSTOMER|ORIGINAL"],
        options: [
            CommandUsage.environment,
            CommandUsage.Option("--app", "B", "the bundle id to ask about, where nothing is known of the transaction"),
            CommandUsage.Option("--json", nil, "print the answers of POST /v1/subscriptions/ORIGINAL/actions/check"),
        ],
        details: """
            The App Store is asked for the state of the subscription and for the whole history of that Apple account in
            the app. Every signed statement of the answer is verified; what the ledger did not know becomes events of
            source app_store_api. One answer speaks of all that the Apple account bought. Of what was bought on the web
            (sub_…, pi_…, cs_…) Stripe is asked: for the subscription and its invoices or the payment, and for what was
            refunded or is disputed; what the ledger did not know becomes events of source stripe_api. Of a customer
            with both, both are asked. Exit status 1 where the ledger still reads otherwise than the store says, where
            the store does not know what the ledger knows, and where it could not be asked.
            """)

    /// How long the store may take for one original transaction.
    private static let patience = Duration.seconds(120)
    /// How many original transactions of one customer are looked at.
    private static let mostOriginals = 1000
    /// After so many different ones in a row that the store could not be asked about, it is the store.
    private static let mostInARow = 5

    private let arguments: ParsedArguments
    private let subject: String
    private let environment: StoreEnvironment

    init(_ arguments: ParsedArguments) throws(UsageError) {
        self.arguments = arguments
        subject = arguments.operands[0]
        guard !subject.isEmpty, subject.utf8.count <= CommandLimits.storeID else {
            throw arguments.error(
                "neither a customer nor a transaction has an id of \(subject.utf8.count) bytes")
        }
        environment = try arguments.environment() ?? .production
    }

    func run(_ context: CommandContext) async throws {
        let configuration = try context.configuration(arguments)
        let accesses = try StoreAccess.all(configuration)
        let anchors = try TrustedMaterial.anchors(configuration)
        let stripe = try StripeFiles(configuration)
        let results = try await DatabaseSession.with(arguments, context) { session in
            let reader = LedgerReader(pool: session.pool, clock: session.clock)
            let writer = LedgerWriter(pool: session.pool, clock: session.clock)
            let verifier = StoreAccess.statementVerifier(try JWSVerifier(trusting: anchors), configuration)
            let checks = StoreChecks(
                accesses.map {
                    $0.check(session, writer: writer, reader: reader, verifier: verifier, now: session.clock.now)
                },
                stripe: StripeCheck(
                    StripeWork.ingestion(
                        stripe, session, writer: writer, reader: reader,
                        metrics: Metrics(version: Version.number, foldVersion: OriginalState.foldVersion),
                        logger: Logger(now: context.now, sink: { _ in }))))
            return try await check(try await originals(reader), checks, reader, session.clock.now)
        }
        for result in results.checked {
            if arguments.has("--json") {
                try context.output.write(try WireJSON.encode(result.document) + [UInt8(ascii: "\n")])
            } else {
                try context.output.write(result.text)
            }
        }
        var faults: [String] = []
        let differing = results.checked.filter { $0.document.agrees == false }.map(\.document.originalTransactionID)
        if !differing.isEmpty {
            faults.append(
                "the ledger still reads otherwise than the store says of \(differing.joined(separator: ", ")); "
                    + "`rightful explain` and GET /v1/subscriptions/{id} show the facts behind it")
        }
        let unknown = results.checked.filter { $0.document.before.store == nil }.map(\.document.originalTransactionID)
        if !unknown.isEmpty {
            faults.append(
                "the store does not know \(unknown.joined(separator: ", ")), of which the ledger knows: is it of another "
                    + "app, or is base_url another store's?")
        }
        faults += results.failures
        guard faults.isEmpty else { throw CommandFailure(description: faults.joined(separator: "\n")) }
    }

    /// Asks about one after the other, and goes on beside one that the store cannot be asked about.
    private func check(
        _ originals: [String], _ checks: StoreChecks, _ reader: LedgerReader, _ now: @Sendable () -> Timestamp
    ) async throws -> (checked: [CheckResult], failures: [String]) {
        var results: [CheckResult] = []
        var findings: [StoreCheck.Finding] = []
        var failures: [String] = []
        var giveUp = GivenUp()
        for original in originals {
            if giveUp.passes(over: original) { continue }
            let place = "\(original), \(environment.rawValue)"
            do {
                let (outcome, finding) = try await checks.check(
                    original, in: environment, app: arguments.value("--app"), after: findings, reader: reader,
                    within: Self.patience, now: now)
                giveUp.forget(original)
                findings.append(finding)
                results.append(
                    CheckResult(
                        document: try await outcome.document(from: reader, only: nil), refusal: finding.refusal,
                        device: try await deviceWord(outcome.originalTransactionID, reader)))
            } catch let refusal as StoreChecks.Refusal {
                let hint = refusal == .ambiguous ? " with --app" : try await elsewhere(original, reader)
                failures.append("\(place): \(refusal)\(hint)")
            } catch let error as StoreAPIError {
                failures.append("\(place): \(error)")
                giveUp.note(original, isOfEveryRequest: error.reach == .everyRequest)
            } catch let error as StripeAPIError {
                failures.append("\(place): \(error)")
                giveUp.note(original, isOfEveryRequest: error.isOfEveryRequest || error.kind == .forbidden)
            }
        }
        if !giveUp.passedOver.isEmpty {
            failures.append("not asked about any more: \(giveUp.passedOver.joined(separator: ", "))")
        }
        return (results, failures)
    }

    /// Which store is not asked any more.
    private struct GivenUp {
        private enum Store: Hashable {
            case appStore
            case stripe

            init(of original: String) { self = StoreChecks.isOfWeb(original) ? .stripe : .appStore }
        }

        /// How often each could not be asked in a row.
        private var failures: [Store: Int] = [:]
        private(set) var passedOver: [String] = []

        mutating func note(_ original: String, isOfEveryRequest: Bool) {
            failures[Store(of: original), default: 0] += isOfEveryRequest ? CheckCommand.mostInARow : 1
        }

        mutating func forget(_ original: String) { failures[Store(of: original)] = 0 }

        mutating func passes(over original: String) -> Bool {
            guard failures[Store(of: original), default: 0] >= CheckCommand.mostInARow else { return false }
            passedOver.append(original)
            return true
        }
    }

    /// Where else something is known by an id.
    private func elsewhere(_ id: String, _ reader: LedgerReader) async throws -> String {
        for other in StoreEnvironment.allCases where other != environment {
            var isKnown = try await reader.subscription(id, environment: other).subscription != nil
            if !isKnown, let customer = CustomerID(id) {
                isKnown = try await !reader.customerFacts(customer, environment: other).facts.originalsToCheck.isEmpty
            }
            if isKnown { return "; it is known in \(other.rawValue): add --environment \(other.rawValue)" }
        }
        return ""
    }

    /// What is asked about: an original transaction that is known, all of a customer who is known, or else whatever the store
    /// may know by that id.
    private func originals(_ reader: LedgerReader) async throws -> [String] {
        if try await reader.subscription(subject, environment: environment).subscription != nil { return [subject] }
        if let customer = CustomerID(subject) {
            let facts = try await reader.customerFacts(customer, environment: environment).facts
            let originals = facts.originalsToCheck
            if originals.count > Self.mostOriginals {
                throw CommandFailure(
                    description: "the customer has \(originals.count) original transactions, more than "
                        + "\(Self.mostOriginals) at once; check them one by one: "
                        + originals.joined(separator: " "))
            }
            if !originals.isEmpty { return originals }
        }
        guard StoreChecks.isOfWeb(subject) || subject.utf8.allSatisfy({ (48...57).contains($0) }) else {
            throw CommandFailure(
                description:
                    "nothing is known of '\(subject)' in \(environment.rawValue), and it is no transaction's id"
                    + (try await elsewhere(subject, reader)))
        }
        return [subject]
    }

    /// The newest that devices alone have said; `nil` where they said nothing that the store has not.
    private func deviceWord(_ original: String, _ reader: LedgerReader) async throws -> TransactionFact? {
        let facts = try await reader.subscription(original, environment: environment).subscription
        return facts?.state.transactions.filter { !$0.sources.includesStore }.map(\.fact)
            .max { ($0.signedDate ?? .earliest) < ($1.signedDate ?? .earliest) }
    }
}

extension CustomerFacts {
    /// What is the customer's, also where nothing of it is known to be paid: that is what a check is for.
    fileprivate var originalsToCheck: [String] {
        let own = ofCustomerAlone().originals
        return originals.filter { id, state in
            own[id] != nil || state.web?.statedOwner.map(ownership.customer(of:)) == customer
        }.keys.sorted()
    }
}

/// One original transaction, after the store was asked.
private struct CheckResult: Sendable {
    let document: StoreCheckDocument
    /// Why the last of what was refused was not believed.
    let refusal: String?
    let device: TransactionFact?

    /// For people: the ledger before, the store, and the ledger now, side by side.
    var text: String {
        let columns = [
            ["", "state", "product", "until", "revoked", "renews"],
            Self.column("ledger before", document.before.ledger),
            Self.column("store", document.before.store), Self.column("ledger now", document.after.ledger),
            Self.column("devices alone", device),
        ]
        var lines = [
            "\(document.originalTransactionID) (\(document.app ?? "Stripe"), \(document.environment.rawValue))"
        ]
        lines += TextTable(columns[0].indices.map { row in columns.map { $0[row] } }).lines.map { "  " + $0 }
        let events = document.recorded.map { "\($0.position)" }.joined(separator: ", ")
        let isKnown = document.before.store != nil
        lines.append(
            document.recorded.isEmpty
                ? isKnown ? "  nothing was missing" : "  the store does not know it"
                : "  recorded now: event \(events)")
        if document.refused > 0 {
            lines.append("  not believed: \(document.refused) of the store's statements (\(refusal ?? ""))")
        }
        if let agrees = document.agrees {
            lines.append(
                agrees ? "  the ledger reads as the store says" : "  the ledger reads otherwise than the store says")
        }
        return lines.map { $0 + "\n" }.joined()
    }

    private static func column(_ title: String, _ known: SubscriptionDocument?) -> [String] {
        let period = known?.periods.last
        return [
            title, known?.state?.rawValue ?? "-", known?.productID ?? period?.productID ?? "-",
            period?.endsAt?.description ?? "-", period?.revokedAt?.description ?? "-", word(known?.willRenew),
        ]
    }

    private static func column(_ title: String, _ said: StoreCheckDocument.StoreWord?) -> [String] {
        [
            title, said?.state?.rawValue ?? said?.status.map { "status \($0)" } ?? said?.stripeStatus ?? "-",
            said?.productID ?? "-",
            (said?.revokedAt ?? said?.expiresAt)?.description ?? "-", said?.revokedAt?.description ?? "-",
            word(said?.willRenew),
        ]
    }

    private static func column(_ title: String, _ said: TransactionFact?) -> [String] {
        [
            title, "-", said?.productID ?? "-", said?.expiresDate?.description ?? "-",
            said?.revocation?.date.description ?? "-", "-",
        ]
    }

    private static func word(_ value: Bool?) -> String { value.map { $0 ? "yes" : "no" } ?? "-" }
}
