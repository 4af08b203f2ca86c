import EntitlementCore
import PostgresClient

/// How the log is divided into stretches; table `chart_part` holds what each stretch contributes to charts.
///
/// A stretch of level 0 has `positions` positions; a stretch of a higher level is made of `width` stretches of the
/// level below. So a chart at any position is the sum of a few stretches, and of what the events after the last one
/// change.
package struct ChartLayout: Sendable, Hashable {
    /// How many positions a stretch of level 0 has.
    let positions: Int64
    /// How many stretches make one of the level above.
    let width: Int64
    /// The highest level: with the standard layout a stretch of it has 34 thousand million positions.
    let topLevel: Int16 = 5

    /// The layout that every program uses; a projection that was made with another one begins anew.
    package static let standard = ChartLayout(positions: 1024, width: 32)

    /// How many positions a stretch of a level has.
    func length(of level: Int16) -> Int64 { (0..<level).reduce(positions) { length, _ in length * width } }

    /// The position before the first of a stretch.
    func start(of part: ChartPart) -> Int64 { part.number * length(of: part.level) }

    /// The last position of a stretch.
    func end(of part: ChartPart) -> Int64 { start(of: part) + length(of: part.level) }

    /// The stretch of level 0 that holds the position after one.
    func part(after position: Int64) -> ChartPart { ChartPart(level: 0, number: position / positions) }

    /// The stretches that end with a position and are put together then, the lowest first.
    func completed(at position: Int64) -> [ChartPart] {
        (1...topLevel).filter { position > 0 && position % length(of: $0) == 0 }.map {
            ChartPart(level: $0, number: position / length(of: $0) - 1)
        }
    }

    /// What a stretch is put together from.
    func parts(of part: ChartPart) -> [ChartPart] {
        (part.number * width..<(part.number + 1) * width).map { ChartPart(level: part.level - 1, number: $0) }
    }

    /// As few complete stretches as there can be from the beginning of the log to the last end of one at or before a position.
    func covering(upTo position: Int64) -> [ChartPart] {
        var parts: [ChartPart] = []
        var reached: Int64 = 0
        while let level = (0...topLevel).last(where: {
            reached % length(of: $0) == 0 && reached + length(of: $0) <= position
        }) {
            parts.append(ChartPart(level: level, number: reached / length(of: level)))
            reached += length(of: level)
        }
        return parts
    }
}

/// A stretch of the log, by a layout.
struct ChartPart: Hashable, Sendable {
    let level: Int16
    /// Its place among those of its level, from 0.
    let number: Int64
}

/// What stretches of the log contribute, by environment.
typealias ChartContributions = [StoreEnvironment: ChartCells]

/// Reads and writes table `chart_part`: a row is what one stretch contributes to one chart of one environment.
enum ChartTable {
    /// What one stretch contributes.
    static func contributions(
        of part: ChartPart, on connection: isolated PostgresConnection
    ) throws -> ChartContributions {
        let rows = try connection.query(
            """
            SELECT environment, cells, chart FROM chart_part WHERE ledger_id = $1 AND level = $2 AND number = $3
            """, [.int(ledgerID), .int2(part.level), .int(part.number)]
        ).rows
        var found: ChartContributions = [:]
        for row in rows {
            found[try StoreEnvironment(stored: row.int(0)), default: ChartCells()].add(
                try cells(row.bytes(1), of: part))
        }
        return found
    }

    /// What some stretches contribute to one chart.
    static func sum(
        of parts: [ChartPart], _ chart: ChartName, _ environment: StoreEnvironment,
        on connection: isolated PostgresConnection
    ) throws -> ChartCells {
        var sum = ChartCells()
        guard !parts.isEmpty else { return sum }
        let rows = try connection.query(
            """
            SELECT stored.cells, key.index FROM unnest($2::smallint[], $3::bigint[])
                WITH ORDINALITY AS key (level, number, index)
            \(Statements.search(
                """
                SELECT cells FROM chart_part
                WHERE chart_part.ledger_id = $1 AND chart_part.level = key.level AND chart_part.number = key.number
                    AND chart_part.environment = $4 AND chart_part.chart = $5
                """, as: "stored"))
            """,
            [
                .int(ledgerID), .int2Array(parts.map(\.level)), .intArray(parts.map(\.number)),
                .int2(environment.number), .text(chart.rawValue),
            ]
        ).rows
        for row in rows { sum.add(try cells(row.bytes(0), of: parts[Int(row.int(1)) - 1])) }
        return sum
    }

    /// Writes what one stretch contributes over what is there.
    static func write(
        _ contributions: ChartContributions, of part: ChartPart, on connection: isolated PostgresConnection
    ) throws {
        let rows = contributions.flatMap { environment, cells in
            cells.charts.map { (environment: environment, chart: $0, cells: cells[$0].encoded()) }
        }.sorted { ($0.environment.number, $0.chart.rawValue) < ($1.environment.number, $1.chart.rawValue) }
        try connection.query(
            "DELETE FROM chart_part WHERE ledger_id = $1 AND level = $2 AND number = $3",
            [.int(ledgerID), .int2(part.level), .int(part.number)])
        guard !rows.isEmpty else { return }
        try connection.query(
            """
            INSERT INTO chart_part (ledger_id, level, number, environment, chart, cells)
            SELECT $1, $2, $3, * FROM unnest($4::smallint[], $5::text[], $6::bytea[])
            """,
            [
                .int4(Int32(ledgerID)), .int2(part.level), .int(part.number),
                .int2Array(rows.map(\.environment.number)), .textArray(rows.map(\.chart.rawValue)),
                .bytesArray(rows.map(\.cells)),
            ])
    }

