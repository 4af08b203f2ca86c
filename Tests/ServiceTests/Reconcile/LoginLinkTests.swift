import EntitlementAPI
import EntitlementCore
import HTTPServer
import Ledger
import PostgresClient
import TestSupport
import Testing

@testable import Service

/// What a customer token and an app transaction say together.
@Suite("Links made by a login", .serialized, .timeLimit(.minutes(5)))
struct LoginLinkTests {
    /// A rig in which the Apple account 704 has bought before anybody logged in.
    private static func rig(_ trust: DeviceTrust = DeviceTrust()) async throws -> ServiceRig {
        let rig = try await ServiceRig.withCatalog(
            passKeys: PassKeyRing([ServiceRig.passKey()]), trust: trust)
        try await rig.notify(HeldTransaction(id: "1", appTransaction: "704"), uuid: "n1")
        return rig
    }

    private static func posted(_ rig: ServiceRig, app: String = "704") throws -> Posted {
        Posted(
            transactions: [try rig.sign(HeldTransaction(id: "1", appTransaction: "704"))],
            appTransaction: try rig.signAppTransaction(app))
    }

    @Test("a login brings along what the Apple account bought, in the very answer, once, and told in the events")
    func login() async throws {
        let rig = try await Self.rig()
        let token = try await rig.token("c-1")
        let head = try await rig.head()
        let first = try await rig.answer("c-1", Self.posted(rig), key: token)
        #expect(first.proof == .customerToken && first.verdicts == ["known"] && first.finish == ["1"])
        #expect(first.entitlements.map(\.id) == ["premium"] && first.pass != nil)
        #expect(first.position == head + 1)
        for _ in 0..<3 {
            let again = try await rig.answer("c-1", Self.posted(rig), key: token)
            #expect(again.held == first.held && again.position == first.position)
        }
        #expect(try await rig.eventTypes(after: head) == ["linked"])
        let event = try await rig.get("/v1/events/\(head + 1)").json
        #expect(event["facts"]?["cause"] == .string("login") && event["source"] == .string("device"))
        #expect(try await rig.entitlements("c-1").map(\.id) == ["premium"])
        #expect(try await rig.entitlements("apple:704").map(\.id) == ["premium"], "an alias from now on")
        #expect(!(try await rig.get("/metrics").text.contains("rightful_ownership_conflicts_total 1")))
        // A purchase that comes later bears the same identity.
        try await rig.notify(HeldTransaction.lifetime("2", appTransaction: "704"), uuid: "n2")
        #expect(try await rig.entitlements("c-1").map(\.id) == ["lifetime", "premium"])
    }

    @Test("of two customers on one Apple account the first keeps it, whoever asks, however often")
    func secondCustomer() async throws {
        let rig = try await Self.rig()
        let tokens = [try await rig.token("c-1"), try await rig.token("c-2")]
        _ = try await rig.answer("c-1", Self.posted(rig), key: tokens[0])
        let head = try await rig.head()
        for _ in 0..<3 {
            let second = try await rig.answer("c-2", Self.posted(rig), key: tokens[1])
            #expect(second.verdicts == ["conflict ownership_conflict"] && second.entitlements.isEmpty)
            let first = try await rig.answer("c-1", Self.posted(rig), key: tokens[0])
            #expect(first.entitlements.map(\.id) == ["premium"])
        }
        #expect(try await rig.eventTypes(after: head) == ["ownership_conflict"])
    }

