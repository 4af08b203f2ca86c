import Foundation
import OpenSSLCrypto
import SeededRandom
import StoreSimulator
import Testing

/// What the store says when it is asked about one customer.
@Suite("Asking the store now", .serialized, .timeLimit(.minutes(5)))
struct CheckTests {
    /// The store is asked about every original transaction of some lives; what it told of them before is lost in part.
    @Test("whatever was lost, after a check the ledger reads as the store's record, and another finds nothing new")
    func checks() async throws {
        let stage = try await StoreAPIStage()
        let installation = stage.installation
        let key = try await installation.adminKey()
        try await installation.rightful("catalog", "apply", installation.catalogFile.path())
        let service = try await ServiceProcess.start(installation)
        defer { service.stop() }
        try await stage.awaitSweeps()
        let client = HTTPClient(service.url, key: key)
        // The simulated authority's certificates are not old enough for every life.
        let lives = (60..<90).map { StoreAPIStage.lifeUntilNow(seed: $0) }
            .filter { $0.world.start > SimulatedAuthority.validity.lowerBound }
        try #require(lives.count >= 15)
        for life in lives {
            let seed = life.seed
            var random = SplitMix64(seed: seed)
            let share: Int = random.pick([0, 50, 80])
            for notification in life.notifications {
                let payload = try stage.send(notification)
                guard random.chance(share) else { continue }
                let answer = try await client.notify(payload)
                #expect(answer.status == 200, "\(answer.text)")
            }
            let originals = Set(
                life.notifications.filter { $0.transaction != nil }.compactMap { notification in
                    notification.originalTransactionID.map { SimulatedOriginalKey(notification.environment, $0) }
                })
            for original in originals.sorted(by: { $0.originalTransactionID < $1.originalTransactionID }) {
                let answer = try await client.check(original)
                try #require(answer.status == 200, "seed \(seed) \(original): \(answer.text)")
                #expect(answer.json["agrees"] as? Bool != false, "seed \(seed) \(original): \(answer.text)")
            }
            let now = StoreAPIStage.now
            for customer in life.record.customers {
                let answers = try await client.entitlements(of: customer, at: now, "seed \(seed)")
                let truth = life.record.customer(customer).answer(at: now)
                #expect(
                    answers.map(Standing.init) == truth.map(Standing.init),
                    "seed \(seed), \(share) % arrived, \(customer)")
            }
            let head = try await client.head()
            for original in originals {
                let again = try await client.check(original)
                #expect((again.json["recorded"] as? [Any])?.isEmpty == true, "seed \(seed) \(original): \(again.text)")
            }
            #expect(try await client.head() == head)
        }
        #expect(try await installation.rightful("verify").contains("verified"))
        await stage.remove()
    }

    @Test("the command asks about a customer or a transaction, shows both sides, and says where they still differ")
    func command() async throws {
        let stage = try await StoreAPIStage()
        let installation = stage.installation
        try await installation.rightful("catalog", "apply", installation.catalogFile.path())
        let service = try await ServiceProcess.start(installation)
        defer { service.stop() }
        try await stage.awaitSweeps()
        let client = HTTPClient(service.url)
        let life = StoreAPIStage.lifeUntilNow(seed: 61)
        for notification in life.notifications { _ = try stage.send(notification) }
        let first = try #require(
            life.notifications.first { $0.renewal != nil && $0.environment == .production }?.originalTransactionID)
        let unknown = try await installation.run(["check", "nobody"])
        #expect(unknown.status == 1 && unknown.errors.contains("nothing is known of 'nobody'"), "\(unknown)")
        let found = try await installation.run(["check", first])
        #expect(found.status == 0 && found.output.contains("recorded now: event "), "\(found)")
        #expect(found.output.contains("the ledger reads as the store says"), "\(found.output)")
        let customer = try #require(
            life.record.customers.first { key in
                life.record.customer(key).answer(at: StoreAPIStage.now).contains { $0.originalTransactionID == first }
            })
        let again = try await installation.run(["check", customer.customerID, "--json"])
        #expect(again.status == 0 && again.output.contains(#""agrees":true"#), "\(again)")
        #expect(again.output.contains(#""recorded":[]"#), "\(again)")
        let nothing = try await installation.run(["check", "99999"])
        #expect(nothing.status == 1 && nothing.errors.contains("neither the ledger nor the store knows"), "\(nothing)")
        stage.production.fail(.status(401))
        let refused = try await installation.run(["check", first])
        #expect(refused.status == 1 && refused.errors.contains("issuer_id, key_id"), "\(refused)")
        #expect(try await client.send("GET", "/readyz").status == 200)
        await stage.remove()
    }
}

