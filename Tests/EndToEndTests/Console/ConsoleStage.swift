import EntitlementCore
import Foundation
import StoreSimulator
import Testing

/// A service with a few customers, each at another point of their life, and a browser before it.
struct ConsoleStage {
    static let now = Int64(Date().timeIntervalSince1970 * 1000)

    /// Somebody who buys, whose id is their account token.
    struct Person {
        let account: StoreAccount
        var id: String { account.customerID ?? "" }

        init(_ number: Int) {
            account = StoreAccount(
                .production, appAccountToken: "00000000-0000-4000-8000-00000000000\(number)",
                appTransactionID: "70000000000000000\(number)")
        }
    }

    /// Has a monthly plan that has renewed.
    let ann = Person(1)
    /// Is in a grace period.
    let bob = Person(2)
    /// Was given her money back.
    let cleo = Person(3)
    /// Is in billing retry.
    let dan = Person(4)

    let installation: Installation
    let service: ServiceProcess
    let browser: Browser
    /// With a key that may everything.
    let client: HTTPClient
    let admin: String
    /// Signs what the App Store tells.
    let sign: @Sendable (StoreNotification) throws -> String

    /// Sets a stage for a test and clears it away, whatever becomes of the test.
    static func with(_ play: (ConsoleStage) async throws -> Void) async throws {
        let installation = try await Installation()
        defer { installation.remove() }
        try await with(installation, sign: { try installation.authority.sign($0) }, play)
    }

    /// The same on an installation that is there, with what signs for its store.
    static func with(
        _ installation: Installation, sign: @escaping @Sendable (StoreNotification) throws -> String,
        _ play: (ConsoleStage) async throws -> Void
    ) async throws {
        let service = try await ServiceProcess.start(installation)
        defer { service.stop() }
        // Beside the service, so that neither has to start PostgreSQL and end it.
        let admin = try await installation.adminKey()
        try await installation.rightful("catalog", "apply", installation.catalogFile.path())
        let browser = try await Browser.start()
        let stage = ConsoleStage(
            installation: installation, service: service, browser: browser,
            client: HTTPClient(service.url, key: admin), admin: admin, sign: sign)
        do {
            try await stage.tell()
            try await play(stage)
        } catch {
            await browser.quit()
            throw error
        }
        await browser.quit()
    }

    private func tell() async throws {
        var story = Storyteller(world: installation.world, seed: 15)
        func daysAgo(_ days: Int64) -> Int64 { Self.now - days * Span.day }
        let plan = StoreWorld.ProductID.proMonthly
        let first = story.subscribe(ann.account, to: plan, at: daysAgo(45))
        story.renew(first)
        let second = story.subscribe(bob.account, to: plan, at: daysAgo(34))
        let end = story.expiry(second) ?? Self.now
        story.failToRenew(second, at: end, graceEnd: end + 16 * Span.day)
        let third = story.subscribe(cleo.account, to: StoreWorld.ProductID.proYearly, at: daysAgo(20))
        story.refund(third, at: daysAgo(2))
        let fourth = story.subscribe(dan.account, to: plan, at: daysAgo(40))
        story.failToRenew(fourth, at: story.expiry(fourth) ?? Self.now)
        try await tell(story.notifications.sorted { $0.signedDate < $1.signedDate })
    }

    /// Has the store tell of something.
    func tell(_ notifications: [StoreNotification]) async throws {
        for notification in notifications {
            let answer = try await client.notify(sign(notification))
            #expect(answer.status == 200, "\(answer.text)")
        }
    }

    var console: URL { service.url.appending(path: "console") }

    /// Makes a key that may this.
    func key(_ scopes: String, _ more: String...) async throws -> String {
        let (status, output, errors) = try await installation.run(
            ["keys", "create", "--name", "support", "--scopes", scopes] + more)
        try #require(status == 0, "\(errors)")
        return output.trimmingCharacters(in: .whitespacesAndNewlines)
    }

    func signIn(_ secret: String? = nil, at url: URL? = nil) async throws {
        try await browser.open(url ?? console)
        try await browser.wait("document.querySelector('#key')")
        try await browser.type(secret ?? admin, into: "#key")
        try await browser.press(Browser.Keys.enter)
        try await browser.wait("document.querySelector('header .account')")
    }

