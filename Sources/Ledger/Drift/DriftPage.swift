import EntitlementCore
import PostgresClient

/// A stretch of the log, and the differences on which it bears.
struct DriftPage {
    /// What of an event tells whether it bears on anything.
    private struct Line {
        let position: Int64
        let environment: StoreEnvironment?
        let source: EventSource
        let type: String
        let originalTransactionID: String?
        let hasProduct: Bool
        let identities: [IdentityRef]

        init(_ row: PostgresRow) throws {
            position = try row.int(0)
            environment = try row.optionalInt(1).map { try StoreEnvironment(stored: $0) }
            source = try EventSource(stored: row.int(2))
            type = try row.text(3)
            originalTransactionID = try row.optionalText(4)
            hasProduct = try row.bool(5)
            identities = try [row.optionalInt(6), row.optionalInt(7)].compactMap { $0.map { IdentityRef($0) } }
        }

        var hasMore: Bool { type == "drift" || type == "forgotten" || type == StatementsFact.label }

        var keys: [DriftKey] {
            let original: DriftKey? =
                if let environment, let originalTransactionID {
                    .original(OriginalKey(environment: environment, originalTransactionID: originalTransactionID))
                } else {
                    nil
                }
            return identities.map { .identity($0) } + [original].compactMap(\.self)
        }
    }

    /// How long a notification may take that the store has sent, in milliseconds: it gives up after three days.
    private static let deliveryLimit = 10 * Timestamp.millisecondsPerDay

    private let lines: [Line]
    private var known: DriftKnowledge
    private var events: [Int64: DecodedEvent] = [:]
    /// As they were before the page.
    private var stored: [Int64: DriftRow] = [:]
    private var storedKeys: [Int64: Set<DriftKey>] = [:]
    private var rows: [Int64: DriftRow] = [:]
    private var keys: [Int64: Set<DriftKey>] = [:]
    private var index: [DriftKey: Set<Int64>] = [:]
    private(set) var streams: StreamBeginnings

    /// - Parameter memory: what was told apart before; `nil`: what is stored.
    init(
        from start: Int64, to end: Int64, after memory: DriftMemory? = nil, on connection: isolated PostgresConnection
    ) throws {
        known = DriftKnowledge(from: start, to: end)
        streams = try memory?.streams ?? StreamBeginnings(on: connection)
        lines = try connection.query(
            """
            SELECT position, environment, source, type, original_transaction_id, product_id IS NOT NULL,
                identity, other_identity
            FROM event WHERE ledger_id = $1 AND position > $2 AND position <= $3 ORDER BY position
            """, [.int(ledgerID), .int(start), .int(end)]
        ).rows.map { try Line($0) }
        events = try Self.events(at: Self.wanted(lines), on: connection)
        let touched = Set(lines.flatMap(\.keys)).union(events.values.flatMap(\.fact.namedKeys))
        for (row, keys) in try memory?.rows(with: touched) ?? DriftKey.rows(with: touched, on: connection) {
            stored[row.position] = row
            storedKeys[row.position] = keys
            set(row, keys)
        }
    }

    /// The events that are read whole: those that may find a difference, and those whose columns do not say what they bear on.
    private static func wanted(_ lines: [Line]) -> [Int64] {
        lines.filter { line in
            if line.source == .serverAPI || line.hasMore { return true }
            return line.source.isSigned && line.environment != nil && !line.hasProduct
        }.map(\.position)
    }

    private static func events(
        at positions: [Int64], on connection: isolated PostgresConnection
    ) throws -> [Int64: DecodedEvent] {
        guard !positions.isEmpty else { return [:] }
        let found = try connection.query(
            """
            SELECT \(EventColumns.list(of: "event")) FROM unnest($2::bigint[]) AS key (position)
            \(Statements.search(
                "SELECT * FROM event WHERE event.ledger_id = $1 AND event.position = key.position", as: "event"))
            """, [.int(ledgerID), .intArray(positions)]
        ).rows.map { try DecodedEvent(EventRecord($0)) }
        return Dictionary(uniqueKeysWithValues: found.map { ($0.record.position, $0) })
    }

