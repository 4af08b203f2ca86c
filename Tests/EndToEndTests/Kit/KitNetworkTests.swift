import EntitlementKit
import Foundation
import StoreSimulator
import Testing

/// What the network, other devices and the store's own gaps do to an app.
@Suite("Kit end to end: several devices, and outages of the server", .serialized, .timeLimit(.minutes(2)))
struct KitNetworkTests {
    private typealias Product = StoreWorld.ProductID

    @Test(
        "a purchase made while the server is away gives access at once, and is finished when the server holds it",
        arguments: [
            KitProxy.Weather.down, .refusing(status: 500, retryAfter: nil), .refusing(status: 429, retryAfter: 2),
            .answerLost,
        ])
    func serverAway(weather: KitProxy.Weather) async throws {
        try await KitRig.race("\(weather)") { rig in
            let device = rig.device()
            device.proxy.weather = weather
            let kit = await device.launch()
            guard case .success(let purchase) = await kit.purchase(Product.proMonthly) else {
                Issue.record("\(weather): the purchase failed")
                return
            }
            #expect(purchase.entitlements.givesAccess(to: "premium"))
            #expect(await !kit.refresh().isLive)
            #expect(rig.store.finishCount(purchase.transactionID, on: device.number) == 0)
            // The app is closed before the server comes back: all that is left is the disk and the store.
            device.proxy.weather = .fair
            await device.launch()
            let state = await device.live("premium", gives: true)
            await rig.store.waitForFinish(purchase.transactionID, on: device.number)
            try await rig.deliver()
            try await rig.expectServer(rig.customer(device))
            try rig.expectDevice(device, state, as: rig.customer(device))
        }
    }

    @Test("when the server comes back, what waited is sent without a launch")
    func serverReturns() async throws {
        try await KitRig.race("the server returns") { rig in
            let device = rig.device()
            device.proxy.weather = .down
            let kit = await device.launch()
            _ = await kit.purchase(Product.lifetime)
            let bought = try rig.id(Product.lifetime, device)
            #expect(rig.store.finishCount(bought, on: device.number) == 0)
            device.proxy.weather = .fair
            await kit.networkDidReturn()
            await rig.store.waitForFinish(bought, on: device.number)
            await device.live("premium", gives: true)
            #expect(rig.store.finishCount(bought, on: device.number) == 1)
        }
    }

    @Test("a retry comes by itself once its time has come")
    func retries() async throws {
        try await KitRig.race("the retry") { rig in
            let device = rig.device()
            device.proxy.weather = .refusing(status: 503, retryAfter: 7)
            let kit = await device.launch()
            _ = await kit.purchase(Product.lifetime)
            _ = await kit.refresh()
            let bought = try rig.id(Product.lifetime, device)
            device.proxy.weather = .fair
            let (clock, store, number) = (rig.service.clock, rig.store, device.number)
            await withTaskGroup(of: Void.self) { group in
                group.addTask { await clock.keepWaking(within: 2 * Span.hour) }
                group.addTask { await store.waitForFinish(bought, on: number) }
                await group.next()
                group.cancelAll()
            }
            #expect(rig.store.finishCount(bought, on: device.number) == 1)
        }
    }

    @Test("while a grant cannot be recorded nothing is finished, however often the app is launched")
    func grantFails() async throws {
        try await KitRig.race("the grant fails") { rig in
            let device = rig.device()
            device.proxy.weather = .refusing(status: 503, retryAfter: 1)
            let account = rig.account(device)
            try rig.store.perform { try $0.redeem(Product.lifetime, account: account) }
            for _ in 0..<4 {
                let kit = await device.launch()
                #expect(await kit.refresh().givesAccess(to: "premium"))
                _ = await kit.restoreEntitlements()
            }
            #expect(rig.store.with { $0.finishCalls.isEmpty })
            device.proxy.weather = .fair
            let kit = await device.launch()
            _ = await kit.refresh()
            await rig.store.waitForFinish(try rig.id(Product.lifetime, device), on: device.number)
        }
    }

