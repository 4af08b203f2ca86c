import Foundation

public actor EntitlementStore {
    let configuration: EntitlementConfiguration
    public init(
        configuration: EntitlementConfiguration, store: any DeviceStore, server: (any EntitlementServer)?,
        storage: any EntitlementStorage, clock: any EntitlementClock = SystemEntitlementClock()
    ) {
        self.configuration = configuration
    }

    /// Begins once; implied by everything else.
    public func start() {}
    /// What is published now.
    public private(set) var current = Entitlements(kind: .loading, at: .distantPast)
    /// The current state and every later one.
    public nonisolated var states: AsyncStream<Entitlements> { AsyncStream { $0.finish() } }
    public nonisolated var syncEvents: AsyncStream<SyncEvent> { AsyncStream { $0.finish() } }
    public func setSyncDelegate(_ delegate: (any EntitlementSyncDelegate)?) {}
    /// Reads the store and asks the server; returns when both have answered or failed.
    @discardableResult
    public func refresh() async -> Entitlements { current }
    public func purchaseViaStoreKit(_ productID: String) async -> PurchaseOutcome { .unknown }
    public func purchase(_ productID: String) async -> PurchaseOutcome { .unknown }
    @discardableResult
    public func restoreEntitlements() async -> Entitlements { current }
    public func identify(customerID: String, token: String? = nil) async {}
    public func signOut() async {}
    public func products() async -> [EntitlementProduct] { [] }
    public func history() async -> [PurchaseRecord] { [] }
    public func applicationWillEnterForeground() async {}
    public func networkDidReturn() async {}
    /// Ends all work, as the end of the process would; what is on disk stays.
    package func stop() {}
}
