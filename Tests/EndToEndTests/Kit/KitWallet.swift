import EntitlementKit
import Foundation
import Synchronization

/// The app's own account of the consumables that it granted on a device; it outlives launches.
final class KitWallet: Sendable {
    /// How the app acknowledges what it is told to grant.
    enum Manner: CaseIterable, Sendable, Hashable {
        case atOnce
        case twice
        /// Not before it is told to, or in a later launch.
        case late
    }

    private struct State {
        var manner = Manner.atOnce
        var granted: Set<String> = []
        /// Whether each transaction is granted, or was taken back, by what came of it last.
        var standing: [String: Bool] = [:]
        /// What is acknowledged for good, each with the launch that was told so.
        var acknowledged: [String: ObjectIdentifier] = [:]
        var waiting: [PurchaseRecord] = []
        var mayForget = false
        var complaints: [String] = []
    }

    private let device: Int
    private let store: KitStore
    private let state = Mutex(State())

    init(_ device: Int, _ store: KitStore) { (self.device, self.store) = (device, store) }

    var manner: Manner {
        get { state.withLock { $0.manner } }
        set { state.withLock { $0.manner = newValue } }
    }

    /// The transactions that were granted, or taken back.
    var granted: Set<String> { state.withLock { $0.granted } }

    /// Whether a transaction is granted, or was taken back, by what came of it last; `nil`: it never came.
    func isGranted(_ transactionID: String) -> Bool? { state.withLock { $0.standing[transactionID] } }

    /// The store refunds a transaction, or takes that back: whatever was acknowledged, it comes again.
    func changed(_ transactionID: String) {
        state.withLock { state in
            state.acknowledged[transactionID] = nil
            state.acknowledged[transactionID + PurchaseRecord.refunded] = nil
        }
    }

    /// What was told again although it had been acknowledged.
    var complaints: [String] { state.withLock { $0.complaints } }

    /// Somebody else wrote or deleted the device's files, so what was acknowledged may come again.
    func mayForget() { state.withLock { $0.mayForget = true } }

    /// The app is told of a purchase.
    func take(_ purchase: PurchaseRecord, _ kit: EntitlementStore, _ process: KitProcess) async {
        let isLate = state.withLock { state in
            if let launch = state.acknowledged[purchase.key], launch != ObjectIdentifier(process), !state.mayForget {
                state.complaints.append("\(purchase.key) came again on device \(device) after it was acknowledged")
            }
            state.standing[purchase.transactionID] = purchase.revocationDate == nil
            if state.manner == .late { state.waiting.append(purchase) }
            return state.manner == .late
        }
        if !isLate { await acknowledge(purchase, kit, process) }
    }

    /// The app grants what waits.
    func grantWaiting(_ kit: EntitlementStore, _ process: KitProcess) async {
        let waiting = state.withLock { state in
            defer { state.waiting = [] }
            return state.waiting
        }
        for purchase in waiting where !process.isDead { await acknowledge(purchase, kit, process) }
    }

    private func acknowledge(_ purchase: PurchaseRecord, _ kit: EntitlementStore, _ process: KitProcess) async {
        state.withLock { _ = $0.granted.insert(purchase.transactionID) }
        store.grant(purchase.transactionID, on: device)
        for _ in 0..<(manner == .twice ? 2 : 1) {
            guard await kit.acknowledge(purchase), !process.isDead else { continue }
            state.withLock { $0.acknowledged[purchase.key] = ObjectIdentifier(process) }
        }
    }
}

extension PurchaseRecord {
    /// The purchase, and its refund by itself.
    fileprivate var key: String { transactionID + (revocationDate == nil ? "" : Self.refunded) }

    fileprivate static let refunded = " refunded"
}
