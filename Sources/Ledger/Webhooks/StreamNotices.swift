package import EntitlementCore
package import PostgresClient

/// A stream of a store's, as it was looked at.
package struct NoticedStream: Sendable, Hashable {
    /// Empty where it is of no app.
    package let app: String
    package let environment: StoreEnvironment
    package let source: String
    package let isSilent: Bool
    /// What is sent as `data`.
    package let body: [UInt8]

    package init(app: String, environment: StoreEnvironment, source: String, isSilent: Bool, body: [UInt8]) {
        (self.app, self.environment, self.source) = (app, environment, source)
        (self.isSilent, self.body) = (isSilent, body)
    }
}

/// Tells the endpoints when a store falls silent, and when it is heard again: once, whichever process notices.
package struct StreamNotices: Sendable {
    private let pool: PostgresPool
    private let patience: Duration

    /// - Parameter patience: for how long a stream is silent before anybody is told: after an outage of its own the service
    ///   reads the store's history first.
    package init(pool: PostgresPool, patience: Duration = .seconds(600)) {
        self.pool = pool
        self.patience = patience
    }

    /// Whether anybody wants to hear of it.
    package func isWanted() async throws -> Bool {
        try await pool.run(doing: "looking who is told of silent streams") { connection in
            try !StoredEndpoint.apps(wanting: [.streamSilent, .streamRecovered], on: connection).isEmpty
        }
    }

    /// Notes how streams stand, and tells what has changed.
    package func note(_ streams: [NoticedStream], at instant: Timestamp) async throws {
        try await pool.run(doing: "telling of silent streams") { connection in
            let stored = try Self.stored(on: connection)
            // Nearly always there is nothing to do, and then nothing is locked.
            guard streams.contains(where: { $0.isSilent != (stored[StreamKey($0)] == .told) }) || !stored.isEmpty
            else { return }
            try connection.transaction { connection in
                _ = try WebhookProjector.lock(on: connection, waits: true)
                let apps = try StoredEndpoint.apps(wanting: [.streamSilent, .streamRecovered], on: connection)
                let position = try Statements.headPosition(on: connection)
                let stored = try Self.stored(on: connection)
                var messages: [OutboxMessage] = []
                for stream in streams {
                    guard let type = try step(stream, stored[StreamKey(stream)], on: connection) else { continue }
                    messages += apps.filter { $0.isEmpty || $0 == stream.app }.sorted().map { name in
                        OutboxMessage(
                            content: .other(type, body: stream.body), app: name, environment: stream.environment,
                            identity: EventName.nobody, position: position, at: instant)
                    }
                }
                try Outbox.add(messages, on: connection)
            }
        }
    }

    private struct StreamKey: Hashable {
        let app: String
        let environment: StoreEnvironment
        let source: String

        init(app: String, environment: StoreEnvironment, source: String) {
            (self.app, self.environment, self.source) = (app, environment, source)
        }

        init(_ stream: NoticedStream) {
            self.init(app: stream.app, environment: stream.environment, source: stream.source)
        }
    }

    private enum Standing {
        case silent
        case told
    }

    private static func stored(on connection: isolated PostgresConnection) throws -> [StreamKey: Standing] {
        let rows = try connection.query(
            "SELECT app, environment, source, is_told FROM webhook_stream WHERE ledger_id = $1", [.int(ledgerID)]
        ).rows
        return Dictionary(
            uniqueKeysWithValues: try rows.map { row in
                (
                    StreamKey(
                        app: try row.text(0), environment: try StoreEnvironment(stored: row.int(1)),
                        source: try row.text(2)),
                    try row.bool(3) ? .told : .silent
                )
            })
    }

    /// Follows one stream; returns what is to be told of it.
    private func step(
        _ stream: NoticedStream, _ standing: Standing?, on connection: isolated PostgresConnection
    ) throws -> MessageType? {
        let named: [PostgresValue] = [
            .int4(Int32(ledgerID)), .text(stream.app), .int2(stream.environment.number), .text(stream.source),
        ]
        let isNamed = "ledger_id = $1 AND app = $2 AND environment = $3 AND source = $4"
        guard stream.isSilent else {
            guard let standing else { return nil }
            try connection.query("DELETE FROM webhook_stream WHERE \(isNamed)", named)
            return standing == .told ? .streamRecovered : nil
        }
        switch standing {
        case .told: return nil
        case nil:
            try connection.query(
                """
                INSERT INTO webhook_stream (ledger_id, app, environment, source, silent_since)
                VALUES ($1, $2, $3, $4, clock_timestamp()) ON CONFLICT DO NOTHING
                """, named)
        case .silent: break
        }
        let told = try connection.query(
            """
            UPDATE webhook_stream SET is_told = true
            WHERE \(isNamed) AND NOT is_told AND silent_since <= clock_timestamp() - make_interval(secs => $5)
            RETURNING 1
            """, named + [.double(patience / .seconds(1))])
        return told.first == nil ? nil : .streamSilent
    }
}