    private mutating func set(_ row: DriftRow, _ keys: Set<DriftKey>) {
        for key in self.keys[row.position, default: []].subtracting(keys) { index[key]?.remove(row.position) }
        for key in keys { index[key, default: []].insert(row.position) }
        rows[row.position] = row
        self.keys[row.position] = keys
    }

    // MARK: - The walk

    /// Takes the events in their order.
    mutating func goThrough(on connection: isolated PostgresConnection) throws {
        try known.readLives(
            of: events.values.filter { $0.record.source == .serverAPI && $0.fact.isStatements }, on: connection)
        for line in lines {
            var keys = Set(line.keys)
            if let event = events[line.position] { keys.formUnion(event.fact.namedKeys) }
            let touched = keys.reduce(into: Set<Int64>()) { $0.formUnion(index[$1] ?? []) }
            if !touched.isEmpty {
                let event = try whole(line.position, on: connection)
                for position in touched.sorted() {
                    try known.stayAwake(on: connection)
                    try look(at: position, after: event, on: connection)
                }
            }
            if let event = events[line.position] { try find(event, on: connection) }
        }
    }

    private mutating func whole(
        _ position: Int64, on connection: isolated PostgresConnection
    ) throws -> DecodedEvent {
        if let event = events[position] { return event }
        guard let event = try Self.events(at: [position], on: connection)[position] else {
            throw LedgerError(.corrupt, "the log has no position \(position)")
        }
        events[position] = event
        return event
    }

    /// Looks whether an event finds a difference.
    private mutating func find(_ event: DecodedEvent, on connection: isolated PostgresConnection) throws {
        let record = event.record
        guard let environment = record.environment else { return }
        if case .drift(let report) = event.fact {
            guard !report.isAgreement else { return }
            var row = DriftRow(
                position: record.position, environment: environment, comparison: .deviceLedger,
                identity: report.customer, productID: report.productID, foundAt: record.recordedAt,
                originalTransactionID: nil, app: report.bundleID, cause: .none)
            let person = try known.person(report, environment, upTo: record.position, on: connection)
            let drift = person.drift(report, at: record.recordedAt)
            take(drift.verdictWhenFound(), drift, person, event, &row)
        } else if record.source == .serverAPI, let original = record.originalKey,
            let app = event.fact.bundleIDs.min(),
            let cause = StoreDrift.cause(
                of: event.fact, occurredAt: record.occurredAt,
                before: try known.state(of: original, before: record.position),
                listeningSince: try streams.beginning(
                    of: StoreStream(app: app, environment: environment), from: record, on: connection))
        {
            let newest = event.fact.transactions.max { $0.purchaseDate < $1.purchaseDate }
            let row = DriftRow(
                position: record.position, environment: environment, comparison: .storeLedger,
                identity: record.identity, productID: record.productID ?? newest?.productID,
                foundAt: record.recordedAt, originalTransactionID: original.originalTransactionID, app: app,
                cause: cause,
                end: DriftRow.End(position: record.position, at: record.recordedAt, by: .storeAnswer))
            set(row, cause == .foundWhenAsked ? [.original(original)] : [])
        }
    }

    /// Looks what an event says of a difference that was found before.
    private mutating func look(
        at position: Int64, after event: DecodedEvent, on connection: isolated PostgresConnection
    ) throws {
        guard var row = rows[position] else { return }
        let record = event.record
        let found = try whole(position, on: connection)
        switch (row.comparison, found.fact) {
        case (.storeLedger, let fact):
            if record.recordedAt > row.foundAt.adding(milliseconds: Self.deliveryLimit) {
                set(row, [])
            } else if StoreDrift.isDelivered(fact, foundAt: row.foundAt, by: event.history) {
                row.cause = .deliveredAfterAsking
                set(row, [])
            }
        case (.deviceLedger, .drift(let report)):
            let person = try known.person(report, row.environment, upTo: record.position, on: connection)
            guard person.isHeard(in: event) else { return }
            let drift = person.drift(report, at: row.foundAt)
            take(drift.verdict(after: event.history, row.cause), drift, person, event, &row)
        case (.deviceLedger, _):
            throw LedgerError(.corrupt, "event \(position) was a device's report, and is not")
        }
    }

