import EntitlementCore
import Foundation
import HTTPServer
import OutgoingHTTP
import StoreSimulator
import Testing

/// The console in a real browser: what it puts right, and where it is looked at.
@Suite("The console in a browser: commands and surroundings", .serialized, .timeLimit(.minutes(10)))
struct ConsoleCommandTests {
    private func held(_ stage: ConsoleStage, _ id: String) async throws -> [String] {
        let answer = try await stage.client.send("GET", "/v1/customers/\(id)/entitlements")
        let held = try #require(answer.json["entitlements"] as? [[String: Any]])
        return held.filter { $0["gives_access"] as? Bool == true }.compactMap { $0["id"] as? String }
    }

    @Test("a grant is shown before it is given, says why, changes the screen, and is undone")
    func grant() async throws {
        try await ConsoleStage.with { stage in
            let browser = stage.browser
            try await stage.signIn()
            try await stage.show(stage.cleo.id)
            let head = try await stage.client.head()
            try await browser.click("#do-grant")
            try await stage.foresee([("#entitlement", "premium"), ("#reason", "made good for an outage")])
            #expect(try await browser.text("#outcome")?.contains("They have premium without an end") == true)
            #expect(try await stage.client.head() == head, "a preview records nothing")
            try await browser.click("#confirm")
            try await browser.wait("#outcome", says: "Recorded as event \(head + 1)")
            #expect(try await held(stage, stage.cleo.id) == ["premium"])
            try await browser.wait("#answer", says: "They have premium without an end: it was granted.")
            let facts = try await stage.client.send("GET", "/v1/events/\(head + 1)").json["facts"] as? [String: Any]
            #expect(facts?["reason"] as? String == "made good for an outage")
            try await browser.click("#undo")
            try await browser.wait("document.querySelector('#undone')")
            #expect(try await held(stage, stage.cleo.id).isEmpty)
            #expect(try await stage.client.head() == head + 2)
            try await browser.press(Browser.Keys.escape)
            try await browser.wait("!document.querySelector('dialog')")
            try await stage.settle()
            #expect(try await browser.text("#answer")?.contains("it was granted") == false)
            try await stage.expectCleanConsole()
        }
    }

