import EntitlementCore
import PostgresClient

// What a clock that was ahead has made due later.
//
// Whatever is tried again, or was taken by a process that died, is due at an instant by the database's clock. Where that was ahead for
// a moment, or another server took over whose clock is behind, such an instant may be hours away. Of each endpoint it is known
// what the clock said last; so nobody has to look at deliveries as long as no clock went back.
extension DeliveryRegister {
    /// How far the clock may go back without anybody's minding, in seconds: things come later by no more than that.
    private static let clockTolerance = 1

    /// Lets what was made due by a clock that was ahead be due now, and what was taken then once whoever took it had its time.
    ///
    /// What waits for its next try for other reasons is tried now, too, and receivers that asked to be left alone are not any
    /// more: nobody can tell these apart.
    ///
    /// - Returns: the endpoints that this concerns.
    package func hurryAfterClockAhead() async throws -> [String] {
        try await pool.run(doing: "looking for webhooks that a clock has put off") { connection in
            let isAhead = "clock_at > clock_timestamp() + interval '\(Self.clockTolerance) s'"
            let found = try connection.query(
                "SELECT EXISTS (SELECT FROM webhook_endpoint WHERE ledger_id = $1 AND \(isAhead))", [.int(ledgerID)]
            ).row(0).bool(0)
            guard found else { return [] }
            return try connection.transaction { connection in
                let endpoints = try connection.query(
                    "SELECT endpoint FROM webhook_endpoint WHERE ledger_id = $1 AND \(isAhead) ORDER BY endpoint FOR UPDATE",
                    [.int(ledgerID)]
                ).rows.map { try $0.text(0) }
                let longest = max(patience / .seconds(1), Double(Self.longPatience))
                for endpoint in endpoints {
                    try connection.query(
                        """
                        UPDATE webhook_delivery SET due_at = clock_timestamp() + make_interval(secs => $3)
                        WHERE ledger_id = $1 AND endpoint = $2 AND due_at > statement_timestamp() + make_interval(secs => $3)
                            AND is_taken
                        """, [.int(ledgerID), .text(endpoint), .double(longest)])
                }
                try connection.query(
                    """
                    UPDATE webhook_endpoint SET is_hurried = true, held_until = NULL, due_at = clock_timestamp(),
                        clock_at = clock_timestamp()
                    WHERE ledger_id = $1 AND endpoint = ANY ($2::text[])
                    """, [.int(ledgerID), .textArray(endpoints)])
                return endpoints
            }
        }
    }
}
