import EntitlementCore
import PostgresClient

extension Verifier {
    /// Counts for the charts again, life by life, and compares that with what is stored of each stretch of the log.
    ///
    /// All that is kept of a stretch meanwhile is a sum of hashes, so the memory does not grow with what lives contribute.
    func verifyCharts(into summary: inout VerificationSummary) async throws {
        let layout = limits.charts
        guard let (counted, open) = try await page({ try ChartRow.open(layout, on: $0) }) else { return }
        var sums = ChartSums()
        for row in open { sums.take(try row.cells(), row, away: true) }
        var done: Int64 = 0
        for environment in StoreEnvironment.allCases {
            var walk: ChartWalk? = ChartWalk(environment, upTo: counted, layout)
            while let current = walk {
                let limit = limits.events
                let step = try await page { try current.next(limit: limit, on: $0) }
                for (part, cells) in step.changes { sums.take(cells, environment, part: part, away: false) }
                done += Int64(step.events)
                progress(VerificationProgress(stage: .charts, done: done, total: nil))
                walk = step.rest
            }
        }
        let last = layout.part(after: counted).number
        var after: ChartRow?
        repeat {
            let rows = try await page { [after] in try ChartRow.page(after: after, before: last, on: $0) }
            for row in rows { sums.take(try row.cells(), row, away: true) }
            after = rows.last
        } while after != nil
        if let number = sums.first { try await differs(ChartPart(level: 0, number: number), since: counted) }
        summary.chartParts = last + (counted % layout.positions == 0 ? 0 : 1)
        try await verifyWholeParts(upTo: counted, into: &summary)
    }

    /// What was put together from stretches must be their sum; and of a stretch that is not over there is nothing.
    private func verifyWholeParts(upTo counted: Int64, into summary: inout VerificationSummary) async throws {
        let layout = limits.charts
        for level in 1...layout.topLevel {
            for number in 0..<(counted / layout.length(of: level)) {
                let part = ChartPart(level: level, number: number)
                let isEqual = try await page { connection in
                    let rows = try ChartRow.rows(of: part, on: connection)
                    var stored: ChartContributions = [:]
                    for row in rows { stored[row.environment, default: ChartCells()].add(try row.cells()) }
                    return try stored == ChartTable.sum(of: layout.parts(of: part), on: connection)
                }
                if !isEqual { try await differs(part, since: counted) }
                summary.chartParts += 1
            }
        }
        if let stray = try await page({ try ChartRow.stray(layout, on: $0) }) {
            throw VerificationDifference(
                "chart_part", "level \(stray.level), number \(stray.number)",
                "is of no stretch of the log that has been counted; run `rightful rebuild --only charts`")
        }
    }

    /// Names a stretch; unless what was counted was begun anew meanwhile.
    private func differs(_ part: ChartPart, since counted: Int64) async throws {
        let now = try await page { try ChartProjector.row.checkpoint(on: $0) }
        guard counted <= now else { return }
        let (start, end) = (limits.charts.start(of: part), limits.charts.end(of: part))
        throw VerificationDifference(
            "chart_part", "level \(part.level), number \(part.number)",
            "is not what the events \(start + 1) to \(min(end, counted)) change; run `rightful rebuild --only charts`")
    }
}

/// A sum of hashes for each stretch of level 0 that is not as it must be: 0 where what was added was taken away again.
///
/// What is counted adds up, and so do its hashes, whatever the order.
private struct ChartSums {
    private struct Sum: Equatable {
        var low: UInt64 = 0
        var high: UInt64 = 0
    }

    private var sums: [Int64: Sum] = [:]

    /// The first stretch of which something else is stored than its events give.
    var first: Int64? { sums.keys.min() }

    mutating func take(_ cells: ChartCells, _ row: ChartRow, away: Bool) {
        take(cells, row.environment, part: row.part.number, away: away)
    }

