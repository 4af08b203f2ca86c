import AppStoreServer
import EntitlementAPI
import EntitlementCore
import Foundation
import HTTPServer
import Ledger
import OpenSSLCrypto
import PostgresClient
import Service
import StoreSimulator

/// The service in this process, composed as `rightful serve` composes it, listening on the loopback interface.
struct RunningService: Sendable {
    /// As many connections as `rightful serve` keeps.
    private static let connections = 16

    let port: UInt16
    let database: BenchmarkDatabase
    let pool: PostgresPool
    /// Reads customers.
    let key: String
    private let server: HTTPServer
    private let writer: LedgerWriter

    static func start(_ workload: Workload, _ database: BenchmarkDatabase) async throws -> RunningService {
        let pool = database.pool(connections: connections)
        let metrics = Metrics(version: "bench", foldVersion: OriginalState.foldVersion)
        // Lines are made and written as in production, and read by nobody.
        guard let sink = FileHandle(forWritingAtPath: "/dev/null") else { throw UsageError("there is no /dev/null") }
        let log = LogWriter(descriptor: dup(sink.fileDescriptor))
        let writer = LedgerWriter(pool: pool, now: Workload.now) { metrics.record($0) }
        let keys = APIKeyStore(pool: pool, now: Workload.now)
        // One key sends everything, as fast as it can.
        var limits = Application.Limits()
        limits.rates.secretKey = RateLimit(perSecond: 1_000_000, burst: 1_000_000)
        let application = Application(
            writer: writer, reader: LedgerReader(pool: pool, now: Workload.now), keys: keys,
            tokens: CustomerTokens(pool: pool), commandKeys: CommandKeys(pool: pool), verifier: workload.verifier,
            statements: workload.statements,
            schemaRefusal: { try await pool.withConnection { try Migrator().standing(on: $0).refusal } },
            sha256: { Digest(SHA256.hash($0)) ?? .zero }, metrics: metrics,
            logger: Logger(now: Workload.now) { log.write($0) }, limits: limits, now: Workload.now)
        let server = application.makeServer(HTTPServerConfiguration(port: 0))
        try server.start()
        guard let port = server.boundPort else { throw UsageError("the service did not start") }
        let admin = try await keys.create(name: "bench", scopes: [.admin]).secret
        let service = RunningService(
            port: port, database: database, pool: pool, key: admin, server: server, writer: writer)
        try service.putCatalog(workload.world)
        return service
    }

    private func putCatalog(_ world: StoreWorld) throws {
        let client = try HTTPConnection(port: port)
        let status = try client.exchange(
            HTTPConnection.request("PUT", "/v1/catalog", key: key, body: try world.catalogFile.encoded()))
        guard status == 200 else { throw UsageError("PUT /v1/catalog answered \(status)") }
    }

    func stop() async {
        await server.stop()
        await writer.drain()
        await pool.close()
    }
}
