import EntitlementCore
import SeededRandom
import StoreSimulator
import TestSupport
import Testing

/// What charts count against what can be counted of the simulator's record, without signatures or a database.
@Suite("Charts against the simulator's record")
struct ChartOracleTests {
    @Test("every figure of random worlds is that of the record, at random days, however it was delivered")
    func randomWorlds() throws {
        var named: Set<String> = []
        for seed in 1...UInt64(Campaign.factor * 24) {
            var random = SplitMix64(seed: seed)
            let life = StoreLife.random(seed: seed, customers: 12)
            var told: [StoreEnvironment: ChartCells]?
            for style in [DeliveryStyle.inOrder, .shuffled, .duplicated] {
                let cells = try Self.cells(life, style, seed: seed)
                #expect(told == nil || told == cells, "seed \(seed) \(style): the order of arrival makes a difference")
                told = cells
            }
            for environment in SimulatedStoreEnvironment.allCases {
                let figures = RecordFigures(life.record, in: environment)
                named.formUnion(figures.happenings.map(\.name) + figures.standings.map(\.name))
                for step in ChartStep.allCases {
                    let start = life.world.start + Int64.random(in: -40...400, using: &random) * Span.day
                    let length = Int64.random(in: 1...300, using: &random) * Span.day
                    let span = try #require(
                        ChartSpan(
                            step, from: Timestamp(milliseconds: start), to: Timestamp(milliseconds: start + length)))
                    ChartComparison(told?[environment.inCore] ?? ChartCells(), span).expectEqual(
                        to: figures, "seed \(seed) \(environment) by \(step)")
                }
            }
        }
        // Else nothing would have been compared.
        #expect(
            named
                == Set(ChartFigure.allCases.map { "\($0.chart.rawValue).\($0.name)" }).subtracting(
                    Self.figuresElsewhere))
    }

    /// Of the first two the App Store has none, and of random lives everything is told; a scenario has a first payment that is not.
    private static let figuresElsewhere = ["refunds.disputed", "revenue.disputed", "churn.taken_over"]

    @Test("every scenario counts as the record does", arguments: Scenario.all.map(\.name))
    func scenarios(name: String) throws {
        let life = try #require(Scenario.named(name)).life()
        let cells = try Self.cells(life, .shuffled, seed: 3)
        let start = Timestamp(milliseconds: life.world.start).adding(milliseconds: -Span.day)
        let span = try #require(ChartSpan(.day, from: start, to: start.adding(milliseconds: 400 * Span.day)))
        for environment in SimulatedStoreEnvironment.allCases {
            let figures = RecordFigures(life.record, in: environment)
            ChartComparison(cells[environment.inCore] ?? ChartCells(), span).expectEqual(
                to: figures, "\(name) \(environment)")
        }
    }

    private static func cells(
        _ life: StoreLife, _ style: DeliveryStyle, seed: UInt64
    ) throws -> [StoreEnvironment: ChartCells] {
        var ledger = FoldedLedger(catalog: .empty)
        for arrival in Delivery.plan(life.notifications, style, seed: seed) {
            try ledger.receive(life.notifications[arrival.index])
        }
        var cells: [StoreEnvironment: ChartCells] = [:]
        for (key, state) in ledger.states {
            cells[key.environment.inCore, default: ChartCells()].add(ChartCells(state.chartContribution()))
        }
        return cells.filter { !$0.value.isEmpty }
    }
}

extension SimulatedStoreEnvironment {
    /// The same in the ledger's words.
    fileprivate var inCore: StoreEnvironment { self == .production ? .production : .sandbox }
}

/// The lines of all charts over some intervals, as they are shown.
struct ChartComparison {
    private let span: ChartSpan
    /// By figure, product, and cohort or currency.
    private var lines: [[String]: [Int64]] = [:]

    init(_ cells: ChartCells, _ span: ChartSpan) {
        self.span = span
        for chart in ChartName.allCases {
            for line in cells.lines(of: chart, over: span, .empty) {
                let name = [
                    "\(chart.rawValue).\(line.figure.name)", line.productID, line.cohort ?? line.currency ?? "",
                ]
                lines[name] = line.values
            }
        }
    }

    /// Lines by figure, product, and cohort or currency, as they were answered.
    init(_ lines: [[String]: [Int64]], _ span: ChartSpan) {
        self.span = span
        self.lines = lines
    }

    /// Compares every number of every interval with what is counted of the record.
    func expectEqual(to figures: RecordFigures, _ context: String) {
        let boundaries = span.boundaries.map(\.milliseconds)
        for (index, bounds) in zip(boundaries, boundaries.dropFirst()).enumerated() {
            let expected = figures.count(from: bounds.0, to: bounds.1).merging(figures.count(at: bounds.1 - 1)) {
                $0 + $1
            }
            let actual = lines.compactMapValues { $0[index] == 0 ? nil : $0[index] }
            guard actual != expected else { continue }
            for name in Set(actual.keys).union(expected.keys).sorted(by: { $0.lexicographicallyPrecedes($1) })
            where actual[name] != expected[name] {
                Issue.record(
                    "\(context), \(span.boundaries[index]): \(name) is \(actual[name] ?? 0), and was \(expected[name] ?? 0)"
                )
            }
            return
        }
    }
}
