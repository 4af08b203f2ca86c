import EntitlementCore
import Foundation
import StoreSimulator
import Testing

/// The console in a real browser: charts.
@Suite("The console in a browser: charts", .serialized, .timeLimit(.minutes(10)))
struct ConsoleChartTests {
    /// A stage on which more was sold.
    private func with(_ play: (ConsoleStage) async throws -> Void) async throws {
        try await ConsoleStage.with { stage in
            for life in StoreLife.recent(seed: 40, customers: 6, until: ConsoleStage.now) {
                try await stage.tell(life.notifications)
            }
            try await play(stage)
        }
    }

    /// Opens a chart by the address alone, and waits until it is there.
    private func show(_ stage: ConsoleStage, _ chart: String, _ more: String = "") async throws {
        try await stage.browser.run("location.hash = arguments[0]", ["view=charts&chart=\(chart)\(more)"])
        try await settle(stage, chart)
    }

    private func settle(_ stage: ConsoleStage, _ chart: String) async throws {
        try await stage.browser.wait(
            """
            document.querySelector('#chart-' + arguments[0])?.getAttribute('aria-current') === 'true'
                && !document.querySelector('main').ariaBusy && document.querySelector('#panels .panel')
            """, [chart])
    }

    /// What the tables behind the pictures say, by figure: the number of each interval, all series together.
    private func shown(_ browser: Browser) async throws -> [String: [Int64]] {
        try await browser.run("document.querySelectorAll('#panels details').forEach((one) => { one.open = true; })")
        try await browser.wait(
            "[...document.querySelectorAll('#panels details')].every((one) => one.querySelector('tbody tr'))")
        let found = try await browser.run(
            """
            return Object.fromEntries([...document.querySelectorAll("#panels .panel[data-figure]")]
                .filter((panel) => panel.querySelector("details") && !panel.dataset.figure.includes(".share"))
                .map((panel) => [panel.dataset.figure, [...panel.querySelectorAll("tbody tr")]
                    .map((row) => row.lastElementChild.textContent.replaceAll(",", ""))]))
            """)
        let texts = try #require(found as? [String: [String]])
        return try texts.mapValues { try $0.map { try #require(Int64($0), "\($0)") } }
    }

    /// The same as the API answers it.
    private func told(
        _ stage: ConsoleStage, _ chart: String, _ query: [String: String]
    ) async throws -> (sums: [String: [Int64]], count: Int) {
        let answer = try await stage.client.send("GET", "/v1/charts/\(chart)", query: query)
        try #require(answer.status == 200, "\(answer.text)")
        let count = try #require(answer.json["intervals"] as? [Any]).count
        var sums: [String: [Int64]] = [:]
        for line in try #require(answer.json["lines"] as? [[String: Any]]) {
            let values = try #require(line["values"] as? [NSNumber]).map(\.int64Value)
            let figure = try #require(line["figure"] as? String)
            sums[figure] = zip(sums[figure] ?? Array(repeating: 0, count: count), values).map { $0 + $1 }
        }
        return (sums, count)
    }

    private func expectSame(
        _ stage: ConsoleStage, _ chart: String, _ query: [String: String], _ context: String
    ) async throws {
        let (sums, count) = try await told(stage, chart, query)
        for (figure, values) in try await shown(stage.browser) {
            #expect(
                values == sums[figure] ?? Array(repeating: 0, count: count), "\(chart).\(figure), \(context)")
        }
        for figure in sums.keys {
            #expect(try await stage.browser.count("#panels .panel[data-figure='\(figure)']") == 1, "\(chart).\(figure)")
        }
    }

