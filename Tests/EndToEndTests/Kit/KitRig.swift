import EntitlementAPI
import EntitlementCore
import EntitlementKit
import Foundation
import StoreSimulator
import TestSupport
import Testing

/// One device with its disk and its way to the server, on which the app is launched and killed.
final class KitDevice {
    let number: Int
    let proxy: KitProxy
    let directory: URL
    let condition = KitCondition()
    let wallet: KitWallet
    let configuration: EntitlementConfiguration
    private(set) var process = KitProcess()
    private var app: EntitlementStore?
    private var disk: KitDisk?
    /// An extension of the app, a process of its own on the same disk.
    private var widget: (process: KitProcess, kit: EntitlementStore, disk: KitDisk)?
    private var granting: Task<Void, Never>?
    private let store: KitStore
    private let clock: WorldClock

    init(_ number: Int, _ service: KitService, _ store: KitStore, _ configuration: EntitlementConfiguration) {
        self.number = number
        self.store = store
        self.configuration = configuration
        clock = service.clock
        wallet = KitWallet(number, store)
        proxy = KitProxy(service)
        directory = ScratchSpace.directory.appending(path: "rightful-kit-\(UUID().uuidString)")
    }

    var wasLaunched: Bool { app != nil }

    /// The app as it runs; one that was never launched is a mistake of the test.
    var kit: EntitlementStore {
        guard let app else { preconditionFailure("the app was never launched on device \(number)") }
        return app
    }

    /// Launches the app, as a new process that knows only what is on the disk and in the store.
    ///
    /// - Parameter dyingCall: where it dies by itself; see ``KitProcess``.
    @discardableResult
    func launch(dyingAt dyingCall: Int? = nil, starting: Bool = true) async -> EntitlementStore {
        await kill()
        let process = KitProcess(dyingAt: dyingCall)
        let (kit, disk) = make(process)
        (self.process, self.disk, app) = (process, disk, kit)
        if !configuration.acknowledgedKinds.isEmpty { grantConsumables(kit, process) }
        if starting { await kit.start() }
        return kit
    }

    private func make(_ process: KitProcess) -> (EntitlementStore, KitDisk) {
        let disk = KitDisk(process, directory, condition)
        let kit = EntitlementStore(
            configuration: configuration,
            store: KitDeviceStore(
                device: number, process: process, store: store, proxy: proxy, condition: condition),
            server: KitConnection(process: process, proxy: proxy), storage: disk,
            clock: DeviceClock(world: clock, condition: condition))
        return (kit, disk)
    }

    /// The app grants what it is to grant by itself, and says so.
    private func grantConsumables(_ kit: EntitlementStore, _ process: KitProcess) {
        store.grantsConsumables(on: number)
        granting?.cancel()
        granting = Task { [wallet] in
            for await purchase in kit.unacknowledgedPurchases where !process.isDead {
                await wallet.take(purchase, kit, process)
            }
        }
    }

    /// Launches an extension of the app beside it, with a store of its own on the same files.
    func launchWidget() async {
        await killWidget()
        let process = KitProcess()
        let (kit, disk) = make(process)
        widget = (process, kit, disk)
        await kit.start()
    }

    /// Ends the extension without a word.
    func killWidget() async {
        widget?.process.kill()
        await widget?.kit.stop()
        await widget?.disk.settle()
        widget = nil
    }

    /// What an extension without a store reads.
    func read() async -> Entitlements {
        await EntitlementReader(
            configuration: configuration, storage: FileEntitlementStorage(directory: directory),
            clock: DeviceClock(world: clock, condition: condition)
        ).current()
    }

    /// Ends the process without a word.
    func kill() async {
        process.kill()
        await app?.stop()
        await disk?.settle()
    }

    /// Deletes the app, and all that it knew.
    func wipe() async {
        condition.stall([])
        await killWidget()
        await kill()
        granting?.cancel()
        try? FileManager.default.removeItem(at: directory)
    }

    /// Waits until the published state is as told.
    func state(
        where isMet: @Sendable (Entitlements) -> Bool
    ) async -> Entitlements {
        let (kit, states) = (kit, kit.states)
        let met = await clock.passing { () -> Entitlements? in
            for await state in states where isMet(state) { return state }
            return nil
        }
        if let met { return met }
        let state = await kit.current
        Issue.record("device \(number) never came to the awaited state; it is \(state)")
        return state
    }

    /// Waits until an answer of the server stands behind the published state, and the entitlement reads as told.
    @discardableResult
    func live(_ entitlement: String, gives access: Bool) async -> Entitlements {
        await state { $0.isLive && $0.givesAccess(to: entitlement) == access }
    }
}

/// A service, a store and devices on it.
final class KitRig {
    let service: KitService
    let store: KitStore
    /// Stands in failure messages.
    var context: String
    private(set) var devices: [KitDevice] = []
    private var delivered = 0

    /// - Parameter context: stands in failure messages: the seed, where there is one.
    init(_ service: KitService, seed: UInt64 = 1, context: String = "") throws {
        self.service = service
        self.context = context
        store = try KitStore(service, seed: seed)
    }

