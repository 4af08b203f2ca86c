package import EntitlementCore
import PostgresClient

/// What endpoints want to hear of, as the outbox gives messages to them.
enum StoredEndpoint {
    /// Of which apps anybody wants to hear of some types: their bundle ids, and an empty one for every app.
    static func apps(
        wanting types: Set<MessageType>, on connection: isolated PostgresConnection
    ) throws -> Set<String> {
        Set(
            try connection.query(
                "SELECT DISTINCT app FROM webhook_endpoint WHERE ledger_id = $1 AND types && $2::smallint[]",
                [.int(ledgerID), .int2Array(types.map(\.number).sorted())]
            ).rows.map { try $0.text(0) })
    }

    /// Follows what an event says of an endpoint, and begins or ends to look at answers for it.
    static func apply(
        _ fact: EndpointFact, at position: Int64, _ recordedAt: Timestamp, on connection: isolated PostgresConnection
    ) throws {
        let named: [PostgresValue] = [.int(ledgerID), .text(fact.endpointID)]
        switch fact.change {
        case .made(let terms):
            let wanted = terms.types.compactMap { MessageType(rawValue: $0) }
            let types = terms.types.isEmpty ? terms.knownFormat.types : wanted
            let audience = EndpointAudience(bundleID: terms.bundleID, format: terms.knownFormat)
            try connection.query(
                """
                INSERT INTO webhook_endpoint (ledger_id, endpoint, position, app, environment, types)
                VALUES ($1, $2, $3, $4, $5, $6::smallint[]) ON CONFLICT (ledger_id, endpoint) DO NOTHING
                """,
                [
                    .int4(Int32(ledgerID)), .text(fact.endpointID), .int(position), .text(audience.name),
                    .int2(terms.environment?.number), .int2Array(types.map(\.number)),
                ])
            if types.contains(where: \.isCounted) {
                try AnswerScope.begin(audience.name, after: position, at: recordedAt, on: connection)
            }
        case .changed(let changes): try change(fact.endpointID, changes, at: position, recordedAt, on: connection)
        case .secretRotated: break
        case .paused:
            try connection.query(
                "UPDATE webhook_endpoint SET is_paused = true WHERE ledger_id = $1 AND endpoint = $2", named)
        case .resumed:
            try connection.query(
                """
                UPDATE webhook_endpoint SET is_paused = false, failing_since = NULL, is_failure_told = false,
                    held_until = NULL, due_at = clock_timestamp()
                WHERE ledger_id = $1 AND endpoint = $2
                """, named)
            try Outbox.retryNow(fact.endpointID, on: connection)
        case .removed:
            // What it was sent goes with the next look for what is old.
            for table in ["webhook_endpoint", "webhook_secret"] {
                try connection.query("DELETE FROM \(table) WHERE ledger_id = $1 AND endpoint = $2", named)
            }
            try AnswerScope.endUnwanted(on: connection)
        }
    }

    private static func change(
        _ endpoint: String, _ changes: EndpointChanges, at position: Int64, _ recordedAt: Timestamp,
        on connection: isolated PostgresConnection
    ) throws {
        let named: [PostgresValue] = [.int(ledgerID), .text(endpoint)]
        if let environment = changes.environment {
            try connection.query(
                "UPDATE webhook_endpoint SET environment = $3 WHERE ledger_id = $1 AND endpoint = $2",
                named + [.int2(environment?.number)])
        }
        if let names = changes.types,
            let row = try connection.query(
                "SELECT app FROM webhook_endpoint WHERE ledger_id = $1 AND endpoint = $2", named
            ).first
        {
            let audience = EndpointAudience(name: try row.text(0))
            let types = names.isEmpty ? audience.format.types : names.compactMap { MessageType(rawValue: $0) }
            try connection.query(
                "UPDATE webhook_endpoint SET types = $3::smallint[] WHERE ledger_id = $1 AND endpoint = $2",
                named + [.int2Array(types.map(\.number))])
            if types.contains(where: \.isCounted) {
                try AnswerScope.begin(audience.name, after: position, at: recordedAt, on: connection)
            } else {
                try AnswerScope.endUnwanted(on: connection)
            }
        }
        guard changes.address != nil || changes.authorizationHash != nil else { return }
        // Nothing is known of how it fares there, so that what waits is tried at once.
        try connection.query(
            """
            UPDATE webhook_endpoint SET failing_since = NULL, is_failure_told = false, held_until = NULL,
                due_at = clock_timestamp()
            WHERE ledger_id = $1 AND endpoint = $2
            """, named)
        try Outbox.retryNow(endpoint, on: connection)
    }
}