    mutating func take(_ cells: ChartCells, _ environment: StoreEnvironment, part: Int64, away: Bool) {
        var sum = sums[part] ?? Sum()
        for (key, days) in cells.series {
            for (day, number) in days {
                let factor = UInt64(bitPattern: away ? 0 &- number : number)
                sum.low &+= factor &* Self.hash(environment, key, day, salt: 1)
                sum.high &+= factor &* Self.hash(environment, key, day, salt: 2)
            }
        }
        sums[part] = sum == Sum() ? nil : sum
    }

    /// Each process has a key of its own for it, so nobody can make a row that sums up to the same.
    private static func hash(_ environment: StoreEnvironment, _ key: ChartSeries, _ day: Int64, salt: UInt8) -> UInt64 {
        var hasher = Hasher()
        hasher.combine(salt)
        hasher.combine(environment)
        hasher.combine(key)
        hasher.combine(day)
        return UInt64(bitPattern: Int64(hasher.finalize()))
    }
}

/// Goes through the lives of one environment in the order of their ids, and tells what each stretch of the log changes.
private struct ChartWalk: Sendable {
    struct Step: Sendable {
        let changes: [(part: Int64, cells: ChartCells)]
        let events: Int
        /// `nil` at the end.
        let rest: ChartWalk?
    }

    private let environment: StoreEnvironment
    private let position: Int64
    private let layout: ChartLayout
    private var after = (original: "", position: Int64(0))
    private var life: ChartLife?
    /// The stretch in which the life's last event lies.
    private var part: Int64 = 0

    init(_ environment: StoreEnvironment, upTo position: Int64, _ layout: ChartLayout) {
        self.environment = environment
        self.position = position
        self.layout = layout
    }

    func next(limit: Int, on connection: isolated PostgresConnection) throws -> Step {
        let rows = try connection.query(
            """
            SELECT original_transaction_id, position, source, facts FROM event
            WHERE ledger_id = $1 AND environment = $2 AND original_transaction_id IS NOT NULL
                AND (original_transaction_id, position) > ($3, $4) AND position <= $5
            ORDER BY original_transaction_id, position LIMIT $6
            """,
            [
                .int(ledgerID), .int2(environment.number), .text(after.original), .int(after.position), .int(position),
                .int(Int64(limit)),
            ]
        ).rows
        var walk = self
        var changes: [(part: Int64, cells: ChartCells)] = []
        for row in rows {
            let (original, position) = (try row.text(0), try row.int(1))
            let part = layout.part(after: position - 1).number
            if walk.life == nil || original != walk.after.original || part != walk.part { walk.tell(&changes) }
            if walk.life == nil || original != walk.after.original {
                walk.life = ChartLife(
                    OriginalKey(environment: environment, originalTransactionID: original), OriginalState())
            }
            walk.after = (original, position)
            walk.part = part
            if let event = try ChartEvent(row, firstColumn: 1) { walk.life?.join(event) }
        }
        let isAtEnd = rows.count < limit
        if isAtEnd { walk.tell(&changes) }
        return Step(changes: changes, events: rows.count, rest: isAtEnd ? nil : walk)
    }

    /// Tells what the events of a stretch have changed, before another stretch or another life begins.
    private mutating func tell(_ changes: inout [(part: Int64, cells: ChartCells)]) {
        var cells = ChartCells()
        life?.takeDifference(into: &cells)
        if !cells.isEmpty { changes.append((part, cells)) }
    }
}

/// A row of `chart_part`, as it is stored.
private struct ChartRow: Sendable {
    let part: ChartPart
    let environment: StoreEnvironment
    private let chart: String
    private let bytes: [UInt8]

    private static let columns = "level, number, environment, chart, cells"
    /// Rows that are read at a time.
    private static let limit = 64

    private init(_ row: PostgresRow, firstColumn column: Int = 0) throws {
        part = ChartPart(level: Int16(clamping: try row.int(column)), number: try row.int(column + 1))
        chart = try row.text(column + 3)
        bytes = try row.bytes(column + 4)
        do {
            environment = try StoreEnvironment(stored: row.int(column + 2))
        } catch {
            throw VerificationDifference(
                "chart_part", "level \(part.level), number \(part.number)", "is of no environment")
        }
    }