    @Test("of many customers who log in at once on several services, one gets the Apple account", arguments: 0..<3)
    func race(round: Int) async throws {
        let rig = try await Self.rig()
        var tokens: [String] = []
        for number in 0..<5 { tokens.append(try await rig.token("c-\(number)")) }
        let head = try await rig.head()
        let posted = try Self.posted(rig)
        let instances = [rig.application, rig.secondInstance(), rig.secondInstance()]
        let holders = try await withThrowingTaskGroup(of: String?.self) { group in
            for number in 0..<30 {
                group.addTask { [tokens] in
                    let customer = "c-\(number % 5)"
                    let answer = try await rig.answer(
                        customer, posted, key: tokens[number % 5], on: instances[number % 3])
                    return answer.entitlements.isEmpty ? nil : customer
                }
            }
            return try await group.reduce(into: Set<String>()) { if let holder = $1 { $0.insert(holder) } }
        }
        #expect(holders.count == 1)
        let types = try await rig.eventTypes(after: head)
        #expect(types.count { $0 == "linked" } == 1 && types.count { $0 == "ownership_conflict" } == 4, "\(types)")
    }

    @Test("a link that was undone is not made again for the same customer, and another may log in")
    func undone() async throws {
        let rig = try await Self.rig()
        let tokens = [try await rig.token("c-1"), try await rig.token("c-2")]
        let linked = try await rig.answer("c-1", Self.posted(rig), key: tokens[0]).position
        let undo = try await rig.command("link", "c-1", #"{"undo":\#(linked)}"#)
        #expect(undo.status == 200, "\(undo.text)")
        #expect(try await rig.entitlements("c-1").isEmpty)
        let head = try await rig.head()
        let again = try await rig.answer("c-1", Self.posted(rig), key: tokens[0])
        #expect(again.verdicts == ["conflict ownership_conflict"] && again.entitlements.isEmpty)
        let other = try await rig.answer("c-2", Self.posted(rig), key: tokens[1])
        #expect(other.entitlements.map(\.id) == ["premium"])
        #expect(try await rig.eventTypes(after: head) == ["ownership_conflict", "linked"])
        // Support may still say otherwise, by hand.
        _ = try await rig.command("link", "c-2", #"{"undo":\#(head + 2)}"#)
        _ = try await rig.link("apple:704", to: "c-1")
        #expect(try await rig.answer("c-1", Self.posted(rig), key: tokens[0]).entitlements.map(\.id) == ["premium"])
    }

    @Test("nothing is linked where the app says so, on another's proof, or where somebody is linked either way round")
    func notLinked() async throws {
        let off = try await Self.rig(DeviceTrust(linksOnLogin: false))
        let refused = try await off.answer("c-1", Self.posted(off), key: off.token("c-1"))
        #expect(refused.verdicts == ["conflict ownership_conflict"])
        #expect(!(try await off.eventTypes(after: 4).contains("linked")), "after the token's own")

        let rig = try await Self.rig()
        let token = try await rig.token("c-1")
        var head = try await rig.head()
        // A secret key speaks for everybody, and says nothing of whose device it is; a publishable one proves one of them.
        _ = try await rig.answer("c-1", Posted(appTransaction: rig.signAppTransaction("704")))
        _ = try await rig.answer(
            "c-1", Posted(appTransaction: rig.signAppTransaction("704")), key: rig.publishableKey())
        _ = try await rig.answer("c-1", Posted(appTransaction: "704"), key: token)
        _ = try await rig.answer(
            "c-1", Posted(appTransaction: rig.signAppTransaction("704", environment: "Sandbox")), key: token)
        _ = try await rig.answer(
            "c-1", Posted(appTransaction: rig.signAppTransaction("704", bundleID: "com.example.b")), key: token)
        #expect(try await rig.head() == head + 1, "the publishable key")
        // Somebody else became the Apple account's alias: what they have is not to come along.
        _ = try await rig.link("c-9", to: "apple:704")
        head = try await rig.head()
        #expect(try await rig.answer("c-1", Self.posted(rig), key: token).entitlements.isEmpty)
        #expect(try await rig.eventTypes(after: head) == ["ownership_conflict"])
        // Whoever is the same person already needs no link.
        let nine = try await rig.token("c-9")
        head = try await rig.head()
        #expect(try await rig.answer("c-9", Self.posted(rig), key: nine).entitlements.map(\.id) == ["premium"])
        #expect(try await rig.head() == head)
    }

    @Test("an account token that was issued to the Apple account's own customer is no other customer")
    func issuedToAppCustomer() async throws {
        let rig = try await Self.rig()
        _ = try await rig.token("apple:704")
        let answer = try await rig.answer("c-1", Self.posted(rig), key: rig.token("c-1"))
        #expect(answer.entitlements.map(\.id) == ["premium"])
    }

    @Test("a forgotten customer who logs in again starts anew")
    func forgotten() async throws {
        let rig = try await Self.rig()
        _ = try await rig.answer("c-1", Self.posted(rig), key: rig.token("c-1"))
        let forgetter = Forgetter(pool: PostgresPool(rig.database.ownerConninfo), now: rig.context.now)
        #expect(try await forgetter.forget(try #require(CustomerID("c-1"))) != nil)
        let token = try await rig.token("c-1")
        let later = HeldTransaction(id: "9", appTransaction: "704")
        let answer = try await rig.answer(
            "c-1",
            Posted(transactions: [rig.sign(later)], appTransaction: rig.signAppTransaction("704")), key: token)
        #expect(answer.entitlements.map(\.id) == ["premium"] && answer.verdicts == ["recorded"])
    }
}

/// Why a purchase is somebody else's, in words.
@Suite("Reasons of conflicts", .serialized, .timeLimit(.minutes(5)))
struct ConflictReasonTests {
    @Test("a conflict says why the purchase is somebody else's")
    func reasons() async throws {
        let rig = try await ServiceRig.withCatalog(trust: DeviceTrust(linksOnLogin: false))
        let mine = HeldTransaction(id: "1", appTransaction: "704")
        let token = try await rig.token("c-1")
        func reason(_ held: HeldTransaction, app: String? = "704", key: String? = nil) async throws -> String {
            let answer = try await rig.answer(
                "c-1",
                Posted(transactions: [rig.sign(held)], appTransaction: app.map { try rig.signAppTransaction($0) }),
                key: key ?? token)
            let result = try #require(answer.results.first)
            guard result.status == .conflict else { return result.status.rawValue }
            #expect(result.code == "ownership_conflict" && result.detail?.isEmpty == false)
            return result.reason ?? "-"
        }
        #expect(try await reason(mine) == "not_linked")
        #expect(try await reason(mine, app: "705") == "another_apple_account")
        // A device that does not know its own Apple account yet may well be on that one.
        #expect(try await reason(mine, app: nil) == "not_linked")
        #expect(try await reason(mine, app: nil, key: rig.admin) == "not_linked")
        #expect(
            try await reason(HeldTransaction(id: "2", token: Purchase.customer, appTransaction: "704"))
                == "another_account_token")
        _ = try await rig.answer("c-2", Posted(transactions: [rig.sign(.lifetime("3"))]))
        #expect(try await reason(.lifetime("3")) == "claimed_by_another")
        let link = try await rig.link("apple:704", to: "c-1").json["position"]
        #expect(try await reason(mine) == "known")
        guard case .int(let position) = link else { throw TestFailure("no position") }
        _ = try await rig.command("link", "c-1", #"{"undo":\#(position)}"#)
        #expect(try await reason(mine) == "link_undone")
        _ = try await rig.link("apple:704", to: "c-2")
        #expect(try await reason(mine) == "linked_to_another")
        _ = try await rig.transfer("1", from: "c-2", to: "c-3")
        #expect(try await reason(mine) == "transferred")
    }

    @Test("with links on, the reasons that remain are those of somebody who came first")
    func reasonsWithLinks() async throws {
        let rig = try await ServiceRig.withCatalog()
        let posted = Posted(
            transactions: [try rig.sign(HeldTransaction(id: "1", appTransaction: "704"))],
            appTransaction: try rig.signAppTransaction("704"))
        let first = try await rig.answer("c-1", posted, key: rig.token("c-1"))
        #expect(first.verdicts == ["recorded"] && first.results[0].reason == nil)
        let second = try await rig.answer("c-2", posted, key: rig.token("c-2"))
        #expect(second.results.map(\.reason) == ["linked_to_another"])
    }
}

/// When an app transaction is taken as proof.
@Suite("Trust in app transactions", .serialized, .timeLimit(.minutes(5)))
struct AppTransactionProofTests {
    private static func rig(_ trust: DeviceTrust) async throws -> (rig: ServiceRig, key: String) {
        let rig = try await ServiceRig.withCatalog(
            passKeys: PassKeyRing([ServiceRig.passKey()]), trust: trust)
        try await rig.notify(HeldTransaction(id: "1", appTransaction: "704"), uuid: "n1")
        return (rig, try await rig.publishableKey())
    }

    private static func ask(_ rig: ServiceRig, _ key: String) async throws -> ReconciliationDocument {
        try await rig.answer("apple:704", Posted(appTransaction: rig.signAppTransaction("704")), key: key)
    }

    @Test("off, it proves nothing, and says so; a token still does")
    func off() async throws {
        let (rig, key) = try await Self.rig(DeviceTrust(appTransactionProof: .off))
        let answer = try await Self.ask(rig, key)
        #expect(answer.proof == .none && answer.entitlements.isEmpty && answer.pass == nil)
        #expect(answer.appTransaction?.status == .refused && answer.appTransaction?.code == "forbidden")
        let token = try await rig.token("apple:704")
        #expect(try await Self.ask(rig, token).entitlements.map(\.id) == ["premium"])
    }

    @Test("unlinked_only, it proves until a customer is linked with it, either way round")
    func unlinkedOnly() async throws {
        for link in [("apple:704", "c-1"), ("c-1", "apple:704")] {
            let (rig, key) = try await Self.rig(DeviceTrust(appTransactionProof: .unlinkedOnly))
            let before = try await Self.ask(rig, key)
            #expect(before.proof == .appTransaction && before.entitlements.map(\.id) == ["premium"])
            _ = try await rig.token("apple:704")
            #expect(try await Self.ask(rig, key).proof == .appTransaction, "its own account token is nobody else")
            _ = try await rig.link(link.0, to: link.1)
            for customer in ["apple:704", "c-1"] {
                let after = try await rig.answer(
                    customer, Posted(appTransaction: rig.signAppTransaction("704")), key: key)
                #expect(after.proof == .none && after.entitlements.isEmpty && after.pass == nil, "\(link) \(customer)")
                #expect(after.appTransaction?.code == "forbidden")
            }
        }
    }

    @Test("one that is too old neither proves nor links, from that instant on")
    func tooOld() async throws {
        // It was signed on day 0, and it is day 323.5.
        let maxAge = 324 * Timestamp.millisecondsPerDay
        let (rig, key) = try await Self.rig(DeviceTrust(appTransactionMaxAge: maxAge))
        let token = try await rig.token("c-1")
        #expect(try await Self.ask(rig, key).proof == .appTransaction)
        rig.clock.now = day(324)
        #expect(try await Self.ask(rig, key).proof == .appTransaction)
        rig.clock.now = day(324).adding(milliseconds: 1)
        let old = try await Self.ask(rig, key)
        #expect(old.proof == .none && old.entitlements.isEmpty)
        #expect(old.appTransaction?.status == .refused && old.appTransaction?.code == "forbidden")
        let head = try await rig.head()
        let fresh = try await rig.token("c-1")
        let login = try await rig.answer(
            "c-1", Posted(appTransaction: rig.signAppTransaction("704")), key: fresh)
        #expect(login.appTransaction?.status == .refused && login.entitlements.isEmpty)
        #expect(try await rig.head() == head && token != fresh)
    }
}
