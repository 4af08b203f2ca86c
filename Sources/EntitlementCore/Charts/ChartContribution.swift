/// What one original contributes to charts, number by number.
///
/// The numbers of each figure are in the order in which they were added, which follows the life. So the contributions
/// before and after an event mostly begin and end alike, and what is alike is skipped without a look-up.
package struct ChartContribution: Sendable {
    private struct Entry: Sendable {
        let series: ChartSeries
        let day: Int64
        let number: Int64

        /// Numbers first: where they differ, no text is compared.
        static func == (left: Entry, right: Entry) -> Bool {
            left.day == right.day && left.number == right.number && left.series == right.series
        }
    }

    /// By the numbers of figures.
    private var entries: [[Entry]]

    package init() { entries = Array(repeating: [], count: Self.figures) }

    private static let figures = 1 + Int(ChartFigure.allCases.map(\.rawValue).max() ?? 0)

    mutating func add(_ number: Int64, to series: ChartSeries, day: Int64) {
        entries[Int(series.figure.rawValue)].append(Entry(series: series, day: day, number: number))
    }

    /// A fact at an instant.
    mutating func note(_ figure: ChartFigure, _ article: ChartArticle, at instant: Timestamp) {
        add(1, to: ChartSeries(figure, article), day: instant.daysSinceEpoch)
    }

    /// Something that holds from one instant to before another.
    mutating func hold(_ series: ChartSeries, from start: Timestamp, until end: Timestamp) {
        add(1, to: series, day: start.daysSinceEpoch + 1)
        if end != .endless { add(-1, to: series, day: end.daysSinceEpoch + 1) }
    }

    /// Adds to some sums the difference between this and an earlier contribution of the same life.
    package func addDifference(from earlier: ChartContribution, to cells: inout ChartCells) {
        for (before, now) in zip(earlier.entries, entries) {
            var (start, same) = (0, min(before.count, now.count))
            while start < same, before[start] == now[start] { start += 1 }
            same -= start
            var end = 0
            while end < same, before[before.count - 1 - end] == now[now.count - 1 - end] { end += 1 }
            for entry in now[start..<now.count - end] { cells.add(entry.number, to: entry.series, day: entry.day) }
            for entry in before[start..<before.count - end] {
                cells.add(0 &- entry.number, to: entry.series, day: entry.day)
            }
        }
    }
}

extension ChartCells {
    /// What one life contributes, added up.
    package init(_ contribution: ChartContribution) {
        self.init()
        contribution.addDifference(from: ChartContribution(), to: &self)
    }
}