    @Test("a history that loses what was finished, or a store that reads empty, takes nothing away")
    func lostHistory() async throws {
        try await KitRig.race("the lost history") { rig in
            let device = rig.device()
            var kit = await device.launch()
            _ = await kit.purchase(Product.lifetime)
            _ = await kit.purchase(Product.newsMonthly)
            for product in [Product.lifetime, Product.newsMonthly] {
                await rig.store.waitForFinish(try rig.id(product, device), on: device.number)
            }
            for isEmpty in [false, true] {
                rig.store.with { store in
                    store.change(device.number) {
                        $0.omission = 100
                        $0.readsNothing = isEmpty
                    }
                }
                for weather in [KitProxy.Weather.down, .fair] {
                    device.proxy.weather = weather
                    kit = await device.launch()
                    let state = await kit.refresh()
                    #expect(state.givesAccess(to: "premium"), "\(isEmpty) \(weather): \(state)")
                    #expect(state.givesAccess(to: "news"), "\(isEmpty) \(weather): \(state)")
                }
            }
            // Even the disk may be gone: the server knows.
            await device.wipe()
            kit = await device.launch()
            try rig.expectDevice(device, await kit.refresh(), as: rig.customer(device))
        }
    }

    @Test("a renewal that another device saw is access on this one, too")
    func renewedElsewhere() async throws {
        try await KitRig.race("renewed elsewhere") { rig in
            let first = rig.device()
            let second = rig.device(account: rig.account(first))
            let kit = await first.launch()
            _ = await kit.purchase(Product.newsMonthly)
            await second.launch()
            await second.live("news", gives: true)
            await second.kill()
            rig.service.clock.advance(by: 32 * Span.day)
            let lapsed = await kit.refresh()
            #expect(!lapsed.givesAccess(to: "news"), "\(lapsed)")
            let key = try rig.original(Product.newsMonthly, first)
            try rig.store.perform { try $0.renew(key) }
            await first.live("news", gives: true)
            // The second device's store shows nothing; the first one's report is in the log.
            rig.store.with { $0.change(second.number) { $0.readsNothing = true } }
            let state = await second.launch().refresh()
            #expect(state.givesAccess(to: "news"), "\(state)")
            try await rig.deliver()
            for device in [first, second] {
                try rig.expectDevice(device, await device.kit.refresh(), as: rig.customer(first))
            }
        }
    }

    @Test("a refund that the store tells while the server is away ends access there and then, and for good")
    func refundedOffline() async throws {
        try await KitRig.race("refunded offline") { rig in
            let device = rig.device()
            var kit = await device.launch()
            _ = await kit.purchase(Product.lifetime)
            await device.live("premium", gives: true)
            device.proxy.weather = .down
            let key = try rig.original(Product.lifetime, device)
            rig.service.clock.advance(by: Span.hour)
            try rig.store.perform { try $0.refund(key) }
            _ = await device.state { !$0.givesAccess(to: "premium") && !$0.isLive }
            kit = await device.launch()
            #expect(await !kit.refresh().givesAccess(to: "premium"))
            device.proxy.weather = .fair
            kit = await device.launch()
            try rig.expectDevice(device, await kit.refresh(), as: rig.customer(device))
            try await rig.deliver()
            try await rig.expectServer(rig.customer(device))
        }
    }

    @Test("two devices of one person without an account hold the same")
    func twoDevices() async throws {
        try await KitRig.race("two devices") { rig in
            let first = rig.device()
            let second = rig.device(account: rig.account(first))
            await second.launch()
            _ = await second.kit.refresh()
            let kit = await first.launch()
            guard case .success(let purchase) = await kit.purchase(Product.proYearly) else {
                Issue.record("the purchase failed")
                return
            }
            let heard = await second.live("premium", gives: true)
            for device in [first, second] {
                await rig.store.waitForFinish(purchase.transactionID, on: device.number)
            }
            try rig.expectDevice(second, heard, as: rig.customer(first))
            try rig.expectDevice(first, await kit.refresh(), as: rig.customer(first))
        }
    }

    @Test("who logs in after the purchase keeps it, once the app's server has linked the two")
    func loginAfterPurchase() async throws {
        try await KitRig.race("login after purchase") { rig in
            let device = rig.device()
            let kit = await device.launch()
            _ = await kit.purchase(Product.lifetime)
            await device.live("premium", gives: true)
            // What the device shows it may know from its own store alone; others see what the server has recorded.
            await rig.store.waitForFinish(try rig.id(Product.lifetime, device), on: device.number)
            try await rig.service.link(appTransactionID: rig.appTransactionID(device), to: "c-17")
            let account = rig.account(device)
            #expect(rig.store.with { $0.link(account: account, to: CustomerKey(.production, "c-17")) })
            await kit.identify(customerID: "c-17", token: try await rig.service.token("c-17"))
            let state = await device.state { $0.isLive && $0.customerID == "c-17" }
            try rig.expectDevice(device, state, as: "c-17")
            // A second device of the same person, on another Apple account, logs in as well.
            let other = rig.device()
            let otherKit = await other.launch()
            await otherKit.identify(customerID: "c-17", token: try await rig.service.token("c-17"))
            let elsewhere = await other.state { $0.isLive && $0.customerID == "c-17" }
            try rig.expectDevice(other, elsewhere, as: "c-17")
            await kit.signOut()
            _ = await kit.refresh()
            try await rig.deliver()
            try await rig.expectServer("c-17")
        }
    }

