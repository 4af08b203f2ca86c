import Foundation
import Testing

/// The pictures of docs/console.md, and how long the demo's customers take to be painted: see `deploy/screenshots`.
@Suite(
    "Pictures of the console", .serialized, .timeLimit(.minutes(10)),
    .enabled(if: ProcessInfo.processInfo.environment["RIGHTFUL_SCREENSHOTS"] != nil))
struct ConsolePictures {
    private struct Look {
        let name: String
        let fragment: String
        /// What is there when the screen is.
        let ready: String
        var scheme = "light"
        var width = 1120
        var height = 900
        /// What is done before, in the page.
        var deed: String?
    }

    private static let bob = "customer=00000000-0000-4000-8000-000000000002"

    private static let looks = [
        Look(name: "customer", fragment: bob, ready: "#do-grant"),
        Look(name: "customer-dark", fragment: bob, ready: "#do-grant", scheme: "dark"),
        Look(name: "customer-phone", fragment: bob, ready: "#do-grant", width: 390, height: 844),
        Look(name: "charts", fragment: "view=charts&chart=churn&interval=month", ready: ".panel .bar"),
        Look(
            name: "retention", fragment: "view=charts&chart=retention&interval=month", ready: ".cohorts", height: 620),
        Look(name: "service", fragment: "view=service", ready: "#feed li", height: 1150),
        Look(
            name: "catalog", fragment: "view=catalog", ready: "#products tbody tr", height: 760,
            deed: """
                document.querySelector("[data-product='com.example.pro.monthly'] td button").click();
                document.querySelector("#gives").value = "premium";
                document.querySelector("#take").click();
                document.querySelector("#try").click();
                """),
    ]

    @Test("the screens of deploy/run's demo, and the time to paint one of its customers")
    func pictures() async throws {
        let installation = try await Installation(isFresh: true)
        defer { installation.remove() }
        let environment = ProcessInfo.processInfo.environment
        let programs =
            try environment["RIGHTFUL_BIN_DIR"].map { URL(filePath: $0) }
            ?? Products.url("rightful").deletingLastPathComponent()
        let demo = try await RunningDemo.start([
            "RIGHTFUL_BIN_DIR": programs.path(), "RIGHTFUL_DATA_DIR": installation.dataDirectory.path(),
            "RIGHTFUL_LISTEN": "127.0.0.1:\(try DocumentationPage.freePort())",
        ])
        defer { demo.stop() }
        let printed = try #require(demo.output.firstMatch(of: /http:\S+\/console#link=\S+/)).0
        let link = try #require(URL(string: String(printed)))
        let browser = try await Browser.start(zone: "UTC", recordsRequests: false)
        do {
            try await browser.open(link)
            try await browser.wait("document.querySelector('header .account')")
            for look in Self.looks { try await picture(look, browser) }
            try await measure(link, browser)
        } catch {
            await browser.quit()
            throw error
        }
        await browser.quit()
    }

    private func picture(_ look: Look, _ browser: Browser) async throws {
        try await browser.devTools(
            "Emulation.setEmulatedMedia", ["features": [["name": "prefers-color-scheme", "value": look.scheme]]])
        try await browser.devTools(
            "Emulation.setDeviceMetricsOverride",
            [
                "width": look.width, "height": look.height, "deviceScaleFactor": 1, "mobile": look.width < 600,
            ])
        try await browser.run("location.hash = arguments[0]", [look.fragment])
        try await browser.wait(
            "document.querySelector(arguments[0]) && !document.querySelector('[aria-busy=true]')", [look.ready])
        if let deed = look.deed {
            try await browser.run(deed)
            try await browser.wait("document.querySelector('#apply')")
            try await browser.run("document.activeElement.blur(); scrollTo(0, 0)")
        }
        // Until the last of it is painted.
        try await Task.sleep(for: .milliseconds(500))
        let file = DocumentationPage.root.appending(path: "docs/console-\(look.name).png")
        let picture = try await browser.screenshot()
        try picture.write(to: file)
        print("docs/console-\(look.name).png: \(picture.count) bytes")
    }

    /// From the beginning of the navigation on: the first paint, and what the customer holds being there.
    private func measure(_ link: URL, _ browser: Browser) async throws {
        try await browser.devTools(
            "Page.addScriptToEvaluateOnNewDocument",
            [
                "source": """
                new MutationObserver((_, observer) => {
                    if (!document.querySelector("#answer [data-entitlement]")) return;
                    observer.disconnect();
                    requestAnimationFrame(() => setTimeout(() => performance.mark("answered"), 0));
                }).observe(document, { childList: true, subtree: true });
                """
            ])
        var parts = try #require(URLComponents(url: link, resolvingAgainstBaseURL: false))
        parts.fragment = Self.bob
        let url = try #require(parts.url)
        for isCold in [true, false] { try await measure(url, isCold: isCold, browser) }
    }

    private func measure(_ url: URL, isCold: Bool, _ browser: Browser) async throws {
        var paints: [(first: Double, answer: Double, bytes: Double)] = []
        for _ in 0..<5 {
            if isCold {
                try await browser.devTools("Network.clearBrowserCache", [String: Any]())
            }
            try await browser.open(try #require(URL(string: "about:blank")))
            try await browser.open(url)
            try await browser.wait("performance.getEntriesByName('answered').length > 0")
            let found = try await browser.run(
                """
                const page = performance.getEntriesByType("navigation")[0];
                const files = performance.getEntriesByType("resource").filter((one) => one.name.includes("/console/assets/"));
                return [performance.getEntriesByName("first-contentful-paint")[0].startTime,
                    performance.getEntriesByName("answered")[0].startTime,
                    [page, ...files].reduce((sum, one) => sum + one.encodedBodySize, 0)];
                """)
            let numbers = try #require(found as? [NSNumber]).map(\.doubleValue)
            paints.append((numbers[0], numbers[1], numbers[2]))
        }
        func median(_ values: [Double]) -> Int { Int(values.sorted()[values.count / 2].rounded()) }
        print(
            """
            \(isCold ? "without a cache" : "opened before"), of \(paints.count) times the median: first paint after \(median(paints.map(\.first))) ms, \
            what the customer holds after \(median(paints.map(\.answer))) ms; the page weighs \
            \(median(paints.map(\.bytes))) bytes
            """)
    }
}
