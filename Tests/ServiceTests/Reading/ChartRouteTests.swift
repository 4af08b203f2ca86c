import EntitlementAPI
import EntitlementCore
import HTTPServer
import Ledger
import Testing

@testable import Service

/// `GET /v1/charts/{name}`: what is answered, to whom, and in which form.
@Suite("The route of charts", .serialized, .timeLimit(.minutes(5)))
struct ChartRouteTests {
    /// Six yearly trials, each renewed once, the odd ones of the other app, one in the sandbox.
    private static func filled() async throws -> ServiceRig {
        let rig = try await ServiceRig.make(hasOtherApp: true)
        for number in 0..<6 {
            var purchase = Purchase()
            purchase.original = "90\(number)"
            purchase.transaction = "90\(number)"
            purchase.uuid = "n\(number)"
            if number % 2 == 1 { purchase.bundleID = ServiceRig.otherBundleID }
            if number == 4 { purchase.environment = "Sandbox" }
            purchase.product = number == 5 ? "=cmd|'/c calc'!A1,\"x\"" : "com.example.pro.yearly"
            #expect(try await rig.notify(purchase).status == 200)
        }
        return rig
    }

    private static func chart(_ rig: ServiceRig, _ target: String, key: String? = nil) async throws -> ChartDocument {
        let answer = try await rig.send("GET", "/v1/charts/\(target)", key: key ?? rig.admin)
        try #require(answer.status == 200, "\(target): \(answer.text)")
        let document = try WireJSON.decode(ChartDocument.self, from: answer.body)
        #expect(answer.header("Ledger-Position") == String(document.knownAt))
        return document
    }

    private static func words(_ document: ChartDocument) -> [String] {
        document.lines.map { "\($0.figure) \($0.counted.rawValue) \($0.productID.prefix(4)) \($0.values)" }
    }

