/// What some lives contribute to charts: for each series and day by how much its figure changes.
///
/// Contributions add up. So those of many lives are one sum, what an event changes is the difference between the
/// contributions after it and before it, and a chart at a position is the sum of all differences up to there.
///
/// A figure that counts what happens has its numbers at the day (in UTC) on which that happened. One that counts how many
/// there are has a change at the midnight that ends that day: so its sum up to a midnight is how many there are just before
/// that, and how many there were before and what has happened since always agree.
package struct ChartCells: Hashable, Sendable {
    /// By series, and then by days since 1970-01-01; no number is 0, and no series is empty.
    package private(set) var series: [ChartSeries: [Int64: Int64]] = [:]

    package init() {}

    package var isEmpty: Bool { series.isEmpty }

    /// How many numbers there are.
    package var count: Int { series.values.reduce(0) { $0 + $1.count } }

    package mutating func add(_ number: Int64, to key: ChartSeries, day: Int64) {
        guard number != 0 else { return }
        if Self.add(number, to: &series[key, default: [:]], day: day) { series[key] = nil }
    }

    /// Adds to the numbers of one series in place; returns whether none is left.
    private static func add(_ number: Int64, to days: inout [Int64: Int64], day: Int64) -> Bool {
        days[day, default: 0] &+= number
        if days[day] == 0 { days[day] = nil }
        return days.isEmpty
    }

    /// Adds other contributions so many times; -1 takes them away.
    package mutating func add(_ other: ChartCells, times factor: Int64 = 1) {
        if series.isEmpty, factor == 1 {
            series = other.series
            return
        }
        for (key, days) in other.series {
            for (day, number) in days { add(number &* factor, to: key, day: day) }
        }
    }

    /// Those of one chart.
    package subscript(_ chart: ChartName) -> ChartCells {
        var part = ChartCells()
        part.series = series.filter { $0.key.figure.chart == chart }
        return part
    }

    /// The charts that have any.
    package var charts: Set<ChartName> { Set(series.keys.map(\.figure.chart)) }
}

extension ChartCells {
    /// The canonical bytes: of equal contributions there is one spelling.
    package func encoded() -> [UInt8] {
        var writer = CanonicalWriter(capacity: 64 * series.count + 8 * count)
        writer.count(series.count)
        for (key, days) in series.map({ (key: OrderedSeries($0.key), days: $0.value) }).sorted(by: { $0.key < $1.key })
        {
            writer.bytes(of: key)
            writer.count(days.count)
            var before: Int64 = 0
            for (day, number) in days.sorted(by: { $0.key < $1.key }) {
                writer.short(day - before)
                writer.short(number)
                before = day
            }
        }
        return writer.bytes
    }

    package init(encoded bytes: [UInt8]) throws(FactCodec.DecodingFailure) {
        series = try CanonicalReader.read(bytes) { reader throws(FactCodec.DecodingFailure) in
            var series: [ChartSeries: [Int64: Int64]] = [:]
            for _ in 0..<(try reader.count()) {
                let key = try reader.series()
                var (days, day) = ([Int64: Int64](), Int64(0))
                for _ in 0..<(try reader.count()) {
                    day &+= try reader.short()
                    let number = try reader.short()
                    guard number != 0, days.updateValue(number, forKey: day) == nil else {
                        throw .invalid("a day of a chart told twice, or with nothing on it")
                    }
                }
                guard !days.isEmpty, series.updateValue(days, forKey: key) == nil else {
                    throw .invalid("a series of a chart told twice, or empty")
                }
            }
            try reader.finish()
            return series
        }
    }
}

/// A series in the order of its bytes, which is the same in every process.
private struct OrderedSeries: Comparable {
    let bytes: [UInt8]

    init(_ key: ChartSeries) {
        var writer = CanonicalWriter(capacity: 96)
        writer.byte(key.figure.rawValue)
        writer.flag(key.product.origin == .webCheckout)
        writer.text(key.product.productID)
        writer.optional(key.product.sold) { writer, sold in
            writer.optional(sold.price) { $0.text($1) }
            writer.optional(sold.product) { $0.text($1) }
        }
        writer.text(key.app)
        writer.text(key.detail)
        bytes = writer.bytes
    }

    static func < (left: OrderedSeries, right: OrderedSeries) -> Bool {
        left.bytes.lexicographicallyPrecedes(right.bytes)
    }
}

extension CanonicalWriter {
    fileprivate mutating func bytes(of key: OrderedSeries) { for byte in key.bytes { self.byte(byte) } }

    /// A number in as few bytes as it takes: seven bits of it in each, the sign last.
    fileprivate mutating func short(_ value: Int64) {
        var rest = UInt64(bitPattern: value << 1 ^ value >> 63)
        while rest >= 0x80 {
            byte(UInt8(truncatingIfNeeded: rest) | 0x80)
            rest >>= 7
        }
        byte(UInt8(rest))
    }
}

extension CanonicalReader {
    fileprivate mutating func short() throws(Failure) -> Int64 {
        var (bits, shift) = (UInt64(0), UInt64(0))
        while true {
            let next = try byte()
            guard shift < 63 || next < 2 else { throw .invalid("a number of more than 64 bits") }
            bits |= UInt64(next & 0x7F) << shift
            if next < 0x80 {
                guard next != 0 || shift == 0 else { throw .invalid("a number with a byte too many") }
                return Int64(bitPattern: bits >> 1) ^ -Int64(bitPattern: bits & 1)
            }
            shift += 7
        }
    }

    fileprivate mutating func series() throws(Failure) -> ChartSeries {
        let number = try byte()
        guard let figure = ChartFigure(rawValue: number) else { throw .invalid("a figure of \(number)") }
        let isOfWeb = try flag()
        let productID = try text()
        let sold = try flag() ? WebProduct(price: try optionalText(), product: try optionalText()) : nil
        let product: ChartProduct
        if isOfWeb {
            product = ChartProduct(web: sold == nil ? productID : nil, sold)
            guard sold == nil || productID.isEmpty else { throw .invalid("a product with two names") }
        } else {
            guard sold == nil else { throw .invalid("a product of the App Store with a price of Stripe's") }
            product = ChartProduct(appStore: productID)
        }
        return ChartSeries(figure, ChartArticle(product, app: try text()), detail: try text())
    }
}