    /// Another device, on the account or on a new one.
    func device(
        account: Int? = nil, environment: SimulatedStoreEnvironment = .production,
        configured edit: (inout EntitlementConfiguration) -> Void = { _ in }
    ) -> KitDevice {
        let number = store.with { store in store.addDevice(account: account ?? store.addAccount(environment)) }
        var configuration = Self.configuration(service.world)
        configuration.statementVerifier = service.statementVerifier
        edit(&configuration)
        let device = KitDevice(number, service, store, configuration)
        devices.append(device)
        return device
    }

    func account(_ device: KitDevice) -> Int { store.with { $0.devices[device.number].account } }

    func environment(_ device: KitDevice) -> SimulatedStoreEnvironment {
        store.with { $0.environment(of: device.number) }
    }

    func appTransactionID(_ device: KitDevice) -> String {
        let account = account(device)
        return store.with { $0.appTransactionID(account: account) }
    }

    /// Who a device's purchases belong to while nobody linked them.
    func customer(_ device: KitDevice) -> String { "apple:\(appTransactionID(device))" }

    static func configuration(_ world: StoreWorld) -> EntitlementConfiguration {
        EntitlementConfiguration(
            bundleID: world.bundleID, productIDs: world.products.map(\.id),
            bundledCatalog: world.mappings.map {
                EntitlementConfiguration.Mapping(
                    productID: $0.productID, entitlements: $0.entitlements, duration: $0.duration)
            })
    }

    /// Runs a race in a world of its own, and holds it against the finish rule at the end.
    static func race(_ name: String, _ body: (KitRig) async throws -> Void) async throws {
        let rig = try KitRig(try await KitService.start(), context: name)
        do {
            try await body(rig)
        } catch {
            await rig.close()
            throw error
        }
        rig.expectNoViolation()
        await rig.close()
        await rig.service.stop()
    }

    /// The latest transaction of a product's original, on a device's account.
    func id(_ productID: String, _ device: KitDevice) throws -> String {
        let key = try original(productID, device)
        return try #require(store.with { $0.transactionIDs(of: key).last }, "\(context)")
    }

    /// The original transaction of a product, on a device's account.
    func original(_ productID: String, _ device: KitDevice) throws -> SimulatedOriginalKey {
        let account = account(device)
        return try #require(store.with { $0.original(of: productID, account: account) }, "\(context)")
    }

    // MARK: - Notifications

    /// Delivers what the store has told the app's server since the last time.
    func deliver() async throws {
        let notifications = store.with { $0.notifications }
        for notification in notifications[delivered...] {
            let answer = try await service.admin.notify(service.authority.sign(notification))
            try #require(answer.status == 200, "\(context): \(answer.text)")
        }
        delivered = notifications.count
    }

    /// All that the store ever told the app's server is to be told again.
    func forgetDelivered() { delivered = 0 }

    /// The store's words to the app's server get lost for good.
    func loseNotifications() { delivered = store.with { $0.notifications.count } }

    // MARK: - What must be so

    /// Server and record agree about a customer now.
    func expectServer(
        _ customer: String, _ when: String = "", in environment: SimulatedStoreEnvironment = .production
    ) async throws {
        let key = CustomerKey(environment, customer)
        try await service.admin.expectRecord(
            store.with { $0.record }.customer(key), of: key, alsoAt: [service.clock.instant], limit: 8,
            "\(context) \(when)")
    }

    /// The published state is live and what the record says now, of what has ended, too.
    func expectDevice(_ device: KitDevice, _ state: Entitlements, as customer: String, _ when: String = "") throws {
        let instant = service.clock.instant
        let expected = store.with { $0.record }.customer(CustomerKey(environment(device), customer)).answer(at: instant)
        let (lines, wanted) = (state.all.map { KitLine($0) }, expected.map { KitLine($0) })
        #expect(
            state.isLive && lines == wanted,
            "\(context) \(when), device \(device.number): \(state.kind) \(lines) instead of \(wanted); it heard \(device.proxy.heard)"
        )
    }

    func expectNoViolation(_ when: String = "") {
        #expect(store.violations.isEmpty, "\(context) \(when): \(store.violations)")
    }

    func close() async {
        for device in devices { await device.wipe() }
        store.close()
    }
}

/// What device and record say of an entitlement alike.
struct KitLine: Equatable, CustomStringConvertible {
    let description: String

    init(_ entitlement: Entitlement) {
        let until = entitlement.until.map { "\(Int64(($0.timeIntervalSince1970 * 1000).rounded()))" } ?? "∞"
        description =
            "\(entitlement.id) \(entitlement.state.rawValue) \(entitlement.givesAccess) \(until) "
            + "\(entitlement.productID ?? "")"
    }

    init(_ answer: RecordAnswer) {
        let until = answer.until.map { "\($0)" } ?? "∞"
        description =
            "\(answer.entitlement) \(answer.state.rawValue) \(answer.givesAccess) \(until) \(answer.productID)"
    }
}
