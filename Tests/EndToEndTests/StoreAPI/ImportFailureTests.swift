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
        // Whoever was killed is not noticed at once.
        try list.write(ids, separator: "\n")
        #expect(try await stage.importList(list).status == 0)
        try await stage.installation.asOwner("UPDATE store_import SET holder = 'x', heartbeat_at = clock_timestamp()")
        let busy = try await stage.importList(list)
        #expect(busy.status == 1 && busy.errors.contains("died within the last 30 s"), "\(busy)")
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

    fileprivate func importList(_ list: ImportList) async throws -> (status: Int32, output: String, errors: String) {
        let run = try await installation.run([
            "import", "--transaction-ids", list.url.path(), "--app", installation.world.bundleID,
        ])
        return (run.status, run.output, run.errors)
    }

    /// How many events tell what the store reported.
    fileprivate func reports() async throws -> Int {
        try await installation.rightful("events").split(separator: "\n").count { $0.contains("store_report") }
    }
}
