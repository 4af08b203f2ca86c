package import Ledger

/// What a service has of its ledger beside reading it.
package struct LedgerAccess: Sendable {
    let writer: LedgerWriter
    let keys: APIKeyStore
    let tokens: CustomerTokens
    let commandKeys: CommandKeys
    /// The ledger's own id, by which devices notice that they speak to another one.
    let ledgerID: String?
    /// What signs checkpoints of the log; without it none are given.
    let logKey: LogKey?
    let schemaRefusal: @Sendable () async throws -> String?

    /// - Parameter schemaRefusal: why this program cannot serve the database's schema; `nil` when it can (see
    ///   `Migrator.Standing.refusal`). Throws when the database is away.
    package init(
        writer: LedgerWriter, keys: APIKeyStore, tokens: CustomerTokens, commandKeys: CommandKeys,
        ledgerID: String? = nil, logKey: LogKey? = nil, schemaRefusal: @escaping @Sendable () async throws -> String?
    ) {
        self.writer = writer
        self.keys = keys
        self.tokens = tokens
        self.commandKeys = commandKeys
        self.ledgerID = ledgerID
        self.logKey = logKey
        self.schemaRefusal = schemaRefusal
    }
}
