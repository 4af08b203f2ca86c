import Foundation
import StoreSimulator
import TestSupport
import Testing

/// A customer base that another system knew, brought in by a list of transaction ids.
@Suite("Import", .serialized, .timeLimit(.minutes(5)))
struct ImportTests {
    @Test("a list brings everybody's purchases as they stand, however often it is killed, and nobody's twice")
    func killed() async throws {
        let stage = try await StoreAPIStage()
        let installation = stage.installation
        let key = try await installation.adminKey()
        try await installation.rightful("catalog", "apply", installation.catalogFile.path())
        let lives = (100..<175).map { StoreAPIStage.lifeUntilNow(seed: $0) }
            .filter { $0.world.start > SimulatedAuthority.validity.lowerBound }
        var ids: Set<String> = []
        for notification in lives.flatMap(\.notifications) where notification.transaction != nil {
            // Statements alone: the history of notifications has none of it.
            try stage.api(notification.environment).remember(notification)
            if notification.environment == .production { ids.formUnion([notification.originalTransactionID ?? ""]) }
        }
        try #require(ids.count > 60)
        let list = ScratchSpace.directory.appending(path: "ids-\(UUID().uuidString).csv")
        defer { try? FileManager.default.removeItem(at: list) }
        let lines =
            ["\u{FEFF}# exported from elsewhere"] + ids.sorted().map { "\"\($0)\",somebody,12" } + ["", "777777777"]
        try lines.joined(separator: "\r\n").write(to: list, atomically: true, encoding: .utf8)
        let command = [
            "import", "--transaction-ids", list.path(), "--app", installation.world.bundleID, "--environment",
            "production",
        ]
        // So that there is time to be killed in.
        stage.production.slow(milliseconds: 30)
        for round in 0..<3 {
            let process = try await installation.start(command)
            try await Task.sleep(for: .milliseconds(600 + 500 * round))
            kill(process.processIdentifier, SIGKILL)
            process.waitForEnd()
            try await installation.asOwner("UPDATE store_import SET heartbeat_at = heartbeat_at - interval '1 minute'")
        }
        stage.production.slow(milliseconds: 0)
        let (status, output, errors) = try await installation.run(command)
        #expect(status == 0 && output.contains("unknown: 777777777"), "\(output) \(errors)")
        let service = try await ServiceProcess.start(installation)
        defer { service.stop() }
        let client = HTTPClient(service.url, key: key)
        let now = StoreAPIStage.now
        for life in lives {
            for customer in life.record.customers where customer.environment == .production {
                let answers = try await client.entitlements(of: customer, at: now, "seed \(life.seed)")
                let truth = life.record.customer(customer).answer(at: now)
                #expect(
                    answers.map(Standing.init) == truth.map(Standing.init), "seed \(life.seed), \(customer)")
            }
        }
        let events = try await client.events().filter { $0["type"] as? String == "store_report" }
        #expect(events.allSatisfy { $0["environment"] as? String == "production" })
        // A list that is done costs nothing, and a look at all of it again finds nothing.
        let asked = stage.production.count(of: "transaction_history")
        let done = try await installation.run(command).output
        #expect(done.contains("this run asked about 0 ") && done.contains("unknown: 1 more, which"), "\(done)")
        #expect(stage.production.count(of: "transaction_history") == asked)
        let head = try await client.head()
        let again = try await installation.run(command + ["--again"])
        #expect(again.status == 0 && again.output.contains(" recorded 0 events"), "\(again)")
        #expect(try await client.head() == head)
        #expect(try await installation.rightful("verify").contains("verified"))
        await stage.remove()
    }

    @Test(
        "a store that cannot be asked stops it with what to do, and the same command goes on; a bad list is refused whole"
    )
    func stopped() async throws {
        let stage = try await StoreAPIStage()
        let installation = stage.installation
        let list = ScratchSpace.directory.appending(path: "ids-\(UUID().uuidString).txt")
        defer { try? FileManager.default.removeItem(at: list) }
        for number in 1...250 {
            try stage.production.remember([
                "transactionId": .string("8\(number)"), "originalTransactionId": .string("8\(number)"),
                "bundleId": .string(installation.world.bundleID), "productId": .string("com.example.lifetime"),
                "type": .string("Non-Consumable"), "environment": .string("Production"),
                "purchaseDate": .integer(StoreAPIStage.now - Span.day), "signedDate": .integer(StoreAPIStage.now),
            ])
        }
        let command = ["import", "--transaction-ids", list.path(), "--app", installation.world.bundleID]
        try "81\nabc\n".write(to: list, atomically: true, encoding: .utf8)
        let bad = try await installation.run(command)
        #expect(bad.status == 1 && bad.errors.contains("line 2: 'abc' is no transaction id"), "\(bad)")
        #expect(stage.production.count(of: "transaction_history") == 0)
        try (1...250).map { "8\($0)" }.joined(separator: "\n").write(to: list, atomically: true, encoding: .utf8)
        async let running = installation.run(command)
        while stage.production.count(of: "transaction_history") < 130 { try await Task.sleep(for: .milliseconds(10)) }
        for _ in 0..<8 { stage.production.fail(.status(401)) }
        let refused = try await running
        #expect(refused.status == 1 && refused.errors.contains("the same command goes on"), "\(refused)")
        stage.production.forgiveAll()
        let asked = stage.production.count(of: "transaction_history")
        let rest = try await installation.run(command)
        #expect(rest.status == 0 && rest.output.contains("250 ids are done"), "\(rest)")
        let events = try await installation.rightful("events").split(separator: "\n")
        #expect(events.count { $0.contains("store_report") } == 250)
        // What the store did not answer in time is asked for once more.
        #expect(stage.production.count(of: "transaction_history") - asked < 200, "the first page was not read again")
        // Half of the store's fifty a second, and what may be saved up in one.
        for kind in ["subscription_statuses", "transaction_history"] {
            let most = stage.production.most(of: kind, within: 4000)
            #expect(most <= 4 * 25 + 25 + 5, "\(kind): \(most) in 4 s")
        }
        let nobody = try await installation.run([
            "import", "--transaction-ids", list.path(), "--app", "com.example.none",
        ])
        #expect(nobody.status == 1 && nobody.errors.contains("is not configured, or has no app_store_api"), "\(nobody)")
        await stage.remove()
    }
}

extension Installation {
    /// Starts a command and does not wait for its end.
    func start(_ arguments: [String]) async throws -> Process {
        let process = Process()
        process.executableURL = try Products.url("rightful")
        process.arguments = arguments + ["--config", configurationFile.path()]
        process.standardOutput = FileHandle.nullDevice
        process.standardError = FileHandle.nullDevice
        try await process.runWithAllSignals()
        return process
    }
}