    /// Signs another key in as another tab of the browser does, and then runs a script in this one.
    func signInElsewhere(_ key: String, then script: String) async throws {
        try await browser.run(
            """
            fetch("console/session", { method: "POST", headers: { "Content-Type": "application/json" },
                body: JSON.stringify({ key: arguments[0], path: "/" }) }).then(() => { \(script) });
            """, [key])
    }

    func find(_ id: String) async throws {
        try await browser.type(id, into: "#find")
        try await browser.press(Browser.Keys.enter)
    }

    /// Opens a customer by the address alone, as whoever was sent it.
    func show(_ id: String, _ more: String = "") async throws {
        try await browser.run("location.hash = arguments[0]", ["customer=\(id)\(more)"])
        try await browser.wait(
            "document.querySelector('#customer')?.textContent === arguments[0] && !document.querySelector('main').ariaBusy "
                + "&& document.querySelector('#answer')?.textContent && !document.querySelector('#explanation').ariaBusy "
                + "&& !document.querySelector('#commands').ariaBusy",
            [id])
    }

    /// Waits until everything that was asked for is on the screen.
    func settle() async throws {
        try await browser.wait(
            "!document.querySelector('[aria-busy]') && document.querySelector('#answer')?.textContent")
    }

    /// Expects that the browser complained of nothing but what `allowed` says, and asked no other host.
    func expectCleanConsole(allowing allowed: [String] = [], sourceLocation: SourceLocation = #_sourceLocation)
        async throws
    {
        let complaints = try await browser.complaints().filter { line in !allowed.contains { line.contains($0) } }
        #expect(complaints.isEmpty, sourceLocation: sourceLocation)
        let hosts = Set(
            try await browser.requests().filter { ["http", "https"].contains($0.scheme) }
                .map { "\($0.host() ?? ""):\($0.port ?? 0)" })
        let own = "\(service.url.host() ?? ""):\(service.url.port ?? 0)"
        #expect(hosts.subtracting([own]).isEmpty, sourceLocation: sourceLocation)
    }
}

extension ConsoleStage {
    /// Fills in a dialog and has it show what it would change.
    func foresee(_ fields: [(String, String)]) async throws {
        for (selector, text) in fields { try await browser.type(text, into: selector) }
        try await browser.click("#preview")
        try await browser.wait("document.activeElement?.id === 'confirm'")
    }

    /// Confirms what a dialog has shown, and returns the event that it was recorded as.
    ///
    /// The service may record others at any time, such as what it asks a store about.
    func confirm() async throws -> (position: Int64, event: [String: Any]) {
        try await browser.click("#confirm")
        try await browser.wait("#outcome", says: "Recorded as event ")
        let text = try await browser.text("#outcome") ?? ""
        let digits = text.components(separatedBy: "Recorded as event ").last?.prefix { $0.isNumber }
        let position = try #require(digits.flatMap { Int64($0) }, "\(text)")
        return (position, try await client.send("GET", "/v1/events/\(position)").json)
    }

    /// How many events the log has of a type.
    func count(_ type: String) async throws -> Int {
        let list = try await client.send("GET", "/v1/events", query: ["limit": "1000"])
        return try #require(list.json["items"] as? [[String: Any]]).count { $0["type"] as? String == type }
    }

    /// Closes the dialog that is open.
    func closeDialog() async throws {
        try await browser.press(Browser.Keys.escape)
        try await browser.wait("!document.querySelector('dialog')")
    }

    /// Waits until a checkpoint covers the whole log.
    func waitForCheckpoint() async throws {
        let head = try await client.head()
        let end = ContinuousClock.now + Browser.patience
        while ContinuousClock.now < end {
            let text = try await client.send("GET", "/v1/ledger/checkpoint").text
            if let size = text.split(separator: "\n").dropFirst().first.flatMap({ Int64($0) }), size >= head { return }
            try await Task.sleep(for: .milliseconds(200))
        }
        Issue.record("no checkpoint covers the log")
    }
}
