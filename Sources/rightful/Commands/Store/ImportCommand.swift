import AppStoreServer
import EntitlementCore
import Ledger
import Service
import Synchronization

/// `rightful import`: of a list of the App Store's transaction ids, or of all that a Stripe account holds.
struct ImportCommand: Command {
    static let usage = CommandUsage(
        "import", "Bring in an existing customer base, from the App Store or from Stripe.",
        options: [
            CommandUsage.Option(
                "--transaction-ids", "FILE", "one id a line, of any transaction of each customer of the App Store"),
            CommandUsage.Option("--app", "B", "the bundle id of an app with app_store_api, for the App Store's lists"),
            CommandUsage.Option("--stripe", nil, "read all that the environment's Stripe account holds, however old"),
            CommandUsage.Option(
                "--owner-metadata", "KEY",
                "with --stripe: the key of metadata under which your own customer ids stand, else rightful_customer_id alone"
            ),
            CommandUsage.Option(
                "--owners", "FILE",
                "your own list of whose what is, a line each: a transaction id of the App Store, a comma, your customer id; with --stripe sub_…, cus_… or pi_… in its place"
            ),
            CommandUsage.Option(
                "--unknown-to", "FILE",
                "write all ids that the store does not know in this run to a file of mode 0600, one a line"),
            CommandUsage.environment,
            CommandUsage.Option("--again", nil, "begin at the beginning, also where some or all was imported before"),
        ],
        details: """
            From the App Store: each id brings the whole history of its Apple account in the app: every transaction that
            the store still knows, refunds and consumables included, and how each subscription stands. Ids of which an
            answer spoke already are passed over, so one id for each subscription or purchase is right. In a table the
            first column counts.

            An id that the store cannot be asked about is named and set aside, and asked about first by the next run of
            the same list; exit status 1. An outage of the store is waited out for a quarter of an hour. Where the store does
            not know more than half of the ids, they may be of another app or environment: exit status 1.

            It takes half of the store's limit: about 25 ids a second, in the sandbox 2.5.

            With --owners the ids of that list are asked about, or those of --transaction-ids where both are given, and then
            each purchase becomes the customer's beside it. Of an Apple account with which nobody is linked the account
            (apple:…) is linked to the customer, so that what it buys later is theirs, too; a purchase of nobody is
            transferred to them. A purchase that is somebody else's keeps its owner, is named, and makes the exit status 1;
            of two customers for one Apple account the first one counts. Ids that begin with $RCAnonymousID: are
            passed over: the first launch or login of such a device finds its purchases by itself. In a table the first two
            columns count. What was made so before is not recorded again.

            From Stripe (--stripe with --environment): checkout sessions, payments, subscriptions, invoices, refunds and
            disputes are read, a hundred at a time, with at most 20 requests a second, in the sandbox 10. What each
            belongs to is looked up. How everything stands comes in; how a past grace period went no list of Stripe's
            tells. Whose a purchase is stands in its metadata: see --owner-metadata. That key is looked for in the
            metadata of subscriptions, payment intents, sessions and invoices, and then of Stripe's customers;
            rightful_customer_id counts before it. Where all of that names nobody, the list of --owners counts: a
            subscription or payment by its own id before that of Stripe's customer. Of a payment (pi_…) a third column
            names the product of the catalog, where its metadata does not. An outage is waited out for a quarter of an
            hour; what cannot be read alone is named, and read again by the next run.

            What is stopped or killed goes on where it was when the same is imported again, and what is known already is
            not recorded again. A running service may work beside it. `rightful status` shows how far it is.
            """)

    private static let connections = 6

    private let stripe: StripeImporting?
    private let arguments: ParsedArguments
    private let path: String?
    private let ownersPath: String?
    private let unknownPath: String?
    private let app: String
    private let environment: StoreEnvironment

    init(_ arguments: ParsedArguments) throws(UsageError) {
        self.arguments = arguments
        environment = try arguments.environment() ?? .production
        guard !arguments.has("--stripe") else {
            stripe = try StripeImporting(arguments)
            (path, ownersPath, unknownPath, app) = (nil, nil, nil, "")
            return
        }
        stripe = nil
        guard !arguments.has("--owner-metadata") else { throw arguments.error("--owner-metadata is for --stripe") }
        ownersPath = arguments.value("--owners")
        unknownPath = arguments.value("--unknown-to")
        path = ownersPath == nil ? try arguments.required("--transaction-ids") : arguments.value("--transaction-ids")
        app = try arguments.required("--app")
    }

