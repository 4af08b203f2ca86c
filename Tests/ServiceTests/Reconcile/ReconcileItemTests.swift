import EntitlementAPI
import EntitlementCore
import HTTPServer
import Ledger
import StoreSimulator
import Testing

@testable import Service

@Suite("Reconcile item by item", .serialized, .timeLimit(.minutes(5)))
struct ReconcileItemTests {
    @Test("a bad item is refused by name where it stands, and spoils no other")
    func badItems() async throws {
        let rig = try await ServiceRig.withCatalog()
        let good = try rig.sign(HeldTransaction(token: Purchase.customer))
        let stranger = try SimulatedAuthority()
        let renewal = try rig.sign(HeldRenewal())
        let app = try rig.signAppTransaction("704")
        let items: [(jws: String, verdict: String)] = [
            (good, "recorded"),
            (String(good.dropLast(8)) + "AAAAAAAA", "refused untrusted_signature"),
            (try stranger.sign(HeldTransaction(id: "2").payload), "refused untrusted_signature"),
            ("", "refused malformed_jws"), ("x.y.z", "refused malformed_jws"),
            (String(good.prefix(good.count / 2)), "refused malformed_jws"),
            (try rig.sign(HeldTransaction(id: "3", bundleID: "com.example.other")), "refused unknown_app"),
            (try rig.sign(HeldTransaction(id: "4", environment: "Sandbox")), "refused wrong_environment"),
            (try rig.sign(HeldTransaction(id: "5", environment: "Xcode")), "refused wrong_environment"),
            (renewal, "refused inconsistent_payload"), (app, "refused inconsistent_payload"),
            (try rig.store.sign(.object([:])), "refused inconsistent_payload"),
            (try rig.sign(HeldTransaction.lifetime("6", token: Purchase.customer)), "recorded"),
        ]
        let answer = try await rig.answer(
            Purchase.customer,
            Posted(transactions: items.map(\.jws), renewals: [good, app, renewal], appTransaction: good))
        #expect(answer.verdicts == items.map(\.verdict))
        #expect(answer.finish == ["2000000000000001", "6"])
        #expect(answer.results.filter { $0.status == .refused }.allSatisfy { $0.detail?.isEmpty == false })
        #expect(answer.renewalResults.map(\.code) == ["inconsistent_payload", "inconsistent_payload", nil])
        #expect(answer.appTransaction?.status == .refused && answer.appTransaction?.code == "inconsistent_payload")
        #expect(answer.environment == .production && answer.entitlements.map(\.id) == ["lifetime", "premium"])
        #expect(try await rig.head() == 4)
        let words = answer.results.compactMap(\.detail).joined()
        #expect(!words.contains(Purchase.customer), "no refusal tells whose a purchase is")
    }

    @Test("a request of nothing but bad items is answered, and leaves nothing")
    func allBad() async throws {
        let rig = try await ServiceRig.withCatalog()
        try await rig.notify(HeldTransaction(token: Purchase.customer), uuid: "n1")
        let answer = try await rig.answer(
            Purchase.customer, Posted(transactions: ["", "a.b.c"], renewals: ["x"], appTransaction: "y"))
        #expect(answer.verdicts == ["refused malformed_jws", "refused malformed_jws"] && answer.finish.isEmpty)
        #expect(answer.entitlements.map(\.id) == ["premium"])
        #expect(try await rig.head() == 3)
        let nothing = try await rig.answer(Purchase.customer, Posted())
        #expect(nothing.entitlements == answer.entitlements && nothing.results.isEmpty && nothing.appTransaction == nil)
    }

    @Test("five hundred transactions of one original and a bad one among them are recorded at once")
    func many() async throws {
        let rig = try await ServiceRig.withCatalog()
        var jws: [String] = []
        for number in 0..<499 {
            let held = HeldTransaction(
                id: "\(1000 + number)", original: "1000", from: Double(number), until: Double(number + 1), signed: 1,
                token: Purchase.customer, reason: number == 0 ? "PURCHASE" : "RENEWAL")
            jws.append(try rig.sign(held))
        }
        jws.insert("bad", at: 250)
        let clock = ContinuousClock()
        let start = clock.now
        let answer = try await rig.answer(Purchase.customer, Posted(transactions: jws))
        let took = start.duration(to: clock.now)
        let expected = Array(repeating: "recorded", count: 250) + ["refused malformed_jws"]
        #expect(answer.verdicts == expected + Array(repeating: "recorded", count: 249))
        #expect(answer.finish.count == 499 && answer.position == 501)
        #expect(took < .seconds(10), "took \(took)")
        let again = clock.now
        #expect(try await rig.answer(Purchase.customer, Posted(transactions: jws)).position == 501)
        #expect(again.duration(to: clock.now) < .seconds(8), "took \(again.duration(to: clock.now))")
    }