extension CheckTests {
    @Test("a customer's originals are asked about once each at most, and one that fails hides no other's result")
    func customers() async throws {
        let stage = try await StoreAPIStage()
        let installation = stage.installation
        try await installation.rightful("catalog", "apply", installation.catalogFile.path())
        let service = try await ServiceProcess.start(installation)
        defer { service.stop() }
        try await stage.awaitSweeps()
        let token = "0f1d2e3c-4b5a-6978-8796-a5b4c3d2e1f0"
        let client = HTTPClient(service.url)
        func purchase(_ number: Int, account: String?, _ environment: String = "Production") -> [String: PayloadValue] {
            var members: [String: PayloadValue] = [
                "transactionId": .string("\(number)"), "originalTransactionId": .string("\(number)"),
                "bundleId": .string(installation.world.bundleID), "productId": .string("com.example.lifetime"),
                "type": .string("Non-Consumable"), "environment": .string(environment),
                "appAccountToken": .string(token), "purchaseDate": .integer(StoreAPIStage.now - Span.day),
                "signedDate": .integer(StoreAPIStage.now), "inAppOwnershipType": .string("PURCHASED"),
            ]
            members["appTransactionId"] = account.map { .string($0) }
            return members
        }
        // Thirty of one Apple account, and three of others.
        for number in 1...33 {
            let payload = try stage.production.send(
                "ONE_TIME_CHARGE", uuid: "n\(number)", purchase(900 + number, account: number <= 30 ? "70" : nil))
            #expect(try await client.notify(payload).status == 200)
        }
        let before = stage.production.count(of: "transaction_history")
        let all = try await installation.run(["check", token])
        #expect(all.status == 0, "\(all)")
        #expect(all.output.split(separator: "\n").count { $0.contains(" (com.example") } == 33, "\(all.output)")
        // Two pages of the thirty, and one of each other.
        #expect(stage.production.count(of: "transaction_history") - before == 5)
        stage.production.failAlways(.status(500, code: 5_000_000), about: "932")
        let some = try await installation.run(["check", token])
        #expect(some.status == 1 && some.errors.contains("932, production: App Store Server API"), "\(some)")
        #expect(some.output.split(separator: "\n").count { $0.contains(" (com.example") } == 32, "\(some.output)")
        stage.production.forgiveAll()

        // What the ledger knows and the store does not is no good result.
        let elsewhere = SimulatedStoreAPI(
            authority: stage.production.authority, world: .standard,
            access: .init(issuerID: "i", keyID: "k", key: try PrivateKey.generate(.p256).publicKey),
            environment: .production, now: { StoreAPIStage.now })
        let lost = try elsewhere.send("ONE_TIME_CHARGE", uuid: "n990", purchase(990, account: nil))
        #expect(try await client.notify(lost).status == 200)
        let unknown = try await installation.run(["check", "990"])
        #expect(unknown.status == 1 && unknown.errors.contains("the store does not know 990"), "\(unknown)")
        #expect(!unknown.output.contains("nothing was missing"), "\(unknown)")

        // Known in the other environment.
        let sandboxed = try stage.sandbox.send("ONE_TIME_CHARGE", uuid: "s1", purchase(93, account: nil, "Sandbox"))
        #expect(try await client.notify(sandboxed).status == 200)
        let hinted = try await installation.run(["check", "93"])
        #expect(hinted.status == 1 && hinted.errors.contains("add --environment sandbox"), "\(hinted)")
        await stage.remove()
    }
}

extension CheckTests {
    @Test("a customer with more originals than are looked at is told so, with all of them, and nobody is asked")
    func tooMany() async throws {
        let stage = try await StoreAPIStage()
        let installation = stage.installation
        try await installation.rightful("catalog", "apply", installation.catalogFile.path())
        let service = try await ServiceProcess.start(installation)
        defer { service.stop() }
        try await stage.awaitSweeps()
        let token = "0f1d2e3c-4b5a-6978-8796-a5b4c3d2e1f0"
        let client = HTTPClient(service.url)
        let ids = (1...1001).map { "\(200_000 + $0)" }
        func deliver(_ id: String) async throws {
            let payload = try stage.deliverable([
                "transactionId": .string(id), "originalTransactionId": .string(id),
                "bundleId": .string(installation.world.bundleID), "productId": .string("com.example.coins.100"),
                "type": .string("Consumable"), "environment": .string("Production"), "appAccountToken": .string(token),
                "purchaseDate": .integer(StoreAPIStage.now - Span.day), "signedDate": .integer(StoreAPIStage.now),
            ])
            #expect(try await client.notify(payload).status == 200)
        }
        try await withThrowingTaskGroup(of: Void.self) { group in
            for (number, id) in ids.enumerated() {
                if number >= 8 { try await group.next() }
                group.addTask { try await deliver(id) }
            }
            try await group.waitForAll()
        }
        let asked = stage.production.count(of: "subscription_statuses")
        let refused = try await installation.run(["check", token])
        #expect(refused.status == 1 && refused.output.isEmpty, "\(refused)")
        #expect(refused.errors.contains("has 1001 original transactions, more than 1000 at once"), "\(refused)")
        let words = Set(refused.errors.split { $0.isWhitespace }.map(String.init))
        #expect(words.isSuperset(of: ids), "each can be checked by itself")
        #expect(stage.production.count(of: "subscription_statuses") == asked)
        await stage.remove()
    }
}

/// What the store can still tell of an entitlement: how a grace period went that is over, it does not say.
struct Standing: Equatable {
    let entitlement: String
    let state: RecordState
    let givesAccess: Bool
    let until: Int64?
    let productID: String
    let originalTransactionID: String
    let willRenew: Bool?

    init(_ answer: RecordAnswer) {
        entitlement = answer.entitlement
        state = answer.state
        givesAccess = answer.givesAccess
        until = answer.until
        productID = answer.productID
        originalTransactionID = answer.originalTransactionID
        willRenew = answer.willRenew
    }
}

extension HTTPClient {
    /// Asks the store about an original transaction.
    func check(
        _ original: SimulatedOriginalKey, body: String = "{}", headers: [String: String] = [:]
    ) async throws -> Answer {
        try await send(
            "POST", "/v1/subscriptions/\(original.originalTransactionID)/actions/check",
            query: ["environment": original.environment.rawValue], body: Array(body.utf8), headers: headers)
    }
}
