package import EntitlementCore
package import Ledger

/// What nearly every handler needs: where the ledger is read, what time it is, and where things are counted and told.
///
/// Nothing here writes; a handler that does holds what it writes with beside this.
package struct ServiceContext: Sendable {
    let reader: LedgerReader
    let limits: Application.Limits
    let metrics: Metrics
    let logger: Logger
    /// The hash that names requests, answers and keys.
    let sha256: @Sendable ([UInt8]) -> Digest
    /// The clock.
    let now: @Sendable () -> Timestamp

    package init(
        reader: LedgerReader, limits: Application.Limits = Application.Limits(), metrics: Metrics, logger: Logger,
        sha256: @escaping @Sendable ([UInt8]) -> Digest, now: @escaping @Sendable () -> Timestamp
    ) {
        self.reader = reader
        self.limits = limits
        self.metrics = metrics
        self.logger = logger
        self.sha256 = sha256
        self.now = now
    }
}
