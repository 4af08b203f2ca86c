import EntitlementAPI
import EntitlementCore
import HTTPServer
import Ledger
import Testing

@testable import Service

/// Whose word counts: every bearer against every customer, app and environment.
@Suite("Proof in reconcile", .serialized, .timeLimit(.minutes(5)))
struct ReconcileProofTests {
    private static let customer = "apple:704"

    /// A customer with a purchase of each environment, and one that has nothing to do with what is posted.
    private static func rig() async throws -> ServiceRig {
        let rig = try await ServiceRig.withCatalog(passKeys: PassKeyRing([ServiceRig.passKey()]))
        try await rig.notify(HeldTransaction(id: "1", appTransaction: "704"), uuid: "n1")
        try await rig.notify(HeldTransaction.lifetime("2", appTransaction: "704"), uuid: "n2")
        return rig
    }

    @Test("a secret key of scope customers:write speaks for everybody, another scope for nobody")
    func secretKeys() async throws {
        let rig = try await Self.rig()
        for scope in APIScope.allCases {
            let key = try await rig.keys.create(name: scope.rawValue, scopes: [scope]).secret
            let answer = try await rig.reconcile(Self.customer, Posted(), key: key)
            let isAllowed = scope == .customersWrite || scope == .admin
            #expect(answer.verdict == (isAllowed ? "200 -" : "403 forbidden"), "\(scope)")
            guard isAllowed else { continue }
            let document = try await rig.answer(Self.customer, Posted(), key: key)
            #expect(document.proof == .secretKey && document.pass != nil)
            #expect(document.entitlements.map(\.id) == ["lifetime", "premium"])
        }
        let ofA = try await rig.keys.create(
            name: "a", scopes: [.customersWrite], bundleID: "com.example.other"
        ).secret
        #expect(try await rig.reconcile(Self.customer, Posted(), key: ofA).verdict == "403 forbidden")
        #expect(try await rig.reconcile(Self.customer, Posted(app: nil), key: ofA).verdict == "403 unknown_app")
    }

    @Test("nobody's key, and no key, are asked for one")
    func strangers() async throws {
        let rig = try await Self.rig()
        for key in ["", "rightful_sk_wrong", "rightful_pk_wrong", "rc_wrong", rig.admin + "x"] {
            #expect(try await rig.reconcile(Self.customer, Posted(), key: key).verdict == "401 unauthenticated")
        }
        let bare = try await rig.send("POST", "/v1/customers/c-1/reconcile", body: Posted().body)
        #expect(bare.verdict == "401 unauthenticated")
        let revoked = try await rig.keys.create(
            name: "r", scopes: [], isPublishable: true, environment: .production,
            bundleID: ServiceRig.bundleID)
        #expect(try await rig.keys.revoke(revoked.key.id))
        #expect(try await rig.reconcile(Self.customer, Posted(), key: revoked.secret).status == 401)
    }

    @Test("a customer token speaks for its customer, in its environment and app, while it lives")
    func tokens() async throws {
        let rig = try await Self.rig()
        let token = try await rig.token(Self.customer)
        let own = try await rig.answer(Self.customer, Posted(), key: token)
        #expect(own.proof == .customerToken && own.pass != nil)
        #expect(own.entitlements.map(\.id) == ["lifetime", "premium"])
        for other in ["apple:705", "apple:7040", "Apple:704", "c-1", Purchase.customer] {
            #expect(try await rig.reconcile(other, Posted(), key: token).verdict == "403 forbidden", "\(other)")
        }
        let sandbox = try await rig.reconcile(Self.customer, Posted(environment: .sandbox), key: token)
        #expect(sandbox.verdict == "403 forbidden")
        // The environment of a token holds against that of what is posted.
        let jws = try rig.sign(HeldTransaction(id: "3", environment: "Sandbox"))
        let item = try await rig.answer(Self.customer, Posted(transactions: [jws]), key: token)
        #expect(item.environment == .production && item.verdicts == ["refused wrong_environment"])

        let bound = try await rig.keys.create(name: "b", scopes: [.customersWrite], bundleID: "com.example.other")
        let ofOther = try await rig.token("c-1", key: bound.secret)
        #expect(try await rig.reconcile("c-1", Posted(), key: ofOther).verdict == "403 forbidden")
        rig.clock.now = try instant("2026-11-20T13:00:00.000Z")
        #expect(try await rig.reconcile(Self.customer, Posted(), key: token).verdict == "401 unauthenticated")
    }

