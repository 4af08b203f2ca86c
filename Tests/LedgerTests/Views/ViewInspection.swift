import EntitlementCore
import OpenSSLCrypto
import PostgresClient
import TestSupport
import Testing

@testable import Ledger

extension SnapshotPolicy {
    /// Short lives have snapshots too, so that a test need not tell long ones.
    static let early: SnapshotPolicy = {
        var policy = SnapshotPolicy()
        policy.tail = 3
        return policy
    }()
}

/// What the tables beside the log must hold, worked out here from the events alone.
struct ViewInspection: Sendable {
    /// One row of `original_view`.
    struct Row: Hashable, Sendable {
        let lastPosition: Int64
        let events: Int64
        let state: [UInt8]
    }

    typealias Rows = [OriginalKey: Row]

    /// The events of one original transaction, in order.
    struct Life: Sendable {
        var events: [DecodedEvent] = []

        /// What a snapshot as of a position must be; `nil` where there is no event by then.
        func row(upTo position: Int64 = .max) -> Row? {
            var state = OriginalState()
            let folded = events.filter { $0.record.position <= position }
            for event in folded {
                state.join(
                    event.fact, originalTransactionID: event.record.originalTransactionID ?? "",
                    source: event.record.source.statementSource, position: event.record.position)
            }
            return folded.last.map {
                Row(lastPosition: $0.record.position, events: Int64(folded.count), state: state.encoded())
            }
        }
    }

    /// Logs in as the tables' owner.
    let pool: PostgresPool

    init(_ database: TestDatabase) { pool = PostgresPool(database.ownerConninfo) }

    func events() async throws -> [DecodedEvent] {
        try await pool.withConnection { connection in
            try connection.query("SELECT \(EventColumns.list) FROM event ORDER BY position").rows.map {
                try DecodedEvent(EventRecord($0))
            }
        }
    }

    func lives() async throws -> [OriginalKey: Life] {
        var lives: [OriginalKey: Life] = [:]
        for event in try await events() {
            guard let environment = event.record.environment, let original = event.record.originalTransactionID else {
                continue
            }
            lives[OriginalKey(environment: environment, originalTransactionID: original), default: Life()].events
                .append(event)
        }
        return lives
    }

    /// The generation that counts.
    func generation() async throws -> Int64 {
        try await pool.withConnection { connection in
            try #require(try connection.query("SELECT view_generation FROM ledger_head").first?.int(0))
        }
    }

    /// Every row of a generation; `nil`: of the one that counts.
    func rows(of generation: Int64? = nil) async throws -> Rows {
        try await pool.withConnection { connection in
            var rows: Rows = [:]
            let result = try connection.query(
                """
                SELECT environment, original_transaction_id, last_position, events, state, fold_version
                FROM original_view
                WHERE generation = coalesce($1, (SELECT view_generation FROM ledger_head))
                """, [.int(generation)])
            for row in result.rows {
                let key = OriginalKey(
                    environment: try StoreEnvironment(stored: row.int(0)), originalTransactionID: try row.text(1))
                rows[key] = Row(lastPosition: try row.int(2), events: try row.int(3), state: try row.bytes(4))
                #expect(try row.int(5) == Int64(OriginalState.foldVersion), "\(key)")
            }
            return rows
        }
    }