    @Test("what is too much, or not to be read, is refused by name before anything is recorded")
    func limits() async throws {
        let rig = try await ServiceRig.withCatalog()
        let target = "/v1/customers/c-1/reconcile"
        let small = "{\"app\":\"com.example.app\",\"signed_transactions\":["
        let table: [(body: String, verdict: String, param: String?)] = [
            (small + Array(repeating: "\"\"", count: 501).joined(separator: ",") + "]}", "413 too_large", nil),
            (small + "\"" + String(repeating: "a", count: 4 << 20) + "\"]}", "413 too_large", nil),
            (
                #"{"app":"com.example.app","claims":[{"product_id":"p","state":7}]}"#, "400 malformed_request",
                "claims[0].state"
            ),
            (
                #"{"app":"com.example.app","signed_transactions":[1]}"#, "400 malformed_request",
                "signed_transactions[0]"
            ),
            (#"{"app":"com.example.other"}"#, "403 unknown_app", "app"),
            ("{}", "400 malformed_request", "app"),
            (#"{"app":"com.example.app","environment":"xcode"}"#, "400 malformed_request", "environment"),
            ("[", "400 malformed_request", nil), ("", "400 malformed_request", nil),
        ]
        for row in table {
            let answer = try await rig.send("POST", target, key: rig.admin, body: Array(row.body.utf8))
            #expect(answer.verdict == row.verdict, "\(row.body.prefix(80)): \(answer.text)")
            if let param = row.param {
                #expect(try answer.json["param"] == .string(param), "\(row.body.prefix(80))")
            }
        }
        let odd = try await rig.reconcile(
            "c-1", Posted(environment: .sandbox), target: target + "?environment=production")
        #expect(odd.verdict == "400 malformed_request")
        #expect(try await rig.head() == 2)
    }

    @Test("an environment that the app is not configured for is refused, however it is named")
    func unservedEnvironment() async throws {
        let rig = try await ServiceRig.make(environments: ["production"])
        let path = "/v1/customers/c-1/reconcile"
        let named = try await rig.reconcile("c-1", Posted(environment: .sandbox))
        #expect(named.verdict == "403 wrong_environment")
        #expect(try await rig.reconcile("c-1", Posted(), target: path + "?environment=sandbox").status == 403)
        let jws = try rig.sign(HeldTransaction(environment: "Sandbox"))
        let item = try await rig.answer("c-1", Posted(transactions: [jws]))
        #expect(item.verdicts == ["refused wrong_environment"] && item.environment == .production)
        let key = try await rig.keys.create(name: "k", scopes: [.customersWrite], environment: .sandbox).secret
        let fallback = try await rig.reconcile("c-1", Posted(), key: key)
        #expect(fallback.verdict == "403 wrong_environment", "also where only the key's default names it")
    }

    @Test(
        "where it is asked for, the environment is that of the app transaction, else of the first transaction believed")
    func statedEnvironment() async throws {
        let rig = try await ServiceRig.withCatalog()
        let sandbox = try rig.sign(HeldTransaction(environment: "Sandbox"))
        let production = try rig.sign(HeldTransaction(id: "2"))
        let sandboxKey = try await rig.keys.create(name: "k", scopes: [.customersWrite], environment: .sandbox).secret
        let table: [(posted: Posted, key: String, environment: StoreEnvironment, verdicts: [String])] = [
            (Posted(), rig.admin, .production, []),
            (Posted(), sandboxKey, .sandbox, []), (Posted(environment: .auto), rig.admin, .production, []),
            // A purchase of TestFlight's that somebody posts to a production server gives nothing there.
            (Posted(transactions: [sandbox]), rig.admin, .production, ["refused wrong_environment"]),
            (Posted(transactions: ["x"]), sandboxKey, .sandbox, ["refused malformed_jws"]),
            (
                Posted(environment: .auto, transactions: ["x", sandbox, production]), rig.admin, .sandbox,
                ["refused malformed_jws", "recorded", "refused wrong_environment"]
            ),
            (
                Posted(environment: .auto, transactions: [production, sandbox]), sandboxKey, .sandbox,
                ["refused wrong_environment", "known"]
            ),
            (
                Posted(
                    environment: .auto, transactions: [production, sandbox],
                    appTransaction: try rig.signAppTransaction("1", environment: "Sandbox")), rig.admin, .sandbox,
                ["refused wrong_environment", "known"]
            ),
            (
                Posted(
                    environment: .auto, transactions: [production, sandbox],
                    appTransaction: try rig.signAppTransaction(
                        "1", bundleID: "com.example.other", environment: "Sandbox")),
                rig.admin, .production, ["recorded", "refused wrong_environment"]
            ),
            (
                Posted(environment: .production, transactions: [sandbox, production]), rig.admin, .production,
                ["refused wrong_environment", "known"]
            ),
        ]
        for (index, row) in table.enumerated() {
            let answer = try await rig.answer("c-1", row.posted, key: row.key)
            #expect(answer.environment == row.environment, "row \(index)")
            #expect(answer.verdicts == row.verdicts, "row \(index)")
        }
        let named = try await rig.reconcile("c-1", Posted(environment: .production), key: sandboxKey)
        #expect(named.verdict == "403 forbidden")
        #expect(try await rig.entitlements("c-1", "?environment=sandbox").map(\.id) == ["premium"])
    }
}
