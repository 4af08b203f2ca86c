import EntitlementCore
import Ledger
import Service
import StripeAPI

/// What a service does with Stripe's API behind its answers: reads what events call for, what never came, and what is older.
struct StripeWork: Sendable {
    let ingestion: StripeIngestion
    let register: WebSweepRegister
    let lookups: StripeLookups
    let sweep: StripeSweep

    /// - Parameter paces: of other clients of the same accounts, together with which it asks no more than one would.
    init(
        _ files: StripeFiles, sharing paces: [StoreEnvironment: StripePace], _ session: DatabaseSession,
        writer: LedgerWriter, reader: LedgerReader, metrics: Metrics, logger: Logger
    ) {
        let ingestion = Self.ingestion(
            files, sharing: paces, session, writer: writer, reader: reader, metrics: metrics, logger: logger)
        let holder = session.holder
        self.ingestion = ingestion
        register = WebSweepRegister(pool: session.pool, holder: holder)
        lookups = StripeLookups(
            ingestion, projector: WebLookupProjector(pool: session.pool, calls: StripeLookups.calls),
            register: WebLookupRegister(pool: session.pool))
        sweep = StripeSweep(ingestion, register: register) { client in
            StripeImport(
                ingestion, client,
                register: WebImportRegister(
                    pool: session.pool, environment: client.environment, ownerMetadata: nil, holder: holder))
        }
    }

    /// What everything works with that reads Stripe's API.
    static func ingestion(
        _ files: StripeFiles, sharing paces: [StoreEnvironment: StripePace] = [:], _ session: DatabaseSession,
        writer: LedgerWriter, reader: LedgerReader, metrics: Metrics, logger: Logger
    ) -> StripeIngestion {
        let conflicts = WebConflicts(reader: reader, metrics: metrics, logger: logger)
        return StripeIngestion(
            files.clients(sharing: paces, now: session.clock.now), reader: reader, metrics: metrics, logger: logger,
            now: session.clock.now
        ) { try await conflicts.append($0) { try await writer.append($0) } }
    }
}
