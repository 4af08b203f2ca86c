import EntitlementKit
import Foundation
import SeededRandom
import StoreSimulator
import Testing

// What the store says of a purchase, how the app grants what it is to grant by itself, and how often it asks.
extension KitStory {
    /// Presses a button once or more, and holds what the app is told against what the store said.
    func buying(_ product: String, on device: KitDevice, times: Int) -> @Sendable () async -> Void {
        let (kit, process, number, seed, step) = (device.kit, device.process, device.number, seed, step)
        return {
            await withTaskGroup { group in
                for _ in 0..<times {
                    group.addTask {
                        let call = KitPurchaseCall()
                        let outcome = await KitPurchaseCall.$current.withValue(call) { await kit.purchase(product) }
                        // Whoever is dead is told nothing.
                        guard !process.isDead else { return }
                        let said = call.word.map { "\($0)" } ?? "was not asked"
                        #expect(
                            call.allows(outcome, of: product),
                            "seed \(seed), step \(step), \(product) on device \(number): the store \(said), the app heard \(outcome)"
                        )
                    }
                }
            }
        }
    }

    /// Somebody who buys a lot, one after the other.
    func buyingCoins(_ count: Int, on device: KitDevice) -> @Sendable () async -> Void {
        let products = (0..<count).map { $0 % 3 == 2 ? StoreWorld.ProductID.dayPass : StoreWorld.ProductID.coins }
        let purchases = products.map { buying($0, on: device, times: 1) }
        return { for purchase in purchases { await purchase() } }
    }

    /// What the store answers from now on, or how it signs.
    mutating func changeTheStoresMood(_ device: KitDevice) {
        guard random.chance(60) else {
            device.condition.signsAnew.toggle()
            return note("the store signs everything anew for \(device.number): \(device.condition.signsAnew)")
        }
        device.condition.purchases = random.pick(KitCondition.Purchases.allCases)
        note("purchases on \(device.number): \(device.condition.purchases)")
    }

    /// The app grants otherwise from now on, or what waits.
    mutating func grant(_ device: KitDevice) async {
        guard device.wasLaunched, random.chance(40) else {
            device.wallet.manner = random.pick(KitWallet.Manner.allCases)
            return note("\(device.number) grants \(device.wallet.manner)")
        }
        note("\(device.number) grants what waits")
        await device.wallet.grantWaiting(device.kit, device.process)
    }

    /// What a device has finished of what the app grants by itself is what the app granted there, each once, and nothing that
    /// was acknowledged came again.
    func expectGranted(_ device: KitDevice) {
        #expect(device.wallet.complaints.isEmpty, "\(rig.context): \(device.wallet.complaints)")
        guard !device.configuration.acknowledgedKinds.isEmpty else { return }
        let finished = rig.store.with { store in
            Set(store.finishCalls.filter { $0.device == device.number }.map(\.transactionID))
                .filter { store.isConsumable($0) }
        }
        for id in finished {
            let isRefunded = rig.store.with { $0.isRefunded(transaction: id) }
            #expect(
                device.wallet.isGranted(id) == !isRefunded,
                "\(rig.context), device \(device.number), \(id), refunded: \(isRefunded)")
        }
        let granted = device.wallet.granted
        #expect(granted == finished, "\(rig.context), device \(device.number) granted \(granted), finished \(finished)")
    }

    /// Twenty activations at once are one request at most; the one that follows them comes ten seconds later.
    func expectNoStorm(_ device: KitDevice) async {
        await device.kit.settled()
        let asked = device.proxy.requestCount
        for _ in 0..<20 { await device.kit.applicationWillEnterForeground() }
        await device.kit.settled()
        let more = device.proxy.requestCount - asked
        #expect(
            more <= 1,
            "\(rig.context), device \(device.number) made \(more) requests for twenty activations at once: \(device.proxy.heard)"
        )
    }
}
