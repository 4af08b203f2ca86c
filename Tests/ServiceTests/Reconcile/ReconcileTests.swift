import EntitlementAPI
import EntitlementCore
import HTTPServer
import Ledger
import StoreSimulator
import Testing

@testable import Service

@Suite("Reconcile", .serialized, .timeLimit(.minutes(5)))
struct ReconcileTests {
    private static let token = Purchase.customer
    private static let path = "/v1/customers/\(token)"

    @Test("a purchase is an entitlement by its device's word alone; the same again is known and changes nothing")
    func newPurchase() async throws {
        let rig = try await ServiceRig.withCatalog(passKeys: PassKeyRing([ServiceRig.passKey()]))
        let held = HeldTransaction(token: Self.token.uppercased())
        let jws = try rig.sign(held)
        let first = try await rig.answer(Self.token, Posted(transactions: [jws]))
        #expect(first.verdicts == ["recorded"] && first.results.first?.transactionID == held.id)
        #expect(first.finish == [held.id] && first.position == 3 && first.customerID == Self.token)
        #expect(first.entitlements.map(\.id) == ["premium"] && first.entitlements.first?.givesAccess == true)
        #expect(first.catalog.position == 2 && first.catalog.catalog.product("com.example.pro.yearly") != nil)
        #expect(first.pass != nil && first.proof == .secretKey && first.drift.isEmpty)
        #expect(try await rig.eventTypes(after: 2) == ["device_report"])
        #expect(try await rig.entitlements(Self.token) == first.entitlements)
        #expect(try await rig.timeline(Self.token) == first.timeline)

        let again = try await rig.answer(Self.token, Posted(transactions: [jws]))
        #expect(again.verdicts == ["known"] && again.finish == first.finish && again.position == 3)
        #expect(again.entitlements == first.entitlements && again.timeline == first.timeline)
        // ES256 signatures differ each time; what is signed does not.
        let resigned = try rig.sign(held)
        #expect(resigned != jws)
        #expect(try await rig.answer(Self.token, Posted(transactions: [resigned])).verdicts == ["known"])
        #expect(try await rig.head() == 3)
    }

    @Test("the notification of what a device reported is one event more, and changes no answer; a later post is known")
    func notificationAfterwards() async throws {
        let rig = try await ServiceRig.withCatalog()
        let held = HeldTransaction(token: Self.token)
        let posted = Posted(transactions: [try rig.sign(held)])
        let before = try await rig.answer(Self.token, posted)
        try await rig.notify(held, uuid: "n1")
        #expect(try await rig.head() == 4)
        let after = try await rig.answer(Self.token, posted)
        #expect(after.verdicts == ["known"] && after.position == 4 && after.held == before.held)
        #expect(after.finish == before.finish)
        #expect(try await rig.head() == 4)
    }

    @Test("what a notification stated before is known, and needs no event")
    func notificationBefore() async throws {
        let rig = try await ServiceRig.withCatalog()
        let held = HeldTransaction(token: Self.token)
        let renewal = HeldRenewal()
        try await rig.notify(held, renewal, uuid: "n1")
        let answer = try await rig.answer(
            Self.token, Posted(transactions: [try rig.sign(held)], renewals: [try rig.sign(renewal)]))
        #expect(answer.verdicts == ["known"] && answer.finish == [held.id])
        #expect(answer.renewalResults.map(\.status) == [.known])
        #expect(answer.position == 3 && answer.entitlements.first?.willRenew == true)
        #expect(try await rig.head() == 3)
    }

    @Test("an older statement than the known one is known; without signed date too")
    func olderStatement() async throws {
        let rig = try await ServiceRig.withCatalog()
        let held = HeldTransaction(signed: 10, token: Self.token)
        _ = try await rig.answer(Self.token, Posted(transactions: [try rig.sign(held)]))
        var undated = try #require(held.payload.members)
        undated["signedDate"] = nil
        let older = try rig.sign(held.with { $0.signed = 5 })
        let answer = try await rig.answer(
            Self.token, Posted(transactions: [older, try rig.store.sign(.object(undated))]))
        #expect(answer.verdicts == ["known", "known"] && answer.finish == [held.id])
        #expect(try await rig.head() == 3)
    }