/// What an event says of an endpoint.
struct EndpointEvent: Sendable {
    let position: Int64
    let recordedAt: Timestamp
    let fact: EndpointFact

    /// The first one after a position.
    static func first(after position: Int64, on connection: isolated PostgresConnection) throws -> EndpointEvent? {
        try read(after: position, upTo: .max, limit: 1, on: connection).first
    }

    /// Those after a position, up to and with another one, in their order.
    static func all(
        after start: Int64, upTo end: Int64, on connection: isolated PostgresConnection
    ) throws -> [EndpointEvent] {
        try read(after: start, upTo: end, limit: nil, on: connection)
    }

    private static func read(
        after start: Int64, upTo end: Int64, limit: Int64?, on connection: isolated PostgresConnection
    ) throws -> [EndpointEvent] {
        // The list of types is the index's own, so that it serves.
        try connection.query(
            """
            SELECT found.position, event.recorded_at, event.facts FROM (
                SELECT next.position FROM unnest($4::text[]) AS key (type)
                CROSS JOIN LATERAL (
                    SELECT position FROM event AS stored WHERE stored.ledger_id = $1 AND stored.position > $2
                        AND stored.position <= $3
                        AND stored.type = key.type AND stored.type IN ('catalog_applied', 'forgotten', 'api_key_created',
                            'api_key_revoked', 'pass_keys_changed', 'webhook_endpoint_created', 'webhook_endpoint_changed', 'webhook_secret_rotated',
                            'webhook_endpoint_paused', 'webhook_endpoint_resumed', 'webhook_endpoint_deleted')
                    ORDER BY stored.position LIMIT $5
                ) AS next
                ORDER BY next.position LIMIT $5
            ) AS found
            \(Statements.search(
                "SELECT * FROM event WHERE event.ledger_id = $1 AND event.position = found.position", as: "event"))
            ORDER BY found.position
            """,
            [
                .int(ledgerID), .int(start), .int(end), .textArray(EndpointFact.eventTypes.sorted()), .int(limit),
            ]
        ).rows.map { row in
            let position = try row.int(0)
            guard case .access(.endpoint(let fact)) = try FactCodec.decode(row.bytes(2)) else {
                throw LedgerError(.corrupt, "event \(position) is called an endpoint's and is none")
            }
            return EndpointEvent(
                position: position, recordedAt: try row.instant(1), fact: fact)
        }
    }
}

extension EndpointRegister {
    /// Whether something waits that `resume` sends at once: the endpoint is paused, its receiver asked to be left alone, or a
    /// message was not taken and is to be tried again later.
    package func isHeldUp(_ endpoint: Endpoint) async throws -> Bool {
        if endpoint.pause != nil { return true }
        return try await pool.run(doing: "looking what an endpoint waits for") { connection in
            try connection.query(
                """
                SELECT EXISTS (
                    SELECT FROM webhook_endpoint WHERE ledger_id = $1 AND endpoint = $2
                        AND held_until > statement_timestamp()
                ) OR EXISTS (
                    SELECT FROM webhook_delivery AS delivery WHERE ledger_id = $1 AND endpoint = $2
                        AND \(Outbox.isTriedLater("delivery")))
                """, [.int(ledgerID), .text(endpoint.id)]
            ).first?.bool(0) ?? false
        }
    }
}
