import Foundation
import StoreSimulator
import TestSupport
import Testing

/// A team's own list of whose the App Store's purchases are.
@Suite("Import of a list of owners", .serialized, .timeLimit(.minutes(5)))
struct ImportOwnersTests {
    private static let token = "0f1d2e3c-4b5a-6978-8796-a5b4c3d2e1f0"
    private static let other = "1a1d2e3c-4b5a-6978-8796-a5b4c3d2e1f1"

    @Test("a purchase becomes the customer's whom the list names, and is taken from nobody; a second run adds nothing")
    func owners() async throws {
        let stage = try await StoreAPIStage()
        let installation = stage.installation
        let key = try await installation.adminKey()
        try await installation.rightful("catalog", "apply", installation.catalogFile.path())
        let service = try await ServiceProcess.start(installation)
        defer { service.stop() }
        let client = HTTPClient(service.url, key: key)
        for (id, account) in [
            ("8001", "A1"), ("8002", "A1"), ("8003", "A3"), ("8007", "A7"), ("8008", "A7"), ("8009", "A9"),
            ("8014", "A14"),
        ] { try stage.remember(id, account: account) }
        try stage.remember("8004")
        try stage.remember("8005", account: "A5", token: Self.token)
        try stage.remember("8006", account: "A6", token: Self.other)
        for id in ["8011", "8012", "8013"] { try stage.rememberPeriod(id, of: "8011", account: "A11") }
        try await client.link("apple:A14", to: "early")
        let list = OwnerList()
        defer { list.remove() }
        try list.write([
            "\u{FEFF}# transaction, user, \"remark", "8001;user-1;12", "\"8002\"; \"user-1\"", "8003;20000001234567890",
            "8004;user-4", "8005;\(Self.token.uppercased())", "8006;user-6", "8007;user-7", "8008;user-8",
            "8009;$RCAnonymousID:5f", "", "8012;\"user;11\"", "8014;user-14", "8001;user-1", "777777;user-9", ";;",
        ])
        let run = try await stage.importOwners(list)
        #expect(run.status == 1, "\(run)")
        #expect(run.output.contains("13 ids are done; "), "\(run)")
        #expect(run.output.contains("unknown: 777777\n"), "\(run)")
        #expect(
            run.output.contains(
                ": 12 lines of owners: 4 Apple accounts linked to the customers named, 1 purchases of nobody given to them, "
                    + "2 lines about what is theirs already, 1 about purchases that are not known here, 3 about purchases "
                    + "that keep another owner, 1 of anonymous ids passed over"), "\(run)")
        #expect(run.output.contains("belongs to somebody else: 8006: \(Self.other)\n"), "\(run)")
        #expect(
            run.output.contains(
                "belongs to somebody else: 8008: user-7, to whom line 8 gives the same Apple account\n"), "\(run)")
        #expect(run.output.contains("belongs to somebody else: 8014: early\n"), "\(run)")
        #expect(run.errors.contains("3 lines of the list name purchases that keep another owner; where"), "\(run)")
        let expected = [
            "8001": "user-1", "8002": "user-1", "8003": "20000001234567890", "8004": "user-4", "8005": Self.token,
            "8006": Self.other, "8007": "user-7", "8008": "user-7", "8009": "apple:A9", "8011": "user;11",
            "8014": "early",
        ]
        for (id, owner) in expected { #expect(try await client.owners(of: id) == [owner], "\(id)") }
        let answer = try await client.send("GET", "/v1/customers/user-1/entitlements").json
        #expect((answer["entitlements"] as? [Any])?.isEmpty == false)
        let links = try await client.events().filter { $0["type"] as? String == "linked" }
            .filter { $0["source"] as? String == "operator" }
        #expect(links.count == 4)
        #expect(links.allSatisfy { ($0["facts"] as? [String: Any])?["actor"] as? String == "import" }, "\(links)")
        let head = try await client.head()
        let second = try await stage.importOwners(list)
        #expect(second.status == 1 && second.output.contains("this run asked about 0 "), "\(second)")
        #expect(second.output.contains("0 Apple accounts linked"), "\(second)")
        #expect(second.output.contains("7 lines about what is theirs"), "\(second)")
        #expect(second.output.contains("8008: user-7, to whom line 8 gives"), "\(second)")
        #expect(try await client.head() == head)
        // What the account buys later is the customer's, too, and a link that was taken back is not made again.
        try stage.remember("8020", account: "A1")
        try await client.link("apple:A3", to: "apple:A3")
        try list.write(["8020,user-1", "8003,20000001234567890"])
        let third = try await stage.importOwners(list, "--again")
        #expect(third.status == 1 && third.output.contains("was theirs, and was taken back: 8003\n"), "\(third)")
        #expect(third.output.contains("1 lines about what is theirs already"), "\(third)")
        #expect(try await client.owners(of: "8003") == ["apple:A3"])
        #expect(try await installation.rightful("verify").contains("verified"))
        await stage.remove()
    }

    @Test("killed while it asks and while it links, it goes on, and each account is linked once")
    func killed() async throws {
        let stage = try await StoreAPIStage()
        let installation = stage.installation
        let key = try await installation.adminKey()
        let service = try await ServiceProcess.start(installation)
        defer { service.stop() }
        let client = HTTPClient(service.url, key: key)
        let numbers = 8001...8300
        for number in numbers { try stage.remember("\(number)", account: "A\(number)") }
        let list = OwnerList()
        defer { list.remove() }
        try list.write(numbers.map { "\($0)\tuser-\($0)" })
        let plain = OwnerList()
        defer { plain.remove() }
        try plain.write(numbers.map { "\($0)" })
        func links() async throws -> Int {
            try await client.events().count { $0["type"] as? String == "linked" }
        }
        func kill(when isDue: () async throws -> Bool) async throws {
            let process = try await installation.start(stage.ownersCommand(list))
            while process.isRunning, !(try await isDue()) { try await Task.sleep(for: .milliseconds(5)) }
            Foundation.kill(process.processIdentifier, SIGKILL)
            process.waitForEnd()
            try await installation.asOwner("UPDATE store_import SET heartbeat_at = heartbeat_at - interval '1 minute'")
        }
        try await kill { stage.production.count(of: "transaction_history") > 120 }
        #expect(try await links() == 0)
        // The same ids without customers are the same list.
        let asked = stage.production.count(of: "transaction_history")
        let bare = try await installation.run([
            "import", "--transaction-ids", plain.url.path(), "--app", installation.world.bundleID,
        ])
        #expect(bare.status == 0 && bare.output.contains("300 of the purchases are Apple accounts' with"), "\(bare)")
        #expect(stage.production.count(of: "transaction_history") - asked <= 210, "the first page was not read again")
        // The head is asked for quickly: on a fast machine all is linked within a fraction of a second.
        let head = try await client.head()
        try await kill { try await client.head() > head }
        let killedAt = try await links()
        #expect(killedAt > 0)
        let rest = try await stage.importOwners(list)
        #expect(rest.status == 0 && rest.output.contains("\(300 - killedAt) Apple accounts linked"), "\(rest)")
        #expect(try await links() == 300)
        for number in [8001, 8150, 8300] { #expect(try await client.owners(of: "\(number)") == ["user-\(number)"]) }
        let done = try await installation.run([
            "import", "--transaction-ids", plain.url.path(), "--app", installation.world.bundleID, "--owners",
            list.url.path(),
        ])
        #expect(done.status == 0 && done.output.contains("300 lines about what is theirs already"), "\(done)")
        #expect(try await links() == 300)
        await stage.remove()
    }

    @Test("a list that contradicts itself, or holds anything else, is refused whole, with its line")
    func refused() async throws {
        let stage = try await StoreAPIStage()
        try stage.remember("8001", account: "A1")
        let list = OwnerList()
        defer { list.remove() }
        for (lines, problem) in [
            (["8001,user-1", "", "8001,user-2"], "line 3: '8001' stands in the list before, in line 1, as another"),
            (["transaction,user", "8001,user-1"], "line 1: 'transaction' is no transaction id of the App Store"),
            (["transaction,user", "8001,user-1"], "which is a number; a heading is to begin with #"),
            (["8001,"], "line 1: beside '8001' is to stand the customer's id"),
            (["8001"], "line 1: beside '8001' is to stand the customer's id"),
            (["8001,\"user"], "line 1: a quotation mark has no other in its column"),
            (["# nothing"], "names no customers"),
            // RevenueCat's ids differ by case, so these may be two customers of its.
            (
                ["8001,\(Self.token)", "8002,\(Self.token.uppercased())", "8003,user", "8004,USER"],
                "'\(Self.token.uppercased())' in \(list.url.path()), line 2, and '\(Self.token)' in "
                    + "\(list.url.path()), line 1; write"
            ),
        ] {
            try list.write(lines)
            let run = try await stage.importOwners(list)
            #expect(run.status == 1 && run.errors.contains(problem), "\(run)")
        }
        #expect(stage.production.count(of: "transaction_history") == 0)
        // The list of ids may be the same table.
        try list.write(["8001,20000001234567890"])
        let both = try await stage.importOwners(list, "--transaction-ids", list.url.path())
        #expect(both.status == 0 && both.output.contains("1 Apple accounts linked"), "\(both)")
        await stage.remove()
    }
}

