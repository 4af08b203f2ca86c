import Testing

@testable import StoreSimulator

@Suite("The store as devices see it")
struct SimulatedDevicesTests {
    private typealias Product = StoreWorld.ProductID
    private static let start = SimulatedCalendar.instant(2026, 3, 1)

    private func store(devices: Int = 1) throws -> SimulatedDevices {
        var store = try SimulatedDevices(
            authority: SimulatedAuthority(), world: .standard, seed: 7, now: Self.start)
        let account = store.addAccount()
        for _ in 0..<devices { _ = store.addDevice(account: account) }
        return store
    }

    @Test("a purchase is handed to the device that made it, told to the others, and unfinished on all")
    func purchase() throws {
        var store = try store(devices: 2)
        let (result, updates) = try store.purchase(Product.lifetime, token: nil, on: 0)
        guard case .success(let bought) = result else {
            Issue.record("\(result)")
            return
        }
        #expect(updates.map(\.device) == [1] && updates[0].statement == bought)
        for device in 0...1 {
            #expect(store.unfinishedIDs(on: device) == [bought.transactionID])
            #expect(try store.unfinishedTransactions(of: device) == [bought])
            #expect(try store.currentEntitlements(of: device) == [bought])
        }
        store.finish(bought.transactionID, on: 0)
        #expect(store.unfinishedIDs(on: 0).isEmpty && store.unfinishedIDs(on: 1) == [bought.transactionID])
        #expect(store.finishCalls.map(\.transactionID) == [bought.transactionID])
        // What is owned is not sold again.
        #expect(try store.purchase(Product.lifetime, token: nil, on: 1).result == .success(bought))
    }

    @Test("the record and the notifications tell of what devices bought")
    func record() throws {
        var store = try store()
        _ = try store.purchase(Product.proMonthly, token: nil, on: 0)
        let customer = CustomerKey(.production, "apple:\(store.appTransactionID(account: 0))")
        #expect(store.record.customer(customer).answer(at: Self.start).map(\.entitlement) == ["plus", "premium"])
        #expect(store.notifications.map(\.type) == ["SUBSCRIBED"])
        let linked = CustomerKey(.production, "c-1")
        let isLinked = store.link(account: 0, to: linked)
        #expect(isLinked)
        #expect(store.record.customer(linked).answer(at: Self.start).count == 2)
    }

    @Test("what a parent has to approve is nothing until then, and told to the asking device, too")
    func asking() throws {
        var store = try store()
        store.change(0) { $0.asksToBuy = true }
        for product in [Product.lifetime, Product.newsMonthly] {
            #expect(try store.purchase(product, token: nil, on: 0).result == .pending)
        }
        store.decline(store.requests[0])
        #expect(store.notifications.isEmpty)
        let updates = try store.approve(store.requests[0])
        #expect(updates.map(\.device) == [0] && store.requests.isEmpty)
        #expect(store.original(of: Product.newsMonthly, account: 0) != nil)
        #expect(store.original(of: Product.lifetime, account: 0) == nil)
    }

    @Test("a refund is news on every device: signed anew, unfinished again and owned no more")
    func refund() throws {
        var store = try store(devices: 2)
        guard case .success(let bought) = try store.purchase(Product.lifetime, token: nil, on: 0).result else { return }
        for device in 0...1 { store.finish(bought.transactionID, on: device) }
        store.now += Span.day
        let key = try #require(store.original(of: Product.lifetime, account: 0))
        let updates = try store.refund(key)
        #expect(updates.map(\.device) == [0, 1])
        #expect(updates.allSatisfy { $0.statement.transactionID == bought.transactionID })
        #expect(updates.allSatisfy { $0.statement.jws != bought.jws })
        #expect(try store.currentEntitlements(of: 0).isEmpty && store.isRefunded(key))
        #expect(store.unfinishedIDs(on: 1) == [bought.transactionID])
        _ = try store.reverseRefund(key)
        #expect(try store.currentEntitlements(of: 0).count == 1)
    }

    @Test("renewals follow the end of the period before, and lapse without one")
    func renewal() throws {
        var store = try store()
        _ = try store.purchase(Product.newsMonthly, token: nil, on: 0)
        let key = try #require(store.original(of: Product.newsMonthly, account: 0))
        store.now += 40 * Span.day
        #expect(store.hasRunOut(key))
        #expect(try store.currentEntitlements(of: 0).isEmpty)
        _ = try store.renew(key)
        #expect(!store.hasRunOut(key) && store.transactionIDs(of: key).count == 2)
        #expect(try store.currentEntitlements(of: 0).map(\.transactionID) == [store.transactionIDs(of: key)[1]])
        let statuses = try store.subscriptionStatuses(of: 0)
        #expect(statuses.map(\.transaction.transactionID) == [store.transactionIDs(of: key)[1]])
    }

    @Test("a history may leave out what is finished, never what is not, and a cold one everything")
    func history() throws {
        var store = try store()
        var bought: [DeviceStatement] = []
        for product in [Product.lifetime, Product.newsMonthly, Product.coins] {
            guard case .success(let one) = try store.purchase(product, token: nil, on: 0).result else { continue }
            bought.append(one)
        }
        store.change(0) { $0.omission = 100 }
        #expect(try store.allTransactions(of: 0) == bought)
        for one in bought.dropFirst() { store.finish(one.transactionID, on: 0) }
        #expect(try store.allTransactions(of: 0) == [bought[0]])
        store.change(0) { $0.omission = 0 }
        #expect(try store.allTransactions(of: 0) == Array(bought[...1]), "finished consumables are gone")
        store.change(0) { $0.readsNothing = true }
        #expect(try store.allTransactions(of: 0).isEmpty && store.currentEntitlements(of: 0).isEmpty)
        #expect(try store.unfinishedTransactions(of: 0).isEmpty && store.subscriptionStatuses(of: 0).isEmpty)
        #expect(try store.redelivery(to: 0) == [bought[0]], "it comes by itself all the same")
    }

    @Test("what nobody signed is shown as unverified, and a distrustful device believes nothing")
    func unverified() throws {
        var store = try store()
        let forged = try store.forge(Product.lifetime, on: 0)
        #expect(!forged.statement.isVerified && store.unfinishedIDs(on: 0).isEmpty)
        #expect(try store.currentEntitlements(of: 0) == [forged.statement])
        let customer = CustomerKey(.production, "apple:\(store.appTransactionID(account: 0))")
        #expect(store.record.customer(customer).timelines.isEmpty)
        store.change(0) { $0.distrustsAll = true }
        guard case .success(let bought) = try store.purchase(Product.coins, token: nil, on: 0).result else { return }
        #expect(!bought.isVerified)
        #expect(try store.appTransaction(of: 0)?.isVerified == false)
    }

    @Test("nothing is bought or proven while the store is away")
    func offline() throws {
        var store = try store()
        store.change(0) { $0.isOffline = true }
        #expect(try store.purchase(Product.coins, token: nil, on: 0).result == .offline)
        #expect(try store.appTransaction(of: 0) == nil && store.notifications.isEmpty)
    }

    @Test("equal seeds and deeds give the same store")
    func equalSeeds() throws {
        func ids() throws -> [String] {
            var store = try store()
            _ = try store.purchase(Product.proMonthly, token: nil, on: 0)
            _ = try store.purchase(Product.coins, token: nil, on: 0)
            return store.unfinishedIDs(on: 0)
        }
        #expect(try ids() == ids())
    }
}