    @Test("a chart has a line for each figure and product, and a number for each interval")
    func lines() async throws {
        let rig = try await Self.filled()
        let trials = try await Self.chart(rig, "trials?from=2025-12-01&to=2026-03-01&interval=month")
        #expect(Self.words(trials) == ["started within =cmd [0, 1, 0]", "started within com. [0, 4, 0]"])
        #expect(trials.interval == .month && trials.environment == .production && trials.name == .trials)
        #expect(
            trials.intervals.map(\.from.description) == [
                "2025-12-01T00:00:00.000Z", "2026-01-01T00:00:00.000Z", "2026-02-01T00:00:00.000Z",
            ])
        let active = try await Self.chart(rig, "active?product_id=com.example.pro.yearly&to=2026-01-02T00:00:00Z")
        #expect(active.intervals.count == 30 && active.intervals.last?.until.description == "2026-01-02T00:00:00.000Z")
        #expect(active.lines.map(\.values.last) == [4] && active.lines.first?.values.dropLast().last == 0)
        // The present one is the last where nothing is said.
        let usual = try await Self.chart(rig, "active?interval=week&environment=sandbox")
        #expect(usual.intervals.count == 26 && usual.intervals.last?.until.description == "2026-11-23T00:00:00.000Z")
        #expect(Self.words(usual).count == 1 && usual.lines.first?.values.last == 1)
        // What is not over by the time up to which everything is known holds what is expected.
        #expect(usual.intervals.map(\.isOver) == Array(repeating: true, count: 25) + [false])
        let then = try await Self.chart(rig, "active?from=2026-11-18&to=2026-11-25&known_at=3")
        #expect(then.intervals.map(\.isOver) == [true, true, false, false, false, false, false])
        // The first event is the key, and the purchases are the next.
        let early = try await Self.chart(rig, "active?interval=week&known_at=3")
        #expect(early.knownAt == 3 && early.lines.map(\.values.last) == [2])
        #expect(try await Self.chart(rig, "active?min_position=5").knownAt == 7)
        try await ChartProjector(pool: rig.pool).catchUp(isHurried: true)
        #expect(try await Self.chart(rig, "active?interval=week&known_at=3") == early)
        for name in ChartName.allCases { _ = try await Self.chart(rig, name.rawValue) }
    }

    @Test("what was known in the past is shown up to then, whatever the time is now")
    func rangeOfThePast() async throws {
        let rig = try await Self.filled()
        let early = try await Self.chart(rig, "active?interval=week&known_at=3")
        rig.clock.now = rig.clock.now.adding(milliseconds: 100 * Timestamp.millisecondsPerDay)
        #expect(try await Self.chart(rig, "active?interval=week&known_at=3") == early)
        // Nothing of the clock decides how many intervals there are.
        let since = try await Self.chart(rig, "active?from=2026-11-01&known_at=3")
        #expect(since.intervals.last?.until.description == "2026-11-21T00:00:00.000Z" && since.intervals.count == 20)
        #expect(try await Self.chart(rig, "active?interval=week").intervals.last != early.intervals.last)
    }

    @Test("keys of one app or environment count theirs alone")
    func bindings() async throws {
        let rig = try await Self.filled()
        for (bundleID, count) in [(ServiceRig.bundleID, 2), (ServiceRig.otherBundleID, 3)] {
            let key = try await rig.keys.create(name: bundleID, scopes: [.eventsRead], bundleID: bundleID).secret
            let chart = try await Self.chart(rig, "active?interval=month", key: key)
            #expect(chart.lines.compactMap(\.values.last).reduce(0, +) == Int64(count), "\(bundleID)")
        }
        let key = try await rig.keys.create(name: "s", scopes: [.eventsRead], environment: .sandbox).secret
        #expect(try await Self.chart(rig, "active", key: key).lines.compactMap(\.values.last) == [1])
        let other = try await rig.send("GET", "/v1/charts/active?environment=production", key: key)
        #expect(other.verdict == "403 forbidden")
        let blind = try await rig.keys.create(name: "r", scopes: [.customersRead]).secret
        #expect(try await rig.send("GET", "/v1/charts/active", key: blind).verdict == "403 forbidden")
    }

    @Test("a table is asked for by format or by Accept, and no field of it is a formula")
    func tables() async throws {
        let rig = try await Self.filled()
        let target = "/v1/charts/trials?from=2026-01-01&to=2026-02-01&interval=month"
        let table = try await rig.get(target + "&format=csv")
        let row = "2026-01-01T00:00:00.000Z,2026-02-01T00:00:00.000Z,true,started,within,"
        #expect(
            table.text == "from,until,is_over,figure,counted,product_id,source,cohort,currency,value\r\n"
                + "\(row)\"'=cmd|'/c calc'!A1,\"\"x\"\"\",app_store,,,1\r\n\(row)com.example.pro.yearly,app_store,,,4\r\n"
        )
        #expect(table.header("Content-Type") == "text/csv; charset=utf-8")
        #expect(table.header("Content-Disposition") == "attachment; filename=\"trials.csv\"")
        #expect(table.header("Ledger-Position") == "7")
        for (accept, isTable) in [
            ("text/csv", true), ("text/csv, application/json;q=0.5", true), ("Text/CSV ; Q=0.9, */*;q=0.1", true),
            ("*/*", false), ("application/json", false), ("text/csv;q=0", false), ("text/csv, application/json", false),
            ("text/csv;q=x", true), (",;,", false),
        ] {
            let answer = try await rig.get(target, headers: [("Accept", accept)])
            #expect((answer.body == table.body) == isTable, "\(accept)")
            #expect(answer.header("Vary") == "Accept")
        }
        let answer = try await rig.get(target + "&format=json", headers: [("Accept", "text/csv")])
        #expect(answer.header("Content-Type") == "application/json")
    }

    @Test(
        "what cannot be answered says why",
        arguments: [
            ("strange", "404 not_found", "name"), ("active?interval=year", "400 malformed_request", "interval"),
            ("active?from=yesterday", "400 malformed_request", "from"),
            ("active?to=2026-13-01", "400 malformed_request", "to"),
            ("active?from=2026-01-01&to=2026-01-01", "422 unprocessable", "from"),
            ("active?from=2026-01-02&to=2026-01-01", "422 unprocessable", "from"),
            ("active?from=2024-01-01&to=2026-01-01", "422 unprocessable", "interval"),
            ("active?from=0001-01-01&to=9999-12-31", "422 unprocessable", "interval"),
            ("active?known_at=1000", "422 unprocessable", "known_at"),
            ("active?known_at=x", "400 malformed_request", "known_at"),
            ("active?format=xml", "400 malformed_request", "format"),
            ("active?product_id=", "400 malformed_request", "product_id"),
            ("active?environment=test", "400 malformed_request", "environment"),
        ])
    func refusals(target: String, verdict: String, param: String) async throws {
        let rig = try await ServiceRig.make()
        let answer = try await rig.get("/v1/charts/\(target)")
        #expect(answer.verdict == verdict, "\(target): \(answer.text)")
        #expect(try answer.json["param"] == .string(param), "\(target)")
    }

    @Test("a chart that would begin after the interval that runs says so, where nobody said until when")
    func begunLater() async throws {
        let rig = try await ServiceRig.make()
        let answer = try await rig.get("/v1/charts/active?interval=month&from=2027-01-01")
        #expect(answer.verdict == "422 unprocessable")
        let end = "before 2026-12-01T00:00:00.000Z, the end of the month that runs"
        #expect(answer.text.contains(end), "\(answer.text)")
    }

    @Test("an answer of too many numbers is refused, with what to do")
    func tooMany() async throws {
        let rig = try await ServiceRig.make()
        for number in 0..<260 {
            var purchase = Purchase()
            purchase.original = "90\(number)"
            purchase.transaction = "90\(number)"
            purchase.uuid = "n\(number)"
            purchase.product = "com.example.\(number)"
            #expect(try await rig.notify(purchase).status == 200)
        }
        let range = "from=2026-01-01&to=2027-01-31"
        let answer = try await rig.get("/v1/charts/active?\(range)")
        #expect(
            answer.verdict == "422 unprocessable" && answer.text.contains("260 lines of 395 numbers"), "\(answer.text)")
        #expect(try await Self.chart(rig, "active?\(range)&product_id=com.example.7").lines.count == 1)
        #expect(try await Self.chart(rig, "active?\(range)&interval=month").lines.count == 260)
    }
}
