import Foundation
import Testing

/// The console in a real browser: what is long, small or turned round is read and reached all the same.
@Suite("The console in a browser: within reach", .serialized, .timeLimit(.minutes(10)))
struct ConsoleReachTests {
    private func resize(_ browser: Browser, _ width: Int, _ height: Int) async throws {
        try await browser.devTools(
            "Emulation.setDeviceMetricsOverride",
            ["width": width, "height": height, "deviceScaleFactor": 1, "mobile": true])
    }

    @Test("a form for the longest id is filled in and closed in the smallest window")
    func longIDs() async throws {
        try await ConsoleStage.with { stage in
            let browser = stage.browser
            try await stage.signIn()
            let id = String(repeating: "W", count: 255)
            try await stage.show(id)
            for height in [568, 256] {
                try await resize(browser, 320, height)
                try await browser.click("#do-grant")
                try await browser.wait("document.activeElement?.id === 'entitlement'")
                #expect(try await browser.text("dialog h2")?.contains(id) == true)
                // Each field is what is seen where it is, and Close stays in the window.
                let faults = try await browser.run(
                    """
                    const [dialog, close] = ["dialog", "dialog button"].map((one) => document.querySelector(one));
                    const seen = (one) => {
                        const box = one.getBoundingClientRect();
                        const [x, y] = [box.left + 8, box.top + box.height / 2];
                        return box.left >= 0 && box.right <= innerWidth && one.contains(document.elementFromPoint(x, y));
                    };
                    const faults = dialog.scrollWidth > dialog.clientWidth ? ["wide"] : [];
                    for (const name of ["#entitlement", "#until", "#reason", "#preview"]) {
                        const one = document.querySelector(name);
                        one.scrollIntoView({ block: "center" });
                        if (!seen(one)) faults.push(name);
                        if (!seen(close)) faults.push(`close at ${name}`);
                    }
                    return faults;
                    """)
                #expect(try #require(faults as? [String]).isEmpty, "\(height): \(faults ?? "")")
                try await browser.click("dialog button")
                try await browser.wait("!document.querySelector('dialog')")
            }
            try await stage.expectCleanConsole()
        }
    }

    @Test("on a phone a table is moved sideways rather than broken letter by letter")
    func tables() async throws {
        try await ConsoleStage.with { stage in
            let browser = stage.browser
            let made = try await stage.client.send(
                "POST", "/v1/webhook_endpoints",
                body: Array(#"{"url":"https://example.com/receivers/of/changes/with/a/long/address"}"#.utf8))
            try #require(made.status == 200, "\(made.text)")
            try await stage.signIn()
            try await resize(browser, 320, 568)
            for (place, table) in [
                ("view=service", "#endpoints table"), ("view=service", "#streams table"),
                ("view=catalog", "#products table"), ("customer=\(stage.ann.id)", "details.table table"),
            ] {
                try await browser.run("location.hash = arguments[0]", [place])
                try await browser.wait("document.querySelector('#endpoints, #products, details.table summary')")
                try await browser.run(
                    "document.querySelectorAll('details.table').forEach((one) => { one.open = true; })")
                try await browser.wait("document.querySelector(arguments[0])?.rows.length > 1", [table])
                let shape = try await browser.run(
                    """
                    const table = document.querySelector(arguments[0]);
                    const place = table.closest(".wide");
                    const cells = [...table.querySelectorAll("th, td")].map((one) => one.offsetWidth);
                    return [Math.min(...cells), place.scrollWidth - place.clientWidth, table.offsetHeight / table.rows.length,
                        document.documentElement.scrollWidth - innerWidth];
                    """, [table])
                let numbers = try #require(shape as? [NSNumber]).map(\.doubleValue)
                #expect(numbers[0] >= 90 && numbers[1] > 0, "\(table): \(numbers)")
                #expect(numbers[2] < 200 && numbers[3] <= 0, "\(table): \(numbers)")
            }
            try await stage.expectCleanConsole()
        }
    }
}
