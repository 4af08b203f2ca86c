import AppStoreServer
import EntitlementAPI
import EntitlementCore
import HTTPServer
import Ledger
import Testing

@testable import Service

@Suite("Ownership in reconcile", .serialized, .timeLimit(.minutes(5)))
struct ReconcileOwnershipTests {
    /// A purchase that names nobody.
    private static let nobodys = HeldTransaction.lifetime("2000000000000007")

    private static func isConflict(_ answer: ReconciliationDocument) -> Bool {
        answer.verdicts == ["conflict ownership_conflict"] && answer.finish.isEmpty && answer.entitlements.isEmpty
    }

    @Test("what bears an identity is its customer's, whoever posts it first")
    func stated() async throws {
        let rig = try await ServiceRig.withCatalog()
        let table = [
            (HeldTransaction(id: "1", token: Purchase.customer, appTransaction: "5"), Purchase.customer),
            (HeldTransaction(id: "2", appTransaction: "704"), "apple:704"),
        ]
        for (held, owner) in table {
            let posted = Posted(transactions: [try rig.sign(held)])
            #expect(Self.isConflict(try await rig.answer("thief", posted)))
            #expect(Self.isConflict(try await rig.answer("apple:5", posted)))
            let own = try await rig.answer(owner, posted)
            #expect(own.verdicts == ["known"] && own.entitlements.map(\.id) == ["premium"] && own.finish == [held.id])
        }
        let types = try await rig.eventTypes(after: 2)
        let each = ["device_report", "ownership_conflict", "ownership_conflict"]
        #expect(types == each + each)
    }

    @Test("nobody's purchase is the first one's who claims it with proof; a second claim is one conflict for ever")
    func claims() async throws {
        let rig = try await ServiceRig.withCatalog()
        let key = try await rig.publishableKey()
        let token = try await rig.token("c-1")
        let head = try await rig.head()
        let posted = Posted(transactions: [try rig.sign(Self.nobodys)])
        let unproven = try await rig.answer("c-1", posted, key: key)
        #expect(unproven.verdicts == ["recorded"] && unproven.finish.isEmpty && unproven.entitlements.isEmpty)
        #expect(try await rig.eventTypes(after: head) == ["device_report"], "without proof nothing is claimed")

        let first = try await rig.answer("c-1", posted, key: token)
        #expect(first.verdicts == ["recorded"] && first.finish == [Self.nobodys.id])
        #expect(first.entitlements.map(\.id) == ["lifetime"])
        #expect(try await rig.entitlements("c-1") == first.entitlements)
        let again = try await rig.answer("c-1", posted)
        #expect(again.verdicts == ["known"] && again.held == first.held)
        #expect(try await rig.eventTypes(after: head + 1) == ["claimed"])

        let second = rig.secondInstance()
        for round in 0..<3 {
            for instance in [rig.application, second] {
                let rival = try await rig.answer("c-2", posted, on: instance)
                #expect(Self.isConflict(rival), "round \(round)")
            }
        }
        #expect(try await rig.eventTypes(after: head + 2) == ["ownership_conflict"])
        #expect(try await rig.entitlements("c-1") == first.entitlements)
        #expect(try await rig.entitlements("c-2").isEmpty)
        #expect(try await rig.get("/v1/subscriptions/\(Self.nobodys.id)").text.contains("\"customer_id\":\"c-1\""))
        // Their own word for it, in a metric, each time.
        #expect(try await rig.get("/metrics").text.contains("rightful_ownership_conflicts_total 3"))
    }

    @Test("of many customers who claim one purchase at once, on two services, one gets it", arguments: 0..<3)
    func race(round: Int) async throws {
        let rig = try await ServiceRig.withCatalog()
        let instances = [rig.application, rig.secondInstance()]
        let posted = Posted(transactions: [try rig.sign(Self.nobodys)])
        let answers = try await withThrowingTaskGroup(of: (String, HTTPResponse).self) { group in
            for number in 0..<50 {
                group.addTask {
                    let customer = "c-\(number % 5)"
                    return (customer, try await rig.reconcile(customer, posted, on: instances[number / 5 % 2]))
                }
            }
            return try await group.reduce(into: []) { $0.append($1) }
        }
        let types = try await rig.eventTypes(after: 2)
        #expect(types.count { $0 == "claimed" } == 1 && types.count { $0 == "device_report" } == 1, "\(types)")
        #expect(types.count { $0 == "ownership_conflict" } == 4, "\(types)")
        var owners: Set<String> = []
        for (customer, response) in answers {
            #expect(response.status == 200, "\(response.text)")
            let document = try WireJSON.decode(ReconciliationDocument.self, from: response.body)
            if document.entitlements.isEmpty {
                #expect(Self.isConflict(document))
            } else {
                owners.insert(customer)
                #expect(document.finish == [Self.nobodys.id])
            }
        }
        #expect(owners.count == 1, "\(owners)")
    }

