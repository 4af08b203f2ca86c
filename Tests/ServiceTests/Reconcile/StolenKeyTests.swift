import EntitlementAPI
import EntitlementCore
import HTTPServer
import Ledger
import PostgresClient
import StoreSimulator
import TestSupport
import Testing

@testable import Service

/// Tries everything with a key that was taken out of an app; the README says what it can do and what not.
@Suite("A stolen publishable key", .serialized, .timeLimit(.minutes(5)))
struct StolenKeyTests {
    /// The thief's loot, and the victims: everything that a customer can have.
    private struct Scene {
        let rig: ServiceRig
        let key: String
        static let victims = [Purchase.customer, "apple:704", "c-1", "guest", "debtor"]

        static func make(connections: Int = 3) async throws -> Scene {
            let rig = try await ServiceRig.withCatalog(
                passKeys: PassKeyRing([ServiceRig.passKey()]), connections: connections)
            try await rig.notify(
                HeldTransaction(id: "1", token: Purchase.customer), HeldRenewal(original: "1"), uuid: "1")
            try await rig.notify(HeldTransaction.lifetime("2", appTransaction: "704"), uuid: "2")
            _ = try await rig.answer("guest", Posted(transactions: [rig.sign(HeldTransaction.lifetime("3"))]))
            try await rig.link("guest", to: "c-1")
            try await rig.command(
                .grant(
                    GrantFact(grantID: "g", customer: IdentityRef(0), entitlementID: "vip", until: nil, reason: "r")),
                ["c-1"])
            let claims = [ReconcileRequest.Claim(productID: "com.example.lifetime", state: .active)]
            _ = try await rig.answer("debtor", Posted(claims: claims))
            _ = try await rig.answer("debtor", Posted(transactions: [rig.sign(HeldTransaction.lifetime("3"))]))
            // Grants begin when they are recorded.
            rig.clock.now = day(324)
            return Scene(rig: rig, key: try await rig.publishableKey())
        }

        /// What a thief can make without anybody's help: nothing, noise, claims, and what they bought themselves.
        func loot() throws -> [Posted] {
            let stranger = try SimulatedAuthority()
            let everything = ["com.example.pro.yearly", "com.example.lifetime", "premium", "vip"].flatMap { product in
                EntitlementState.allCases.map { ReconcileRequest.Claim(productID: product, state: $0) }
            }
            let own = try rig.sign(HeldTransaction.lifetime("66", appTransaction: "666"))
            let ownApp = try rig.signAppTransaction("666")
            return [
                Posted(), Posted(app: nil, environment: .production), Posted(claims: everything),
                Posted(transactions: ["1", "2", "3"], renewals: ["1"], appTransaction: "704", claims: everything),
                Posted(
                    transactions: [try stranger.sign(HeldTransaction(id: "1", token: Purchase.customer).payload)],
                    appTransaction: try stranger.sign(
                        .object([
                            "bundleId": .string(ServiceRig.bundleID), "receiptType": .string("Production"),
                            "appTransactionId": .string("704"), "appAppleId": .integer(ServiceRig.appAppleID),
                        ]))),
                Posted(renewals: [try rig.sign(HeldRenewal(original: "1"))]),
                Posted(transactions: [own], appTransaction: ownApp, claims: everything),
                Posted(appTransaction: try rig.signAppTransaction("704", environment: "Sandbox")),
                Posted(appTransaction: try rig.signAppTransaction("704", bundleID: "com.example.other")),
            ]
        }
    }

    /// An answer without what differs by right: the id that was asked for.
    private static func anonymous(_ answer: HTTPResponse, _ customer: String) -> String {
        let headers = answer.headers.map { "\($0): \($1)" }.filter { !$0.lowercased().contains("request-id") }
        let text = answer.text.replacing("\"customer_id\":\"\(customer)\"", with: "")
        return "\(answer.status) \(headers.sorted()) \(text)"
    }

    @Test("an existing customer and a made-up id are answered alike, to the byte")
    func nobodyIsThere() async throws {
        let scene = try await Scene.make()
        let rig = scene.rig
        for (index, posted) in try scene.loot().enumerated() {
            let madeUp = try await rig.reconcile("made-up", posted, key: scene.key)
            let expected = Self.anonymous(try await rig.reconcile("made-up", posted, key: scene.key), "made-up")
            #expect(madeUp.status == 200, "\(index): \(madeUp.text)")
            for victim in Scene.victims {
                let answer = try await rig.reconcile(victim, posted, key: scene.key)
                #expect(Self.anonymous(answer, victim) == expected, "loot \(index) against \(victim)")
                let document = try WireJSON.decode(ReconciliationDocument.self, from: answer.body)
                #expect(document.pass == nil && document.proof == .none, "loot \(index) against \(victim)")
                #expect(document.entitlements.isEmpty && document.timeline.isEmpty)
            }
        }
    }

    @Test("nothing is recorded of anybody but the thief's own true statements, once")
    func nothingIsRecorded() async throws {
        let scene = try await Scene.make()
        let rig = scene.rig
        let before = try await rig.head()
        let held = try await held(by: Scene.victims, rig)
        for _ in 0..<3 {
            for posted in try scene.loot() {
                for victim in Scene.victims + ["made-up"] {
                    #expect(try await rig.reconcile(victim, posted, key: scene.key).status == 200)
                }
            }
        }
        // Neither claim nor conflict nor drift.
        #expect(try await rig.eventTypes(after: before) == ["device_report"])
        #expect(try await self.held(by: Scene.victims, rig) == held)
        #expect(try await rig.get("/v1/customers?app_transaction_id=made-up").text.contains("made-up") == false)
        let metrics = try await rig.get("/metrics").text
        #expect(metrics.contains(#"rightful_device_drift_total{outcome="unproven"}"#))
        #expect(!metrics.contains("rightful_ownership_conflicts_total 2"))
    }

