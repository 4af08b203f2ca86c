import EntitlementAPI
import EntitlementCore
import Foundation
import Testing

@testable import EntitlementKit

@Suite("Kit, situations: a purchase that the server says is somebody else's", .timeLimit(.minutes(1)))
struct ConflictTests {
    private func login(_ purchase: SignedStatement, as customer: String = "c-1") async -> KitRig {
        let rig = KitRig { $0.current = [purchase] }
        await rig.launch()
        let events = Collected(rig.store.syncEvents)
        await eventually("listening") { await rig.store.syncListenerCount == 1 }
        await rig.store.identify(customerID: customer, token: "t")
        await eventually("a conflict") { await events.kinds.contains(.conflict) }
        await rig.store.settled()
        return rig
    }

    private static let instant = Timestamp(milliseconds: Statements.start)

    @Test("what was bought here before a login stays until the server explains why not, also after a restart")
    func unexplained() async {
        var rig = await login(Statements.transaction("1"))
        #expect(await rig.gives())
        #expect(await rig.store.current.isLive)
        rig.server.edit { $0.mood = .unreachable }
        rig = await rig.relaunched(device: ScriptedStore())
        await rig.launch()
        #expect(await rig.gives())
        // Nothing is finished that the server did not list.
        rig.server.edit { $0.mood = .answers }
        rig.device.push(Statements.transaction("2", original: "1", from: 0.5, until: 31, renewal: true))
        _ = await rig.store.refresh()
        await rig.store.settled()
        #expect(rig.device.state.finished.isEmpty)
    }

    @Test("it ends when the app's own purchase is linked to another customer")
    func linkedToAnother() async {
        let rig = await login(Statements.transaction("1"))
        rig.server.edit { script in
            script.numbers["c-2"] = 70
            script.position += 1
            script.ownership.apply(
                .link(LinkFact(identity: IdentityRef(script.numbers["apple:A"] ?? 0), customer: IdentityRef(70))),
                position: script.position, recordedAt: Self.instant)
        }
        #expect(await !rig.store.refresh().givesAccess(to: "premium"))
    }

    @Test(
        "it ends when the server gives a reason, and not because nobody linked the two",
        arguments: [("transferred", false), ("link_undone", false), ("a_later_word", false), ("not_linked", true)])
    func reason(_ word: String, gives: Bool) async {
        let rig = await login(Statements.transaction("1"))
        rig.server.edit {
            $0.translate = { answer in
                guard case .object(var members) = answer else { return answer }
                members["results"] = .array(
                    answer["results"]?.entries.map { row in
                        guard case .object(var row) = row else { return row }
                        row["reason"] = .string(word)
                        return .object(row)
                    } ?? [])
                return .object(members)
            }
        }
        // The server is asked about it again, as what it says has changed.
        rig.device.push(Statements.transaction("1", from: 0, until: 31, signed: 1))
        if !gives { await rig.waitUntilGives(false) }
        await rig.store.settled()
        #expect(await rig.gives() == gives)
    }

    @Test(
        "what somebody logged in buys with another Apple account is theirs here until the server says whose it is",
        arguments: [("another_apple_account", true), ("linked_to_another", false)])
    func boughtWhileLoggedIn(_ reason: String, gives: Bool) async {
        let purchase = Statements.transaction("1", app: "B")
        var rig = KitRig {
            $0.purchase = .success(.success(purchase))
        } server: {
            $0.translate = { answer in
                guard case .object(var members) = answer else { return answer }
                let rows = answer["results"]?.entries.map { row -> WireValue in
                    guard case .object(var row) = row else { return row }
                    row["reason"] = .string(reason)
                    return .object(row)
                }
                members["results"] = .array(rows ?? [])
                return .object(members)
            }
        }
        await rig.launch()
        let events = Collected(rig.store.syncEvents)
        await eventually("listening") { await rig.store.syncListenerCount == 1 }
        await rig.store.identify(customerID: "c-1", token: "t")
        await rig.store.settled()
        #expect(await rig.store.purchase("monthly").purchase?.entitlements.givesAccess(to: "premium") == true)
        await eventually("a conflict") { await events.kinds.contains(.conflict) }
        await rig.store.settled()
        #expect(await rig.gives() == gives)
        rig.device.edit { $0.current = [purchase] }
        rig = await rig.relaunched()
        await rig.launch()
        #expect(await rig.store.refresh().givesAccess(to: "premium") == gives)
        // It is nobody else's.
        await rig.store.identify(customerID: "c-2", token: "t")
        await rig.store.settled()
        #expect(await !rig.gives())
    }

