import EntitlementKit
import Foundation
import SeededRandom
import StoreSimulator

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
}
