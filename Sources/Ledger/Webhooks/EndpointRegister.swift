package import EntitlementCore
import OpenSSLCrypto
package import PostgresClient
import Synchronization

/// What is to be known of an endpoint to send to it.
package struct EndpointTarget: Sendable {
    package let endpoint: Endpoint
    package let url: String
    /// The newest first: each signs.
    package let secrets: [[UInt8]]
    /// What is sent as `Authorization`; `nil`: nothing is.
    package let authorization: String?
}

/// How an endpoint fares.
package struct EndpointStanding: Sendable, Hashable {
    /// Since when it took nothing; `nil` where it took the last.
    package let failingSince: Timestamp?
    /// How many deliveries wait, and were given up.
    package let waiting: Int64
    package let failed: Int64
}

/// How all endpoints fare.
package struct EndpointHealth: Sendable, Hashable {
    /// Those that took the last message, or had none yet.
    package let active: Int64
    package let failing: Int64
    package let paused: Int64
    /// Since when the one fails that fails the longest.
    package let failingSince: Timestamp?
    /// When the delivery was due that waits the longest to be sent; `nil` where none is late.
    package let overdueSince: Timestamp?
    /// Since when something came into the log, or has run out, that was not looked at yet; `nil` where nothing is left.
    package let untoldSince: Timestamp?
}

/// What somebody orders who makes an endpoint.
package struct EndpointOrder: Sendable, Hashable {
    package let url: String
    /// Scheme, host and port of the address.
    package let origin: String
    /// Empty: all.
    package let types: Set<MessageType>
    package let environment: StoreEnvironment?
    package let bundleID: String?
    package let format: EndpointFormat
    package let description: String?
    /// What is sent as `Authorization`, as it stands.
    package let authorization: String?

    package init(
        url: String, origin: String, types: Set<MessageType>, environment: StoreEnvironment?, bundleID: String?,
        format: EndpointFormat, description: String?, authorization: String? = nil
    ) {
        (self.url, self.origin, self.types) = (url, origin, types)
        (self.environment, self.bundleID) = (environment, bundleID)
        (self.format, self.description, self.authorization) = (format, description, authorization)
    }
}

