import Ledger
import PostgresClient
import Service

/// Looks whether further connections to the database can be made.
///
/// Those that are there outlive a password that was changed, a certificate that has ended, a rule that lets nobody in any more. With
/// what ends them, such as a restart of the server, the service would end as well, and nobody had been told before.
struct FurtherConnections: Sendable {
    /// Between looks.
    private static let interval = Duration.seconds(20)

    let pool: PostgresPool

    /// Looks until the current task is cancelled.
    func run(_ watch: WorkWatch) async {
        while !Task.isCancelled {
            await watch.watch(.connections) { try await look() }
            try? await Task.sleep(for: Self.interval)
        }
    }

    /// - Throws: `CommandFailure` where none can be made; `LedgerError` of code `unavailable` where that cannot be known now: the
    ///   database is away, or has no room for more.
    private func look() async throws {
        let refusal: PostgresError?
        do {
            refusal = try await pool.refusalOfAnother()
        } catch {
            throw LedgerError(.unavailable, "looking whether the database takes further connections: \(error)")
        }
        guard let refusal else { return }
        if refusal.lacksRoom { throw LedgerError(.unavailable, "\(refusal)") }
        throw CommandFailure(
            description:
                "no further connection to the database can be made; this service goes on with those it has until the server "
                + "ends them, as at its next restart: \(refusal.message)")
    }
}
