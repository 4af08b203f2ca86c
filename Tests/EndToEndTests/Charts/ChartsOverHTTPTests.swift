import EntitlementCore
import Foundation
import SeededRandom
import StoreSimulator
import Testing

/// The whole service, from signature to chart, against the simulator's record.
@Suite("Charts of the service against the simulator's record", .serialized, .timeLimit(.minutes(5)))
struct ChartsOverHTTPTests {
    @Test("random worlds, shuffled and repeated; what was answered then, after a rebuild, and to verify")
    func randomWorlds() async throws {
        let installation = try await Installation()
        defer { installation.remove() }
        let key = try await installation.adminKey()
        let service = try await ServiceProcess.start(installation)
        defer { service.stop() }
        let client = HTTPClient(service.url, key: key)
        var random = SplitMix64(seed: 77)
        let life = StoreLife.random(seed: 77, world: installation.world, customers: 24)
        let span = try #require(
            ChartSpan(
                .week, from: Timestamp(milliseconds: life.world.start),
                to: Timestamp(milliseconds: life.world.start + 700 * Span.day)))
        var told: [Int64: [[[String]: [Int64]]]] = [:]
        for arrival in Delivery.plan(life.notifications, .duplicated, seed: 77).shuffled(using: &random) {
            let signed = try installation.authority.sign(life.notifications[arrival.index])
            #expect(try await client.notify(signed).status == 200)
            guard Int.random(in: 0..<100, using: &random) == 0 else { continue }
            let head = try await client.head()
            told[head] = try await Self.both(client, span, ["known_at": "\(head)"])
        }
        let head = try await client.head()
        func expectRecord(_ span: ChartSpan, _ context: String) async throws {
            for environment in SimulatedStoreEnvironment.allCases {
                let lines = try await Self.lines(client, span, ["environment": environment.rawValue])
                ChartComparison(lines, span).expectEqual(
                    to: RecordFigures(life.record, in: environment), "\(context), \(environment)")
            }
        }
        try await expectRecord(span, "at once")
        for step in ChartStep.allCases {
            let start = life.world.start + Int64.random(in: 0...500, using: &random) * Span.day
            let end = start + Int64.random(in: 1...300, using: &random) * Span.day
            let span = try #require(
                ChartSpan(step, from: Timestamp(milliseconds: start), to: Timestamp(milliseconds: end)))
            try await expectRecord(span, "by \(step)")
        }
        let whole = try await Self.both(client, span, [:])
        for round in ["as it was counted", "rebuilt"] {
            for (position, then) in told {
                let now = try await Self.both(client, span, ["known_at": "\(position)"])
                #expect(now == then, "\(round), known at \(position)")
            }
            #expect(try await Self.both(client, span, [:]) == whole, "\(round)")
            try await installation.rightful("rebuild")
        }
        #expect(told.count > 3 && head > 300)
        let checked = try await installation.rightful("verify")
        #expect(checked.contains("counted for the charts"), "\(checked)")
    }

    /// Of both environments, one after the other.
    private static func both(
        _ client: HTTPClient, _ span: ChartSpan, _ query: [String: String]
    ) async throws -> [[[String]: [Int64]]] {
        var both: [[[String]: [Int64]]] = []
        for environment in SimulatedStoreEnvironment.allCases {
            both.append(try await lines(client, span, query.merging(["environment": environment.rawValue]) { $1 }))
        }
        return both
    }

    /// The lines of all charts, by figure, product, and cohort or currency.
    private static func lines(
        _ client: HTTPClient, _ span: ChartSpan, _ query: [String: String]
    ) async throws -> [[String]: [Int64]] {
        let ends = [span.boundaries.first, span.boundaries.last].compactMap { $0?.description }
        let query = query.merging(["interval": span.interval.rawValue, "from": ends[0], "to": ends[1]]) { $1 }
        var lines: [[String]: [Int64]] = [:]
        for chart in ChartName.allCases {
            let answer = try await client.send("GET", "/v1/charts/\(chart.rawValue)", query: query)
            #expect(answer.status == 200, "\(answer.text)")
            for line in try #require(answer.json["lines"] as? [[String: Any]]) {
                let name = [
                    "\(chart.rawValue).\(try #require(line["figure"] as? String))",
                    try #require(line["product_id"] as? String),
                    line["cohort"] as? String ?? line["currency"] as? String ?? "",
                ]
                lines[name] = try #require(line["values"] as? [NSNumber]).map(\.int64Value)
            }
        }
        return lines
    }
}
