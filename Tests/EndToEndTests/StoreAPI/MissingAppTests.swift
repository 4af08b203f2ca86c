import Foundation
import StoreSimulator
import Testing

/// An app that was taken out of the configuration, although the log has events of it.
@Suite("An app that is configured no more", .timeLimit(.minutes(2)))
struct MissingAppTests {
    @Test("a start warns of it, status names it and verify refuses its events; not where it is configured again")
    func missing() async throws {
        let stage = try await StoreAPIStage(hasKey: false)
        let installation = stage.installation
        let app = installation.world.bundleID
        let warning = "the log has events of the app \(app), which apps does not name"
        func look() async throws -> (log: String, status: String) {
            let service = try await ServiceProcess.start(installation)
            let status = try await installation.rightful("status")
            defer { service.stop() }
            return (service.logText, status)
        }
        try await installation.rightful("catalog", "apply", installation.catalogFile.path())
        let service = try await ServiceProcess.start(installation)
        var storyteller = Storyteller(world: .standard, seed: 5)
        let account = storyteller.account(.production, hasToken: true)
        _ = storyteller.subscribe(account, to: StoreWorld.ProductID.proMonthly, at: StoreAPIStage.now - 40 * Span.day)
        let client = HTTPClient(service.url)
        for notification in StoreLife(storyteller, seed: 5).notifications {
            #expect(try await client.notify(try stage.send(notification)).status == 200)
        }
        let stream = "\(app), production: heard last"
        while try await !installation.rightful("status").contains(stream) {
            try await Task.sleep(for: .milliseconds(100))
        }
        service.stop()

        let known = try await look()
        #expect(!known.log.contains(warning) && !known.status.contains("not in apps"), "\(known)")
        func configure(_ app: String) throws {
            let entry: [String: any Sendable] = ["bundle_id": app, "app_apple_id": installation.world.appAppleID]
            try installation.configure(["apps": [entry]])
        }
        try configure("com.example.other")
        let gone = try await look()
        #expect(gone.log.contains(warning), "\(gone.log)")
        #expect(gone.status.contains(warning) && gone.status.contains(/to look at +\S+: the log has its events/))
        let verified = try await installation.run(["verify"])
        #expect(verified.status == 1 && verified.errors.contains("is about the app \(app)"), "\(verified)")
        try configure(app)
        let again = try await look()
        #expect(!again.log.contains(warning) && !again.status.contains("not in apps"), "\(again)")
        await stage.remove()
    }
}
