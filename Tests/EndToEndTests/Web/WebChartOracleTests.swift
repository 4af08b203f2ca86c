import EntitlementCore
import SeededRandom
import StoreSimulator
import TestSupport
import Testing

/// What charts count of what was bought on the web, against the record of a simulated Stripe.
@Suite("Charts of the web against the simulator's record", .timeLimit(.minutes(5)))
struct WebChartOracleTests {
    @Test("subscriptions stand at random days as the record says, however events were delivered")
    func standing() throws {
        var seen: Set<String> = []
        for seed in 1...UInt64(Campaign.factor * 30) {
            var random = SplitMix64(seed: seed)
            let life = WebLife.random(seed: seed, customers: WebOracleFoldTests.customers(seed))
            let catalog = try Catalog(life.world)
            let known = Set(catalog.products.map(\.productID))
            var told: ChartCells?
            for style in [DeliveryStyle.inOrder, .shuffled, .duplicated] {
                var folded = FoldedWeb(catalog: catalog)
                try folded.receive(life, style, seed: seed)
                var cells = ChartCells()
                for (key, state) in folded.states where key.environment == .production {
                    cells.add(ChartCells(state.chartContribution()))
                }
                #expect(told == nil || told == cells, "seed \(seed) \(style): the order makes a difference")
                told = cells
            }
            let cells = try #require(told)
            seen.formUnion(cells.series.keys.map { "\($0.figure.chart.rawValue).\($0.figure.name)" })
            for _ in 0..<20 {
                let midnight = life.world.start + Int64.random(in: 0...600, using: &random) * Span.day
                let span = ChartSpan(.day, count: 1, upTo: Timestamp(milliseconds: midnight - 1))
                var counted: [[String]: Int64] = [:]
                for line in cells.lines(of: .active, over: span, catalog) {
                    let product = known.contains(line.productID) ? line.productID : ""
                    counted[[line.figure.name, product], default: 0] += line.values[0]
                }
                let expected = RecordFigures.webSubscriptions(life.record, in: .production, at: midnight - 1)
                #expect(
                    counted.filter { $0.value != 0 } == expected,
                    "seed \(seed), before \(Timestamp(milliseconds: midnight))")
                #expect(
                    try Self.money(cells, endingAt: midnight)
                        == RecordFigures.webMoney(
                            life.record, in: .production, from: midnight - 60 * Span.day, to: midnight),
                    "seed \(seed), money of the 60 days before \(Timestamp(milliseconds: midnight))")
                #expect(
                    try Self.returns(cells, endingAt: midnight)
                        == RecordFigures.webReturns(
                            life.record, in: .production, from: midnight - 60 * Span.day, to: midnight),
                    "seed \(seed), refunds and disputes of the 60 days before \(Timestamp(milliseconds: midnight))")
            }
        }
        // All of them come about on the web, too.
        #expect(
            seen
                == Set(ChartFigure.allCases.map { "\($0.chart.rawValue).\($0.name)" })
                .subtracting(["revenue.unpriced", "churn.taken_over"]))
    }

    /// What sixty days come to, over all products.
    private static func money(_ cells: ChartCells, endingAt midnight: Int64) throws -> [[String]: Int64] {
        let span = try #require(
            ChartSpan(
                .day, from: Timestamp(milliseconds: midnight - 60 * Span.day), to: Timestamp(milliseconds: midnight)))
        return cells.lines(of: .revenue, over: span, .empty).reduce(into: [:]) { sums, line in
            #expect(!line.values.contains { $0 < 0 }, "money is taken back under a figure of money that came")
            sums[[line.figure.name, line.currency ?? ""], default: 0] += line.values.reduce(0, +)
        }
    }

    /// How many refunds and disputes there were within sixty days, over all products.
    private static func returns(_ cells: ChartCells, endingAt midnight: Int64) throws -> [String: Int64] {
        let span = try #require(
            ChartSpan(
                .day, from: Timestamp(milliseconds: midnight - 60 * Span.day), to: Timestamp(milliseconds: midnight)))
        return cells.lines(of: .refunds, over: span, .empty).reduce(into: [:]) { counts, line in
            let count = line.values.reduce(0, +)
            if count != 0 { counts[line.figure.name, default: 0] += count }
        }
    }
}
