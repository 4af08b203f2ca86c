import EntitlementKit
import Foundation
import StoreSimulator
import Testing

/// What happens to a device's files: locked, emptied, forged, and shared with an extension.
@Suite("Kit end to end: files that are locked, emptied, forged and shared", .serialized, .timeLimit(.minutes(2)))
struct KitDiskTests {
    private typealias Product = StoreWorld.ProductID

    @Test(
        "a launch before the first unlock keeps what was bought and who logged in, and goes on when files can be read")
    func locked() async throws {
        try await KitRig.race("locked") { rig in
            let device = rig.device()
            var kit = await device.launch()
            _ = await kit.purchase(Product.lifetime)
            await device.live("premium", gives: true)
            await kit.identify(customerID: "c-17", token: try await rig.service.token("c-17"))
            let account = rig.account(device)
            #expect(rig.store.with { $0.link(account: account, to: CustomerKey(.production, "c-17")) })
            _ = await device.state { $0.isLive && $0.customerID == "c-17" }
            await device.kill()
            device.condition.isLocked = true
            let requests = device.proxy.requestCount
            kit = await device.launch()
            // It is bought in the background while the device is locked.
            try rig.store.perform { try $0.redeem(Product.newsMonthly, account: account) }
            let bought = try rig.id(Product.newsMonthly, device)
            _ = await kit.refresh()
            #expect(await kit.current.kind == .loading)
            #expect(device.proxy.requestCount == requests && rig.store.finishCount(bought, on: device.number) == 0)
            device.condition.isLocked = false
            await kit.identify(customerID: "c-17", token: try await rig.service.token("c-17"))
            _ = await kit.refresh()
            let state = await device.live("news", gives: true)
            try rig.expectDevice(device, state, as: "c-17")
            await rig.store.waitForFinish(bought, on: device.number)
        }
    }

    @Test("tvOS empties the app's files between two launches, and while it runs: nothing but time is lost")
    func purged() async throws {
        try await KitRig.race("purged") { rig in
            let device = rig.device()
            var kit = await device.launch()
            _ = await kit.purchase(Product.proMonthly)
            await device.live("premium", gives: true)
            await rig.store.waitForAllFinished(on: device.number)
            for isRunning in [false, true] {
                if !isRunning { await device.kill() }
                try KitTampering.purge.apply(to: device.directory)
                if !isRunning { kit = await device.launch() }
                try rig.expectDevice(device, await kit.refresh(), as: rig.customer(device))
                // The disk holds it again.
                await device.kill()
                device.proxy.weather = .down
                rig.store.with { $0.change(device.number) { $0.readsNothing = true } }
                kit = await device.launch()
                #expect(await kit.refresh().givesAccess(to: "premium"))
                device.proxy.weather = .fair
                rig.store.with { $0.change(device.number) { $0.readsNothing = false } }
                _ = await kit.refresh()
            }
        }
    }

    @Test("an app and its extension that buy and hear at once agree with the server, and finish nothing early")
    func twoProcesses() async throws {
        try await KitRig.race("two processes") { rig in
            let device = rig.device()
            let kit = await device.launch()
            await device.launchWidget()
            let account = rig.account(device)
            for product in [Product.lifetime, Product.newsMonthly, Product.plusMonthly] {
                try rig.store.perform { try $0.redeem(product, account: account) }
                _ = await kit.purchase(Product.coins)
            }
            await device.live("plus", gives: true)
            await rig.store.waitForAllFinished(on: device.number)
            let shown = await kit.refresh()
            try rig.expectDevice(device, shown, as: rig.customer(device))
            await device.killWidget()
            await device.kill()
            #expect(await device.read().all.map { KitLine($0) } == shown.all.map { KitLine($0) })
            device.proxy.weather = .down
            let offline = await device.launch().refresh()
            #expect(offline.all.map { KitLine($0) } == shown.all.map { KitLine($0) })
        }
    }

    @Test("a purchase that somebody wrote onto the disk gives nothing once the server was asked, or nothing at all")
    func forged() async throws {
        try await KitRig.race("forged") { rig in
            let plain = rig.device { $0.statementVerifier = nil }
            let service = rig.service
            let guarded = rig.device { service.guardAgainstForgers(&$0) }
            for device in [plain, guarded] {
                var kit = await device.launch()
                _ = await kit.purchase(Product.newsMonthly)
                await device.live("news", gives: true)
                await device.kill()
                let number = device.number
                let forged = try rig.store.with { try $0.forgery(of: Product.lifetime, on: number) }
                try KitTampering.forgery.apply(
                    to: device.directory, forged: forged, at: rig.service.clock.instant)
                device.proxy.weather = .down
                kit = await device.launch()
                let offline = await kit.refresh()
                #expect(offline.givesAccess(to: "premium") == (device === plain) && offline.givesAccess(to: "news"))
                device.proxy.weather = .fair
                let state = await kit.refresh()
                _ = await device.live("premium", gives: false)
                try rig.expectDevice(device, await kit.refresh(), as: rig.customer(device))
                #expect(state.givesAccess(to: "news"))
                device.proxy.weather = .down
                kit = await device.launch()
                #expect(await !kit.refresh().givesAccess(to: "premium"))
                #expect(rig.store.finishCount(forged.transactionID, on: number) == 0)
            }
        }
    }
}
