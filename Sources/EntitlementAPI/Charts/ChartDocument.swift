package import EntitlementCore

/// How the numbers of a chart's line are meant.
package enum ChartCounting: String, Codable, Hashable, Sendable, CaseIterable {
    /// How many there are at the end of each interval.
    case atEnd = "at_end"
    /// How many things happened within each interval.
    case within
}

/// Figures over time: the answer of `GET /v1/charts/{name}`.
package struct ChartDocument: Codable, Hashable, Sendable, NamedDocument {
    package struct Interval: Codable, Hashable, Sendable {
        package let from: Timestamp
        /// Where the next begins.
        package let until: Timestamp
        /// Whether it was over by the time up to which everything is known; else its numbers hold what is expected, too.
        package let isOver: Bool

        private enum CodingKeys: String, CodingKey {
            case from, until
            case isOver = "is_over"
        }
    }

    package struct Line: Codable, Hashable, Sendable {
        package let figure: String
        package let counted: ChartCounting
        package let productID: String
        package let source: EntitlementOrigin
        /// The month in which those began who are counted, such as `2026-03`; `null` where it is all.
        @Nullable package private(set) var cohort: String?
        /// By ISO 4217, of an amount of money, which is in thousandths of its unit; `null` where something else is counted.
        @Nullable package private(set) var currency: String?
        /// One for each interval.
        package let values: [Int64]

        package init(_ line: ChartLine) {
            figure = line.figure.name
            counted = line.figure.counted
            productID = line.productID
            source = line.source
            values = line.values
            _cohort = Nullable(wrappedValue: line.cohort)
            _currency = Nullable(wrappedValue: line.currency)
        }

        private enum CodingKeys: String, CodingKey {
            case figure, counted, source, cohort, currency, values
            case productID = "product_id"
        }
    }

    package static let objectName = "chart"
    package private(set) var object = Self.objectName
    package let name: ChartName
    package let environment: StoreEnvironment
    package let interval: ChartStep
    /// One after the other, without gaps.
    package let intervals: [Interval]
    package let knownAt: Int64
    package let foldVersion: Int
    package let lines: [Line]

    /// - Parameter knownUntil: the time up to which everything is known.
    package init(
        _ name: ChartName, environment: StoreEnvironment, _ span: ChartSpan, knownAt: Int64, knownUntil: Timestamp,
        lines: [ChartLine]
    ) {
        self.name = name
        self.environment = environment
        interval = span.interval
        intervals = zip(span.boundaries, span.boundaries.dropFirst()).map {
            Interval(from: $0, until: $1, isOver: $1 <= knownUntil)
        }
        self.knownAt = knownAt
        foldVersion = OriginalState.foldVersion
        self.lines = lines.map(Line.init)
    }

    private enum CodingKeys: String, CodingKey {
        case object, name, environment, interval, intervals, lines
        case knownAt = "known_at"
        case foldVersion = "fold_version"
    }
}

extension ChartDocument {
    /// The same as a table: a row for each line and interval, by RFC 4180.
    package var csv: [UInt8] {
        var table = CommaSeparated([
            "from", "until", "is_over", "figure", "counted", "product_id", "source", "cohort", "currency", "value",
        ])
        for line in lines {
            for (interval, value) in zip(intervals, line.values) {
                table.append([
                    interval.from.description, interval.until.description, String(interval.isOver), line.figure,
                    line.counted.rawValue, line.productID, line.source.rawValue, line.cohort ?? "", line.currency ?? "",
                    String(value),
                ])
            }
        }
        return table.bytes
    }
}

/// A table as spreadsheets read it.
struct CommaSeparated {
    private(set) var bytes: [UInt8] = []

    init(_ names: [String]) { append(names) }

    mutating func append(_ fields: [String]) {
        for (index, field) in fields.enumerated() {
            if index > 0 { bytes.append(UInt8(ascii: ",")) }
            append(field)
        }
        bytes += [13, 10]
    }

    /// A field that a spreadsheet would take for a formula gets an apostrophe before it: whoever opens the file would run it.
    private mutating func append(_ field: String) {
        var text = field
        if let first = text.utf8.first, Self.formulaMarks.contains(first) { text = "'" + text }
        guard text.utf8.contains(where: { Self.special.contains($0) }) else {
            bytes += text.utf8
            return
        }
        bytes.append(UInt8(ascii: "\""))
        for byte in text.utf8 {
            if byte == UInt8(ascii: "\"") { bytes.append(byte) }
            bytes.append(byte)
        }
        bytes.append(UInt8(ascii: "\""))
    }

    private static let formulaMarks: Set<UInt8> = [
        UInt8(ascii: "="), UInt8(ascii: "+"), UInt8(ascii: "-"), UInt8(ascii: "@"), 9, 10, 13,
    ]
    private static let special: Set<UInt8> = [UInt8(ascii: ","), UInt8(ascii: "\""), 10, 13]
}
