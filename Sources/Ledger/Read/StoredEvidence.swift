import EntitlementCore
import PostgresClient

/// Puts stored evidence together again with the headers it names.
enum StoredEvidence {
    /// What was received, by position.
    ///
    /// - Throws: `LedgerError` with the position of what does not read.
    static func received(
        _ stored: [(position: Int64, parts: [UInt8])], on connection: isolated PostgresConnection
    ) throws -> [Int64: [UInt8]] {
        func reading<Value>(_ position: Int64, _ body: () throws -> Value) throws -> Value {
            do {
                return try body()
            } catch {
                throw LedgerError(.corrupt, "the evidence of position \(position) does not read: \(error)")
            }
        }
        var names: Set<Digest> = []
        for piece in stored {
            names.formUnion(try reading(piece.position) { try EvidenceParts.headerNames(in: piece.parts) })
        }
        let headers = try headers(named: names, on: connection)
        var received: [Int64: [UInt8]] = [:]
        for piece in stored {
            received[piece.position] = try reading(piece.position) {
                try EvidenceParts.assemble(piece.parts, headers: headers)
            }
        }
        return received
    }

    /// The headers of these names, as far as they are stored.
    static func headers(
        named names: Set<Digest>, on connection: isolated PostgresConnection
    ) throws -> [Digest: [UInt8]] {
        guard !names.isEmpty else { return [:] }
        let rows = try connection.query(
            "SELECT sha256, header FROM jws_header WHERE ledger_id = $1 AND sha256 = ANY($2)",
            [.int(ledgerID), .bytesArray(names.sorted().map(\.bytes))]
        ).rows
        var headers: [Digest: [UInt8]] = [:]
        for row in rows { headers[try row.digest(0)] = try row.bytes(1) }
        return headers
    }
}