    func run(_ context: CommandContext) async throws {
        if let stripe { return try await stripe.run(context) }
        let configuration = try context.configuration(arguments)
        let access = try StoreAccess.of(app, environment, configuration)
        let anchors = try TrustedMaterial.anchors(configuration)
        let owners = try ownersPath.map { try TransactionOwnerFile($0) }
        let file = try path.map { try TransactionIDFile($0, hasOwners: owners != nil) }
        let unknown = try unknownPath.map { try UnknownIDsFile($0, besides: [path, ownersPath].compactMap(\.self)) }
        guard let ids = file?.ids ?? owners?.ids, let hash = file?.hash ?? owners?.hash else { return }
        let outcome = try await DatabaseSession.with(arguments, context, connections: Self.connections) { session in
            let reader = LedgerReader(pool: session.pool, clock: session.clock)
            let writer = LedgerWriter(pool: session.pool, clock: session.clock)
            let check = access.check(
                session, writer: writer, reader: reader,
                verifier: StoreAccess.statementVerifier(try JWSVerifier(trusting: anchors), configuration),
                now: session.clock.now)
            let job = StoreImport(
                check, in: environment,
                register: ImportRegister(
                    pool: session.pool, stream: StoreStream(app: app, environment: environment), file: hash,
                    holder: session.holder), keepsUnknown: unknown != nil)
            defer { if context.isTerminal { context.draw("") } }
            guard let report = try await ask(about: ids, job, unknown, context) else { return ImportSummary?.none }
            let listing = ListedOwnersImport(app, in: environment, reader: reader) { try await writer.append($0) }
            guard let owners else {
                return ImportSummary(
                    report: report, total: Int64(ids.count), owners: nil,
                    loneAccounts: try await listing.countOfLoneAccounts(ids))
            }
            let settled = try await settle(owners.list, listing, context)
            return ImportSummary(report: report, total: Int64(ids.count), owners: settled, loneAccounts: 0)
        }
        guard let outcome else {
            throw CommandFailure(
                description: "another process is importing this list at the moment, or one died within the last 30 s: "
                    + "then try again in half a minute")
        }
        try outcome.write(place, to: context.output)
    }

    /// Asks the store about the list; returns `nil` where another process does.
    private func ask(
        about ids: [Substring], _ job: StoreImport, _ unknown: UnknownIDsFile?, _ context: CommandContext
    ) async throws -> StoreImport.Report? {
        let meter = ImportMeter(total: Int64(ids.count), environment)
        if context.isTerminal { context.draw(meter.estimate) }
        let done = Mutex(Int64(0))
        do {
            return try await job.run(ids, isAnew: arguments.has("--again")) { standing in
                done.withLock { $0 = standing.done }
                guard 0 < standing.done, standing.done < Int64(ids.count) else { return }
                if context.isTerminal { context.draw("") }
                context.complain("\(place): goes on at \(standing.done) of \(ids.count) ids")
            } progress: { report in
                done.withLock { $0 = report.standing.done }
                try unknown?.write(report.unknownIDs)
                if let outage = report.outage {
                    if context.isTerminal { context.draw("") }
                    context.complain("\(place): \(outage). It is tried again")
                } else if context.isTerminal {
                    context.draw(meter.line(report))
                }
            }
        } catch _ where Task.isCancelled {
            throw interruption("\(done.withLock { $0 }) of \(ids.count) ids", context)
        } catch let error as StoreAPIError {
            if context.isTerminal { context.draw("") }
            throw CommandFailure(
                description:
                    "\(place): \(error). What was read is recorded; the same command goes on where it stopped")
        }
    }

    /// Makes the purchases the customers' whom a list names.
    private func settle(
        _ list: [ListedOwner], _ listing: ListedOwnersImport, _ context: CommandContext
    ) async throws -> ListedOwnersReport {
        let done = Mutex(0)
        do {
            return try await listing.run(list) { report in
                done.withLock { $0 = report.done }
                if context.isTerminal { context.draw("\(report.done) of \(list.count) lines of owners") }
            }
        } catch _ where Task.isCancelled {
            throw interruption("\(done.withLock { $0 }) of \(list.count) lines of owners", context)
        }
    }

    private var place: String { "\(app), \(environment.rawValue)" }

    private func interruption(_ progress: String, _ context: CommandContext) -> CommandFailure {
        if context.isTerminal { context.draw("") }
        return CommandFailure(
            description:
                "interrupted at \(progress); what was read is recorded, and the same command goes on from there")
    }
}

/// Says how far an import has come, and how long it will take.
private struct ImportMeter: Sendable {
    private let total: Int64
    private let perSecond: Double
    private let start = ContinuousClock.now

    init(total: Int64, _ environment: StoreEnvironment) {
        self.total = total
        perSecond = StoreAPILimit.transactionHistory.perSecond(in: environment) * StoreAPIPace.share
    }

    /// Before anything was asked, by the store's limits.
    var estimate: String { "\(total) ids, about \(Self.words(Double(total) / perSecond)) by the store's limits" }

    func line(_ report: StoreImport.Report) -> String {
        let standing = report.standing
        let seconds = start.duration(to: .now) / .seconds(1)
        // What was passed over cost nothing, so the rest is reckoned by what was asked.
        let rate = seconds > 0 ? max(Double(report.asked) / seconds, 0.01) : perSecond
        let left = Double(total - standing.done) / rate
        return "\(standing.done) of \(total) ids, \(report.recorded) events recorded, "
            + "\(Int(rate.rounded())) a second, about \(Self.words(left)) left"
    }

    private static func words(_ seconds: Double) -> String {
        switch seconds {
        case ..<90: "\(Int(seconds.rounded(.up))) s"
        case ..<5400: "\(Int((seconds / 60).rounded())) min"
        default: "\(Int((seconds / 3600).rounded())) h"
        }
    }
}
