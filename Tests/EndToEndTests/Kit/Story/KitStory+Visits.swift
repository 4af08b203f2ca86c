import EntitlementKit
import Foundation
import SeededRandom
import StoreSimulator
import Testing

// A device's store can be signed in to another Apple account than the one that downloaded the app. What that one has bought
// is shown there, too, as long as nobody is logged in.
extension KitStory {
    func isVisiting(_ device: KitDevice) -> Bool { rig.store.with { $0.devices[device.number].buyer != nil } }

    /// Somebody signs in to the store with another device's Apple account, or with their own again.
    mutating func switchAccount(_ device: KitDevice) {
        let number = device.number
        if isVisiting(device) {
            note("the store of \(number) is signed in to its own account again")
            return rig.store.with { $0.change(number) { $0.buyer = nil } }
        }
        let (own, environment) = (rig.account(device), rig.environment(device))
        let others = rig.devices.filter { other in
            let account = rig.account(other)
            return account != own && rig.environment(other) == environment && logins[account] == nil
                && [nil, account].contains(visits[number])
        }
        guard let other = others.first, !loggedIn.contains(number) else { return }
        let account = rig.account(other)
        note("the store of \(number) is signed in to account \(account)")
        visits[number] = account
        rig.store.with { $0.change(number) { $0.buyer = account } }
    }

    /// Whatever a device may know of the account that it was signed in to last, it can learn again.
    func signInAgain(_ device: KitDevice) {
        guard let account = visits[device.number], !loggedIn.contains(device.number) else { return }
        rig.store.with { store in
            store.change(device.number) { ($0.buyer, $0.omission) = (account, 0) }
        }
    }

    /// A device where nobody is logged in gives what its customer holds, and beside that at most what the Apple account holds
    /// that its store is signed in to: of consumables the store shows only those of this device.
    func expectVisitor(_ device: KitDevice, _ state: Entitlements, as customer: String, on account: Int) throws {
        let (key, instant) = (CustomerKey(rig.environment(device), customer), rig.service.clock.instant)
        let (own, both) = rig.store.with { store in
            var merged = store.record
            merged.link(appTransactionID: store.appTransactionID(account: account), to: key)
            return (store.record.customer(key).answer(at: instant), merged.customer(key).answer(at: instant))
        }
        let given = Set(state.all.filter(\.givesAccess).map(\.id))
        let context = "\(rig.context), device \(device.number), visiting \(account): \(state.all)"
        #expect(state.isLive, "\(context)")
        #expect(given.isSuperset(of: own.filter(\.givesAccess).map(\.entitlement)), "\(context)")
        #expect(given.isSubset(of: both.filter(\.givesAccess).map(\.entitlement)), "\(context)")
    }
}
