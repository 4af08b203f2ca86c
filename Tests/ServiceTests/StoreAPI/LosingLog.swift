import Ledger
import PostgresClient
import Synchronization
import TestSupport

@testable import Service

/// Lets the log lose each event right after the append was acknowledged, as a failover does to a replica that had not got it;
/// whatever else the database holds stays.
final class LosingLog: Sendable {
    private let writer: LedgerWriter
    private let owner: PostgresConnection
    private let isLosing = Mutex(true)

    init(_ rig: ServiceRig) async throws {
        writer = rig.ledger.writer
        owner = try await rig.database.owner()
    }

    /// One at a time while events are lost.
    func append(_ draft: EventDraft) async throws -> AppendOutcome {
        guard isLosing.withLock({ $0 }) else { return try await writer.append(draft) }
        let end = try await LogEnd.now(of: owner)
        let outcome = try await writer.append(draft)
        try await end.restore(by: owner)
        return outcome
    }

    /// From now on nothing is lost.
    func stop() { isLosing.withLock { $0 = false } }
}
