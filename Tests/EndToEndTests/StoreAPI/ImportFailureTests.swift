import Foundation
import StoreSimulator
import TestSupport
import Testing

/// What an import does when the store does not answer as it should, or the list is not as it should be.
@Suite("Import of a list when something fails", .serialized, .timeLimit(.minutes(5)))
struct ImportFailureTests {
    @Test("an id that the store cannot be asked about is named, holds nothing up, and is asked about by the next run")
    func oneBad() async throws {
        let stage = try await StoreAPIStage()
        let list = ImportList()
        defer { list.remove() }
        try list.write(try stage.rememberPurchases(140), separator: "\n")
        stage.production.failAlways(.status(500, code: 5_000_000), about: "8007")
        let first = try await stage.importList(list)
        #expect(first.status == 1 && first.output.contains("failed: 8007: "), "\(first)")
        #expect(first.output.contains("139 ids are done"), "\(first)")
        #expect(first.errors.contains("the same command asks about them again"), "\(first)")
        #expect(try await stage.reports() == 139)
        let second = try await stage.importList(list)
        #expect(second.status == 1 && second.output.contains("this run asked about 0 "), "\(second)")
        stage.production.forgiveAll()
        let third = try await stage.importList(list)
        #expect(third.status == 0 && third.output.contains("140 ids are done; this run asked about 1 "), "\(third)")
        #expect(try await stage.reports() == 140)
        let asked = stage.production.count(of: "transaction_history")
        #expect(try await stage.importList(list).status == 0)
        #expect(stage.production.count(of: "transaction_history") == asked, "the list is done")
        await stage.remove()
    }

    @Test(
        "a 404 that does not say that an id is unknown is a failure: no list is written off",
        arguments: [nil, 4_040_003] as [Int64?])
    func foreign404(code: Int64?) async throws {
        let stage = try await StoreAPIStage()
        let list = ImportList()
        defer { list.remove() }
        try list.write(try stage.rememberPurchases(4), separator: "\n")
        stage.production.failAlways(.status(404, code: code))
        let refused = try await stage.importList(list)
        #expect(refused.status == 1 && !refused.output.contains("unknown"), "\(refused)")
        stage.production.forgiveAll()
        let done = try await stage.importList(list)
        #expect(done.status == 0 && done.output.contains("4 ids are done; this run asked about 4 "), "\(done)")
        #expect(done.output.contains("0 ids are unknown"), "\(done)")
        await stage.remove()
    }

    @Test("an outage of the store is said and waited out")
    func outage() async throws {
        let stage = try await StoreAPIStage()
        let list = ImportList()
        defer { list.remove() }
        try list.write(try stage.rememberPurchases(30), separator: "\n")
        stage.production.failAlways(.status(503))
        async let running = stage.importList(list)
        // More than eight requests that are sent five times: it has waited, and looked whether the store is there again.
        for _ in 0..<2400 where stage.production.count(of: "failed") <= 48 {
            try await Task.sleep(for: .milliseconds(50))
        }
        #expect(stage.production.count(of: "failed") > 48)
        stage.production.forgiveAll()
        let done = try await running
        #expect(done.status == 0 && done.output.contains("30 ids are done"), "\(done)")
        #expect(done.errors.contains("It is tried again") && done.errors.contains("(503)"), "\(done)")
        #expect(try await stage.reports() == 30)
        await stage.remove()
    }

    @Test("when the store takes no more requests, nothing is asked until it says so, and then the import goes on")
    func limited() async throws {
        let stage = try await StoreAPIStage()
        let list = ImportList()
        defer { list.remove() }
        try list.write(try stage.rememberPurchases(30), separator: "\n")
        // Longer than a request that fails is sent again.
        let until = StoreAPIStage.now + 12 * Span.second
        stage.production.failAlways(.status(429, code: 4_290_000, retryAfter: until))
        async let running = stage.importList(list)
        for _ in 0..<600 where stage.production.count(of: "failed") == 0 {
            try await Task.sleep(for: .milliseconds(20))
        }
        while StoreAPIStage.now < until - Span.second { try await Task.sleep(for: .milliseconds(50)) }
        let refused = stage.production.count(of: "failed")
        #expect((1...8).contains(refused), "each of the eight that were on their way, once: \(refused)")
        #expect(stage.production.count(of: "transaction_history") == 0)
        stage.production.forgiveAll()
        let done = try await running
        #expect(StoreAPIStage.now >= until)
        #expect(done.status == 0 && done.output.contains("30 ids are done; this run asked about 30 "), "\(done)")
        #expect(stage.production.count(of: "failed") == refused, "nothing was asked before its time")
        #expect(try await stage.reports() == 30)
        await stage.remove()
    }