    @Test("each transaction with news is an event found by its id; all advances of an original's dates are one")
    func coalescing() async throws {
        let rig = try await ServiceRig.withCatalog()
        var periods: [HeldTransaction] = []
        for number in 0..<30 {
            let start = Double(number * 10)
            periods.append(
                HeldTransaction(
                    id: "\(2_000_000 + number)", original: "2000000", product: "com.example.pro.monthly", from: start,
                    until: start + 10, signed: start, token: Self.token, reason: number == 0 ? "PURCHASE" : "RENEWAL"))
        }
        let first = try await rig.answer(Self.token, Posted(transactions: try periods.map { try rig.sign($0) }))
        #expect(first.verdicts == Array(repeating: "recorded", count: 30) && first.finish == periods.map(\.id))
        #expect(try await rig.eventTypes(after: 2) == Array(repeating: "device_report", count: 30))
        for period in periods {
            let found = try await rig.get("/v1/customers?transaction_id=\(period.id)")
            #expect(found.text.contains(Self.token), "\(period.id): \(found.text)")
        }
        let resigned = try periods.map { period in try rig.sign(period.with { $0.signed = 301 }) }
        let advanced = try await rig.answer(Self.token, Posted(transactions: resigned))
        #expect(advanced.verdicts == Array(repeating: "recorded", count: 30))
        #expect(advanced.held == first.held && advanced.finish == first.finish)
        #expect(try await rig.head() == 33, "one event for all that only moves dates")
        let again = try await rig.answer(Self.token, Posted(transactions: resigned.reversed()))
        #expect(again.verdicts == Array(repeating: "known", count: 30))
        #expect(try await rig.head() == 33)
        // The first signing comes again from a device that slept: nothing new.
        _ = try await rig.answer(Self.token, Posted(transactions: try periods.map { try rig.sign($0) }))
        #expect(try await rig.head() == 33)
        guard case .array(let events) = try await rig.get("/v1/events?after=32").json["items"] else {
            throw TestFailure("no events")
        }
        #expect(events.first?["occurred_at"] == .string("\(day(301))"))
        #expect(events.first?["source"] == .string("device"))
    }

    @Test("advances of two originals are two events; an advance beside news is apart from it")
    func coalescingByOriginal() async throws {
        let rig = try await ServiceRig.withCatalog()
        let one = HeldTransaction(id: "1", token: Self.token)
        let two = HeldTransaction.lifetime("2", token: Self.token)
        _ = try await rig.answer(Self.token, Posted(transactions: [rig.sign(one), rig.sign(two)]))
        #expect(try await rig.head() == 4)
        let later = [one, two].map { $0.with { $0.signed = 20 } }
        let fresh = HeldTransaction(id: "3", original: "1", from: 365, until: 730, signed: 20, token: Self.token)
        let answer = try await rig.answer(
            Self.token, Posted(transactions: try (later + [fresh, fresh]).map { try rig.sign($0) }))
        #expect(answer.verdicts == ["recorded", "recorded", "recorded", "recorded"])
        #expect(answer.finish == ["1", "2", "3"], "each once")
        #expect(try await rig.head() == 7)
    }

    @Test("beside its transaction renewal information counts: whether it renews, and grace")
    func renewalInformation() async throws {
        let rig = try await ServiceRig.withCatalog()
        let held = HeldTransaction(until: 320, token: Self.token)
        let off = try rig.sign(HeldRenewal(signed: 1, renews: false))
        let jws = try rig.sign(held)
        let first = try await rig.answer(Self.token, Posted(transactions: [jws], renewals: [off]))
        #expect(first.renewalResults.map(\.status) == [.recorded])
        #expect(first.renewalResults.first?.originalTransactionID == held.id)
        #expect(try await rig.head() == 3, "one event holds both")
        #expect(first.entitlements.first?.state == .expired)
        let grace = try rig.sign(HeldRenewal(signed: 320.1, retry: true, graceEnd: 336))
        let second = try await rig.answer(Self.token, Posted(transactions: [jws], renewals: [grace, off]))
        #expect(second.renewalResults.map(\.status) == [.recorded, .known] && second.verdicts == ["known"])
        #expect(second.entitlements.first?.state == .inGracePeriod)
        #expect(second.entitlements.first?.until == day(336) && second.entitlements.first?.willRenew == true)
        #expect(try await rig.entitlements(Self.token) == second.entitlements)
        #expect(try await rig.head() == 4)
    }

