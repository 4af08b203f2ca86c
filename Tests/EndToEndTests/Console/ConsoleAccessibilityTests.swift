import Foundation
import StoreSimulator
import TestSupport
import Testing

/// Every screen of the console before an accessibility checker, in a real browser.
@Suite("The console in a browser: accessibility", .serialized, .timeLimit(.minutes(10)))
struct ConsoleAccessibilityTests {
    /// axe-core, which `deploy/axe` fetches where it is missing.
    private static func checker() async throws -> String {
        let process = Process()
        process.executableURL =
            URL(filePath: #filePath).deletingLastPathComponent()
            .appending(path: "../../../deploy/axe").standardizedFileURL
        let output = Pipe()
        process.standardOutput = output
        try await process.runWithAllSignals()
        let path = await Installation.read(output).trimmingCharacters(in: .whitespacesAndNewlines)
        try #require(process.waitForEnd() == 0, "deploy/axe failed")
        return try String(contentsOfFile: path, encoding: .utf8)
    }

    /// What the checker finds that is serious or critical, each with where it is.
    private static func faults(_ browser: Browser, _ checker: String) async throws -> [String] {
        // What is about to be replaced is drawn fainter for a moment.
        try await browser.wait("!document.querySelector('[aria-busy=true]')")
        if try await browser.run("return typeof window.axe") as? String != "object" { try await browser.run(checker) }
        let found = try await browser.send(
            "POST", "execute/async",
            [
                "script": """
                const done = arguments[arguments.length - 1];
                axe.run(document, { resultTypes: ["violations"] }).then(
                    ({ violations, testEngine }) => done([testEngine.version, ...violations
                        .filter((one) => one.impact === "serious" || one.impact === "critical")
                        .map((one) => `${one.impact} ${one.id}: ${one.help}: `
                            + one.nodes.slice(0, 3).map((node) => `${node.target} ${node.html.slice(0, 120)}`).join("; "))]),
                    (error) => done(["failed", String(error)]));
                """, "args": [Any](),
            ])
        let texts = try #require(found as? [String])
        try #require(texts.first != "failed", "\(texts)")
        return Array(texts.dropFirst())
    }

    @Test("nothing serious or critical on any screen and in any dialog, light and dark, wide and on a phone")
    func screens() async throws {
        let checker = try await Self.checker()
        try await ConsoleStage.with { stage in
            let browser = stage.browser
            for life in StoreLife.recent(seed: 40, customers: 3, until: ConsoleStage.now) {
                try await stage.tell(life.notifications)
            }
            _ = try await stage.client.send(
                "POST", "/v1/webhook_endpoints", body: Array(#"{"url":"https://example.com/told"}"#.utf8))
            _ = try await stage.client.send(
                "POST", "/v1/customers/\(stage.ann.id)/actions/grant",
                body: Array(#"{"entitlement":"archive","reason":"r"}"#.utf8))
            func expect(_ what: String) async throws {
                var faults = try await Self.faults(browser, checker)
                // The page asks anew by itself, and what it then replaces is faint while the checker looks: a fault stays.
                if !faults.isEmpty { faults = try await Self.faults(browser, checker) }
                #expect(faults.isEmpty, "\(what): \(faults.joined(separator: "\n"))")
            }
            try await browser.open(stage.console)
            try await browser.wait("document.querySelector('#key')")
            try await expect("signing in")
            try await stage.signIn()
            for (scheme, width) in [("light", 1280), ("dark", 1280), ("light", 360), ("dark", 360)] {
                let context = "\(scheme), \(width)"
                try await look(browser, scheme, width)
                try await browser.run("location.hash = ''")
                try await browser.wait("!document.querySelector('#customer')")
                try await expect("the start, \(context)")
                for person in [stage.ann, stage.bob, stage.cleo, stage.dan] {
                    try await stage.show(person.id)
                    try await browser.wait("document.querySelector('#events ol')")
                    try await browser.run("document.querySelector('details.table').open = true")
                    try await expect("\(person.id), \(context)")
                }
                for (name, ready) in [
                    ("service", "#feed li"), ("catalog", "#products tbody tr"), ("charts", "#panels .panel"),
                    ("charts&chart=retention", ".cohorts"),
                    ("charts&chart=trials&interval=month", "[data-figure='trials.share']"),
                ] {
                    try await browser.run("location.hash = arguments[0]", ["view=\(name)"])
                    try await browser.wait(
                        "document.querySelector(arguments[0]) && !document.querySelector('main').ariaBusy", [ready])
                    try await browser.run(
                        "document.querySelectorAll('details.table').forEach((one) => { one.open = true; })")
                    try await expect("\(name), \(context)")
                }
            }
            // The dialogs, which come in the colors of the last look.
            for scheme in ["light", "dark"] {
                try await look(browser, scheme, 1280)
                try await stage.show(stage.ann.id)
                try await browser.wait("document.querySelector('#do-forget')")
                for name in ["grant", "revoke", "link", "transfer", "check", "extend", "resend", "forget"] {
                    try await browser.click("#do-\(name)")
                    try await browser.wait("document.querySelector('dialog[open]')")
                    try await expect("\(name), \(scheme)")
                    try await stage.closeDialog()
                }
                try await browser.click("#events button")
                try await browser.wait("dialog", says: "What it states")
                try await expect("an event, \(scheme)")
                try await stage.closeDialog()
                try await browser.run("location.hash = arguments[0]", ["view=catalog"])
                try await browser.click("#products td button")
                try await browser.wait("document.querySelector('dialog[open]')")
                try await expect("a product, \(scheme)")
                try await browser.type("other", into: "#gives")
                try await browser.click("#take")
                try await browser.click("#try")
                try await browser.wait("document.querySelector('#apply')")
                try await expect("a trial, \(scheme)")
            }
        }
    }

    private func look(_ browser: Browser, _ scheme: String, _ width: Int) async throws {
        try await browser.devTools(
            "Emulation.setEmulatedMedia",
            [
                "features": [
                    ["name": "prefers-color-scheme", "value": scheme],
                    ["name": "prefers-reduced-motion", "value": "reduce"],
                ]
            ])
        try await browser.devTools(
            "Emulation.setDeviceMetricsOverride",
            ["width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600])
    }
}