    private func held(by customers: [String], _ rig: ServiceRig) async throws -> [[String]] {
        var held: [[String]] = []
        for customer in customers { held.append(try await rig.entitlements(customer).map(\.words)) }
        return held
    }

    @Test("with copies of victims' purchases it learns of these alone, and gains nothing by them")
    func copiedPurchases() async throws {
        let scene = try await Scene.make()
        let rig = scene.rig
        let before = try await rig.head()
        let copies = try [
            HeldTransaction(id: "1", token: Purchase.customer), .lifetime("2", appTransaction: "704"), .lifetime("3"),
        ].map { try rig.sign($0) }
        let ownApp = try rig.signAppTransaction("666")
        // Under a name of their own: true, durable, and nobody's business.
        for app in [nil, ownApp] {
            let answer = try await rig.answer(
                "thief", Posted(transactions: copies, appTransaction: app), key: scene.key)
            #expect(answer.verdicts == ["known", "known", "known"] && answer.pass == nil && answer.proof == .none)
            #expect(answer.entitlements.isEmpty && answer.timeline.isEmpty)
        }
        // Under the victim's: what the copy itself proves, and neither link, grant nor anything else.
        let shown = try await rig.answer("c-1", Posted(transactions: copies), key: scene.key)
        #expect(shown.entitlements.map(\.id) == ["lifetime"] && shown.pass == nil && shown.proof == .none)
        #expect(shown.drift.isEmpty)
        #expect(try await rig.head() == before)
        // As themselves, with proof: the purchases are still the victims'.
        let thief = try await rig.answer(
            "apple:666", Posted(transactions: copies, appTransaction: ownApp), key: scene.key)
        #expect(thief.verdicts == Array(repeating: "conflict ownership_conflict", count: 3))
        #expect(thief.entitlements.isEmpty && thief.finish.isEmpty)
        for _ in 0..<20 {
            _ = try await rig.answer(
                "apple:666", Posted(transactions: copies, appTransaction: ownApp), key: scene.key)
        }
        #expect(try await rig.eventTypes(after: before) == Array(repeating: "ownership_conflict", count: 3))
    }

    @Test("with the victim's app transaction it is the victim's device, and no one else's")
    func copiedAppTransaction() async throws {
        let scene = try await Scene.make()
        let app = try scene.rig.signAppTransaction("704")
        let answer = try await scene.rig.answer("apple:704", Posted(appTransaction: app), key: scene.key)
        #expect(answer.proof == .appTransaction && answer.entitlements.map(\.id) == ["lifetime"] && answer.pass != nil)
        for other in Scene.victims where other != "apple:704" {
            let refused = try await scene.rig.answer(other, Posted(appTransaction: app), key: scene.key)
            #expect(refused.proof == .none && refused.entitlements.isEmpty && refused.pass == nil, "\(other)")
        }
    }

    @Test("it opens no other route")
    func otherRoutes() async throws {
        let scene = try await Scene.make()
        for route in Route.all {
            guard case .scope = route.access else { continue }
            for id in ["c-1", "made-up"] {
                let target = route.template.replacing("{id}", with: id).replacing("{position}", with: "1")
                    .replacing("{original_transaction_id}", with: "1")
                let answer = try await scene.rig.send(route.method, target, key: scene.key, body: Array("{}".utf8))
                #expect(answer.verdict == "403 forbidden", "\(route.method) \(route.template)")
            }
        }
    }

    @Test("what it costs the database does not depend on how much a stranger has")
    func equalWork() async throws {
        let scene = try await Scene.make(connections: 1)
        let rig = scene.rig
        for number in 0..<60 {
            try await rig.notify(
                HeldTransaction.lifetime("\(5000 + number)", token: Purchase.customer), uuid: "rich-\(number)")
            try await rig.command(
                .grant(
                    GrantFact(
                        grantID: "g\(number)", customer: IdentityRef(0), entitlementID: "vip", until: nil, reason: "r")),
                [Purchase.customer])
            try await rig.link("alias-\(number)", to: Purchase.customer)
        }
        // So that indexes are chosen as in a log of some size.
        try await rig.database.owner().execute(script: "ANALYZE event")
        let own = try rig.sign(HeldTransaction.lifetime("66", appTransaction: "666"))
        let claimed = try rig.sign(HeldTransaction.lifetime("3"))
        for posted in [
            Posted(), Posted(appTransaction: try rig.signAppTransaction("666")), Posted(transactions: [own]),
            Posted(transactions: [own], appTransaction: try rig.signAppTransaction("666")),
            Posted(transactions: [claimed]),
        ] {
            var rows: [Int64] = []
            var transactions: [Int64] = []
            for customer in ["made-up", Purchase.customer] {
                _ = try await rig.answer(customer, posted, key: scene.key)
                // The middle of several: now and then the key is looked up again, or a session's plans are discarded.
                var works: [DatabaseWork] = []
                for _ in 0..<5 {
                    works.append(
                        try await rig.databaseWork { _ = try await rig.answer(customer, posted, key: scene.key) })
                }
                rows.append(works.map(\.rows).sorted()[2])
                transactions.append(works.map(\.transactions).sorted()[2])
            }
            #expect(abs(rows[0] - rows[1]) < 10 && transactions[0] == transactions[1], "\(rows) \(transactions)")
        }
        let token = try await rig.token(Purchase.customer)
        _ = try await rig.answer(Purchase.customer, Posted(), key: token)
        let whole = try await rig.databaseWork { _ = try await rig.answer(Purchase.customer, Posted(), key: token) }
        #expect(whole.rows > 180, "the measure measures nothing: \(whole)")
    }
}