    @Test(
        "a purchase made with another Apple account than the one that downloaded the app is the customer's, and finished"
    )
    func anotherAppleAccount() async throws {
        var rig = KitRig {
            $0.purchase = .success(.success(Statements.transaction("2", app: "B")))
            $0.current = [Statements.transaction("1", product: "lifetime", until: nil)]
        }
        await rig.launch()
        let events = Collected(rig.store.syncEvents)
        await eventually("listening") { await rig.store.syncListenerCount == 1 }
        #expect(await rig.store.current.customerID == "apple:A")
        #expect(await rig.store.purchase("monthly").purchase?.entitlements.givesAccess(to: "premium") == true)
        await eventually("finished") { rig.device.state.finished.contains("2") }
        rig.device.edit { $0.current.append(Statements.transaction("2", app: "B")) }
        await rig.store.settled()
        let state = await rig.store.current
        #expect(state.givesAccess(to: "premium") && state.givesAccess(to: "forever") && state.isLive)
        #expect(state.customerID == "apple:A")
        #expect(await rig.store.history().map(\.transactionID).sorted() == ["1", "2"])
        // It contradicts nobody: it is posted for the account that bought it, once, and is no claim of the other's.
        #expect(await !events.kinds.contains(.conflict))
        let posts = rig.server.received.filter { !$0.request.signedTransactions.isEmpty }
        #expect(Set(posts.map(\.customerID)) == ["apple:A", "apple:B"])
        _ = await rig.store.refresh()
        await rig.store.settled()
        let last = try #require(rig.server.received.last)
        #expect(last.customerID == "apple:A" && last.request.claims.map(\.productID) == ["lifetime"])
        #expect(rig.server.received.count { $0.customerID == "apple:B" } == 1)
        // A refund of it ends it, by the same way.
        rig = await rig.relaunched()
        await rig.launch()
        #expect(await rig.gives())
        rig.device.push(Statements.transaction("2", revoked: 0.5, signed: 0.6, app: "B"))
        await rig.waitUntilGives(false)
        await rig.store.settled()
        #expect(rig.server.received.count { $0.customerID == "apple:B" } == 2)
    }

    @Test(
        "it is shown as long as the store shows that account's purchases, or shows nothing; and comes back with them")
    func anotherAppleAccountLeaves() async {
        let (own, bought) = (
            Statements.transaction("1", product: "lifetime", until: nil), Statements.transaction("2", app: "B")
        )
        var rig = KitRig {
            $0.purchase = .success(.success(bought))
            $0.current = [own]
        }
        await rig.launch()
        // The store's lists hang, and show only what they were asked before: what was just bought is given all the same.
        let door = Door()
        rig.device.edit { $0.doors[.currentEntitlements] = door }
        let (store, clock) = (rig.store, rig.clock)
        async let refreshed = whileTimePasses(on: clock) { await store.refresh() }
        await eventually("the list") { await door.visitors > 0 }
        #expect(await rig.store.purchase("monthly").purchase?.entitlements.givesAccess(to: "premium") == true)
        await door.open()
        rig.device.edit { $0.doors = [:] }
        _ = await refreshed
        await rig.store.settled()
        #expect(await rig.gives())
        // A store that is not ready lists nothing.
        for nothing in [true, false] {
            rig.device.edit { $0.current = nothing ? [] : [bought] }
            rig = await rig.relaunched()
            await rig.launch()
            await rig.store.refresh()
            #expect(await rig.gives())
        }
        // It is signed in to its own account again.
        rig.device.edit { $0.current = [own] }
        await rig.store.refresh()
        await rig.store.settled()
        #expect(await !rig.gives())
        #expect(await rig.gives("forever"))
        #expect(await rig.store.current.all.map(\.id) == ["forever"])
        #expect(await rig.store.history().map(\.transactionID) == ["1"])
        rig.server.edit { $0.mood = .unreachable }
        rig = await rig.relaunched()
        await rig.launch()
        #expect(await !rig.gives())
        rig.device.edit { $0.current = [bought] }
        await rig.store.refresh()
        #expect(await rig.gives())
    }

    @Test("what bears another's account token, or was bought with another copy of the app, is not shown")
    func anothers() async {
        let token = UUID(uuidString: "C0FFEE00-0000-4000-8000-000000000002")
        for purchase in [Statements.transaction("1", token: token), Statements.transaction("1", app: "B")] {
            let rig = await login(purchase)
            #expect(await !rig.gives())
        }
    }
}