    @Test("every chart that the API has is offered, and its figures are the API's, by day, week and month")
    func figures() async throws {
        try await with { stage in
            let browser = stage.browser
            try await stage.signIn()
            try await browser.click("#open-charts")
            try await browser.wait("document.querySelector('#panels .panel')")
            let listed = try await stage.client.send("GET", "/v1/charts").json["items"] as? [[String: Any]]
            let names = try #require(listed).compactMap { $0["name"] as? String }
            #expect(names.count >= ChartName.allCases.count)
            for name in names {
                #expect(try await browser.count("#chart-\(name)") == 1)
                try await show(stage, name, "&interval=month")
                #expect(try await browser.count("#panels .panel") > 0, "\(name)")
                guard name != "retention", name != "revenue" else { continue }
                try await expectSame(stage, name, ["interval": "month"], "by month")
            }
            try await expectAmounts(stage)
            for interval in ["day", "week"] {
                try await show(stage, "renewals", "&interval=\(interval)")
                try await expectSame(stage, "renewals", ["interval": interval], interval)
            }
            #expect(try await browser.count("#panels .bar") > 0)
            try await stage.expectCleanConsole()
        }
    }

    /// Amounts of money, each currency by itself; the API has them in thousandths.
    private func expectAmounts(_ stage: ConsoleStage) async throws {
        try await show(stage, "revenue", "&interval=month")
        let browser = stage.browser
        try await browser.run("document.querySelectorAll('#panels details').forEach((one) => { one.open = true; })")
        try await browser.wait(
            "[...document.querySelectorAll('#panels details')].every((one) => one.querySelector('tbody tr'))")
        let answer = try await stage.client.send("GET", "/v1/charts/revenue", query: ["interval": "month"])
        var sums: [String: [Int64]] = [:]
        for line in try #require(answer.json["lines"] as? [[String: Any]]) {
            let values = try #require(line["values"] as? [NSNumber]).map(\.int64Value)
            let figure = try #require(line["figure"] as? String)
            let name = (line["currency"] as? String).map { "\(figure)-\($0)" } ?? figure
            sums[name] = zip(sums[name] ?? values.map { _ in 0 }, values).map { $0 + $1 }
        }
        #expect(sums.keys.contains { $0.hasPrefix("charged-") }, "\(answer.text)")
        #expect(try await browser.count("#panels .panel") == sums.count)
        for (name, values) in sums {
            let cells = try await browser.texts("[data-figure='\(name)'] tbody tr > :last-child")
            let shown = cells.map { Double($0.filter { $0.isNumber || $0 == "." || $0 == "-" }) ?? .nan }
            let told = values.map { Double($0) / (name.contains("-") ? 1000 : 1) }
            #expect(
                shown.count == told.count && zip(shown, told).allSatisfy { abs($0 - $1) < 0.006 },
                "\(name): \(shown) \(told)")
        }
    }

    @Test("what is not over is counted apart: nothing that is still to be renewed is told as lost")
    func running() async throws {
        try await with { stage in
            let browser = stage.browser
            try await stage.signIn()
            try await show(stage, "renewals", "&interval=month")
            let answer = try await stage.client.send("GET", "/v1/charts/renewals", query: ["interval": "month"])
            let intervals = try #require(answer.json["intervals"] as? [[String: Any]])
            let isOver = intervals.map { $0["is_over"] as? Bool == true }
            #expect(isOver.count { !$0 } == 1, "\(answer.text)")
            let (sums, _) = try await told(stage, "renewals", ["interval": "month"])
            func over(_ figure: String) -> Int64 {
                zip(sums[figure] ?? [], isOver).reduce(0) { $0 + ($1.1 ? $1.0 : 0) }
            }
            for (figure, values) in sums {
                let panel = "[data-figure='\(figure)']"
                let headline = try await browser.text("\(panel) .big") ?? ""
                #expect(headline == "\(over(figure)) in all that is shown and over", "\(figure)")
                let running = try await browser.text("\(panel) .running") ?? ""
                #expect(running.hasSuffix(", not over yet: \(values.last ?? 0) so far and expected"), "\(running)")
            }
            let (made, due) = (over("made_of_due"), over("due"))
            let share = try await browser.text("[data-figure='renewals.share'] .big") ?? ""
            let percent = (Double(made) / Double(max(due, 1)) * 1000).rounded() / 10
            let format = FloatingPointFormatStyle<Double>(locale: Locale(identifier: "en_US_POSIX")).grouping(.never)
            #expect(due > 0 && share.hasPrefix("\(percent.formatted(format)) %"), "\(share)")
            let rises = try await browser.text("[data-figure='renewals.share']") ?? ""
            #expect(rises.contains("the share of the last 60 days may rise"), "\(rises)")
            // What stands is told as of the end of what is over.
            try await show(stage, "active", "&interval=month")
            let standing = try await told(stage, "active", ["interval": "month"]).sums["active"] ?? []
            let index = try #require(isOver.lastIndex(of: true))
            let shown = try await browser.text("[data-figure='active'] .big") ?? ""
            #expect(shown.hasPrefix("\(standing[index]) at the end"), "\(shown)")
            let running = try await browser.text("[data-figure='active'] .running") ?? ""
            #expect(running.hasSuffix(": \(standing.last ?? 0)"), "\(running)")
            try await stage.expectCleanConsole()
        }
    }

    @Test("cohorts are a table whose shares are those of the API's numbers")
    func cohorts() async throws {
        try await with { stage in
            let browser = stage.browser
            try await stage.signIn()
            try await show(stage, "retention", "&interval=month&from=2024-01-01")
            let answer = try await stage.client.send(
                "GET", "/v1/charts/retention", query: ["interval": "month", "from": "2024-01-01"])
            let lines = try #require(answer.json["lines"] as? [[String: Any]])
            let intervals = try #require(answer.json["intervals"] as? [[String: Any]])
            let isOver = intervals.map { $0["is_over"] as? Bool == true }
            var retained: [String: [Int64]] = [:]
            var begun: [String: Int64] = [:]
            for line in lines {
                let cohort = try #require(line["cohort"] as? String)
                let values = try #require(line["values"] as? [NSNumber]).map(\.int64Value)
                if line["figure"] as? String == "begun" {
                    begun[cohort, default: 0] += values.reduce(0, +)
                } else {
                    retained[cohort] = zip(retained[cohort] ?? values.map { _ in 0 }, values).map { $0 + $1 }
                }
            }
            let rows = try #require(
                try await browser.run(
                    """
                    return [...document.querySelectorAll(".cohorts tbody tr")].map((row) =>
                        [row.children[0].textContent, row.children[1].textContent, 
                        [...row.children].filter((cell) => cell.dataset.interval).map((cell) => `${cell.dataset.interval} ${cell.title}`)])
                    """) as? [[Any]])
            #expect(rows.count == Set(begun.keys).union(retained.keys).count && rows.count > 2)
            for row in rows {
                let cohort = try #require(row[0] as? String)
                #expect(row[1] as? String == "\(begun[cohort] ?? 0)", "\(cohort)")
                let titles = try #require(row[2] as? [String])
                for title in titles {
                    let index = try #require(title.split(separator: " ").first.flatMap { Int($0) })
                    let said = "\(index) \(retained[cohort]?[index] ?? 0) of \(begun[cohort] ?? 0)"
                    #expect(title == said + (isOver[index] ? "" : ", not over yet"), "\(cohort)")
                }
                #expect(!titles.isEmpty, "\(cohort)")
            }
            // Those who began before the first month shown are left out: how many there were is not shown either.
            let cohorts = Set(begun.keys).union(retained.keys).sorted()
            try await show(stage, "retention", "&interval=month&from=\(cohorts[1])-01")
            try await browser.wait(".wide-panel", says: "1 earlier month is left out")
            let first = try await browser.texts(".cohorts tbody th")
            #expect(first == Array(cohorts.dropFirst()))
            let places = try await browser.run(
                """
                return [...document.querySelectorAll(".cohorts tbody tr")].every((row) =>
                    row.children[2].title.endsWith(` of ${row.children[1].textContent}`)
                        || row.children[2].title.endsWith(", not over yet"))
                """)
            #expect(places as? Bool == true, "under the month in which they began")
            try await stage.expectCleanConsole()
        }
    }

    @Test("filters, what was known then, the file and the address go with the picture")
    func filters() async throws {
        try await with { stage in
            let browser = stage.browser
            try await stage.signIn()
            try await show(stage, "churn", "&interval=month")
            let product = StoreWorld.ProductID.proMonthly
            try await choose(browser, "#product", product)
            try await settle(stage, "churn")
            try await browser.wait("location.hash.includes('product_id=')")
            try await expectSame(stage, "churn", ["interval": "month", "product_id": product], "of one product")
            let head = try await stage.client.head()
            // A time is written as on the screen of a customer, and what is none is refused here.
            try await browser.type("2026-1-2", into: "#chart-known")
            try await browser.press(Browser.Keys.enter)
            try await browser.wait("#problem", says: "That is neither a position nor a time")
            try await browser.type("2026-11-20 19:00", into: "#chart-known")
            try await browser.press(Browser.Keys.enter)
            try await browser.wait("decodeURIComponent(location.hash).includes('known_at=2026-11-20T18:00:00.000Z')")
            let labels = try await browser.texts(".controls label")
            #expect(labels.contains("From (days are UTC’s)") && labels.contains("To (not included)"), "\(labels)")
            try await browser.type("\(head / 2)", into: "#chart-known")
            try await browser.press(Browser.Keys.enter)
            try await browser.wait("#moment", says: "as known up to event \(head / 2)")
            try await settle(stage, "churn")
            let query = ["interval": "month", "product_id": product, "known_at": "\(head / 2)"]
            try await expectSame(stage, "churn", query, "as known then")
            // The file is that of the API, under the same questions.
            let file = try await browser.send(
                "POST", "execute/async",
                [
                    "script": """
                    const done = arguments[arguments.length - 1];
                    let blob;
                    URL.createObjectURL = (one) => { blob = one; return "#"; };
                    HTMLAnchorElement.prototype.click = async function () { done([this.download, await blob.text()]); };
                    document.querySelector("#chart-csv").dispatchEvent(new MouseEvent("click", { cancelable: true }));
                    """, "args": [Any](),
                ])
            let table = try await stage.client.send(
                "GET", "/v1/charts/churn", query: query.merging(["format": "csv"]) { $1 })
            let document = try await stage.client.send("GET", "/v1/charts/churn", query: query)
            let intervals = try #require(document.json["intervals"] as? [[String: Any]])
            let days = [intervals.first?["from"], intervals.last?["until"]].map { "\($0 as? String ?? "")".prefix(10) }
            let name = "churn-production-month-\(days[0])-\(days[1])-\(product)-known-at-\(head / 2).csv"
            #expect(file as? [String] == [name, table.text])
            // Whoever is sent the address sees the same.
            try await browser.wait("location.hash.endsWith('known_at=\(head / 2)')")
            let address = try await browser.run("return location.href") as? String
            let seen = try await shown(browser)
            try await browser.open(try #require(URL(string: "about:blank")))
            try await browser.open(try #require(address.flatMap { URL(string: $0) }))
            try await settle(stage, "churn")
            #expect(try await shown(browser) == seen, "\(address ?? "")")
            // The other environment, and what is refused.
            try await browser.click("#chart-known-all")
            try await choose(browser, "#environment", "sandbox")
            try await settle(stage, "churn")
            try await expectSame(
                stage, "churn", ["interval": "month", "product_id": product, "environment": "sandbox"], "of the sandbox"
            )
            try await browser.run("location.hash = 'view=charts&chart=churn&interval=day&from=2020-01-01'")
            try await browser.wait("#problem", says: "more than 400 intervals")
            try await stage.expectCleanConsole(allowing: ["status of 422"])
            // Where the session has ended, that is said.
            try await show(stage, "churn", "&interval=month")
            try await browser.send("DELETE", "cookie", nil)
            try await browser.click("#chart-csv")
            try await browser.wait("#sign-in-problem", says: "The session has ended")
        }
    }

    @Test("where a chart cannot be had, no figures of another are left beneath the controls, nor a file of them")
    func refused() async throws {
        try await with { stage in
            let browser = stage.browser
            try await stage.signIn()
            try await show(stage, "churn", "&interval=month")
            func expectNothing(_ problem: String) async throws {
                try await browser.wait("#problem", says: problem)
                #expect(try await browser.count("#panels *, #chart-csv[href]") == 0, "\(problem)")
                #expect(try await browser.text("#chart-text") == "")
            }
            try await browser.run(
                "window.fetching = window.fetch; window.fetch = () => Promise.reject(new TypeError())")
            try await choose(browser, "#interval", "week")
            try await expectNothing("The service cannot be reached")
            // One that is long in coming.
            try await browser.run(
                """
                window.fetch = async (...asked) => {
                    await new Promise((go) => { window.letGo = go; });
                    return window.fetching(...asked);
                };
                """)
            try await choose(browser, "#interval", "month")
            try await browser.run("window.letGo()")
            try await settle(stage, "churn")
            #expect(try await browser.text("#problem") == "")
            try await choose(browser, "#interval", "week")
            try await browser.wait("#panels", says: "Loading")
            #expect(try await browser.count("#panels .panel, #chart-csv[href]") == 0)
            try await browser.run("window.fetch = window.fetching; window.letGo()")
            try await settle(stage, "churn")
            try await expectSame(stage, "churn", ["interval": "week"], "by week")
            try await browser.type("999999999", into: "#chart-known")
            try await browser.press(Browser.Keys.enter)
            try await expectNothing("known_at")
            try await browser.click("#chart-known-all")
            try await settle(stage, "churn")
            try await stage.expectCleanConsole(allowing: ["status of 4"])
        }
    }

    @Test("the keyboard goes from bar to bar, each says what it is, and on a phone nothing is cut off")
    func keyboard() async throws {
        try await with { stage in
            let browser = stage.browser
            try await stage.signIn()
            try await show(stage, "active", "&interval=month")
            try await browser.run("document.querySelector('#panels .bar[tabindex=\"0\"]').focus()")
            let last = try await browser.run("return document.activeElement.ariaLabel") as? String
            try await browser.press(Browser.Keys.left)
            let before = try await browser.run("return document.activeElement.ariaLabel") as? String
            #expect(last != before && last?.contains("not over yet") == true && before?.contains("not over") == false)
            try await browser.wait(
                ".bar-readout", says: try #require(before))
            #expect(
                try await browser.run("return document.activeElement.matches('.bar[tabindex=\"0\"]')") as? Bool == true)
            for chart in ["active", "retention"] {
                try await show(stage, chart, "&interval=month")
                for width in [360, 800] {
                    try await browser.devTools(
                        "Emulation.setDeviceMetricsOverride",
                        ["width": width, "height": 780, "deviceScaleFactor": 1, "mobile": true])
                    try await browser.wait("innerWidth === arguments[0]", [width])
                    try await browser.wait(
                        "[...document.querySelectorAll('.bars')].every((one) => one.clientWidth <= arguments[0])",
                        [width])
                    let wide = try await browser.run(
                        """
                        return [...document.querySelectorAll("#page *")].filter((one) => {
                            const box = one.getBoundingClientRect();
                            return box.width > 2 && box.right > innerWidth + 1 && !one.closest(".picture, details, .aside, .wide > *");
                        }).map((one) => one.outerHTML.slice(0, 80))
                        """)
                    #expect((wide as? [String])?.isEmpty == true, "\(chart) at \(width): \(wide ?? "")")
                }
            }
            try await stage.expectCleanConsole()
            try await browser.send("DELETE", "cookie", nil)
            try await stage.signIn(try await stage.key("customers:read"))
            #expect(try await browser.count("#open-charts") == 0, "that takes events:read")
        }
    }

    private func choose(_ browser: Browser, _ selector: String, _ value: String) async throws {
        try await browser.wait(
            "document.querySelector(arguments[0])?.querySelector(`[value='${arguments[1]}']`)", [selector, value])
        try await browser.run(
            """
            const choice = document.querySelector(arguments[0]);
            choice.value = arguments[1];
            choice.dispatchEvent(new Event("change", { bubbles: true }));
            """, [selector, value])
    }
}
