import Foundation
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
                    notification.originalTransactionID.map { OriginalKey(notification.environment, $0) }
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
        _ original: OriginalKey, body: String = "{}", headers: [String: String] = [:]
    ) async throws -> Answer {
        try await send(
            "POST", "/v1/subscriptions/\(original.originalTransactionID)/actions/check",
            query: ["environment": original.environment.rawValue], body: Array(body.utf8), headers: headers)
    }
}
