import EntitlementCore
import Ledger
import Service
import StripeAPI
import Synchronization

/// `rightful import --stripe`.
struct StripeImporting: Sendable {
    private static let connections = 10

    private let arguments: ParsedArguments
    private let environment: StoreEnvironment
    private let ownerMetadata: String?
    private let ownersPath: String?

    init(_ arguments: ParsedArguments) throws(UsageError) {
        self.arguments = arguments
        for option in ["--transaction-ids", "--app", "--unknown-to"] where arguments.has(option) {
            throw arguments.error("\(option) is for the App Store, and --stripe reads all that Stripe's account holds")
        }
        guard let environment = try arguments.environment() else {
            throw arguments.error("--stripe needs --environment: production for Stripe's live mode, or sandbox")
        }
        self.environment = environment
        ownerMetadata = arguments.value("--owner-metadata")
        ownersPath = arguments.value("--owners")
        if let ownerMetadata, !StripeImport.isOwnerMetadata(ownerMetadata) {
            throw arguments.error("--owner-metadata '\(ownerMetadata)' can be no key of Stripe's metadata")
        }
    }

    func run(_ context: CommandContext) async throws {
        let configuration = try context.configuration(arguments)
        let files = try StripeFiles(configuration)
        let owners = try ownersPath.map { try StripeOwnerFile($0) }
        let outcome: Outcome? = try await context.logging { logger in
            try await DatabaseSession.with(arguments, context, connections: Self.connections) { session in
                let reader = LedgerReader(pool: session.pool, clock: session.clock)
                let catalog = try await reader.catalog().catalog
                if let (product, place) = owners?.products.first(where: { catalog.product($0.id) == nil }) {
                    throw CommandFailure(
                        description: "\(place): no product of the catalog is called '\(product)'; nothing was imported")
                }
                let ingestion = StripeWork.ingestion(
                    files, session, writer: LedgerWriter(pool: session.pool, clock: session.clock), reader: reader,
                    metrics: Metrics(version: Version.number, foldVersion: OriginalState.foldVersion), logger: logger)
                guard let client = ingestion.client(environment) else {
                    throw CommandFailure(
                        description:
                            "no account of Stripe's is configured for \(environment.rawValue): see `stripe` in "
                            + "docs/configuration.md")
                }
                let job = StripeImport(
                    ingestion, client,
                    register: WebImportRegister(
                        pool: session.pool, environment: environment, ownerMetadata: ownerMetadata,
                        owners: owners?.hash,
                        holder: session.holder), ownerMetadata: ownerMetadata,
                    owners: owners?.list ?? StripeOwnerList())
                let meter = RunMeter()
                let read = Mutex(Int64(0))
                defer { if context.isTerminal { context.draw("") } }
                do {
                    let report = try await job.run(isAnew: arguments.has("--again")) { report in
                        read.withLock { $0 = report.standing.read }
                        if let outage = report.outage {
                            if context.isTerminal { context.draw("") }
                            context.complain("Stripe, \(environment.rawValue): \(outage). It is tried again")
                        } else if context.isTerminal {
                            context.draw(meter.line(report))
                        }
                    }
                    guard let report else { return nil }
                    return Outcome(
                        report: report, owners: try await owners?.list.standing(in: environment, reader))
                } catch _ where Task.isCancelled {
                    if context.isTerminal { context.draw("") }
                    throw CommandFailure(
                        description:
                            "interrupted after \(read.withLock { $0 }) objects; what was read is recorded, and the same "
                            + "command goes on from there")
                } catch let error as StripeAPIError {
                    if context.isTerminal { context.draw("") }
                    throw CommandFailure(
                        description:
                            "Stripe, \(environment.rawValue): \(error). What was read is recorded; the same command "
                            + "goes on where it stopped")
                }
            }
        }
        guard let outcome else {
            throw CommandFailure(
                description:
                    "another process is reading Stripe's lists at the moment, a running service perhaps, or one "
                    + "died within the last 30 s: `rightful status` shows how far it is")
        }
        if let owners = outcome.owners { try summarize(owners, context) }
        try summarize(outcome.report, context)
    }