    @Test("two dozen strangers who claim somebody's purchase at once are all told, and each is one conflict")
    func manyStrangers() async throws {
        let rig = try await ServiceRig.withCatalog()
        let posted = Posted(transactions: [try rig.sign(Self.nobodys)])
        _ = try await rig.answer("owner", posted)
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<24 {
                group.addTask {
                    let answer = try await rig.answer("c-\(number)", posted)
                    #expect(Self.isConflict(answer))
                }
            }
            try await group.waitForAll()
        }
        // Who found no room for theirs reports it at the next launch.
        for number in 0..<24 { _ = try await rig.answer("c-\(number)", posted) }
        #expect(try await rig.eventTypes(after: 4) == Array(repeating: "ownership_conflict", count: 24))
    }

    @Test("one login's periods of one original stay its own beside another's")
    func twoLogins() async throws {
        let rig = try await ServiceRig.withCatalog()
        let mine = HeldTransaction(id: "1", until: 300, token: Purchase.customer)
        let yours = HeldTransaction(
            id: "2", original: "1", from: 300, until: 700, token: "00000000-0000-4000-8000-000000000009",
            reason: "RENEWAL")
        let posted = Posted(transactions: [try rig.sign(mine), try rig.sign(yours)])
        let first = try await rig.answer(Purchase.customer, posted)
        #expect(first.verdicts == ["recorded", "conflict ownership_conflict"] && first.finish == ["1"])
        #expect(first.entitlements.map(\.givesAccess) == [false])
        let second = try await rig.answer("00000000-0000-4000-8000-000000000009", posted)
        #expect(second.verdicts == ["conflict ownership_conflict", "known"] && second.finish == ["2"])
        #expect(second.entitlements.map(\.givesAccess) == [true])
        #expect(try await rig.eventTypes(after: 4) == ["ownership_conflict", "ownership_conflict"])
    }

    @Test("who claims one period of a purchase while another is somebody's is told of one conflict")
    func claimBesideConflict() async throws {
        let rig = try await ServiceRig.withCatalog()
        let mine = HeldTransaction(id: "1", until: 300)
        let yours = HeldTransaction(
            id: "2", original: "1", from: 300, until: 700, token: Purchase.customer, reason: "RENEWAL")
        let posted = Posted(
            transactions: [try rig.sign(mine), try rig.sign(yours)], appTransaction: try rig.signAppTransaction("705"))

        // What is recorded in one round is recorded in any order, and a conflict before the claim would be told once more.
        let customer = try #require(CustomerID.ofAppTransaction("705"))
        var work = SignatureWork()
        let posting = ReconcilePosting(
            try WireJSON.decode(ReconcileRequest.self, from: posted.body), app: ServiceRig.bundleID,
            environment: .production, with: rig.trust.statements, trust: DeviceTrustTable(), now: rig.clock.now,
            work: &work)
        let question = ReconcileDecision.question(posting, of: customer, credential: nil)
        let decision = ReconcileDecision(
            posting, of: customer, credential: nil, question,
            snapshot: try await rig.context.reader.snapshot(question), repeating: [])
        let drafts = decision.ownershipDrafts(reported: [:], abandoned: [])
        #expect(drafts.map(\.type) == ["claimed"])

        let head = try await rig.head()
        let first = try await rig.answer(customer.value, posted)
        #expect(first.verdicts == ["recorded", "conflict ownership_conflict"])
        let types = try await rig.eventTypes(after: head)
        #expect(types.suffix(2) == ["claimed", "ownership_conflict"], "\(types)")
        _ = try await rig.answer(customer.value, posted)
        #expect(try await rig.eventTypes(after: head) == types)
    }

    @Test("what was transferred is its new owner's; the old one may go on posting it, a third is in conflict")
    func transfers() async throws {
        let rig = try await ServiceRig.withCatalog()
        let posted = Posted(transactions: [try rig.sign(Self.nobodys)])
        _ = try await rig.answer("c-1", posted)
        let original = Self.nobodys.originalID
        try await rig.command(
            .transfer(TransferFact(originalTransactionID: original, customer: IdentityRef(0))), ["c-2"])
        // Commands are recorded a moment ago on the rig's clock.
        rig.clock.now = day(324)
        let old = try await rig.answer("c-1", posted)
        #expect(old.verdicts == ["known"] && old.finish == [original])
        #expect(old.entitlements.map(\.givesAccess) == [false])
        let new = try await rig.answer("c-2", posted)
        #expect(new.verdicts == ["known"] && new.finish == [original])
        #expect(new.entitlements.map(\.givesAccess) == [true])
        #expect(Self.isConflict(try await rig.answer("c-3", posted)))
        #expect(try await rig.eventTypes(after: 5) == ["ownership_conflict"])

        // What somebody claims from another owner is another conflict, and is reported once, too.
        try await rig.command(
            .transfer(TransferFact(originalTransactionID: original, customer: IdentityRef(0))), ["c-4"])
        rig.clock.now = day(325)
        for _ in 0..<2 { #expect(Self.isConflict(try await rig.answer("c-3", posted))) }
        #expect(try await rig.eventTypes(after: 7) == ["ownership_conflict"])
    }

    @Test("what was given to somebody before anybody claimed it cannot be claimed any more")
    func transferredUnclaimed() async throws {
        let rig = try await ServiceRig.withCatalog()
        try await rig.notify(Self.nobodys, uuid: "n1")
        try await rig.command(
            .transfer(TransferFact(originalTransactionID: Self.nobodys.originalID, customer: IdentityRef(0))), ["c-2"])
        rig.clock.now = day(324)
        let posted = Posted(transactions: [try rig.sign(Self.nobodys)])
        #expect(Self.isConflict(try await rig.answer("c-1", posted)))
        #expect(try await rig.answer("c-2", posted).entitlements.map(\.givesAccess) == [true])
        #expect(try await rig.eventTypes(after: 4) == ["ownership_conflict"])
    }

    @Test("a link makes the two one: no conflict between them, and old claims count for both names")
    func links() async throws {
        let rig = try await ServiceRig.withCatalog()
        let posted = Posted(transactions: [try rig.sign(Self.nobodys)])
        _ = try await rig.answer("guest", posted)
        #expect(Self.isConflict(try await rig.answer("c-1", posted)))
        try await rig.link("guest", to: "c-1")
        for name in ["guest", "c-1"] {
            let answer = try await rig.answer(name, posted)
            #expect(answer.verdicts == ["known"] && answer.entitlements.map(\.id) == ["lifetime"], "\(name)")
        }
        #expect(try await rig.head() == 6)
    }
}
