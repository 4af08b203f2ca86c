package import AppStoreServer
package import EntitlementCore
package import HTTPServer
package import Ledger

/// The service: everything between an HTTP request and its answer.
///
/// It holds no state of its own that matters, so any number may run beside each other, and its handlers can be called
/// without a socket.
package struct Application: Sendable {
    /// What bounds the service's work.
    package struct Limits: Sendable {
        /// How long a read waits for `min_position`.
        package var positionWait = Duration.seconds(5)
        /// How long a key stays recognised without asking the database: the longest a revocation takes to bite.
        package var keyLifetime = Duration.seconds(5)
        /// The largest body of a notification, in bytes.
        package var notificationBytes = 1 << 20
        /// The largest catalog, in bytes of JSON.
        package var catalogBytes = 4 << 20

        package init() {}
    }

    let writer: LedgerWriter
    let reader: LedgerReader
    let verifier: NotificationVerifier
    let limits: Limits
    let metrics: Metrics
    let logger: Logger
    let sha256: @Sendable ([UInt8]) -> Digest
    let schemaRefusal: @Sendable () async throws -> String?
    let now: @Sendable () -> Timestamp

    /// Composes the service.
    ///
    /// - Parameters:
    ///   - schemaRefusal: why this program cannot serve the database's schema; `nil` when it can (see
    ///     `Migrator.Standing.refusal`). Throws when the database is away.
    ///   - sha256: the hash that names requests, answers and keys.
    ///   - now: the clock.
    package init(
        writer: LedgerWriter, reader: LedgerReader, keys: APIKeyStore, verifier: NotificationVerifier,
        schemaRefusal: @escaping @Sendable () async throws -> String?,
        sha256: @escaping @Sendable ([UInt8]) -> Digest, metrics: Metrics, logger: Logger,
        limits: Limits = Limits(), now: @escaping @Sendable () -> Timestamp
    ) {
        self.writer = writer
        self.reader = reader
        self.verifier = verifier
        self.limits = limits
        self.metrics = metrics
        self.logger = logger
        self.sha256 = sha256
        self.schemaRefusal = schemaRefusal
        self.now = now
    }

    /// Answers a request.
    package func handle(_ request: HTTPRequest) async -> HTTPResponse {
        .text(status: 404, "not found\n")
    }

    /// A server for this service, not yet started.
    package func makeServer(_ configuration: HTTPServerConfiguration) -> HTTPServer {
        HTTPServer(configuration: configuration) { await handle($0) }
    }
}
