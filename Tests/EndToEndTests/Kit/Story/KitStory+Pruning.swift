import Foundation
import StoreSimulator
import Testing

@testable import EntitlementKit

// What a device with few places lets go of.
extension KitStory {
    /// Of what a device has let go since it was looked at last nothing is needed any more: the server was told of it, it does
    /// not wait to be finished, and neither a live subscription nor what was bought for good rests on it.
    ///
    /// What the store shows as unfinished later comes back, so that everything is finished in the end.
    mutating func expectOnlyNeedlessLetGo() async throws {
        for device in rig.devices where device.wasLaunched {
            let (letGo, gate) = await device.kit.pruned()
            let context = "\(rig.context), device \(device.number)"
            let waiting = letGo.filter { gate.isWaiting($0) }
            #expect(waiting.isEmpty, "\(context) let go of \(waiting), which wait to be finished")
            let news = letGo.subtracting(self.letGo[device.number] ?? [])
            self.letGo[device.number] = letGo
            guard !news.isEmpty else { continue }
            try await noteHeld()
            #expect(held.isSuperset(of: news), "\(context) let go of \(news.subtracting(held)), which no server held")
            let now = rig.service.clock.instant
            let needed = rig.store.with { store in news.filter { store.isNeeded($0, at: now) } }
            #expect(needed.isEmpty, "\(context) let go of \(needed), which are needed")
        }
    }

    /// Takes down what the server holds now.
    mutating func noteHeld() async throws {
        held.formUnion(try await rig.service.admin.events(after: 0).compactMap { $0["transaction_id"] as? String })
    }
}

extension EntitlementStore {
    /// What was let go of, and what waits to be finished.
    fileprivate func pruned() -> (letGo: Set<String>, gate: FinishGate) { (Set(ledger.book.letGo.keys), gate) }
}