/// Makes, lists, changes and removes endpoints of webhooks.
///
/// An endpoint is what the log says of it, so nobody can add one, or lead one elsewhere, without an event that shows it: an
/// address or a secret in the database counts only where its hash is the log's.
package final class EndpointRegister: Sendable {
    /// The most endpoints at a time.
    package static let limit = 20_000
    /// How a secret begins (Standard Webhooks, "Signature scheme").
    package static let secretPrefix = "whsec_"
    /// How long a secret signs along after another took its place, in milliseconds.
    package static let overlap = Timestamp.millisecondsPerDay

    private struct State {
        var book = EndpointBook()
        /// Up to which position the book was read.
        var position: Int64 = 0
        /// What the database holds under each hash, of each endpoint.
        var values: [String: [Digest: [UInt8]]] = [:]
    }

    private let pool: PostgresPool
    private let writer: LedgerWriter
    private let state = Mutex(State())

    package init(pool: PostgresPool, writer: LedgerWriter) {
        self.pool = pool
        self.writer = writer
    }

    // MARK: - Reading

    /// Reads what the log says since the last time.
    package func refresh() async throws {
        let position = state.withLock { $0.position }
        let (events, head, values) = try await pool.run(doing: "reading the endpoints of webhooks") { connection in
            let head = try connection.query(Statements.head.sql, Statements.head.parameters).first?.int(0) ?? 0
            guard head > position else { return ([EndpointEvent](), head, [(String, Digest, [UInt8])]()) }
            let events = try EndpointEvent.all(after: position, upTo: head, on: connection)
            let changed = Set(events.map(\.fact.endpointID)).sorted()
            let values = try connection.query(
                "SELECT endpoint, hash, value FROM webhook_secret WHERE ledger_id = $1 AND endpoint = ANY ($2)",
                [.int(ledgerID), .textArray(changed)]
            ).rows.map { (try $0.text(0), try $0.digest(1), try $0.bytes(2)) }
            return (events, head, values)
        }
        state.withLock { state in
            // Others read at the same time: what they have read already is not applied again.
            guard head > state.position else { return }
            let applied = state.position
            state.position = head
            for event in events where event.position > applied {
                state.book.apply(event.fact, position: event.position, at: event.recordedAt)
            }
            for (endpoint, hash, value) in values where Self.hash(value) == hash {
                state.values[endpoint, default: [:]][hash] = value
            }
            for id in Set(events.map(\.fact.endpointID)) where state.book.endpoints[id] == nil {
                state.values[id] = nil
            }
        }
    }

    /// Those there are, as of the last reading, in the order in which they were made.
    package var endpoints: [Endpoint] {
        state.withLock { $0.book.endpoints.values.sorted { $0.position < $1.position } }
    }

    /// How many there are, as of the last reading.
    package var count: Int { state.withLock { $0.book.endpoints.count } }

    /// The one of an id, as of the last reading.
    package func endpoint(_ id: String) -> Endpoint? { state.withLock { $0.book.endpoints[id] } }

    /// Where and how to send; `nil` for an endpoint that there is not, or of which the address or the secret is lost.
    package func target(_ id: String, now: Timestamp) -> EndpointTarget? {
        state.withLock { state in
            guard let endpoint = state.book.endpoints[id], let values = state.values[id],
                let url = values[endpoint.terms.urlHash]
            else { return nil }
            let secrets = endpoint.signing(at: now, overlap: Self.overlap).compactMap { values[$0] }
            guard !secrets.isEmpty else { return nil }
            var authorization: String?
            if let hash = endpoint.terms.authorizationHash {
                guard let value = values[hash] else { return nil }
                authorization = String(decoding: value.dropFirst(Self.saltLength), as: UTF8.self)
            }
            return EndpointTarget(
                endpoint: endpoint, url: String(decoding: url, as: UTF8.self), secrets: secrets,
                authorization: authorization)
        }
    }

    /// How some endpoints fare.
    package func standings(of endpoints: [String]) async throws -> [String: EndpointStanding] {
        try await pool.run(doing: "looking how webhooks fare") { connection in
            let rows = try connection.query(
                """
                SELECT endpoint.endpoint, endpoint.failing_since,
                    (SELECT count(*) FROM webhook_delivery AS waiting WHERE waiting.ledger_id = $1
                        AND waiting.endpoint = endpoint.endpoint AND waiting.state = 1),
                    (SELECT count(*) FROM webhook_delivery AS failed WHERE failed.ledger_id = $1
                        AND failed.endpoint = endpoint.endpoint AND failed.state = 3)
                FROM webhook_endpoint AS endpoint
                WHERE endpoint.ledger_id = $1 AND endpoint.endpoint = ANY ($2::text[])
                """, [.int(ledgerID), .textArray(endpoints)]
            ).rows
            return Dictionary(
                uniqueKeysWithValues: try rows.map { row in
                    (
                        try row.text(0),
                        EndpointStanding(
                            failingSince: try row.optionalTimestamp(1).map { Timestamp(milliseconds: $0) },
                            waiting: try row.int(2), failed: try row.int(3))
                    )
                })
        }
    }

    /// How all of them fare.
    package func health() async throws -> EndpointHealth {
        try await pool.run(doing: "looking how webhooks fare") { connection in
            let row = try connection.query(
                """
                SELECT count(*) FILTER (WHERE NOT is_paused AND failing_since IS NULL),
                    count(*) FILTER (WHERE NOT is_paused AND failing_since IS NOT NULL),
                    count(*) FILTER (WHERE is_paused), min(failing_since) FILTER (WHERE NOT is_paused),
                    min(due_at) FILTER (WHERE NOT is_paused AND due_at <= clock_timestamp()),
                    least((
                        SELECT event.recorded_at FROM projection
                        JOIN event ON event.ledger_id = $1 AND event.position = projection.checkpoint + 1
                        WHERE projection.ledger_id = $1 AND projection.name = $2
                    ), (
                        SELECT next_at FROM answer_watch
                        WHERE ledger_id = $1 AND next_at <= clock_timestamp() ORDER BY next_at LIMIT 1
                    ))
                FROM webhook_endpoint WHERE ledger_id = $1
                """, [.int(ledgerID), .text(WebhookProjector.row.name)]
            ).row(0)
            func instant(_ column: Int) throws -> Timestamp? {
                try row.optionalTimestamp(column).map { Timestamp(milliseconds: $0) }
            }
            return EndpointHealth(
                active: try row.int(0), failing: try row.int(1), paused: try row.int(2), failingSince: try instant(3),
                overdueSince: try instant(4), untoldSince: try instant(5))
        }
    }

    // MARK: - Changing

    /// Makes an endpoint, whose secret is told this once.
    package func create(_ order: EndpointOrder) async throws -> (id: String, secret: String, position: Int64) {
        let id = "we_" + Base64.encodeURL(SecureRandom.bytes(12))
        let key = SecureRandom.bytes(Self.secretLength)
        // People make such values up, so what is in the log must not tell whether a guess is right.
        let authorization = order.authorization.map { SecureRandom.bytes(Self.saltLength) + Array($0.utf8) }
        let terms = EndpointTerms(
            urlHash: Self.hash(Array(order.url.utf8)), secretHash: Self.hash(key), origin: order.origin,
            types: order.types.map(\.rawValue).sorted(), environment: order.environment, bundleID: order.bundleID,
            format: order.format.rawValue, description: order.description,
            authorizationHash: authorization.map(Self.hash))
        try await keep([Array(order.url.utf8), key] + [authorization].compactMap(\.self), of: id)
        let position = try await append(EndpointFact(endpointID: id, change: .made(terms)))
        return (id, Self.text(key), position)
    }

    /// Gives an endpoint another secret; the one before signs along for a day.
    package func rotateSecret(of id: String) async throws -> (secret: String, position: Int64) {
        let key = SecureRandom.bytes(Self.secretLength)
        try await keep([key], of: id)
        let position = try await append(
            EndpointFact(endpointID: id, change: .secretRotated(secretHash: Self.hash(key))))
        return (Self.text(key), position)
    }

    /// Pauses, resumes or removes an endpoint.
    @discardableResult
    package func change(_ id: String, _ change: EndpointFact.Change) async throws -> Int64 {
        try await append(EndpointFact(endpointID: id, change: change))
    }

    private static let secretLength = 32
    private static let saltLength = 16

    private static func hash(_ value: [UInt8]) -> Digest { Digest(SHA256.hash(value)) ?? .zero }

    private static func text(_ key: [UInt8]) -> String { secretPrefix + Base64.encode(key) }

    /// Before the event, which makes them count.
    private func keep(_ values: [[UInt8]], of id: String) async throws {
        try await pool.run(doing: "keeping an endpoint's secret") { connection in
            for value in values {
                try connection.query(
                    """
                    INSERT INTO webhook_secret (ledger_id, endpoint, hash, value) VALUES ($1, $2, $3, $4)
                    ON CONFLICT DO NOTHING
                    """,
                    [
                        .int4(Int32(ledgerID)), .text(id), .bytes(Self.hash(value).bytes), .bytes(value),
                    ])
            }
        }
    }

    private func append(_ fact: EndpointFact) async throws -> Int64 {
        let outcome = try await writer.append(
            EventDraft(
                environment: nil, source: .api, occurredAt: nil, fact: .access(.endpoint(fact)), identities: [],
                deduplication: .unique))
        return outcome.position
    }
}