    /// What some stretches contribute to all charts.
    static func sum(of parts: [ChartPart], on connection: isolated PostgresConnection) throws -> ChartContributions {
        var contributions: ChartContributions = [:]
        for environment in StoreEnvironment.allCases {
            // Chart by chart, so that of the stretches those of one are in memory together.
            for chart in ChartName.allCases {
                contributions[environment, default: ChartCells()].add(
                    try sum(of: parts, chart, environment, on: connection))
            }
        }
        return contributions.filter { !$0.value.isEmpty }
    }

    static func clear(_ connection: isolated PostgresConnection) throws {
        try connection.query("DELETE FROM chart_part WHERE ledger_id = $1", [.int(ledgerID)])
    }

    private static func cells(_ bytes: [UInt8], of part: ChartPart) throws -> ChartCells {
        do {
            return try ChartCells(encoded: bytes)
        } catch {
            throw LedgerError(
                .corrupt,
                "table chart_part, level \(part.level), number \(part.number): \(error); run `rightful rebuild`")
        }
    }
}

/// What the events of a stretch of the log change.
enum ChartDifference {
    /// Originals whose states are read at a time.
    private static let originals = 128

    /// The difference between what all originals contribute at a position and what they did at an earlier one.
    static func contributions(
        from start: Int64, to end: Int64, on connection: isolated PostgresConnection
    ) throws -> ChartContributions {
        var lives: [OriginalKey: [ChartEvent]] = [:]
        let rows = try connection.query(
            """
            SELECT environment, original_transaction_id, position, source, facts FROM event
            WHERE ledger_id = $1 AND position > $2 AND position <= $3
                AND environment IS NOT NULL AND original_transaction_id IS NOT NULL
            ORDER BY position
            """, [.int(ledgerID), .int(start), .int(end)]
        ).rows
        for row in rows {
            let key = OriginalKey(
                environment: try StoreEnvironment(stored: row.int(0)), originalTransactionID: try row.text(1))
            if let event = try ChartEvent(row, firstColumn: 2) { lives[key, default: []].append(event) }
        }
        var contributions: ChartContributions = [:]
        let keys = lives.keys.sorted()
        for first in stride(from: 0, to: keys.count, by: originals) {
            let some = Array(keys[first..<min(first + originals, keys.count)])
            let states = try StateQuery.states(of: some, upTo: start, on: connection)
            for key in some {
                var life = ChartLife(key, states[key] ?? OriginalState())
                for event in lives[key] ?? [] { life.join(event) }
                life.takeDifference(into: &contributions[key.environment, default: ChartCells()])
            }
        }
        return contributions
    }
}

/// An event that may change what an original contributes.
struct ChartEvent: Sendable {
    let position: Int64
    private let source: StatementSource
    private let fact: LedgerFact

    /// Reads position, source and facts, from a column on; `nil` for what states nothing of a purchase.
    init?(_ row: PostgresRow, firstColumn column: Int) throws {
        position = try row.int(column)
        source = try EventSource(stored: row.int(column + 1)).statementSource
        do {
            fact = try FactCodec.decode(row.bytes(column + 2))
        } catch {
            throw LedgerError(.corrupt, "event \(position) cannot be folded: \(error)")
        }
        switch fact {
        case .notification, .statements, .web: return
        case .catalog, .link, .claim, .transfer, .transferUndo, .conflict, .grant, .grantRevocation, .drift,
            .forgetting, .access, .storeRequest:
            return nil
        }
    }

    /// Joins it; returns whether what is kept has changed.
    fileprivate func join(to state: inout OriginalState, of key: OriginalKey) -> Bool {
        state.join(
            fact, originalTransactionID: key.originalTransactionID, source: source, position: position)
    }
}

/// One original whose events are gone through.
struct ChartLife: Sendable {
    private let key: OriginalKey
    private var state: OriginalState
    /// What it contributed when that was last asked for.
    private var told: ChartContribution?
    private var isChanged = false

    init(_ key: OriginalKey, _ state: OriginalState) { (self.key, self.state) = (key, state) }

    mutating func join(_ event: ChartEvent) {
        if told == nil { told = state.chartContribution() }
        if event.join(to: &state, of: key) { isChanged = true }
    }

    /// Adds how what it contributes has changed since this was last asked for.
    mutating func takeDifference(into cells: inout ChartCells) {
        guard isChanged, let before = told else { return }
        let now = state.chartContribution()
        now.addDifference(from: before, to: &cells)
        (told, isChanged) = (now, false)
    }
}