    @Test("a grant that somebody has is taken back, and given again by undoing that")
    func revocation() async throws {
        try await ConsoleStage.with { stage in
            let browser = stage.browser
            let path = "/v1/customers/\(stage.cleo.id)/actions/grant"
            _ = try await stage.client.send(
                "POST", path, body: Array(#"{"entitlement":"premium","reason":"<b>goodwill</b>"}"#.utf8))
            try await stage.signIn()
            try await stage.show(stage.cleo.id)
            try await browser.click("#do-revoke")
            try await browser.wait("document.querySelector('#grant')")
            // Which of two it is: of when it is, by whom, until when, and as which event.
            let line = try await browser.text("#grant") ?? ""
            #expect(line.hasPrefix("premium · ") && line.hasSuffix("· <b>goodwill</b>"), "\(line)")
            let head = try await stage.client.head()
            #expect(line.contains(" by test · without an end · event \(head) "), "\(line)")
            #expect(try await browser.text("#events li")?.contains("premium") == true)
            // Spaces are no reason.
            try await browser.type("   ", into: "#reason")
            let isValid = try await browser.run("return document.querySelector('dialog form').checkValidity()")
            #expect(isValid as? Bool == false)
            try await stage.foresee([("#reason", "given by mistake")])
            try await browser.click("#confirm")
            try await browser.wait("document.querySelector('#undo')")
            #expect(try await held(stage, stage.cleo.id).isEmpty)
            try await browser.click("#undo")
            try await browser.wait("document.querySelector('#undone')")
            #expect(try await held(stage, stage.cleo.id) == ["premium"])
            try await stage.expectCleanConsole()
        }
    }

    @Test(
        "a grant that decides nothing is drawn, is no secret beside what is paid for, and is taken back from its event")
    func grantBeside() async throws {
        try await ConsoleStage.with { stage in
            let browser = stage.browser
            let soon = Timestamp(milliseconds: ConsoleStage.now + Span.day)
            let plan = try await stage.client.send("GET", "/v1/customers/\(stage.ann.id)/entitlements")
            let premium = try #require((plan.json["entitlements"] as? [[String: Any]])?.first?["id"] as? String)
            _ = try await stage.client.send(
                "POST", "/v1/customers/\(stage.ann.id)/actions/grant",
                body: Array(#"{"entitlement":"\#(premium)","until":"\#(soon)","reason":"by mistake"}"#.utf8))
            let head = try await stage.client.head()
            try await stage.signIn()
            try await stage.show(stage.ann.id)
            try await browser.click("details.table summary")
            try await browser.wait("document.querySelector('details.table')?.innerText.includes('grant: by mistake')")
            try await browser.wait("document.querySelector('#do-revoke')")
            // From the event itself, at any time later.
            try await browser.wait(
                "[...document.querySelectorAll('#events button')].some((one) => one.textContent === arguments[0])",
                ["#\(head)"])
            try await browser.run(
                "[...document.querySelectorAll('#events button')].find((one) => one.textContent === arguments[0]).click()",
                ["#\(head)"])
            try await browser.click("#undo-event")
            try await browser.wait("document.querySelector('#reason')")
            try await stage.foresee([("#reason", "it was a mistake")])
            try await browser.click("#confirm")
            try await browser.wait("#outcome", says: "Recorded as event \(head + 1)")
            let facts = try await stage.client.send("GET", "/v1/events/\(head + 1)").json
            #expect(facts["type"] as? String == "grant_revoked", "\(facts)")
            try await stage.expectCleanConsole()
        }
    }

    @Test("what is read out is what happened: transferred away, taken back, and paid for beneath a grant")
    func truth() async throws {
        try await ConsoleStage.with { stage in
            let browser = stage.browser
            try await stage.signIn()
            let lasts = "{\"entitlement\":\"vip\",\"reason\":\"r\"}"
            let path = "/v1/customers/\(stage.ann.id)/actions"
            let made = try await stage.client.send("POST", "\(path)/grant", body: Array(lasts.utf8))
            let grant = try #require(made.json["grant_id"] as? String)
            _ = try await stage.client.send(
                "POST", "\(path)/revoke_grant", body: Array(#"{"grant_id":"\#(grant)","reason":"r"}"#.utf8))
            try await stage.show(stage.ann.id)
            try await browser.wait("#answer", says: "what was granted was taken back.")
            try await browser.wait("#answer", says: "It renews by itself then.")
            // A grant that lasts longer than the subscription hides it, and they go on paying.
            let plan = try await stage.client.send("GET", "/v1/customers/\(stage.ann.id)/entitlements")
            let held = try #require(plan.json["entitlements"] as? [[String: Any]])
            for one in held where one["gives_access"] as? Bool == true {
                let id = try #require(one["id"] as? String)
                let given = try await stage.client.send(
                    "POST", "\(path)/grant", body: Array("{\"entitlement\":\"\(id)\",\"reason\":\"r\"}".utf8))
                #expect(given.status == 200)
            }
            try await browser.reload()
            try await browser.wait(
                "#answer", says: "Beside that they pay for \(StoreWorld.ProductID.proMonthly), which renews by itself")
            let original = try #require(held.compactMap { $0["original_transaction_id"] as? String }.first)
            let moved = try await stage.client.send(
                "POST", "\(path)/transfer", body: Array(#"{"original_transaction_id":"\#(original)","to":"c-2"}"#.utf8))
            #expect(moved.status == 200, "\(moved.text)")
            try await stage.show("c-2")
            try await browser.wait("#answer", says: "It renews by itself then.")
            try await stage.show(stage.ann.id)
            try await browser.wait(
                "document.querySelector('#answer')?.innerText.includes('They have') && "
                    + "!document.querySelector('#answer').innerText.includes('Beside that')")
            // Bob's period ended, and his grace period runs: looked at from before, both are said.
            let before = Timestamp(milliseconds: ConsoleStage.now - 20 * Span.day)
            try await stage.show(stage.bob.id, "&at=\(before)")
            try await browser.wait(
                "#answer", says: "and from then on by a grace period, for the renewal could not be charged.")
            try await stage.expectCleanConsole()
        }
    }

    @Test("a session that ends in the middle of a form loses nothing of it")
    func endedSession() async throws {
        try await ConsoleStage.with { stage in
            let browser = stage.browser
            try await stage.signIn()
            try await stage.show(stage.cleo.id)
            try await browser.click("#do-grant")
            try await browser.type("premium", into: "#entitlement")
            try await browser.type("made good", into: "#reason")
            _ = try await browser.send("DELETE", "cookie", nil)
            try await browser.click("#preview")
            try await browser.wait("document.querySelector('dialog.again #key')")
            #expect(try await browser.text("dialog.again")?.contains("The session has ended") == true)
            try await browser.type(stage.admin, into: "dialog.again #key")
            try await browser.press(Browser.Keys.enter)
            try await browser.wait("!document.querySelector('dialog.again')")
            // Who hears the page is in the form again, of which nothing says any more that the session is over.
            try await browser.wait("document.activeElement?.id === 'preview'")
            #expect(try await browser.text("dialog .problem[role=alert]")?.isEmpty == true)
            #expect(try await browser.run("return document.querySelector('#reason').value") as? String == "made good")
            try await browser.click("#preview")
            try await browser.wait("document.querySelector('#confirm')")
            try await browser.click("#confirm")
            try await browser.wait("#outcome", says: "Recorded as event")
            try await stage.expectCleanConsole(allowing: ["status of 401"])
        }
    }

    @Test("a transfer and a link show both sides before, move what they say, and are undone")
    func moving() async throws {
        try await ConsoleStage.with { stage in
            let browser = stage.browser
            try await stage.signIn()
            try await stage.show(stage.ann.id)
            let head = try await stage.client.head()
            try await browser.click("#do-transfer")
            try await stage.foresee([("#to", "c-2"), ("#reason", "changed their account")])
            let sides = try await browser.texts("#outcome .sides")
            #expect(sides.count == 2 && sides[0].contains(stage.ann.id) && sides[1].contains("c-2"), "\(sides)")
            #expect(sides[1].contains("Nothing."), "\(sides)")
            #expect(try await stage.client.head() == head)
            try await browser.click("#confirm")
            try await browser.wait("document.querySelector('#undo')")
            #expect(try await held(stage, stage.ann.id).isEmpty)
            #expect(try await !held(stage, "c-2").isEmpty)
            try await browser.click("#undo")
            try await browser.wait("document.querySelector('#undone')")
            #expect(try await !held(stage, stage.ann.id).isEmpty)
            try await browser.press(Browser.Keys.escape)

            try await stage.show("c-3")
            try await browser.wait("document.querySelector('#do-link')")
            try await browser.click("#do-link")
            try await stage.foresee([("#linked", stage.bob.id), ("#reason", "one person")])
            #expect(try await browser.text("#outcome")?.contains("grace period") == true)
            try await browser.click("#confirm")
            try await browser.wait("document.querySelector('#undo')")
            #expect(try await !held(stage, "c-3").isEmpty)
            let linked = try await stage.client.send("GET", "/v1/events/\(try await stage.client.head())").json
            #expect((linked["facts"] as? [String: Any])?["reason"] as? String == "one person", "\(linked)")
            try await browser.click("#undo")
            try await browser.wait("document.querySelector('#undone')")
            #expect(try await held(stage, "c-3").isEmpty)
            // What is refused says why, and nothing is lost of what was written.
            try await browser.press(Browser.Keys.escape)
            try await browser.wait("!document.querySelector('dialog')")
            try await browser.click("#do-grant")
            try await browser.type("premium", into: "#entitlement")
            try await browser.run("document.querySelector('#until').value = '2020-01-01T00:00'")
            try await browser.type("r", into: "#reason")
            try await browser.click("#preview")
            try await browser.wait("dialog .problem", says: "until lies in the past")
            // A year of five digits is no date, and not taken for one.
            try await browser.run("document.querySelector('#until').value = '12026-01-01T00:00'")
            let isValid = try await browser.run("return document.querySelector('dialog form').checkValidity()")
            #expect(isValid as? Bool == false)
            #expect(try await browser.run("return document.querySelector('#reason').value") as? String == "r")
            try await stage.expectCleanConsole(allowing: ["status of 422"])
        }
    }

    @Test("it works behind a path prefix, and on a phone nothing is cut off")
    func surroundings() async throws {
        try await ConsoleStage.with { stage in
            let proxy = try PrefixProxy(to: stage.service.url)
            try proxy.server.start()
            let port = try #require(proxy.server.boundPort)
            let url = try #require(URL(string: "http://127.0.0.1:\(port)/tools/rightful/console"))
            let browser = stage.browser
            try await stage.signIn(at: url)
            let cookie = try #require(try await browser.send("GET", "cookie", nil) as? [[String: Any]]).first
            #expect(cookie?["path"] as? String == "/tools/rightful/")
            try await stage.show(stage.bob.id)
            #expect(try await browser.text("#answer")?.contains("grace period") == true)
            let paths = try await browser.requests().filter { $0.port == Int(port) }.map { $0.path() }
            #expect(paths.count > 20 && paths.allSatisfy { $0.hasPrefix("/tools/rightful/") })
            for width in [360, 800] {
                try await browser.devTools(
                    "Emulation.setDeviceMetricsOverride",
                    ["width": width, "height": 780, "deviceScaleFactor": 1, "mobile": true])
                try await browser.wait("innerWidth === arguments[0]", [width])
                try await browser.wait("document.querySelector('.timeline').clientWidth <= arguments[0]", [width])
                let wide = try await browser.run(
                    """
                    return [...document.querySelectorAll("#page *")].filter((one) => {
                        const box = one.getBoundingClientRect();
                        return box.width > 2 && box.right > innerWidth + 1 && !one.closest(".picture, details, .aside");
                    }).map((one) => one.outerHTML.slice(0, 80))
                    """)
                #expect((wide as? [String])?.isEmpty == true, "\(wide ?? "")")
            }
            await proxy.server.stop()
        }
    }

    @Test(
        "everything that takes a key or a pointer has a name, and every color of text is read on its ground, dark and light"
    )
    func accessible() async throws {
        try await ConsoleStage.with { stage in
            let browser = stage.browser
            try await stage.signIn()
            for scheme in ["light", "dark"] {
                try await browser.devTools(
                    "Emulation.setEmulatedMedia", ["features": [["name": "prefers-color-scheme", "value": scheme]]])
                for person in [stage.bob, stage.cleo] {
                    try await stage.show(person.id)
                    let faults = try await browser.run(Self.faults)
                    #expect((faults as? [String])?.isEmpty == true, "\(scheme): \(faults ?? "")")
                }
            }
            // The names are those that assistive technology is told.
            let tree = try await browser.devTools("Accessibility.getFullAXTree", [String: Any]())
            let nodes = try #require((tree as? [String: Any])?["nodes"] as? [[String: Any]])
            func value(_ node: [String: Any], _ name: String) -> String {
                (node[name] as? [String: Any])?["value"] as? String ?? ""
            }
            let named = ["button", "slider", "textbox", "searchbox", "combobox", "image", "dialog", "group", "Date"]
            for node in nodes where named.contains(value(node, "role")) && node["ignored"] as? Bool != true {
                guard value(node, "role") != "group" || !value(node, "name").isEmpty else { continue }
                #expect(!value(node, "name").isEmpty, "\(node)")
            }
            #expect(nodes.count { value($0, "role") == "slider" } >= 2)
        }
    }

    /// What an accessibility checker would find: contrast below 4.5:1 (3:1 for large text), doubled ids, levels of headings
    /// that are left out, fields without a label.
    private static let faults = """
        const channel = (value) => { const part = value / 255; return part <= .04045 ? part / 12.92 : ((part + .055) / 1.055) ** 2.4; };
        const light = ([red, green, blue]) => .2126 * channel(red) + .7152 * channel(green) + .0722 * channel(blue);
        const parts = (color) => color.match(/[\\d.]+/g).map(Number);
        const ground = (node) => {
            for (let one = node; one; one = one.parentElement) {
                const color = parts(getComputedStyle(one).backgroundColor);
                if (color.length < 4 || color[3] > 0) return color;
            }
            return [255, 255, 255];
        };
        const faults = [];
        for (const node of document.querySelectorAll("#page *")) {
            const hasText = [...node.childNodes].some((one) => one.nodeType === 3 && one.data.trim());
            if (!hasText || node.closest("svg, .aside, option, [disabled], .skip") || node.offsetParent === null) continue;
            const style = getComputedStyle(node);
            const [text, behind] = [light(parts(style.color)), light(ground(node))];
            const contrast = (Math.max(text, behind) + .05) / (Math.min(text, behind) + .05);
            const isLarge = parseFloat(style.fontSize) >= 24 || (parseFloat(style.fontSize) >= 18.6 && style.fontWeight >= 700);
            if (contrast < (isLarge ? 3 : 4.5)) faults.push(`${contrast.toFixed(2)} ${node.outerHTML.slice(0, 80)}`);
        }
        const ids = [...document.querySelectorAll("[id]")].map((one) => one.id);
        for (const id of new Set(ids)) if (ids.filter((one) => one === id).length > 1) faults.push(`doubled id ${id}`);
        let level = 0;
        for (const heading of document.querySelectorAll("h1, h2, h3, h4, h5")) {
            const own = Number(heading.tagName[1]);
            if (own > level + 1) faults.push(`h${own} after h${level}: ${heading.textContent}`);
            level = own;
        }
        for (const field of document.querySelectorAll("input, select, textarea")) {
            if (!field.labels.length && !field.ariaLabel) faults.push(field.outerHTML);
        }
        if (!document.documentElement.lang || !document.title) faults.push("no language or title");
        return faults;
        """
}

/// A proxy that shows a service under a path prefix.
private struct PrefixProxy {
    let server: HTTPServer

    init(to service: URL) throws {
        let http = OutgoingSession(timeout: 60, answerLimit: 16 << 20)
        let prefix = "/tools/rightful"
        let handler: @Sendable (HTTPRequest) async -> HTTPResponse = { request in
            guard request.target.hasPrefix(prefix + "/"),
                let url = URL(string: String(request.target.dropFirst(prefix.count)), relativeTo: service)
            else { return .text(status: 404, "another path") }
            let ours: Set<String> = ["host", "content-length", "connection"]
            let headers = request.headers.filter { !ours.contains($0.name.lowercased()) }
            do {
                let answer = try await http.send(
                    OutgoingRequest(
                        request.method, url.absoluteURL, headers: headers,
                        body: request.body.isEmpty ? nil : request.body))
                let kept = ["Content-Type", "Set-Cookie", "ETag", "Cache-Control", "Content-Security-Policy"]
                return HTTPResponse(
                    status: answer.status, headers: kept.compactMap { name in answer.header(name).map { (name, $0) } },
                    body: answer.body)
            } catch {
                return .text(status: 502, "\(error)")
            }
        }
        server = HTTPServer(configuration: HTTPServerConfiguration(port: 0), handler: handler)
    }
}
