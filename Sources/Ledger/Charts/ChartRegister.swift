package import EntitlementCore
import PostgresClient

/// What all lives together contribute to a chart, as known at a position.
package struct ChartFacts: Sendable {
    package let cells: ChartCells
    /// Under which products are named.
    package let catalog: Catalog
    /// Up to where the log is believed.
    package let position: Int64
    /// When the last event that is believed was recorded, where somebody asked what was known in the past.
    package let recordedAt: Timestamp?
}

extension LedgerReader {
    /// How many events beyond what is counted are counted for an answer.
    package static let uncountedChartEvents: Int64 = 8192

    /// What is known of a chart.
    ///
    /// It is the sum of what complete stretches of the log contribute, and of what the events after the last of these change:
    /// those are gone through anew where they lie before what is counted, or beyond it. So every position is answered, and
    /// that of the end at once.
    ///
    /// - Throws: `LedgerError` of code `notReady` where more is left to be counted than `uncountedChartEvents`.
    package func chart(
        _ chart: ChartName, environment: StoreEnvironment, knownAt: KnownAt = .head, layout: ChartLayout = .standard
    ) async throws -> ChartFacts {
        try await read { connection in
            // One snapshot of the database: what is counted may be cleared meanwhile, to be counted anew.
            try connection.transaction(.repeatableReadReadOnly) { connection in
                let head = try connection.query(Statements.head.sql, Statements.head.parameters)
                let position = try settle(knownAt, head: head, on: connection)
                let catalog = try catalogs.catalog(at: position, on: connection)
                let counted = try ChartProjector.row.checkpoint(on: connection)
                let parts = layout.covering(upTo: min(position, counted))
                var cells = try ChartTable.sum(of: parts, chart, environment, on: connection)
                var reached = parts.last.map(layout.end(of:)) ?? 0
                // The last stretch, which goes on, holds what is changed up to where everything is counted.
                if reached < counted, counted <= position {
                    cells.add(
                        try ChartTable.sum(of: [layout.part(after: reached)], chart, environment, on: connection))
                    reached = counted
                }
                guard position - reached <= Self.uncountedChartEvents else {
                    throw LedgerError(
                        .notReady,
                        "The charts are counted up to position \(counted) of \(position); the rest is being counted.")
                }
                if reached < position {
                    try connection.walkByIndex()
                    let rest = try ChartDifference.contributions(from: reached, to: position, on: connection)
                    cells.add(rest[environment]?[chart] ?? ChartCells())
                }
                return ChartFacts(
                    cells: cells, catalog: catalog, position: position,
                    recordedAt: knownAt == .head ? nil : try Statements.recordedAt(position, on: connection))
            }
        }
    }
}
