import AppStoreServer
import EntitlementCore
import Ledger
import Service

/// `rightful import`: of a list of the App Store's transaction ids, or of all that a Stripe account holds.
struct ImportCommand: Command {
    static let usage = CommandUsage(
        "import", "Bring in an existing customer base, from the App Store or from Stripe.",
        options: [
            CommandUsage.Option(
                "--transaction-ids", "FILE", "one id a line, of any transaction of each customer of the App Store"),
            CommandUsage.Option("--app", "B", "the bundle id of an app with app_store_api, for --transaction-ids"),
            CommandUsage.Option("--stripe", nil, "read all that the environment's Stripe account holds, however old"),
            CommandUsage.Option(
                "--owner-metadata", "KEY",
                "with --stripe: the key of metadata under which your own customer ids stand, else rightful_customer_id alone"
            ),
            CommandUsage.Option(
                "--owners", "FILE",
                "with --stripe: your own list of whose what is, a line each: sub_…, cus_… or pi_…, a comma, your customer id"
            ),
            CommandUsage.environment,
            CommandUsage.Option("--again", nil, "begin at the beginning, also where some or all was imported before"),
        ],
        details: """
            From the App Store: each id brings the whole history of its Apple account in the app: every transaction that
            the store still knows, refunds and consumables included, and how each subscription stands. Ids of which an
            answer spoke already are passed over, so one id for each subscription or purchase is right. In a table the
            first column counts.

            An id that the store cannot be asked about is named and set aside, and asked about first by the next run of
            the same list; exit status 1. An outage of the store is waited out for a quarter of an hour.

            It takes half of the store's limit: about 25 ids a second, in the sandbox 2.5.

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
            not recorded again. A running service may work beside it.
            """)

    private static let connections = 6
    /// How many ids that the store could not be asked about are named.
    private static let mostNamed = 1000

    private let stripe: StripeImporting?
    private let arguments: ParsedArguments
    private let path: String
    private let app: String
    private let environment: StoreEnvironment

    init(_ arguments: ParsedArguments) throws(UsageError) {
        self.arguments = arguments
        environment = try arguments.environment() ?? .production
        guard !arguments.has("--stripe") else {
            stripe = try StripeImporting(arguments)
            (path, app) = ("", "")
            return
        }
        stripe = nil
        for option in ["--owner-metadata", "--owners"] where arguments.has(option) {
            throw arguments.error("\(option) is for --stripe")
        }
        path = try arguments.required("--transaction-ids")
        app = try arguments.required("--app")
    }

    func run(_ context: CommandContext) async throws {
        if let stripe { return try await stripe.run(context) }
        let configuration = try context.configuration(arguments)
        let access = try StoreAccess.of(app, environment, configuration)
        let anchors = try TrustedMaterial.anchors(configuration)
        let file = try TransactionIDFile(path)
        let total = Int64(file.ids.count)
        let report = try await DatabaseSession.with(arguments, context, connections: Self.connections) { session in
            let reader = LedgerReader(pool: session.pool, clock: session.clock)
            let writer = LedgerWriter(pool: session.pool, clock: session.clock)
            let check = access.check(
                session, writer: writer, reader: reader,
                verifier: StoreAccess.statementVerifier(try JWSVerifier(trusting: anchors), configuration),
                now: session.clock.now)
            let job = StoreImport(
                check, in: environment,
                register: ImportRegister(
                    pool: session.pool, stream: StoreStream(app: app, environment: environment), file: file.hash,
                    holder: session.holder))
            let meter = ImportMeter(total: total, environment)
            if context.isTerminal { context.draw(meter.estimate) }
            defer { if context.isTerminal { context.draw("") } }
            do {
                return try await job.run(file.ids, isAnew: arguments.has("--again")) { report in
                    if let outage = report.outage {
                        if context.isTerminal { context.draw("") }
                        context.complain("\(app), \(environment.rawValue): \(outage). It is tried again")
                    } else if context.isTerminal {
                        context.draw(meter.line(report))
                    }
                }
            } catch let error as StoreAPIError {
                if context.isTerminal { context.draw("") }
                throw CommandFailure(
                    description:
                        "\(app), \(environment.rawValue): \(error). What was read is recorded; the same command "
                        + "goes on where it stopped")
            }
        }
        guard let report else {
            throw CommandFailure(
                description: "another process is importing this list at the moment, or one died within the last 30 s: "
                    + "then try again in half a minute")
        }
        let standing = report.standing
        try context.output.write(
            "\(app), \(environment.rawValue): \(total - Int64(standing.failed.count)) ids are done; this run asked about \(report.asked) and recorded "
                + "\(report.recorded) events; \(standing.unknown) ids are unknown to the store\n")
        for id in report.unknownIDs { try context.output.write("unknown: \(id)\n") }
        let unnamed = standing.unknown - Int64(report.unknownIDs.count)
        if unnamed > 0 {
            try context.output.write(
                "unknown: \(unnamed) more, which are not named here; --again asks about the whole list anew, and names "
                    + "up to \(StoreImport.mostNamed)\n")
        }
        for id in standing.failed.prefix(Self.mostNamed) {
            try context.output.write("failed: \(id): \(report.failures[id] ?? "see an earlier run")\n")
        }
        guard standing.failed.isEmpty else {
            throw CommandFailure(
                description:
                    "the store could not be asked about \(standing.failed.count) of the ids; everything else is "
                    + "recorded, and the same command asks about them again")
        }
        if standing.refused > 0 {
            throw CommandFailure(
                description: "\(standing.refused) of the store's statements were not believed, the last because "
                    + "\(report.refusal ?? "of an earlier run's reason"); when the cause is mended, import "
                    + "the list with --again")
        }
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