    @Test("a login links what was bought before by itself, and nobody gets it who logs in there afterwards")
    func loginLinks() async throws {
        try await KitRig.race("login links") { rig in
            let device = rig.device()
            let kit = await device.launch()
            _ = await kit.purchase(Product.lifetime)
            await device.live("premium", gives: true)
            // What the device shows it may know from its own store alone; others see what the server has recorded.
            await rig.store.waitForFinish(try rig.id(Product.lifetime, device), on: device.number)
            await kit.identify(customerID: "c-17", token: try await rig.service.token("c-17"))
            let account = rig.account(device)
            #expect(rig.store.with { $0.link(account: account, to: CustomerKey(.production, "c-17")) })
            let state = await device.state { $0.isLive && $0.customerID == "c-17" }
            try rig.expectDevice(device, state, as: "c-17")
            // Another device on the same Apple account, on which somebody else logs in.
            let other = rig.device(account: account)
            let otherKit = await other.launch()
            await otherKit.identify(customerID: "c-18", token: try await rig.service.token("c-18"))
            let elsewhere = await other.state {
                $0.isLive && $0.customerID == "c-18" && !$0.givesAccess(to: "premium")
            }
            try rig.expectDevice(other, elsewhere, as: "c-18")
            try await rig.deliver()
            try await rig.expectServer("c-17")
            try await rig.expectServer("c-18")
            let causes = try await rig.service.admin.events().compactMap { ($0["facts"] as? [String: Any])?["cause"] }
            #expect(causes.compactMap { $0 as? String }.sorted() == ["issued", "issued", "login"])
        }
    }

    @Test("a customer whose id is no UUID buys with the account token that comes with their token")
    func accountToken() async throws {
        try await KitRig.race("account token") { rig in
            let answer = try await rig.service.admin.send("POST", "/v1/customers/c-19/tokens").json
            let token = try #require(answer["token"] as? String)
            let accountToken = try #require((answer["app_account_token"] as? String).flatMap { UUID(uuidString: $0) })
            let device = rig.device()
            let kit = await device.launch()
            await kit.identify(customerID: "c-19", token: token, appAccountToken: accountToken)
            guard case .success(let purchase) = await kit.purchase(Product.lifetime) else {
                Issue.record("the purchase failed")
                return
            }
            #expect(purchase.entitlements.givesAccess(to: "premium"))
            await device.live("premium", gives: true)
            await rig.store.waitForFinish(purchase.transactionID, on: device.number)
            // On another Apple account's device, where nothing was ever bought.
            let other = rig.device()
            let otherKit = await other.launch()
            await otherKit.identify(customerID: "c-19", token: try await rig.service.token("c-19"))
            await other.live("premium", gives: true)
            let held = try await rig.service.admin.send("GET", "/v1/customers/c-19/entitlements").text
            #expect(held.contains("\"id\":\"premium\""), "\(held)")
        }
    }

    @Test("an unverified transaction gives no access, is not sent and is never finished")
    func unverified() async throws {
        try await KitRig.race("unverified") { rig in
            let device = rig.device()
            let number = device.number
            try rig.store.perform { [try $0.forge(Product.lifetime, on: number)] }
            let kit = await device.launch()
            var state = await kit.refresh()
            #expect(!state.givesAccess(to: "premium"), "\(state)")
            try rig.store.perform { [try $0.forge(Product.newsMonthly, on: number)] }
            state = await kit.refresh()
            #expect(!state.givesAccess(to: "news"), "\(state)")
            #expect(rig.store.with { $0.finishCalls.isEmpty } && device.proxy.posted.isEmpty)
            // A purchase that the device cannot verify today it can tomorrow.
            rig.store.with { $0.change(device.number) { $0.distrustsAll = true } }
            guard case .failed(let error) = await kit.purchase(Product.plusMonthly) else {
                Issue.record("the purchase was believed")
                return
            }
            #expect(error.reason == .verificationFailed)
            #expect(await !kit.refresh().givesAccess(to: "plus"))
            rig.store.with { $0.change(device.number) { $0.distrustsAll = false } }
            await device.launch()
            await device.live("plus", gives: true)
            await rig.store.waitForFinish(try rig.id(Product.plusMonthly, device), on: device.number)
        }
    }
}
