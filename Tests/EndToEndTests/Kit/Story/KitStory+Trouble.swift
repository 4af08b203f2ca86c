import EntitlementKit
import Foundation
import SeededRandom
import StoreSimulator
import Testing

// What goes wrong with a device itself: its files, its clock, its store's calls, and a second process.
extension KitStory {
    mutating func trouble(_ device: KitDevice) async throws {
        let condition = device.condition
        switch random.number(in: 0...9) {
        case 0...1:
            condition.isLocked.toggle()
            note(condition.isLocked ? "\(device.number) is started, and not unlocked" : "\(device.number) is unlocked")
            // Only a start locks files.
            if condition.isLocked { await device.kill() }
        case 2...3:
            if random.chance(70) {
                note("an extension on \(device.number)")
                await device.launchWidget()
            } else {
                note("no extension on \(device.number)")
                await device.killWidget()
            }
        case 4...6:
            let tampering = random.pick(KitTampering.allCases)
            let isRunning = random.chance(50)
            note("\(tampering) on \(device.number)\(isRunning ? ", while it runs" : "")")
            if !isRunning { await device.kill() }
            device.wallet.mayForget()
            let number = device.number
            let forged = try rig.store.with { try $0.forgery(of: StoreWorld.ProductID.studioMonthly, on: number) }
            forgeries.insert(forged.transactionID)
            try tampering.apply(to: device.directory, forged: forged, at: rig.service.clock.instant)
        case 7...8:
            let calls = [
                "appTransaction", "currentEntitlements", "allTransactions", "unfinishedTransactions",
                "subscriptionStatuses", "finish",
            ]
            let stalled = random.chance(40) ? [] : Set(calls.filter { _ in random.chance(40) })
            note("\(stalled.sorted()) hang on \(device.number)")
            condition.stall(stalled)
        default:
            condition.clockOffset = random.pick([0, -400 * Span.day, -Span.day, Span.hour, 40 * Span.day])
            note("the clock of \(device.number) is \(condition.clockOffset / 1000) s ahead")
        }
    }

    /// The server is backed up, restored from that, or replaced by one of a later version.
    mutating func troubleTheServer() async throws {
        switch random.number(in: 0...3) {
        case 0...1:
            guard hasBackup else {
                note("the server is backed up")
                try await rig.service.backUp()
                hasBackup = true
                return
            }
            note("the server is restored")
            (hasBackup, wasRestored) = (false, true)
            try await noteHeld()
            // It takes its time.
            rig.service.clock.advance(by: Span.minute)
            #expect(try await rig.service.restore(), "\(rig.context)")
            // What the store has told the server it tells again, and the app's own server knows who logged in.
            rig.forgetDelivered()
            for device in rig.devices {
                guard let login = logins[rig.account(device)] else { continue }
                try await rig.service.link(appTransactionID: rig.appTransactionID(device), to: login)
            }
        default:
            let dialect = random.pick(KitProxy.Dialect.allCases)
            note("the server speaks \(dialect)")
            for device in rig.devices { device.proxy.dialect = dialect }
        }
    }

    /// A restored server is told by the devices what they know, before the store has told it anything again.
    mutating func expectDevicesToTell() async throws {
        wasRestored = false
        for device in rig.devices {
            let kit = await device.launch()
            if let login = logins[rig.account(device)], loggedIn.contains(device.number) {
                await identify(device, as: login)
            }
            // What the first answer shows to be missing is sent by itself.
            await rig.service.clock.passing {
                _ = await kit.refresh()
                await kit.settled()
            }
        }
        let events = try await rig.service.admin.events(after: 0)
        let told = Set(events.compactMap { $0["transaction_id"] as? String })
        for device in rig.devices where strangers[device.number] == nil {
            let known = Set(await device.kit.history().map(\.transactionID)).subtracting(forgeries)
            #expect(
                told.isSuperset(of: known),
                "\(rig.context), device \(device.number) told nothing of \(known.subtracting(told).sorted())")
        }
    }
}
