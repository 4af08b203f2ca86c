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

/// What somebody orders to become another of an endpoint; `nil` stays as it is.
package struct EndpointAmendment: Sendable, Hashable {
    package struct Address: Sendable, Hashable {
        package let url: String
        /// Scheme, host and port of the address.
        package let origin: String

        package init(url: String, origin: String) { (self.url, self.origin) = (url, origin) }
    }

    package var address: Address?
    /// Empty: all.
    package var types: Set<MessageType>?
    package var environment: StoreEnvironment??
    package var description: String??
    /// What is sent as `Authorization`, as it stands; `.some(nil)`: nothing is.
    package var authorization: String??

    package init() {}
}

/// Makes, lists, changes and removes endpoints of webhooks.
///
/// Only the log defines an endpoint, so nobody can add or redirect one without an event that shows it: an address or a
/// secret in the database counts only where its hash is in the log.
package final class EndpointRegister: Sendable {
    /// The most endpoints at a time.
    package static let limit = 20_000
    /// How a secret begins (Standard Webhooks, "Signature scheme").
    package static let secretPrefix = "whsec_"
    /// How long a secret signs along after another took its place, in milliseconds.
    package static let overlap = Timestamp.millisecondsPerDay

    struct State {
        var book = EndpointBook()
        /// Up to where the log was read.
        var mark = EventMark.none
        /// What the database holds under each hash, of each endpoint.
        var values: [String: [Digest: [UInt8]]] = [:]
    }

    let pool: PostgresPool
    private let writer: LedgerWriter
    private let limit: Int
    let state = Mutex(State())

    /// - Parameter limit: the most endpoints at a time.
    package init(pool: PostgresPool, writer: LedgerWriter, limit: Int = EndpointRegister.limit) {
        self.pool = pool
        self.writer = writer
        self.limit = limit
    }

    // MARK: - Reading

    /// Reads what the log says since the last time; all of it where the log has lost what was read, as after a failover.
    package func refresh() async throws {
        let known = state.withLock { $0.mark }
        let (events, head, start, values) = try await pool.run(doing: "reading the endpoints of webhooks") {
            connection in
            let head = try EventMark.end(on: connection)
            guard head != known else {
                return ([EndpointEvent](), head, known, [(String, Digest, [UInt8], Timestamp)]())
            }
            let start = try known.isHeld(on: connection) ? known : .none
            let events = try EndpointEvent.all(after: start.position, upTo: head.position, on: connection)
            let changed = Set(events.map(\.fact.endpointID)).sorted()
            let values = try connection.query(
                "SELECT endpoint, hash, value, made_at FROM webhook_secret WHERE ledger_id = $1 AND endpoint = ANY ($2)",
                [.int(ledgerID), .textArray(changed)]
            ).rows.map { (try $0.text(0), try $0.digest(1), try $0.bytes(2), try $0.instant(3)) }
            return (events, head, start, values)
        }
        state.withLock { state in
            if start != known {
                guard state.mark == known else { return }
                state = State()
            }
            // Others read at the same time: what they have read already is not applied again.
            guard head.position > state.mark.position else { return }
            let applied = state.mark.position
            state.mark = head
            for event in events where event.position > applied {
                state.book.apply(event.fact, position: event.position, at: event.recordedAt)
            }
            for (endpoint, hash, value, madeAt) in values where Self.hash(value) == hash {
                state.values[endpoint, default: [:]][hash] = value
                state.book.note(hash, of: endpoint, madeAt: madeAt)
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

    /// A secret that an endpoint has or had, as it is told to whoever asked for it; `nil` where it is not kept any more.
    package func secret(of id: String, hash: Digest) -> String? {
        state.withLock { $0.values[id]?[hash] }.map { Self.text($0) }
    }

    /// An address that an endpoint has or had; `nil` where it is not kept any more.
    package func address(of id: String, hash: Digest) -> String? {
        state.withLock { $0.values[id]?[hash] }.map { String(decoding: $0, as: UTF8.self) }
    }

    // MARK: - Changing

    /// Makes an endpoint; its secret is what ``secret(of:hash:)`` tells of the event.
    ///
    /// - Parameter deduplication: where it was made before under the same key, no other one is.
    /// - Returns: the position of the event.
    /// - Throws: `LedgerError` of code `tooMuch` where there are as many as may be; `AppendRefusal`.
    package func create(_ order: EndpointOrder, _ deduplication: Deduplication = .unique) async throws -> Int64 {
        try await refresh()
        guard count < limit else {
            throw LedgerError(.tooMuch, "There are \(limit) endpoints, the most at a time; delete one first.")
        }
        let id = "we_" + Base64.encodeURL(SecureRandom.bytes(12))
        let key = SecureRandom.bytes(Self.secretLength)
        let url = Array(order.url.utf8)
        let authorization = order.authorization.map(Self.salted)
        let terms = EndpointTerms(
            urlHash: Self.hash(url), secretHash: Self.hash(key), origin: order.origin,
            types: order.types.map(\.rawValue).sorted(), environment: order.environment, bundleID: order.bundleID,
            format: order.format.rawValue, description: order.description,
            authorizationHash: authorization.map(Self.hash))
        return try await append(
            EndpointFact(endpointID: id, change: .made(terms)), deduplication,
            keeping: [url, key] + [authorization].compactMap(\.self))
    }

    /// Gives an endpoint another secret; those before sign along for a while.
    ///
    /// - Parameters:
    ///   - keepOldSeconds: for how long; `nil`: for a day.
    ///   - deduplication: where that was done before under the same key, it has no other one.
    /// - Returns: the position of the event.
    package func rotateSecret(
        of id: String, keepOldSeconds: Int64? = nil, _ deduplication: Deduplication = .unique
    ) async throws -> Int64 {
        let key = SecureRandom.bytes(Self.secretLength)
        let position = try await append(
            EndpointFact(
                endpointID: id, change: .secretRotated(secretHash: Self.hash(key), keepOldSeconds: keepOldSeconds)),
            deduplication, keeping: [key])
        if keepOldSeconds == 0 { try await eraseEndedSecrets(of: id) }
        return position
    }

    /// Changes an endpoint; where nothing would change there is no event, unless one has to remember an idempotency
    /// key.
    ///
    /// - Returns: the position of the last event about it.
    package func change(
        _ endpoint: Endpoint, _ amendment: EndpointAmendment, _ deduplication: Deduplication = .unique
    ) async throws -> Int64 {
        let terms = endpoint.terms
        var changes = EndpointChanges()
        var values: [[UInt8]] = []
        if let address = amendment.address {
            let url = Array(address.url.utf8)
            // One that the database has lost is given back to it.
            let isKept = state.withLock { $0.values[endpoint.id]?[terms.urlHash] != nil }
            if Self.hash(url) != terms.urlHash || !isKept {
                changes.address = EndpointChanges.Address(urlHash: Self.hash(url), origin: address.origin)
                values.append(url)
            }
        }
        let types = amendment.types.map { $0.map(\.rawValue).sorted() }
        if types != terms.types { changes.types = types }
        if amendment.environment != .some(terms.environment) { changes.environment = amendment.environment }
        if amendment.description != .some(terms.description) { changes.description = amendment.description }
        if let authorization = amendment.authorization, authorization != self.authorization(of: endpoint) {
            let value = authorization.map(Self.salted)
            changes.authorizationHash = .some(value.map(Self.hash))
            if let value { values.append(value) }
        }
        if changes == EndpointChanges(), deduplication == .unique { return endpoint.lastPosition }
        return try await append(
            EndpointFact(endpointID: endpoint.id, change: .changed(changes)), deduplication, keeping: values)
    }

    /// Pauses, resumes or removes an endpoint.
    ///
    /// - Parameter deduplication: where that was done before under the same key, it is not done again.
    /// - Returns: the position of the event.
    @discardableResult
    package func change(
        _ id: String, _ change: EndpointFact.Change, _ deduplication: Deduplication = .unique
    ) async throws -> Int64 {
        try await append(EndpointFact(endpointID: id, change: change), deduplication, keeping: [])
    }

    private static let secretLength = 32
    private static let saltLength = 16

    private static func hash(_ value: [UInt8]) -> Digest { Digest(SHA256.hash(value)) ?? .zero }

    private static func text(_ key: [UInt8]) -> String { secretPrefix + Base64.encode(key) }

    /// People make such values up, so what is in the log must not tell whether a guess is right.
    private static func salted(_ authorization: String) -> [UInt8] {
        SecureRandom.bytes(saltLength) + Array(authorization.utf8)
    }

    private func authorization(of endpoint: Endpoint) -> String? {
        guard let hash = endpoint.terms.authorizationHash else { return nil }
        return state.withLock { $0.values[endpoint.id]?[hash] }.map {
            String(decoding: $0.dropFirst(Self.saltLength), as: UTF8.self)
        }
    }

    /// Keeps values, and appends the event that makes them count.
    private func append(
        _ fact: EndpointFact, _ deduplication: Deduplication, keeping values: [[UInt8]]
    ) async throws -> Int64 {
        let hashes = values.map(Self.hash)
        if !values.isEmpty {
            try await pool.run(doing: "keeping an endpoint's secret") { connection in
                _ = try connection.query(
                    """
                    INSERT INTO webhook_secret (ledger_id, endpoint, hash, value, made_at)
                    SELECT $1, $2, *, $5 FROM unnest($3::bytea[], $4::bytea[])
                    ON CONFLICT (ledger_id, endpoint, hash) DO UPDATE SET kept_at = clock_timestamp()
                    """,
                    [
                        .int4(Int32(ledgerID)), .text(fact.endpointID), .bytesArray(hashes.map(\.bytes)),
                        .bytesArray(values), .timestamp(writer.now().milliseconds),
                    ])
            }
        }
        let outcome = try await writer.append(
            EventDraft(
                environment: nil, source: .api, occurredAt: nil, fact: .access(.endpoint(fact)), identities: [],
                deduplication: deduplication))
        // Another's event stands for this one, too. Its address may be this very one; what was made by chance is nobody's.
        let idle = hashes.filter { $0 != fact.change.addressHash }
        if outcome.isDuplicate, !idle.isEmpty {
            try await pool.run(doing: "letting go of an endpoint's secret") { connection in
                _ = try connection.query(
                    "DELETE FROM webhook_secret WHERE ledger_id = $1 AND endpoint = $2 AND hash = ANY ($3)",
                    [.int(ledgerID), .text(fact.endpointID), .bytesArray(idle.map(\.bytes))])
            }
        }
        return outcome.position
    }
}

extension EndpointFact.Change {
    /// Of an address that takes the place of another.
    fileprivate var addressHash: Digest? {
        if case .changed(let changes) = self { changes.address?.urlHash } else { nil }
    }
}