    private mutating func take(
        _ verdict: DeviceDrift.Verdict, _ drift: DeviceDrift, _ person: DriftKnowledge.Person, _ event: DecodedEvent,
        _ row: inout DriftRow
    ) {
        let cause: DriftCause =
            switch verdict {
            case .open(let cause), .ended(let cause, _): cause
            }
        row.originalTransactionID = drift.subject(of: cause) ?? row.originalTransactionID
        switch verdict {
        case .open(let cause):
            row.cause = cause
            set(row, person.keys)
        case .ended(let cause, let end):
            row.cause = cause
            row.end = DriftRow.End(position: event.record.position, at: event.record.recordedAt, by: end)
            set(row, [])
        }
    }

    // MARK: - What came of it

    /// The differences on which the stretch bears, each with its keys, as they are after it.
    var outcome: [(row: DriftRow, keys: Set<DriftKey>)] { rows.map { ($1, keys[$0, default: []]) } }

    struct CountKey: Hashable {
        let environment: StoreEnvironment
        let driftClass: DriftClass
        let app: String

        init(_ row: DriftRow) {
            environment = row.environment
            driftClass = row.cause.driftClass
            app = row.app
        }

        /// Reads a row of `drift_count`: its environment, class and app.
        init(_ row: PostgresRow) throws {
            environment = try StoreEnvironment(stored: row.int(0))
            driftClass = try DriftClass(stored: row.int(1))
            app = try row.text(2)
        }
    }

    /// Writes what has changed.
    func write(on connection: isolated PostgresConnection) throws {
        let changed = rows.values.filter { stored[$0.position] != $0 }.sorted { $0.position < $1.position }
        try DriftRow.write(changed, on: connection)
        try DriftKey.write(keys.filter { $0.value != storedKeys[$0.key, default: []] }, on: connection)
        var counts: [CountKey: (open: Int64, found: Int64, notCompared: Int64)] = [:]
        func add(_ row: DriftRow, _ number: Int64) {
            counts[CountKey(row), default: (0, 0, 0)].found += number
            guard row.isOpen else { return }
            counts[CountKey(row), default: (0, 0, 0)].open += number
            if row.cause == .tooMuchKnown { counts[CountKey(row), default: (0, 0, 0)].notCompared += number }
        }
        for row in changed {
            if let before = stored[row.position] { add(before, -1) }
            add(row, 1)
        }
        let news = counts.filter { $0.value != (0, 0, 0) }
        if !news.isEmpty {
            try connection.query(
                """
                INSERT INTO drift_count AS known (ledger_id, environment, class, app, open, found, not_compared)
                SELECT $1, * FROM unnest(
                    $2::smallint[], $3::smallint[], $4::text[], $5::bigint[], $6::bigint[], $7::bigint[])
                ON CONFLICT (ledger_id, environment, class, app) DO UPDATE
                SET open = known.open + excluded.open, found = known.found + excluded.found,
                    not_compared = known.not_compared + excluded.not_compared
                """,
                [
                    .int4(Int32(ledgerID)), .int2Array(news.map(\.key.environment.number)),
                    .int2Array(news.map(\.key.driftClass.number)), .textArray(news.map(\.key.app)),
                    .intArray(news.map(\.value.open)), .intArray(news.map(\.value.found)),
                    .intArray(news.map(\.value.notCompared)),
                ])
        }
        try streams.write(on: connection)
    }
}

extension EventSource {
    /// Whether its events carry what the App Store has signed about an app.
    var isSigned: Bool {
        switch self {
        case .notification, .serverAPI, .device: true
        case .stripeNotification, .stripeAPI, .api, .operatorCommand: false
        }
    }
}

extension LedgerFact {
    fileprivate var isStatements: Bool { if case .statements = self { true } else { false } }

    /// Whom it names that the log's columns do not.
    fileprivate var namedKeys: [DriftKey] {
        if case .forgetting(let fact) = self { return fact.identities.map { .identity($0) } }
        return transactions.flatMap { [$0.accountToken, $0.appTransaction] }.compactMap { $0.map { .identity($0) } }
    }
}