    @Test("lines end as on any system, and a line with several ids is refused before anything is imported")
    func lines() async throws {
        let stage = try await StoreAPIStage()
        let list = ImportList()
        defer { list.remove() }
        let ids = try stage.rememberPurchases(6)
        try list.write(Array(ids[..<3]), separator: "\r")
        let done = try await stage.importList(list)
        #expect(done.status == 0 && done.output.contains("3 ids are done; this run asked about 3 "), "\(done)")
        for separator in [",", "; ", "\t", " ", "  "] {
            try list.write(["# all of them", ids.joined(separator: separator)], separator: "\r\n")
            let refused = try await stage.importList(list)
            #expect(refused.status == 1 && refused.errors.contains("line 2: '8002' beside '8001'"), "\(refused)")
        }
        try list.write(["8004,2000000123456789"], separator: "\n")
        #expect(try await stage.importList(list).errors.contains("line 1: '2000000123456789'"))
        try list.write(["8004 17", "8005"], separator: "\n")
        #expect(try await stage.importList(list).errors.contains("line 1: '17' beside '8004'"))
        try list.write(["8004,refunded 8005"], separator: "\n")
        #expect(try await stage.importList(list).errors.contains("line 1: '8005' beside '8004'"))
        try list.write(["id", "8001"], separator: "\n")
        #expect(try await stage.importList(list).errors.contains("line 1: 'id' is no transaction id of the App Store"))
        #expect(try await stage.importList(list).errors.contains("a heading is to begin with #"))
        // Whoever was killed is not noticed at once.
        try list.write(ids, separator: "\n")
        #expect(try await stage.importList(list).status == 0)
        try await stage.installation.asOwner("UPDATE store_import SET holder = 'x', heartbeat_at = clock_timestamp()")
        let busy = try await stage.importList(list)
        #expect(busy.status == 1 && busy.errors.contains("died within the last 30 s"), "\(busy)")
        await stage.remove()
    }
}

/// What an import tells of ids that the store does not know, and of how far it is.
@Suite("What an import of a list tells", .serialized, .timeLimit(.minutes(5)))
struct ImportTellingTests {
    @Test("all ids that the store does not know go to a file; where they are most, the command fails with a hint")
    func unknown() async throws {
        let stage = try await StoreAPIStage()
        let (list, file) = (ImportList(), ImportList())
        defer { [list, file].forEach { $0.remove() } }
        let unknown = (1...4).map { "99\($0)" }
        let known = try stage.rememberPurchases(3)
        try list.write(known + unknown, separator: "\n")
        let most = try await stage.importList(list, "--unknown-to", file.url.path())
        #expect(most.status == 1, "\(most)")
        #expect(most.errors.contains("4 of 7 ids are unknown to the store: are they of the other"), "\(most)")
        // In the order of the answers, of which several are on their way at once.
        let written = try String(contentsOf: file.url, encoding: .utf8)
        #expect(written.hasSuffix("\n") && written.split(separator: "\n").sorted() == ["991", "992", "993", "994"])
        let mode = try FileManager.default.attributesOfItem(atPath: file.url.path())[.posixPermissions] as? Int
        #expect(mode == 0o600)
        let again = try await stage.importList(list, "--unknown-to", file.url.path())
        #expect(again.status == 1 && again.errors.contains("4 of 7 ids"), "\(again)")
        #expect(try String(contentsOf: file.url, encoding: .utf8).isEmpty, "this run asked about none")
        let itself = try await stage.importList(list, "--unknown-to", list.url.path())
        #expect(itself.status == 1 && itself.errors.contains("is the list that is imported"), "\(itself)")
        try list.write(known + unknown.prefix(3), separator: "\n")
        let half = try await stage.importList(list)
        #expect(half.status == 0 && half.output.contains("3 ids are unknown"), "\(half)")
        await stage.remove()
    }

