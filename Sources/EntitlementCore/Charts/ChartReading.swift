/// How long the stretches of time are of which a chart has one number each; all of them in UTC.
package enum ChartStep: String, Hashable, Sendable, CaseIterable, Codable {
    case day
    /// From Monday to Sunday, as ISO 8601 has it.
    case week
    case month

    /// The first day of the interval that a day lies in, in days since 1970-01-01.
    fileprivate func start(of day: Int64) -> Int64 {
        switch self {
        case .day: return day
        case .week:
            // The first of January 1970 was a Thursday.
            let sinceMonday = (day + 3) % 7
            return day - (sinceMonday < 0 ? sinceMonday + 7 : sinceMonday)
        case .month:
            var date = CivilDate(daysSinceEpoch: day)
            date.day = 1
            return date.daysSinceEpoch
        }
    }

    /// The first day of the interval so many after that which begins with a day.
    fileprivate func start(after day: Int64, by number: Int64) -> Int64 {
        switch self {
        case .day: day + number
        case .week: day + 7 * number
        case .month: CivilDate(daysSinceEpoch: day).adding(months: number).daysSinceEpoch
        }
    }
}

/// The intervals of a chart, one after the other without gaps.
package struct ChartSpan: Hashable, Sendable {
    /// The most intervals of one chart.
    package static let limit = 400

    package let interval: ChartStep
    /// The midnights between them, and the first and the last, in days since 1970-01-01.
    fileprivate let midnights: [Int64]

    /// The whole intervals in which a stretch of time lies; `nil` where these are more than `limit`, or the end is not after
    /// the beginning.
    package init?(_ interval: ChartStep, from: Timestamp, to: Timestamp) {
        guard from < to else { return nil }
        let last = to.adding(milliseconds: -1).daysSinceEpoch
        var midnights = [interval.start(of: from.daysSinceEpoch)]
        while let next = midnights.last, next <= last {
            guard midnights.count <= Self.limit else { return nil }
            midnights.append(interval.start(after: next, by: 1))
        }
        self.interval = interval
        self.midnights = midnights
    }

    /// So many intervals, the last of which is that of an instant.
    package init(_ interval: ChartStep, count: Int, upTo instant: Timestamp) {
        let last = interval.start(of: instant.daysSinceEpoch)
        self.interval = interval
        midnights = (0...count).map { interval.start(after: last, by: Int64($0 - count + 1)) }
    }

    /// How many intervals there are.
    package var count: Int { midnights.count - 1 }

    /// When each begins, and when the last ends.
    package var boundaries: [Timestamp] {
        midnights.map { Timestamp(milliseconds: $0 * Timestamp.millisecondsPerDay) }
    }

    /// The number of each interval: how many there are at its end, or how many things happened within it.
    fileprivate func numbers(of days: [Int64: Int64], isStanding: Bool) -> [Int64] {
        var numbers = [Int64](repeating: 0, count: count)
        for (day, number) in days {
            // What stands before a midnight stands at the end of the interval that this midnight ends.
            let place = midnights.partitioningIndex { isStanding ? day <= $0 : day < $0 }
            if isStanding {
                if place <= count { numbers[max(0, place - 1)] &+= number }
            } else if place > 0, place <= count {
                numbers[place - 1] &+= number
            }
        }
        if isStanding { for index in numbers.indices.dropFirst() { numbers[index] &+= numbers[index - 1] } }
        return numbers
    }
}

/// One line of a chart, as it is shown.
package struct ChartLine: Hashable, Sendable {
    package let figure: ChartFigure
    package let productID: String
    package let source: EntitlementOrigin
    /// The cohort's month, such as `2026-03`; `nil` where a figure is of all.
    package let cohort: String?
    /// By ISO 4217, of an amount of money, which is in thousandths of its unit; `nil` where something else is counted.
    package let currency: String?
    /// One number for each interval.
    package fileprivate(set) var values: [Int64]
}

extension ChartCells {
    /// The lines of a chart over some intervals, in the order of figures, cohorts or currencies, products and sources; those that are 0
    /// throughout are left out.
    ///
    /// - Parameters:
    ///   - catalog: says which product it is that was sold on the web.
    ///   - productID: leaves out all others.
    ///   - app: leaves out what other apps sold.
    package func lines(
        of chart: ChartName, over span: ChartSpan, _ catalog: Catalog, productID: String? = nil, app: AppScope? = nil
    ) -> [ChartLine] {
        var lines: [ChartLineName: [Int64]] = [:]
        for (key, days) in series where key.figure.chart == chart {
            if let app, !key.app.isEmpty, !key.app.utf8.elementsEqual(app.bundleID.utf8) { continue }
            let id = key.product.id(catalog)
            if let productID, !id.utf8.elementsEqual(productID.utf8) { continue }
            let numbers = span.numbers(of: days, isStanding: key.figure.isStanding)
            guard numbers.contains(where: { $0 != 0 }) else { continue }
            let name = ChartLineName(
                figure: key.figure, detail: key.detail, productID: Array(id.utf8), source: key.product.origin)
            lines[name] = lines[name].map { zip($0, numbers).map { $0 &+ $1 } } ?? numbers
        }
        return lines.sorted { $0.key < $1.key }.filter { $0.value.contains { $0 != 0 } }.map { name, values in
            ChartLine(
                figure: name.figure, productID: String(decoding: name.productID, as: UTF8.self), source: name.source,
                cohort: name.figure.detail == .cohort ? name.detail : nil,
                currency: name.figure.detail == .currency ? name.detail : nil, values: values)
        }
    }
}

private struct ChartLineName: Hashable, Comparable {
    let figure: ChartFigure
    let detail: String
    let productID: [UInt8]
    let source: EntitlementOrigin

    static func < (left: ChartLineName, right: ChartLineName) -> Bool {
        if left.figure != right.figure { return left.figure.place < right.figure.place }
        if left.detail != right.detail { return left.detail < right.detail }
        if left.productID != right.productID { return left.productID.lexicographicallyPrecedes(right.productID) }
        return left.source < right.source
    }
}

extension CivilDate {
    /// The month, such as `2026-03`.
    var monthName: String {
        let digits = String(year)
        return String(repeating: "0", count: max(0, 4 - digits.count)) + digits + (month < 10 ? "-0" : "-")
            + String(month)
    }
}