/// A list in a file.
private struct OwnerList {
    let url = ScratchSpace.directory.appending(path: "owners-\(UUID().uuidString).csv")

    func write(_ lines: [String]) throws {
        try lines.joined(separator: "\n").write(to: url, atomically: true, encoding: .utf8)
    }

    func remove() { try? FileManager.default.removeItem(at: url) }
}

extension StoreAPIStage {
    /// A purchase of which nobody told.
    fileprivate func remember(_ id: String, account: String? = nil, token: String? = nil) throws {
        var fields: [String: PayloadValue] = [
            "transactionId": .string(id), "originalTransactionId": .string(id),
            "bundleId": .string(installation.world.bundleID), "productId": .string("com.example.lifetime"),
            "type": .string("Non-Consumable"), "environment": .string("Production"),
            "purchaseDate": .integer(Self.now - Span.day), "signedDate": .integer(Self.now),
        ]
        fields["appTransactionId"] = account.map { .string($0) }
        fields["appAccountToken"] = token.map { .string($0) }
        try production.remember(fields)
    }

    /// A period of a subscription.
    fileprivate func rememberPeriod(_ id: String, of original: String, account: String) throws {
        let start = Self.now - Span.day * (8020 - (Int64(id) ?? 0)) * 30
        try production.remember([
            "transactionId": .string(id), "originalTransactionId": .string(original),
            "webOrderLineItemId": .string("9\(id)"), "appTransactionId": .string(account),
            "bundleId": .string(installation.world.bundleID), "productId": .string("com.example.pro.monthly"),
            "type": .string("Auto-Renewable Subscription"), "environment": .string("Production"),
            "purchaseDate": .integer(start), "expiresDate": .integer(start + 30 * Span.day),
            "signedDate": .integer(Self.now),
        ])
    }

    fileprivate func ownersCommand(_ list: OwnerList) -> [String] {
        ["import", "--owners", list.url.path(), "--app", installation.world.bundleID, "--environment", "production"]
    }

    fileprivate func importOwners(
        _ list: OwnerList, _ more: String...
    ) async throws -> (status: Int32, output: String, errors: String) {
        let run = try await installation.run(ownersCommand(list) + more)
        return (run.status, run.output, run.errors)
    }
}

extension HTTPClient {
    fileprivate func link(_ linked: String, to customer: String) async throws {
        let answer = try await send(
            "POST", "/v1/customers/\(customer)/actions/link", body: Array("{\"customer_id\":\"\(linked)\"}".utf8),
            headers: ["Content-Type": "application/json"])
        #expect(answer.status == 200, "\(answer.text)")
    }

    fileprivate func owners(of transaction: String) async throws -> [String] {
        let items = try await send("GET", "/v1/customers", query: ["transaction_id": transaction]).json["items"]
        return (items as? [[String: Any]] ?? []).map { "\($0["customer_id"] ?? "")" }
    }
}