    /// Every snapshot that counts is the fold of the events up to its end, and every life that is long enough for one
    /// by the projection's checkpoint has one that is recent enough.
    @discardableResult
    func expectTrue(_ policy: SnapshotPolicy = .early, _ comment: String = "") async throws -> Rows {
        let (lives, rows) = (try await lives(), try await rows())
        let checkpoint = try await pool.withConnection { connection in
            try #require(
                try connection.query("SELECT checkpoint FROM projection WHERE name = 'originals'").first?.int(0))
        }
        for (key, row) in rows {
            #expect(lives[key]?.row(upTo: row.lastPosition) == row, "\(key) \(comment)")
        }
        for (key, life) in lives {
            let snapshot = rows[key]
            let tail = life.events.count {
                $0.record.position <= checkpoint && $0.record.position > snapshot?.lastPosition ?? 0
            }
            let limit = max(policy.tail, (snapshot?.events ?? 0) / policy.part)
            #expect(tail < limit, "\(key) has \(tail) events beyond its snapshot \(comment)")
        }
        return rows
    }

    /// What readers are given, by way of snapshots and tails, is the fold of the log.
    func expectTrueReads(_ comment: String = "") async throws {
        let lives = try await lives()
        let read = try await pool.withConnection { connection in
            try StateQuery.states(of: lives.keys.sorted(), upTo: .max, on: connection)
        }
        #expect(Set(read.keys) == Set(lives.keys), "\(comment)")
        for (key, state) in read { #expect(state.encoded() == lives[key]?.row()?.state, "\(key) \(comment)") }
    }

    // MARK: - Names and dedup keys

    /// A row of `event_name`, as numbers.
    struct Name: Hashable, Sendable {
        let identity: Int64
        let environment: Int64
        let kind: Int64
        let original: String
        let position: Int64
    }

    /// The rows that the events account for.
    static func names(of events: [DecodedEvent]) -> Set<Name> {
        var names: Set<Name> = []
        var first: [Name: Int64] = [:]
        for event in events {
            let environment: Int64 =
                switch event.record.environment {
                case nil: 0
                case .production: 1
                case .sandbox: 2
                }
            let original = event.record.originalTransactionID ?? ""
            func add(_ identity: IdentityRef, _ kind: Int64) {
                let position = event.record.position
                if kind < 2 {
                    let name = Name(
                        identity: identity.number, environment: environment, kind: kind, original: original, position: 0
                    )
                    guard first.updateValue(first[name] ?? position, forKey: name) == nil else { return }
                }
                names.insert(
                    Name(
                        identity: identity.number, environment: environment, kind: kind, original: original,
                        position: position))
            }
            switch event.fact {
            case .notification, .statements:
                let stated = event.fact.transactions
                for transaction in stated {
                    if let owner = transaction.accountToken ?? transaction.appTransaction { add(owner, 0) }
                    if transaction.accountToken != nil, let app = transaction.appTransaction { add(app, 1) }
                }
                if stated.isEmpty, original.isEmpty, event.record.evidenceHash != nil { add(IdentityRef(0), 3) }
            case .web(let fact):
                for owner in Set(fact.owners.map(\.customer)) { add(owner, 0) }
                if fact.owners.isEmpty, original.isEmpty, event.record.evidenceHash != nil { add(IdentityRef(0), 3) }
                names.formUnion(
                    fact.partIDs.map {
                        Name(
                            identity: 0, environment: environment, kind: 4, original: $0,
                            position: event.record.position)
                    })
            case .link(let fact):
                add(fact.identity, 2)
                add(fact.customer, 2)
            case .claim(let fact): add(fact.customer, 2)
            case .transfer(let fact): add(fact.customer, 2)
            case .grant(let fact): add(fact.customer, 2)
            case .grantRevocation(let fact): add(fact.customer, 2)
            case .conflict(let fact): add(fact.claimant, 3)
            case .drift(let fact): add(fact.customer, 3)
            case .forgetting(let fact): for identity in fact.identities { add(identity, 3) }
            case .catalog, .transferUndo, .access, .storeRequest: break
            }
        }
        return names
    }

    /// Table `event_name` holds what the events name, and column `dedup_key` what their ids give.
    func expectTrueNames(_ comment: String = "") async throws {
        let events = try await events()
        let (names, count, keys) = try await pool.withConnection { connection in
            let names = try connection.query(
                "SELECT identity, environment, kind, original_transaction_id, position FROM event_name"
            ).rows.map {
                Name(
                    identity: try $0.int(0), environment: try $0.int(1), kind: try $0.int(2), original: try $0.text(3),
                    position: try $0.int(4))
            }
            let keys = try connection.query("SELECT dedup_key FROM event ORDER BY position").rows.map {
                try $0.optionalBytes(0)
            }
            return (Set(names), names.count, keys)
        }
        let expected = Self.names(of: events)
        #expect(
            names == expected && count == expected.count,
            "\(comment) \(names.subtracting(expected)) instead of \(expected.subtracting(names))")
        let expectedKeys = events.map { event -> [UInt8]? in
            guard case .notification(let fact) = event.fact else { return nil }
            let isReused = fact.remarks.contains("id_reused")
            let id = "notification:\(event.record.environment?.rawValue ?? ""):\(fact.uuid)"
            return Array(
                SHA256.hash(
                    Array(id.utf8) + (isReused ? [0xFF] + fact.payloadHash.bytes : [])
                ).prefix(16))
        }
        #expect(keys == expectedKeys, "\(comment)")
    }
}
