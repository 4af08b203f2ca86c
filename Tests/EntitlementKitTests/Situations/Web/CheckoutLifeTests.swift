import EntitlementAPI
import EntitlementCore
import Foundation
import Testing

@testable import EntitlementKit

@Suite("Kit, situations: what becomes of a page in the end", .timeLimit(.minutes(1)))
struct CheckoutLifeTests {
    /// A device on which a page was opened and left, and the page's id.
    private func opened(
        _ how: CheckoutReturn = .left, _ edit: (inout EntitlementConfiguration) -> Void = { _ in },
        before prepare: (KitRig) async -> Void = { _ in }
    ) async throws -> (KitRig, String) {
        let payer = Payer { _ in how }
        let rig = KitRig.web(payer, configuration: edit)
        await prepare(rig)
        let report = await rig.buy("monthly", via: .web, payer)
        #expect(report.outcome == (how == .cancelled ? .userCancelled : .pending))
        return (rig, try #require(rig.server.lastPage))
    }

    @Test("the server is asked ever more rarely, for a quarter of an hour, then each quarter, for a day")
    func pace() {
        var (watch, total, count) = (CheckoutWatch(), Int64(0), 0)
        while let delay = watch.next(isExpected: true) {
            total += delay
            count += 1
        }
        #expect(count == 108 && total == 901_000 + 96 * 900_000)
        var short = CheckoutWatch()
        var delays: [Int64] = []
        while let delay = short.next(isExpected: false) { delays.append(delay) }
        #expect(delays == CheckoutWatch.delays && delays.reduce(0, +) == 901_000)
    }

    @Test(
        "a payment of which the server hears hours later appears without anybody's doing", arguments: [0.01, 0.1, 0.9])
    func lateMessage(_ days: Double) async throws {
        let (rig, id) = try await opened(.completed)
        rig.server.pay(id)
        rig.clock.advance(days: days)
        rig.server.hear(id)
        // The longest pause between two questions.
        let begun = rig.clock.uptime()
        while !(await rig.gives()), rig.clock.uptime() - begun < .seconds(1200) {
            rig.clock.advance(.seconds(30))
            await rig.caughtUp()
        }
        #expect(rig.clock.uptime() - begun < .seconds(1200))
    }

    @Test("nothing is asked any more once there is nothing to wait for")
    func quiet() async throws {
        let (rig, id) = try await opened(.completed)
        rig.server.pay(id)
        rig.server.hear(id)
        await whileTimePasses(on: rig.clock) { await rig.waitUntilGives() }
        await rig.store.settled()
        #expect(await rig.store.checkouts.all.map(\.state) == [.seen])
        // A question that was due already is the last one.
        rig.clock.advance(.seconds(600))
        await rig.caughtUp()
        let asked = rig.server.received.count
        rig.clock.advance(.seconds(1200))
        await rig.caughtUp()
        #expect(await rig.store.checkoutTimer == nil)
        #expect(rig.server.received.count == asked)
    }

    @Test("whoever comes back to the app is looked after at once, however often it comes to the front")
    func foreground() async throws {
        let (rig, id) = try await opened()
        rig.clock.advance(days: 0.5)
        await rig.store.applicationWillEnterForeground()
        await rig.store.settled()
        rig.server.pay(id)
        rig.server.hear(id)
        await rig.store.applicationWillEnterForeground()
        await rig.store.settled()
        await rig.waitUntilGives()
    }

    @Test("bought on one device, owned on the other")
    func twoDevices() async throws {
        let (rig, id) = try await opened(.completed)
        rig.server.pay(id)
        rig.server.hear(id)
        let payer = Payer()
        let other = EntitlementStore(
            configuration: rig.configuration, store: rig.device, server: rig.server,
            storage: InMemoryEntitlementStorage(), clock: rig.clock)
        for channel in [PurchaseChannel.web, .webFirst, .storeKit] {
            guard case .failed(let error) = await other.purchase("monthly", via: channel).outcome else {
                Issue.record("it was sold twice")
                return
            }
            #expect(error.reason == .alreadyOwned)
        }
        #expect(await payer.pages.isEmpty && rig.device.state.purchases.isEmpty)
        await other.stop()
    }

    @Test("who logs in between page and return takes it along; who logs in after them hears nothing of it")
    func login() async throws {
        let (rig, id) = try await opened()
        rig.server.edit { script in
            let (account, login) = (script.number(of: "apple:A"), script.number(of: "c-1"))
            script.ownership.apply(
                .link(LinkFact(identity: account, customer: login, cause: .login)), position: 2,
                recordedAt: .earliest)
        }
        await rig.store.identify(customerID: "c-1", token: "t1")
        #expect(await rig.store.unfinishedCheckouts().map(\.id) == [id])
        guard case .failed(let error) = await rig.store.purchase("monthly") else {
            Issue.record("it was sold twice")
            return
        }
        #expect(error.reason == .checkoutUnfinished)
        await rig.store.identify(customerID: "c-2", token: "t2")
        #expect(await rig.store.unfinishedCheckouts().isEmpty)
        rig.server.pay(id)
        rig.server.hear(id)
        _ = await rig.store.refresh()
        #expect(!(await rig.gives()))
        await rig.store.identify(customerID: "c-1", token: "t1")
        await whileTimePasses(on: rig.clock) { await rig.waitUntilGives() }
        #expect(await rig.store.unfinishedCheckouts().isEmpty)
    }

    @Test("begun after a login, it waits for that customer alone, and goes on when they are back")
    func logout() async throws {
        let (rig, id) = try await opened { _ in
        } before: {
            await $0.store.identify(customerID: "c-1", token: "t1")
        }
        await rig.store.signOut()
        #expect(await rig.store.unfinishedCheckouts().isEmpty)
        rig.server.pay(id)
        rig.server.hear(id)
        _ = await rig.store.refresh()
        #expect(!(await rig.gives()))
        await rig.store.identify(customerID: "c-1", token: "t1")
        await whileTimePasses(on: rig.clock) { await rig.waitUntilGives() }
    }

    @Test("a server that was restored from a backup has forgotten the purchase: it is waited for, and not sold twice")
    func restored() async throws {
        let (rig, id) = try await opened(.completed)
        let backup = rig.server.state
        rig.server.pay(id)
        rig.server.hear(id)
        await whileTimePasses(on: rig.clock) { await rig.waitUntilGives() }
        rig.server.edit {
            let shop = $0.shop
            $0 = backup
            $0.shop = shop
            $0.position += 5
        }
        _ = await rig.store.refresh()
        #expect(await rig.store.unfinishedCheckouts().map(\.id) == [id])
        for channel in [PurchaseChannel.webFirst, .storeKit] {
            guard case .failed(let error) = await rig.store.purchase("monthly", via: channel).outcome else {
                Issue.record("it was sold twice")
                return
            }
            #expect(error.reason == .checkoutUnfinished)
        }
        rig.server.hear(id)
        await whileTimePasses(on: rig.clock) { await rig.waitUntilGives() }
        #expect(await rig.store.unfinishedCheckouts().isEmpty)
    }

    @Test("a refund ends what a page sold, and it can be bought again")
    func refund() async throws {
        let (rig, id) = try await opened(.completed)
        rig.server.pay(id)
        rig.server.hear(id)
        await whileTimePasses(on: rig.clock) { await rig.waitUntilGives() }
        rig.clock.advance(days: 1)
        rig.server.refund(id)
        _ = await rig.store.refresh()
        #expect(await rig.store.current["premium"]?.state == .revoked)
        rig.device.edit { $0.purchase = .success(.success(Statements.transaction("1", from: 2))) }
        #expect(await rig.store.purchase("monthly").purchase != nil)
    }

    @Test("a clock that is set forward by mistake, or back, lets nobody pay twice", arguments: [400.0, -400])
    func clock(_ days: Double) async throws {
        let (first, id) = try await opened()
        var rig = first
        rig.server.edit { $0.mood = .unreachable }
        rig = await rig.relaunched()
        rig.clock.set(day: 1 + days)
        await rig.launch()
        guard case .failed(let error) = await rig.store.purchase("monthly") else {
            Issue.record("it was sold twice")
            return
        }
        #expect(error.reason == .checkoutUnfinished)
        rig.clock.set(day: 1)
        rig.server.edit { $0.mood = .answers }
        rig.server.pay(id)
        rig.server.hear(id)
        await rig.store.applicationWillEnterForeground()
        await whileTimePasses(on: rig.clock) { await rig.waitUntilGives() }
    }

    @Test("an answer without facts tells what was sold, too")
    func withoutFacts() async throws {
        let (rig, id) = try await opened(.completed)
        rig.server.edit { $0.tellsFacts = false }
        rig.server.pay(id)
        rig.server.hear(id)
        await whileTimePasses(on: rig.clock) { await rig.waitUntilGives() }
        #expect(await rig.store.unfinishedCheckouts().isEmpty)
        guard case .failed(let error) = await rig.store.purchase("monthly") else {
            Issue.record("it was sold twice")
            return
        }
        #expect(error.reason == .alreadyOwned)
    }

    @Test("what another process of the app has begun is known after the next look at the disk")
    func twoProcesses() async throws {
        let payer = Payer { _ in .left }
        let rig = KitRig.web(payer)
        await rig.launch()
        let other = rig.another()
        await other.launch()
        _ = await rig.buy("monthly", via: .web, payer)
        _ = await whileTimePasses(on: rig.clock) { await other.store.refresh() }
        #expect(await other.store.unfinishedCheckouts().count == 1)
        #expect(await other.store.abandonCheckout(of: "monthly"))
        _ = await whileTimePasses(on: rig.clock) { await rig.store.refresh() }
        #expect(await rig.store.unfinishedCheckouts().isEmpty)
        await other.store.stop()
    }

    @Test("what was kept is read row by row, and what is damaged is set aside")
    func disk() async throws {
        let (first, id) = try await opened()
        var rig = first
        await rig.store.settled()
        let kept = try #require(await rig.storage.files["checkouts.json"])
        var file = try #require(try JSONSerialization.jsonObject(with: kept) as? [String: Any])
        file["checkouts"] = [3, ["id": 4]] + (file["checkouts"] as? [Any] ?? [])
        file["pending"] = ["x"]
        await rig.storage.put(try JSONSerialization.data(withJSONObject: file), as: "checkouts.json")
        rig = await rig.relaunched()
        await rig.launch()
        #expect(await rig.store.unfinishedCheckouts().map(\.id) == [id])
        await rig.store.stop()
        await rig.storage.damage("checkouts.json")
        rig = rig.another()
        await rig.launch()
        #expect(await rig.storage.aside == ["checkouts.json"])
        #expect(await rig.store.unfinishedCheckouts().isEmpty)
    }
}
