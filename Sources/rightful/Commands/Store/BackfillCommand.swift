import AppStoreServer
import EntitlementCore
import Ledger
import Service

/// `rightful backfill`.
struct BackfillCommand: Command {
    static let usage = CommandUsage(
        "backfill", "Record the notifications that the store sent and that never arrived.",
        options: [
            CommandUsage.Option("--since", "T", "what the store sent from here on at least, an RFC 3339 time"),
            CommandUsage.Option("--app", "B", "of this bundle id alone; else of every app with app_store_api"),
        ],
        details: """
            It goes on where the last sweep ended, and the first time begins as far back as the store keeps its history:
            180 days, in the sandbox 30. --since reads further back than that, never less. A running service sweeps by
            itself, at its start and each hour; one process at a time reads the history of an app. What is known already
            is not recorded again.
            """)

    private let arguments: ParsedArguments
    private let since: Timestamp?
    private let app: String?

    init(_ arguments: ParsedArguments) throws(UsageError) {
        self.arguments = arguments
        app = arguments.value("--app")
        guard let text = arguments.value("--since") else {
            since = nil
            return
        }
        guard let since = Timestamp(rfc3339: text) else {
            throw arguments.error("--since is an RFC 3339 time, such as 2026-01-01T00:00:00Z, not '\(text)'")
        }
        self.since = since
    }

    func run(_ context: CommandContext) async throws {
        if let since, since > context.now() {
            throw arguments.error("--since \(since) is yet to come")
        }
        let configuration = try context.configuration(arguments)
        let accesses = try StoreAccess.all(configuration).filter { app == nil || $0.app.bundleID == app }
        guard !accesses.isEmpty else {
            throw CommandFailure(
                description: app.map { "the app \($0) is not configured, or has no app_store_api" }
                    ?? "no app has app_store_api in the configuration: without it the store cannot be asked")
        }
        let anchors = try TrustedMaterial.anchors(configuration)
        let bindings = configuration.apps.map(\.binding)
        try await context.logging { logger in
            try await DatabaseSession.with(arguments, context, connections: Self.connections) { session in
                let writer = LedgerWriter(pool: session.pool, clock: session.clock)
                let verifier = NotificationVerifier(jws: try JWSVerifier(trusting: anchors), apps: bindings)
                var failures: [String] = []
                for access in accesses {
                    let sweep = access.sweep(
                        session, writer: writer, verifier: verifier, logger: logger, now: session.clock.now)
                    for environment in access.app.environments.sorted(by: { $0.rawValue < $1.rawValue }) {
                        do {
                            try await run(sweep, environment, context)
                        } catch let failure as CommandFailure {
                            failures.append(failure.description)
                        }
                    }
                }
                guard failures.isEmpty else { throw CommandFailure(description: failures.joined(separator: "; ")) }
            }
        }
    }

    private static let connections = 4

    private func run(_ sweep: NotificationSweep, _ environment: StoreEnvironment, _ context: CommandContext)
        async throws
    {
        let name = "\(sweep.client.credentials.bundleID), \(environment.rawValue)"
        let report: NotificationSweep.Report
        do {
            report = try await sweep.run(in: environment, since: since) { window, report in
                guard context.isTerminal else { return }
                context.draw(
                    "\(name): \(report.read) notifications up to \(window.from), \(report.recorded) of them missing")
            }
        } catch let error as StoreAPIError {
            if context.isTerminal { context.draw("") }
            throw CommandFailure(description: "\(name): \(error)")
        }
        if context.isTerminal { context.draw("") }
        guard report.isComplete else {
            throw CommandFailure(
                description: "\(name): another process is reading the store's history, a running service perhaps; "
                    + "`rightful status` shows how far it is")
        }
        let early = report.early > 0 ? ", \(report.early) were on their way and are recorded too" : ""
        try context.output.report(
            "\(name): \(report.read) notifications read, \(report.recorded) were missing and are recorded now\(early)\n"
        )
        let refused =
            report.refused > 0
            ? "\(report.refused) of \(report.read) notifications were refused, the last because \(report.reason ?? "")"
            : nil
        let troubles = [refused, report.gap].compactMap(\.self)
        if !troubles.isEmpty {
            throw CommandFailure(
                description: "\(name): \(troubles.joined(separator: "; ")); when the cause is mended, run "
                    + "`rightful backfill --since \(report.from.map(\.description) ?? "")`")
        }
    }
}
