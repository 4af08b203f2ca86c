import Foundation
import OutgoingHTTP
import TestSupport
import Testing

/// A headless Chromium, spoken to by WebDriver; the one without a window's parts, which starts in a fifth of the time.
///
/// One at a time: it takes a core and some hundred megabytes.
final class Browser {
    /// What went wrong, as the driver says it.
    struct Failure: Error, CustomStringConvertible {
        let code: String
        let message: String

        var description: String { "\(code): \(message.prefix(2000))" }
    }

    /// How long something may take to come about.
    static let patience = Duration.seconds(40)
    /// The program itself: Debian's script of this name in /usr/bin waits for it, and is all that the driver would end.
    private static let program = "/usr/lib/chromium/chromium-headless-shell"
    /// The name under which WebDriver refers to elements.
    private static let elementKey = "element-6066-11e4-a52e-4f735466cecf"

    private let driver: Process
    private let session: URL
    private let http: OutgoingSession
    /// Where the browser keeps what it knows, which each of its processes is told.
    private let directory: String

    /// Starts a driver and a browser.
    ///
    /// - Parameters:
    ///   - zone: the time zone that the browser's machine is in.
    ///   - width: of the window, in CSS pixels.
    ///   - recordsRequests: whether the driver notes every request, which makes each slower.
    static func start(
        zone: String = "Europe/Berlin", width: Int = 1280, height: Int = 1000, isDark: Bool = false,
        recordsRequests: Bool = true
    ) async throws -> Browser {
        let (process, port) = try await driver(zone)
        do {
            // Foundation's own does not read what the driver writes.
            let http = OutgoingSession(timeout: 120, answerLimit: 64 << 20)
            let base = try #require(URL(string: "http://127.0.0.1:\(port)"))
            // As root it has no sandbox; the pages are our own.
            var arguments = [
                "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
                "--window-size=\(width),\(height)", "--disable-background-networking", "--disable-component-update",
                "--no-first-run",
            ]
            if isDark { arguments.append("--force-dark-mode") }
            let options: [String: Any] = [
                "capabilities": [
                    "alwaysMatch": [
                        "goog:chromeOptions": ["binary": program, "args": arguments],
                        "goog:loggingPrefs": ["browser": "ALL", "performance": recordsRequests ? "ALL" : "OFF"],
                    ]
                ]
            ]
            let made = try await Self.send("POST", base.appending(path: "session"), options, http)
            let answer = try #require(made as? [String: Any])
            let id = try #require(answer["sessionId"] as? String)
            let browser = (answer["capabilities"] as? [String: Any])?["chrome"] as? [String: Any]
            return Browser(
                driver: process, session: base.appending(path: "session/\(id)"), http: http,
                directory: try #require(browser?["userDataDir"] as? String))
        } catch {
            process.terminate()
            throw error
        }
    }

    /// Starts a driver, and again where it ends at once: where another takes the port that it has just looked for, it does.
    private static func driver(_ zone: String) async throws -> (Process, port: Int) {
        for _ in 0..<5 {
            let process = Process()
            process.executableURL = URL(filePath: "/usr/bin/chromedriver")
            process.arguments = ["--port=0"]
            process.environment = ProcessInfo.processInfo.environment.merging(["TZ": zone]) { $1 }
            let pipe = Pipe()
            process.standardOutput = pipe
            process.standardError = FileHandle.nullDevice
            try await process.runWithAllSignals()
            if let port = await port(said: pipe.fileHandleForReading) { return (process, port) }
            process.waitForEnd()
        }
        throw Failure(code: "no driver", message: "chromedriver ended five times without saying its port")
    }

    private init(driver: Process, session: URL, http: OutgoingSession, directory: String) {
        self.driver = driver
        self.session = session
        self.http = http
        self.directory = directory
    }

    /// How many of the browser's processes there are.
    func processes() throws -> Int {
        try FileManager.default.contentsOfDirectory(atPath: "/proc").filter { Int($0) != nil }.count { number in
            // Others end meanwhile.
            let line = FileManager.default.contents(atPath: "/proc/\(number)/cmdline") ?? Data()
            return String(decoding: line, as: UTF8.self).contains("--user-data-dir=\(directory)")
        }
    }

    /// Ends the browser, and its driver.
    func quit() async {
        _ = try? await send("DELETE", "", nil)
        driver.terminate()
        driver.waitForEnd()
    }

    // MARK: - What a person does

    func open(_ url: URL) async throws { try await send("POST", "url", ["url": url.absoluteString]) }

    /// A command of the DevTools protocol.
    @discardableResult
    func devTools(_ command: String, _ parameters: [String: Any] = [:]) async throws -> Any {
        try await send("POST", "goog/cdp/execute", ["cmd": command, "params": parameters])
    }

    /// Runs a script in every page to come, before any of its own.
    func runFirst(_ script: String) async throws {
        try await devTools("Page.addScriptToEvaluateOnNewDocument", ["source": script])
    }

    func reload() async throws { try await send("POST", "refresh", [:]) }

    func click(_ selector: String) async throws {
        try await withElement(selector) { try await send("POST", "element/\($0)/click", [:]) }
    }

    /// Writes into a field in place of what is there.
    func type(_ text: String, into selector: String) async throws {
        try await withElement(selector) {
            try await send("POST", "element/\($0)/clear", [:])
            try await send("POST", "element/\($0)/value", ["text": text])
        }
    }

    /// Does something to an element once it is there and can be reached.
    ///
    /// The page may make it anew between two requests, or be about to put it where it belongs: a person's hand would wait.
    private func withElement(_ selector: String, _ body: (String) async throws -> Void) async throws {
        let moving: Set = [
            "no such element", "stale element reference", "element click intercepted", "element not interactable",
        ]
        let end = ContinuousClock.now + .seconds(10)
        while true {
            do {
                return try await body(try await element(selector))
            } catch let failure as Failure where moving.contains(failure.code) && ContinuousClock.now < end {
                try await Task.sleep(for: .milliseconds(50))
            }
        }
    }

    /// Presses keys one after the other, wherever the focus is; `Keys` names those that write nothing.
    func press(_ keys: String...) async throws {
        let strokes = keys.flatMap { key in [["type": "keyDown", "value": key], ["type": "keyUp", "value": key]] }
        try await send(
            "POST", "actions", ["actions": [["type": "key", "id": "keyboard", "actions": strokes]]])
    }

    enum Keys {
        static let tab = "\u{E004}"
        static let enter = "\u{E007}"
        static let escape = "\u{E00C}"
        static let space = " "
        static let end = "\u{E010}"
        static let home = "\u{E011}"
        static let left = "\u{E012}"
        static let up = "\u{E013}"
        static let right = "\u{E014}"
        static let down = "\u{E015}"
    }

    // MARK: - What is on the screen

    /// What a script returns, in the page.
    @discardableResult
    func run(_ script: String, _ arguments: [Any] = []) async throws -> Any? {
        let value = try await send("POST", "execute/sync", ["script": script, "args": arguments])
        return value is NSNull ? nil : value
    }

    /// The text of the first element that a selector finds; `nil` where there is none.
    func text(_ selector: String) async throws -> String? {
        try await run("return document.querySelector(arguments[0])?.innerText ?? null", [selector]) as? String
    }

    func texts(_ selector: String) async throws -> [String] {
        let found = try await run(
            "return [...document.querySelectorAll(arguments[0])].map((one) => one.innerText)", [selector])
        return try #require(found as? [String])
    }

    func count(_ selector: String) async throws -> Int {
        let found = try await run("return document.querySelectorAll(arguments[0]).length", [selector])
        return try #require(found as? NSNumber).intValue
    }

    /// What is behind # in the address.
    func fragment() async throws -> String {
        try #require(try await run("return decodeURIComponent(location.hash)") as? String)
    }

    /// Waits until a script returns true, and fails with what is on the screen where it never does.
    func wait(_ script: String, _ arguments: [Any] = [], sourceLocation: SourceLocation = #_sourceLocation) async throws
    {
        let end = ContinuousClock.now + Self.patience
        while ContinuousClock.now < end {
            if try await run("return Boolean(\(script))", arguments) as? Bool == true { return }
            try await Task.sleep(for: .milliseconds(30))
        }
        let seen = try await run("return document.body.innerText") as? String
        Issue.record("not so in time: \(script)\n\(seen ?? "")", sourceLocation: sourceLocation)
        throw Failure(code: "timeout", message: script)
    }

    /// Waits until the first element that a selector finds has this in its text.
    func wait(
        _ selector: String, says text: String, sourceLocation: SourceLocation = #_sourceLocation
    ) async throws {
        try await wait(
            "document.querySelector(arguments[0])?.innerText.includes(arguments[1])", [selector, text],
            sourceLocation: sourceLocation)
    }

    /// The whole window, as PNG.
    func screenshot() async throws -> Data {
        let text = try #require(try await send("GET", "screenshot", nil) as? String)
        return try #require(Data(base64Encoded: text))
    }

    // MARK: - What went on behind it

    /// What stands in the console of the browser, by level and text, since it was asked last.
    func complaints() async throws -> [String] {
        let entries = try #require(try await send("POST", "se/log", ["type": "browser"]) as? [[String: Any]])
        return entries.filter { $0["level"] as? String == "SEVERE" || $0["level"] as? String == "WARNING" }
            .compactMap { $0["message"] as? String }
    }

    /// The addresses that were asked for since this was asked last.
    func requests() async throws -> [URL] {
        let entries = try #require(try await send("POST", "se/log", ["type": "performance"]) as? [[String: Any]])
        return entries.compactMap { entry in
            guard let text = entry["message"] as? String,
                let object = try? JSONSerialization.jsonObject(with: Data(text.utf8)) as? [String: Any],
                let message = object["message"] as? [String: Any],
                message["method"] as? String == "Network.requestWillBeSent",
                let parameters = message["params"] as? [String: Any],
                let request = parameters["request"] as? [String: Any], let url = request["url"] as? String
            else { return nil }
            return URL(string: url)
        }
    }

    // MARK: - The wire

    /// The first element that a selector finds, as soon as there is one.
    private func element(_ selector: String) async throws -> String {
        try await wait("document.querySelector(arguments[0])", [selector])
        let found = try await send("POST", "element", ["using": "css selector", "value": selector])
        return try #require((found as? [String: Any])?[Self.elementKey] as? String)
    }

    @discardableResult
    func send(_ method: String, _ path: String, _ body: [String: Any]?) async throws -> Any {
        try await Self.send(method, path.isEmpty ? session : session.appending(path: path), body, http)
    }

    @discardableResult
    private static func send(
        _ method: String, _ url: URL, _ body: [String: Any]?, _ http: OutgoingSession
    ) async throws -> Any {
        let answered = try await http.send(
            OutgoingRequest(
                method, url, headers: [("Content-Type", "application/json")],
                body: try body.map { Array(try JSONSerialization.data(withJSONObject: $0)) }))
        let answer = try #require(try JSONSerialization.jsonObject(with: Data(answered.body)) as? [String: Any])
        let value = answer["value"] ?? NSNull()
        if let failure = value as? [String: Any], let code = failure["error"] as? String {
            throw Failure(code: code, message: failure["message"] as? String ?? "")
        }
        return value
    }

    /// The port that a driver says it listens on.
    private static func port(said handle: FileHandle) async -> Int? {
        await withCheckedContinuation { continuation in
            Thread.detachNewThread {
                var text = ""
                var isTold = false
                // Read to its end, so that the driver never waits for us.
                while case let data = handle.availableData, !data.isEmpty {
                    guard !isTold else { continue }
                    text += String(decoding: data, as: UTF8.self)
                    guard let match = text.firstMatch(of: /started successfully on port ([0-9]+)/) else { continue }
                    isTold = true
                    continuation.resume(returning: Int(match.1))
                }
                if !isTold { continuation.resume(returning: nil) }
            }
        }
    }
}
