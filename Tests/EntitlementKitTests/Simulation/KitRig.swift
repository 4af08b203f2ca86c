import Foundation
import Testing

@testable import EntitlementKit

/// A device with everything around it scripted.
struct KitRig {
    let clock: ManualClock
    let device: ScriptedStore
    let server: ScriptedServer
    let storage: ScriptedStorage
    let configuration: EntitlementConfiguration
    let store: EntitlementStore

    init(
        day: Double = 1, sync: Bool = true, bound: Duration = .seconds(7 * 86_400),
        beside world: (clock: ManualClock, server: ScriptedServer)? = nil,
        device edit: (inout ScriptedStore.Script) -> Void = { _ in },
        server editServer: (inout ScriptedServer.Script) -> Void = { _ in },
        configuration editConfiguration: (inout EntitlementConfiguration) -> Void = { _ in }
    ) {
        let clock = world?.clock ?? ManualClock(day: day)
        var configuration = EntitlementConfiguration(
            bundleID: Statements.bundleID, productIDs: ["monthly", "lifetime"],
            bundledCatalog: [
                .init(productID: "monthly", entitlements: ["premium"]),
                .init(productID: "lifetime", entitlements: ["forever"]),
            ], isSyncEnabled: sync, offlineBound: bound)
        editConfiguration(&configuration)
        self.init(
            clock: clock, device: ScriptedStore(edit), server: world?.server ?? ScriptedServer(clock, editServer),
            storage: ScriptedStorage(),
            configuration: configuration)
    }

    private init(
        clock: ManualClock, device: ScriptedStore, server: ScriptedServer, storage: ScriptedStorage,
        configuration: EntitlementConfiguration
    ) {
        self.clock = clock
        self.device = device
        self.server = server
        self.storage = storage
        self.configuration = configuration
        store = EntitlementStore(
            configuration: configuration, store: device, server: server, storage: storage, clock: clock)
    }

    /// The process ends, and another begins on the same disk.
    func relaunched(device: ScriptedStore? = nil, clock: ManualClock? = nil) async -> KitRig {
        await store.stop()
        return another(device: device, clock: clock)
    }

    /// Another process on the same disk, such as an extension's, beside this one.
    func another(device: ScriptedStore? = nil, clock: ManualClock? = nil) -> KitRig {
        KitRig(
            clock: clock ?? self.clock, device: device ?? self.device, server: server, storage: storage,
            configuration: configuration)
    }

    /// A later version of the app on the same device.
    func updated(_ edit: (inout EntitlementConfiguration) -> Void) -> KitRig {
        var configuration = configuration
        edit(&configuration)
        return KitRig(clock: clock, device: device, server: server, storage: storage, configuration: configuration)
    }

    func launch() async {
        await store.start()
        await store.settled()
    }

    /// Expects that the store's sheet was shown once, and closed, or that it was not, because of what is owned.
    func expectSheet(
        _ isShown: Bool, _ outcome: PurchaseOutcome, sourceLocation: SourceLocation = #_sourceLocation
    ) {
        #expect(device.state.purchases.count == (isShown ? 1 : 0), sourceLocation: sourceLocation)
        if isShown {
            #expect(outcome == .userCancelled, sourceLocation: sourceLocation)
        } else if case .failed(let error) = outcome {
            #expect(error.reason == .alreadyOwned, sourceLocation: sourceLocation)
        } else {
            Issue.record("\(outcome)", sourceLocation: sourceLocation)
        }
    }

    func gives(_ id: String = "premium") async -> Bool { await store.current.givesAccess(to: id) }

    /// The app has granted a transaction as it reads now.
    func acknowledge(_ transactionID: String) async -> Bool {
        guard let known = await store.ledger.book.transactions[transactionID] else { return false }
        return await store.acknowledge(PurchaseRecord(known, isSynced: false))
    }

    func waitUntilGives(_ gives: Bool = true, _ id: String = "premium") async {
        await eventually("\(id) \(gives)") { await self.gives(id) == gives }
    }
}