    @Test("renewal information alone, or beside another original, or another environment's, is refused")
    func loneRenewal() async throws {
        let rig = try await ServiceRig.withCatalog()
        let jws = try rig.sign(HeldTransaction(token: Self.token))
        let forged = try rig.sign(HeldTransaction(id: "9")).dropLast(8) + "AAAAAAAA"
        let table: [(transactions: [String], renewal: HeldRenewal, code: String?)] = [
            ([], HeldRenewal(), "inconsistent_payload"),
            ([jws], HeldRenewal(original: "7"), "inconsistent_payload"),
            ([jws, String(forged)], HeldRenewal(original: "9"), "inconsistent_payload"),
            ([jws], HeldRenewal(environment: "Sandbox"), "wrong_environment"),
            ([jws], HeldRenewal(environment: "Xcode"), "wrong_environment"),
            ([jws], HeldRenewal(), nil),
        ]
        for row in table {
            let answer = try await rig.answer(
                Self.token, Posted(transactions: row.transactions, renewals: [rig.sign(row.renewal)]))
            #expect(answer.renewalResults.first?.code == row.code, "\(row.renewal)")
            #expect(answer.renewalResults.first?.status == (row.code == nil ? .recorded : .refused), "\(row.renewal)")
        }
        #expect(try await rig.head() == 4)
    }

    @Test("a revocation that a device reports ends access at once, and its reversal restores it")
    func revocation() async throws {
        let rig = try await ServiceRig.withCatalog()
        let held = HeldTransaction(token: Self.token)
        let revoked = held.with { ($0.signed, $0.revoked) = (100, 99) }
        let restored = held.with { $0.signed = 200 }
        let states = [(held, "active"), (revoked, "revoked"), (held, "revoked"), (restored, "active")]
        for (index, (statement, state)) in states.enumerated() {
            let answer = try await rig.answer(Self.token, Posted(transactions: [rig.sign(statement)]))
            #expect(answer.entitlements.first?.state.rawValue == state, "\(index)")
            #expect(answer.finish == [held.id])
        }
        #expect(try await rig.head() == 5)
        // What was believed before the reversal is still believed as of then.
        #expect(try await rig.entitlements(Self.token, "?known_at=4").first?.state == .revoked)
    }

    @Test("of what gives nothing here the device is told to finish it, whoever's it is")
    func finishing() async throws {
        let rig = try await ServiceRig.withCatalog()
        let coins = HeldTransaction(id: "1", product: "com.example.coins", kind: "Consumable", until: nil)
        let strange = coins.with { ($0.id, $0.product) = ("2", "com.example.unheard") }
        let pro = HeldTransaction(id: "3")
        let publishable = try await rig.publishableKey()
        let posted = Posted(transactions: try [coins, strange, pro].map { try rig.sign($0) })
        let unproven = try await rig.answer("c-1", posted, key: publishable)
        // A product missing from the catalog may be a mistake of the catalog's: what is paid for must not be lost.
        #expect(unproven.finish == ["1"] && unproven.verdicts == ["recorded", "recorded", "recorded"])
        let proven = try await rig.answer("c-1", posted)
        #expect(proven.finish == ["1", "2", "3"] && proven.verdicts == ["recorded", "recorded", "recorded"])
        let rival = try await rig.answer("c-2", posted)
        #expect(rival.finish == ["1"])
    }
}

extension PayloadValue {
    var members: [String: PayloadValue]? { if case .object(let members) = self { members } else { nil } }
}
