import EntitlementCore
import PostgresClient

/// A part of a generation's rows that is still to be read back, in the order of their keys.
struct ProofPart: Sendable {
    /// A key of the table.
    private struct Key: Sendable {
        let environment: Int16
        let original: String

        static let first = Key(environment: .min, original: "")
    }

    private let generation: Int64
    /// The last row that was read.
    private var after: Key
    /// The last row of this part; `nil`: the last there is.
    private let end: Key?

    /// Divides a generation into halves, so that two connections can read it at a time; whatever is stored belongs to
    /// one of them.
    static func divide(
        _ generation: Int64, rows: Int64, on connection: isolated PostgresConnection
    ) throws -> [ProofPart] {
        let middle = try connection.query(
            """
            SELECT environment, original_transaction_id FROM original_view
            WHERE ledger_id = $1 AND generation = $2
            ORDER BY environment, original_transaction_id OFFSET $3 LIMIT 1
            """, [.int(ledgerID), .int4(Int32(generation)), .int(rows / 2)]
        ).first.map { Key(environment: Int16(clamping: try $0.int(0)), original: try $0.text(1)) }
        guard let middle else { return [ProofPart(generation: generation, after: .first, end: nil)] }
        return [
            ProofPart(generation: generation, after: .first, end: middle),
            ProofPart(generation: generation, after: middle, end: nil),
        ]
    }

    private init(generation: Int64, after: Key, end: Key?) {
        self.generation = generation
        self.after = after
        self.end = end
    }

    /// Sums up the next rows, and what is left after them; `nil` when nothing is.
    ///
    /// A row of another fold version is left out of the sum, because reads would pass it over.
    func next(
        _ limit: Int64, on connection: isolated PostgresConnection
    ) throws -> (SnapshotDigest, rest: ProofPart?) {
        var parameters: [PostgresValue] = [
            .int(ledgerID), .int4(Int32(generation)), .int2(after.environment), .text(after.original), .int(limit),
        ]
        if let end { parameters += [.int2(end.environment), .text(end.original)] }
        let rows = try connection.query(
            """
            SELECT environment, original_transaction_id, last_position, events, fold_version, sha256(state)
            FROM original_view WHERE ledger_id = $1 AND generation = $2
                AND (environment, original_transaction_id) > ($3, $4)
                \(end == nil ? "" : "AND (environment, original_transaction_id) <= ($6, $7)")
            ORDER BY environment, original_transaction_id LIMIT $5
            """, parameters
        ).rows
        var digest = SnapshotDigest()
        for row in rows where try row.int(4) == Int64(OriginalState.foldVersion) {
            digest.add(
                environment: try row.int(0), original: try row.text(1), lastPosition: try row.int(2),
                events: try row.int(3), stateHash: try row.bytes(5))
        }
        guard let last = rows.last, Int64(rows.count) == limit else { return (digest, nil) }
        var rest = self
        rest.after = Key(environment: Int16(clamping: try last.int(0)), original: try last.text(1))
        return (digest, rest)
    }
}