    @Test("interrupted, it says how far it is, status shows it, and the next run says where it goes on")
    func interrupted() async throws {
        let stage = try await StoreAPIStage()
        let installation = stage.installation
        let list = ImportList()
        defer { list.remove() }
        try list.write(try stage.rememberPurchases(450), separator: "\n")
        let output = ScratchSpace.directory.appending(path: "errors-\(UUID().uuidString)")
        defer { try? FileManager.default.removeItem(at: output) }
        _ = FileManager.default.createFile(atPath: output.path(), contents: nil)
        let process = Process()
        process.executableURL = try Products.url("rightful")
        process.arguments = [
            "import", "--transaction-ids", list.url.path(), "--app", installation.world.bundleID, "--config",
            installation.configurationFile.path(),
        ]
        process.standardOutput = FileHandle.nullDevice
        process.standardError = try FileHandle(forWritingTo: output)
        try await process.runWithAllSignals()
        while process.endStatus == nil, stage.production.count(of: "transaction_history") < 150 {
            try await Task.sleep(for: .milliseconds(5))
        }
        kill(process.processIdentifier, SIGTERM)
        #expect(process.waitForEnd() == 1)
        let errors = try String(contentsOf: output, encoding: .utf8)
        #expect(errors.contains("interrupted at "), "\(errors)")
        #expect(errors.contains(" of 450 ids; what was read is recorded, and the same command goes on"), "\(errors)")
        let status = try await installation.rightful("status")
        #expect(status.contains("unfinished, ") && status.contains(" of 450 ids, "), "\(status)")
        let json = try await installation.rightful("status", "--json")
        let document = try #require(try JSONSerialization.jsonObject(with: Data(json.utf8)) as? [String: Any])
        let work = try #require((document["imports"] as? [[String: Any]])?.first)
        #expect(work["state"] as? String == "unfinished" && work["total"] as? Int == 450, "\(work)")
        let done = try #require(work["done"] as? Int)
        let rest = try await stage.importList(list)
        #expect(rest.status == 0 && rest.errors.contains("goes on at \(done) of 450 ids"), "\(rest)")
        #expect(!(try await installation.rightful("status")).contains("of 450 ids"))
        await stage.remove()
    }
}

/// A list of ids in a file.
private struct ImportList {
    let url = ScratchSpace.directory.appending(path: "ids-\(UUID().uuidString).txt")

    func write(_ lines: [String], separator: String) throws {
        try lines.joined(separator: separator).write(to: url, atomically: true, encoding: .utf8)
    }

    func remove() { try? FileManager.default.removeItem(at: url) }
}

extension StoreAPIStage {
    /// Purchases of as many customers, which nobody told of; returns their ids.
    fileprivate func rememberPurchases(_ count: Int) throws -> [String] {
        try (1...count).map { number in
            let id = "\(8000 + number)"
            try production.remember([
                "transactionId": .string(id), "originalTransactionId": .string(id),
                "bundleId": .string(installation.world.bundleID), "productId": .string("com.example.lifetime"),
                "type": .string("Non-Consumable"), "environment": .string("Production"),
                "purchaseDate": .integer(Self.now - Span.day), "signedDate": .integer(Self.now),
            ])
            return id
        }
    }

    fileprivate func importList(
        _ list: ImportList, _ more: String...
    ) async throws -> (status: Int32, output: String, errors: String) {
        let run = try await installation.run(
            ["import", "--transaction-ids", list.url.path(), "--app", installation.world.bundleID] + more)
        return (run.status, run.output, run.errors)
    }

    /// How many events tell what the store reported.
    fileprivate func reports() async throws -> Int {
        try await installation.rightful("events").split(separator: "\n").count { $0.contains("store_report") }
    }
}