    /// What it says, which must be spelled as this program spells it and be of its chart alone.
    func cells() throws -> ChartCells {
        guard let cells = try? ChartCells(encoded: bytes), cells.encoded() == bytes, !cells.isEmpty,
            let name = ChartName(rawValue: chart), cells.charts == [name]
        else {
            throw VerificationDifference(
                "chart_part", "level \(part.level), number \(part.number)",
                "\(environment.rawValue), \(chart): cannot be read; run `rightful rebuild --only charts`")
        }
        return cells
    }

    /// Up to where is counted, and the rows of the stretch that goes on there: in one statement, so at one instant; `nil` where
    /// this program has counted nothing.
    static func open(
        _ layout: ChartLayout, on connection: isolated PostgresConnection
    ) throws -> (counted: Int64, rows: [ChartRow])? {
        let rows = try connection.query(
            """
            SELECT projection.checkpoint, level, number, environment, chart, cells
            FROM projection
            LEFT JOIN chart_part AS part ON part.ledger_id = $1 AND part.level = 0
                AND part.number = projection.checkpoint / $4
            WHERE projection.ledger_id = $1 AND projection.name = $2 AND projection.version = $3
            """,
            [
                .int(ledgerID), .text(ChartProjector.row.name), .int4(Int32(ChartProjector.row.version)),
                .int(layout.positions),
            ]
        ).rows
        guard let first = rows.first else { return nil }
        let counted = try first.int(0)
        return (counted, try rows.filter { try $0.optionalInt(1) != nil }.map { try ChartRow($0, firstColumn: 1) })
    }

    static func rows(of part: ChartPart, on connection: isolated PostgresConnection) throws -> [ChartRow] {
        try connection.query(
            "SELECT \(columns) FROM chart_part WHERE ledger_id = $1 AND level = $2 AND number = $3",
            [.int(ledgerID), .int2(part.level), .int(part.number)]
        ).rows.map { try ChartRow($0) }
    }

    /// The next rows of level 0 before a stretch.
    static func page(
        after: ChartRow?, before number: Int64, on connection: isolated PostgresConnection
    ) throws -> [ChartRow] {
        try connection.query(
            """
            SELECT \(columns) FROM chart_part
            WHERE ledger_id = $1 AND level = 0 AND (number, environment, chart) > ($2, $3, $4) AND number < $5
            ORDER BY number, environment, chart LIMIT $6
            """,
            [
                .int(ledgerID), .int(after?.part.number ?? .min), .int2(after?.environment.number ?? 0),
                .text(after?.chart ?? ""), .int(number), .int(Int64(limit)),
            ]
        ).rows.map { try ChartRow($0) }
    }

    /// A stretch that has rows and was not counted, or that there is not.
    static func stray(_ layout: ChartLayout, on connection: isolated PostgresConnection) throws -> ChartPart? {
        let levels = Array(0...layout.topLevel)
        return try connection.query(
            """
            SELECT part.level, part.number FROM chart_part AS part
            JOIN projection ON projection.ledger_id = $1 AND projection.name = $2 AND projection.version = $3
            LEFT JOIN unnest($4::smallint[], $5::bigint[]) AS known (level, length) ON known.level = part.level
            WHERE part.ledger_id = $1 AND (known.length IS NULL OR part.number < 0 OR part.number
                >= (projection.checkpoint + CASE WHEN part.level = 0 THEN known.length - 1 ELSE 0 END) / known.length)
            ORDER BY 1, 2 LIMIT 1
            """,
            [
                .int(ledgerID), .text(ChartProjector.row.name), .int4(Int32(ChartProjector.row.version)),
                .int2Array(levels), .intArray(levels.map(layout.length(of:))),
            ]
        ).first.map { ChartPart(level: Int16(clamping: try $0.int(0)), number: try $0.int(1)) }
    }
}