    @Test("a publishable key speaks for the customer whose app transaction it brings, and for nobody else")
    func appTransactions() async throws {
        let rig = try await Self.rig()
        try await rig.link("apple:900", to: Self.customer)
        try await rig.link("apple:901", to: "apple:900")
        try await rig.link("apple:902", to: "c-9")
        let key = try await rig.publishableKey()
        let head = try await rig.head()
        let good = try rig.signAppTransaction("704")
        let table: [(app: String?, proof: ReconciliationDocument.Proof, code: String?)] = [
            (good, .appTransaction, nil),
            (try rig.signAppTransaction("900"), .appTransaction, nil),
            (try rig.signAppTransaction("901"), .appTransaction, nil),
            (try rig.signAppTransaction("902"), .none, nil),
            (try rig.signAppTransaction("705"), .none, nil),
            (try rig.signAppTransaction("apple:704"), .none, nil),
            (try rig.signAppTransaction(nil), .none, nil),
            (try rig.signAppTransaction("704", bundleID: "com.example.other"), .none, "unknown_app"),
            (try rig.signAppTransaction("704", environment: "Sandbox"), .none, "wrong_environment"),
            (try rig.signAppTransaction("704", environment: "Xcode"), .none, "wrong_environment"),
            (String(good.dropLast(8)) + "AAAAAAAA", .none, "untrusted_signature"),
            ("x", .none, "malformed_jws"),
            // A purchase names the app transaction too; it proves a purchase, not who posts it.
            (try rig.sign(HeldTransaction(id: "1", appTransaction: "704")), .none, "inconsistent_payload"),
            (nil, .none, nil),
        ]
        for (index, row) in table.enumerated() {
            let answer = try await rig.answer(Self.customer, Posted(appTransaction: row.app), key: key)
            #expect(answer.proof == row.proof, "row \(index)")
            #expect(answer.appTransaction?.code == row.code, "row \(index)")
            #expect((answer.pass != nil) == (row.proof != .none), "row \(index)")
            #expect(
                answer.entitlements.map(\.id) == (row.proof == .none ? [] : ["lifetime", "premium"]), "row \(index)")
        }
        // The alias is the customer, by whatever name it is called.
        for alias in ["apple:900", "apple:901"] {
            let answer = try await rig.answer(alias, Posted(appTransaction: good), key: key)
            #expect(answer.proof == .appTransaction && answer.entitlements.count == 2, "\(alias)")
        }
        // Nobody ever heard of: it is itself all the same.
        let unknown = try await rig.answer("apple:1", Posted(appTransaction: rig.signAppTransaction("1")), key: key)
        #expect(unknown.proof == .appTransaction && unknown.entitlements.isEmpty && unknown.pass != nil)
        #expect(try await rig.head() == head)
    }

    @Test("a link is of one environment, and so is the proof that leads over it")
    func linksOfOneEnvironment() async throws {
        let rig = try await Self.rig()
        try await rig.command(
            .link(LinkFact(identity: IdentityRef(0), customer: IdentityRef(1))), ["apple:900", Self.customer],
            environment: .sandbox)
        let key = try await rig.publishableKey()
        let answer = try await rig.answer(
            Self.customer, Posted(appTransaction: rig.signAppTransaction("900")), key: key)
        #expect(answer.proof == .none && answer.entitlements.isEmpty)
    }

    @Test("a publishable key is of one app and environment")
    func boundKeys() async throws {
        let rig = try await Self.rig()
        let key = try await rig.publishableKey()
        #expect(
            try await rig.reconcile(Self.customer, Posted(app: "com.example.b"), key: key).verdict == "403 forbidden")
        #expect(try await rig.reconcile(Self.customer, Posted(app: "com.example.App"), key: key).status == 403)
        #expect(try await rig.answer(Self.customer, Posted(app: nil), key: key).environment == .production)
        let elsewhere = try await rig.reconcile(Self.customer, Posted(environment: .sandbox), key: key)
        #expect(elsewhere.verdict == "403 forbidden")
        let sandbox = try await rig.publishableKey(environment: .sandbox)
        let production = try await rig.answer(
            Self.customer,
            Posted(
                transactions: [rig.sign(HeldTransaction(id: "1", appTransaction: "704"))],
                appTransaction: rig.signAppTransaction("704")), key: sandbox)
        #expect(production.environment == .sandbox && production.proof == .none)
        #expect(production.verdicts == ["refused wrong_environment"] && production.entitlements.isEmpty)
        let other = try await rig.publishableKey(bundleID: "com.example.other")
        #expect(try await rig.reconcile(Self.customer, Posted(app: nil), key: other).verdict == "403 unknown_app")
    }

    @Test("a publishable key made for no environment serves both of its app's, as each request names it")
    func keyOfBothEnvironments() async throws {
        let rig = try await Self.rig()
        let key = try await rig.publishableKey(environment: nil)
        for (environment, word) in [(ReconcileRequest.Environment.production, "Production"), (.sandbox, "Sandbox")] {
            let app = try rig.signAppTransaction("704", environment: word)
            let transaction = HeldTransaction.lifetime("7", appTransaction: "704").with { $0.environment = word }
            let answer = try await rig.answer(
                Self.customer,
                Posted(environment: environment, transactions: [rig.sign(transaction)], appTransaction: app), key: key)
            #expect(answer.environment == environment.named && answer.proof == .appTransaction, "\(environment)")
            #expect(answer.verdicts == ["recorded"] && answer.finish == ["7"], "\(environment)")
        }
        // Neither is taken for the other: what is posted under the wrong name is refused.
        let production = try await rig.answer(
            Self.customer,
            Posted(environment: .sandbox, appTransaction: rig.signAppTransaction("704")), key: key)
        #expect(production.environment == .sandbox && production.proof == .none)
        #expect(try await rig.answer(Self.customer, Posted(), key: key).environment == .production)
        #expect(
            try await rig.reconcile(Self.customer, Posted(app: "com.example.b"), key: key).verdict == "403 forbidden")
    }

    @Test("a key of both environments reaches only those that its app is configured for")
    func unservedEnvironment() async throws {
        let rig = try await ServiceRig.make(environments: ["production"])
        let key = try await rig.publishableKey(environment: nil)
        #expect(try await rig.reconcile(Self.customer, Posted(environment: .production), key: key).status == 200)
        let sandbox = try await rig.reconcile(Self.customer, Posted(environment: .sandbox), key: key)
        #expect(sandbox.verdict == "403 wrong_environment")
    }

    @Test(
        "what a device bought with another Apple account is recorded and finished for that one, and contradicts nothing"
    )
    func anotherAppleAccount() async throws {
        let rig = try await Self.rig()
        let key = try await rig.publishableKey()
        let head = try await rig.head()
        let posted = Posted(
            transactions: [try rig.sign(HeldTransaction(id: "7", appTransaction: "900"))],
            appTransaction: try rig.signAppTransaction("704"))
        let answer = try await rig.answer("apple:900", posted, key: key)
        #expect(answer.proof == .none && answer.verdicts == ["recorded"] && answer.finish == ["7"])
        #expect(answer.entitlements.map(\.id) == ["premium"] && answer.pass == nil)
        #expect(try await rig.eventTypes(after: head) == ["device_report"])
    }

    @Test("without proof only what was posted is told, and only of the customer the purchase is")
    func unproven() async throws {
        let rig = try await Self.rig()
        let key = try await rig.publishableKey()
        try await rig.command(
            .grant(GrantFact(grantID: "g", customer: IdentityRef(0), entitlementID: "vip", until: nil, reason: "r")),
            [Self.customer])
        // Grants begin when they are recorded.
        rig.clock.now = day(324)
        let posted = Posted(transactions: [try rig.sign(HeldTransaction(id: "1", appTransaction: "704"))])
        let answer = try await rig.answer(Self.customer, posted, key: key)
        #expect(answer.proof == .none && answer.pass == nil)
        #expect(answer.entitlements.map(\.id) == ["premium"], "not the lifetime purchase, nor the grant")
        #expect(answer.timeline.map(\.id) == ["premium"] && answer.finish == ["1"])
        let other = try await rig.answer("apple:705", posted, key: key)
        #expect(other.entitlements.isEmpty && other.verdicts == ["known"] && other.finish == ["1"])
        let full = try await rig.answer(Self.customer, posted)
        #expect(full.entitlements.map(\.id) == ["lifetime", "premium", "vip"])
    }
}
