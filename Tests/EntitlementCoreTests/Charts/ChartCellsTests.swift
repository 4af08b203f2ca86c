import SeededRandom
import Testing

@testable import EntitlementCore

@Suite("What is counted for charts")
struct ChartCellsTests {
    private static func series(_ figure: ChartFigure, _ product: ChartProduct) -> ChartSeries {
        ChartSeries(figure, ChartArticle(product, app: "com.example"), detail: figure == .retained ? "2026-03" : "")
    }

    @Test("contributions read back as they were written, in one spelling")
    func bytes() throws {
        var cells = ChartCells()
        let products = [
            ChartProduct(appStore: "com.example.pro"), ChartProduct(web: "ours", nil),
            ChartProduct(web: nil, WebProduct(price: "price_1", product: nil)),
            ChartProduct(web: nil, WebProduct(price: nil, product: "prod_1")),
        ]
        for (index, product) in products.enumerated() {
            for (number, day) in [(1, 0), (-1, -719_162), (64, 20_000), (Int64.max, 20_001), (.min, 2_932_896)] {
                cells.add(number, to: Self.series(index % 2 == 0 ? .active : .retained, product), day: Int64(day))
            }
        }
        let bytes = cells.encoded()
        let again = try ChartCells(encoded: bytes)
        #expect(again == cells && again.encoded() == bytes && cells.count == 20)
        for length in bytes.indices {
            #expect(throws: FactCodec.DecodingFailure.self) { try ChartCells(encoded: Array(bytes[..<length])) }
        }
        #expect(throws: FactCodec.DecodingFailure.self) { try ChartCells(encoded: bytes + [0]) }
        var less = cells
        less.add(cells, times: -1)
        #expect(less.isEmpty && less.encoded() == ChartCells().encoded())
    }

    @Test("what stands is read at the end of each interval, what happens within it, in whole intervals of UTC")
    func spans() throws {
        func instant(_ text: String) throws -> Timestamp { try #require(Timestamp(rfc3339: text)) }
        let weeks = try #require(
            ChartSpan(.week, from: instant("2026-03-04T10:00:00Z"), to: instant("2026-03-16T00:00:00Z")))
        #expect(
            weeks.boundaries.map(\.description) == [
                "2026-03-02T00:00:00.000Z", "2026-03-09T00:00:00.000Z", "2026-03-16T00:00:00.000Z",
            ])
        let months = ChartSpan(.month, count: 3, upTo: try instant("2026-03-31T23:59:59.999Z"))
        #expect(
            months.boundaries.map(\.description) == [
                "2026-01-01T00:00:00.000Z", "2026-02-01T00:00:00.000Z", "2026-03-01T00:00:00.000Z",
                "2026-04-01T00:00:00.000Z",
            ])
        let start = try instant("2026-01-01T00:00:00Z")
        #expect(ChartSpan(.day, from: start, to: start.adding(milliseconds: 400 * 86_400_000))?.count == 400)
        #expect(ChartSpan(.day, from: start, to: start.adding(milliseconds: 400 * 86_400_000 + 1)) == nil)
        #expect(ChartSpan(.day, from: start, to: start) == nil)

        var contribution = ChartContribution()
        let product = ChartProduct(appStore: "a")
        // From the last instant of January to the first of March: it stands at the ends of both months between.
        contribution.hold(
            Self.series(.active, product), from: try instant("2026-01-31T23:59:59.999Z"),
            until: try instant("2026-03-01T00:00:00.001Z"))
        // Over before midnight, and begun at midnight.
        contribution.hold(
            Self.series(.inGracePeriod, product), from: try instant("2026-02-10T00:00:00.001Z"),
            until: try instant("2026-02-11T00:00:00.000Z"))
        contribution.hold(
            Self.series(.inBillingRetry, product), from: try instant("2026-03-01T00:00:00Z"), until: .endless)
        contribution.note(.trialStarted, ChartArticle(product, app: ""), at: try instant("2026-02-01T00:00:00Z"))
        contribution.note(.trialStarted, ChartArticle(product, app: ""), at: try instant("2025-12-31T23:59:59.999Z"))
        contribution.note(.trialStarted, ChartArticle(product, app: ""), at: try instant("2026-04-01T00:00:00Z"))
        let cells = ChartCells(contribution)
        func values(_ chart: ChartName) -> [ChartFigure: [Int64]] {
            Dictionary(
                uniqueKeysWithValues: cells.lines(of: chart, over: months, .empty).map { ($0.figure, $0.values) })
        }
        #expect(values(.active) == [.active: [1, 1, 0], .inBillingRetry: [0, 0, 1]])
        #expect(values(.trials) == [.trialStarted: [0, 1, 0]])
    }

    @Test("what was sold on the web is named by the catalog that is asked under")
    func catalog() throws {
        var contribution = ChartContribution()
        let sold = ChartProduct(web: nil, WebProduct(price: "price_1", product: "prod_1"))
        let day = Timestamp(milliseconds: Int64(0))
        contribution.note(.trialStarted, ChartArticle(sold, app: ""), at: day)
        contribution.note(.trialStarted, ChartArticle(ChartProduct(web: "pro", nil), app: ""), at: day)
        contribution.note(.trialStarted, ChartArticle(ChartProduct(appStore: "pro"), app: "other"), at: day)
        let cells = ChartCells(contribution)
        let span = ChartSpan(.day, count: 1, upTo: day)
        let catalog = Catalog(products: [
            CatalogProduct(
                productID: "pro", entitlements: ["premium"],
                stripe: StripeProduct(price: "price_1", product: nil, mode: .subscription), isInAppStore: true)
        ])
        func lines(_ catalog: Catalog, _ product: String? = nil, _ app: AppScope? = nil) -> [String] {
            cells.lines(of: .trials, over: span, catalog, productID: product, app: app).map {
                "\($0.productID) \($0.source.rawValue) \($0.values)"
            }
        }
        #expect(lines(.empty) == ["pro app_store [1]", "pro web_checkout [1]", "prod_1 web_checkout [1]"])
        #expect(lines(catalog) == ["pro app_store [1]", "pro web_checkout [2]"])
        #expect(lines(.empty, "prod_1") == ["prod_1 web_checkout [1]"])
        #expect(lines(catalog, nil, AppScope("mine")) == ["pro web_checkout [2]"])
    }

    @Test("a difference leads from what a life contributed to what it contributes, whatever changed in between")
    func differences() {
        for seed in 1...UInt64(200) {
            var random = SplitMix64(seed: seed)
            func entries() -> [(ChartFigure, Int64, Int64)] {
                (0..<Int.random(in: 0...6, using: &random)).map { _ in
                    let figure: ChartFigure = Bool.random(using: &random) ? .active : .retained
                    return (figure, Int64.random(in: 0...3, using: &random), Int64.random(in: -1...1, using: &random))
                }
            }
            func contribution(_ parts: [(ChartFigure, Int64, Int64)]...) -> ChartContribution {
                var contribution = ChartContribution()
                for (figure, day, number) in parts.flatMap(\.self) {
                    contribution.add(number, to: Self.series(figure, ChartProduct(appStore: "a")), day: day)
                }
                return contribution
            }
            // Most of a life is as it was: something in its middle, its beginning or its end is not.
            let (first, last) = (entries(), entries())
            let before = contribution(first, entries(), last)
            let now = contribution(first, entries(), last)
            var cells = ChartCells(before)
            now.addDifference(from: before, to: &cells)
            #expect(cells == ChartCells(now), "seed \(seed)")
        }
    }
}