    /// What was read, and what became of the list of owners.
    private struct Outcome: Sendable {
        let report: StripeImport.Report
        let owners: StripeOwnersReport?
    }

    private func summarize(_ owners: StripeOwnersReport, _ context: CommandContext) throws {
        if owners.unmet > 0 {
            try context.output.report(
                "\(owners.unmet) entries of the list name subscriptions and payments that are not known here\n")
        }
        guard owners.kept > 0 else { return }
        try context.output.report(
            "\(owners.kept) entries of the list name subscriptions and payments that keep another owner: where the list is "
                + "right, transfer each (POST /v1/customers/{owner}/actions/transfer)\n")
        for id in owners.keptIDs { try context.output.report("keeps another owner: \(id)\n") }
        if owners.kept > owners.keptIDs.count { try context.output.report("keeps another owner: …\n") }
    }

    private func summarize(_ report: StripeImport.Report, _ context: CommandContext) throws {
        let standing = report.standing
        var parts = [
            "\(standing.recorded) events recorded", "\(standing.known) known already",
            "\(standing.unfinished) skipped as checkouts that nobody went through, and invoices and payments that are not paid",
            "\(standing.unrelated) skipped as about nothing that is kept here, or that is read in another list",
        ]
        if standing.withheld > 0 { parts.append("\(standing.withheld) skipped as of people who were forgotten") }
        if standing.refused > 0 { parts.append("\(standing.refused) that cannot be read") }
        if !standing.failed.isEmpty { parts.append("\(standing.failed.count) to be read again") }
        try context.output.report(
            "Stripe, \(environment.rawValue): \(standing.read) objects read: \(parts.joined(separator: ", ")); this run "
                + "read \(report.read) and recorded \(report.recorded)\n")
        for refusal in report.refusals { try context.output.report("not readable: \(refusal)\n") }
        for id in standing.failed {
            try context.output.report("failed: \(id): \(report.failures[id] ?? "see an earlier run")\n")
        }
        if standing.unowned > 0 {
            try context.output.report(
                "\(standing.unowned) subscriptions and payments belong to nobody, since nothing of Stripe's names a "
                    + "customer of yours. Where their id stands in metadata of another key, also that of Stripe's customer, "
                    + "import with --owner-metadata KEY; where it stands in a list of your own, with --owners FILE; else "
                    + "POST /v1/customers/{id}/actions/transfer with that customer's id, also as \"to\", gives each to them\n"
            )
            for id in report.unownedIDs { try context.output.report("nobody's: \(id)\n") }
            if standing.unowned > report.unownedIDs.count { try context.output.report("nobody's: …\n") }
        }
        if report.nameless > 0 {
            try context.output.report(
                "\(report.nameless) payments give nobody anything, since nothing says which product was paid for: name it in "
                    + "their metadata as rightful_product_id, or in the list of --owners FILE\n")
            for id in report.namelessIDs { try context.output.report("of no product: \(id)\n") }
            if report.nameless > report.namelessIDs.count { try context.output.report("of no product: …\n") }
        }
        guard standing.failed.isEmpty else {
            throw CommandFailure(
                description:
                    "Stripe could not be asked about \(standing.failed.count) objects; everything else is recorded, "
                    + "and the same command asks about them again")
        }
        guard standing.refused == 0 else {
            throw CommandFailure(
                description: "\(standing.refused) objects of Stripe's cannot be read; everything else is recorded")
        }
    }
}

/// Says how far it has come; how much there is Stripe does not say.
private struct RunMeter: Sendable {
    private let start = ContinuousClock.now

    func line(_ report: StripeImport.Report) -> String {
        let standing = report.standing
        let seconds = start.duration(to: .now) / .seconds(1)
        let rate = seconds > 0 ? Int((Double(report.read) / seconds).rounded()) : 0
        let through = standing.cursorCreatedAt.map { ", back to \($0)" } ?? ""
        return
            "\(report.list)\(through): \(standing.read) objects read, \(standing.recorded) events recorded, \(rate) a second"
    }
}
