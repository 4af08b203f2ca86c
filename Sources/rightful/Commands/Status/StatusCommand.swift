import EntitlementAPI
import EntitlementCore
import Foundation
import Ledger
import PostgresClient
import Service

/// `rightful status`.
struct StatusCommand: Command {
    static let usage = CommandUsage(
        "status", "Show how the ledger stands: head, projections, roles, sizes, and what to look at.",
        options: [CommandUsage.Option("--json", nil, "print one JSON object, for machines")],
        details: """
            A schema that is not this program's is part of the answer, and not a failure. `to look at` are kinds of
            things in notifications that this version does not know, and products that are not in the catalog; both are
            counted over the whole log. `import` is shown while one is running, or was not brought to its end.
            """)

    /// Events counted before the answer; the service counts them as they come.
    private static let countedEvents: Int64 = 50_000

    private let arguments: ParsedArguments

    init(_ arguments: ParsedArguments) { self.arguments = arguments }

    func run(_ context: CommandContext) async throws {
        let configuration = try context.configuration(arguments)
        let document = try await DatabaseSession.with(arguments, context, refusesSchema: false) { session in
            let standing = try await session.schemaStanding()
            guard standing == .current else { return StatusDocument(standing) }
            let lacks = try await ServingPrivileges.all.missing(session.pool)
            do {
                if let refusal = try await RestoredTables.refusal(session.pool) {
                    throw CommandFailure(description: refusal)
                }
                return try await Self.document(session, configuration, lacks: lacks)
            } catch let error as LedgerError where error.code == .schema && !lacks.isEmpty {
                throw CommandFailure(description: ServingPrivileges.refusal(lacking: lacks))
            }
        }
        if arguments.has("--json") {
            try context.output.write(Self.encoder.encode(document) + [UInt8(ascii: "\n")])
        } else {
            try context.output.write(document.table)
        }
    }

    private static func document(
        _ session: DatabaseSession, _ configuration: Configuration, lacks: [String]
    ) async throws -> StatusDocument {
        let configured = configuration.streams
        let web = Set(configuration.stripe.map(\.environment))
        let now = session.clock.now()
        let reader = LedgerReader(pool: session.pool, clock: session.clock)
        let readingOnly = try await session.readingOnly()
        let uncounted = readingOnly != nil ? [] : await count(session, at: now)
        let webStreams = try await WebSweepRegister(pool: session.pool, holder: "").standings()
        let imports = try await WebImportRegister.states(session.pool)
        let lookups = WebLookupRegister(pool: session.pool)
        var ofStripe: [StatusDocument.Stream] = []
        for standing in webStreams where web.contains(standing.environment) {
            ofStripe.append(
                StatusDocument.Stream(
                    standing, lookupsOwed: try await lookups.count(standing.environment), at: now))
        }
        return StatusDocument(
            try await reader.status(), try await reader.statistics(),
            try await reader.seen(besides: try await reader.catalog().catalog),
            failures: try await WorkFailures(pool: session.pool).list() + uncounted,
            sweeps: try await SweepRegister.standings(session.pool).map { sweep in
                StatusDocument.Sweep(
                    sweep,
                    isConfigured: configured.contains(StoreStream(app: sweep.app, environment: sweep.environment)))
            }
                + webStreams.map {
                    StatusDocument.Sweep($0, imports, isConfigured: web.contains($0.environment))
                },
            imports: try await ImportRegister.unfinished(session.pool).map { StatusDocument.Import($0) }
                + imports.filter { $0.completedAt == nil }.map { StatusDocument.Import($0) },
            streams: try await StreamRegister(pool: session.pool).standings(of: configured, at: now)
                .map { StatusDocument.Stream($0, at: now) } + ofStripe,
            unconfiguredApps: try await session.appsMissing(in: configuration),
            drift: StatusDocument.drift(try await reader.driftRegister.counts()),
            webhooks: StatusDocument.Webhooks(
                try await session.endpoints.health(), lost: try await session.endpoints.lost(now: now).count,
                isEnabled: configuration.sendsWebhooks, at: now),
            cluster: session.cluster,
            transport: try await session.pool.withConnection { $0.transport }, readingOnly: readingOnly,
            notDurable: try await ServerDurability.gaps(session.pool),
            cleaningHeldBy: try await CleaningObstacle.oldest(session.pool)?.description,
            numberShortage: try await NumberShortage.find(session.pool)?.description,
            overdueCheckpoint: session.cluster == nil
                ? nil : try await OverdueCheckpoint.find(session.pool)?.description,
            isUnfollowed: { web.isEmpty && $0 == WebLookupProjector.name },
            servingAs: try await ServingUser.all(session.pool),
            weakness: try await ServingRole.weakness(session.pool), lacks: lacks,
            guardsOff: try await LedgerGuards.off(session.pool), clock: session.clock)
    }

    /// Counts what came into the log since a service did; returns what failed of that, which is no reason to show nothing:
    /// a full disk or a lock is when somebody asks.
    private static func count(_ session: DatabaseSession, at now: Timestamp) async -> [WorkFailure] {
        func failure(
            of work: String, _ body: @Sendable () async throws -> Void
        ) async -> WorkFailure? {
            do {
                try await body()
                return nil
            } catch {
                return WorkFailure(
                    work: work, host: ProcessInfo.processInfo.hostName, since: now, lastAt: now, reason: "\(error)")
            }
        }
        return [
            await failure(of: "counting what the log speaks of") {
                _ = try await SeenProjector(pool: session.pool).catchUp(events: countedEvents)
            },
            await failure(of: "counting what devices claim") {
                _ = try await DriftProjector(pool: session.pool).catchUp(events: countedEvents, isHurried: true)
            },
        ].compactMap(\.self)
    }

    private static var encoder: JSONEncoder {
        let encoder = JSONEncoder()
        encoder.keyEncodingStrategy = .convertToSnakeCase
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        return encoder
    }
}
