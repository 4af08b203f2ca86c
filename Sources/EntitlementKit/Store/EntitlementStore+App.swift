#if canImport(StoreKit)
public import Foundation

extension EntitlementStore {
    #if !os(visionOS)
    /// A store for an app that sells through StoreKit: create one when the app is launched, and keep it.
    ///
    /// - Parameters:
    ///   - serverURL: your Rightful server.
    ///   - publishableKey: `rightful_pk_…`.
    public init(configuration: EntitlementConfiguration, serverURL: URL, publishableKey: String) {
        self.init(
            configuration: configuration, serverURL: serverURL, publishableKey: publishableKey,
            store: StoreKitDeviceStore())
    }
    #endif

    /// The same for an app that says how its products are bought, as it must on visionOS.
    public init(
        configuration: EntitlementConfiguration, serverURL: URL, publishableKey: String, store: StoreKitDeviceStore
    ) {
        self.init(
            configuration: configuration, store: store,
            server: HTTPEntitlementServer(baseURL: serverURL, publishableKey: publishableKey),
            storage: FileEntitlementStorage(directory: FileEntitlementStorage.standardDirectory()))
        Task { [weak self] in await self?.start() }
        watchForeground()
    }

    /// Tries again what rests, and asks for the truth, whenever the app comes to the front.
    private nonisolated func watchForeground() {
        // By name, so that no framework for views is linked.
        for name in [
            "UIApplicationWillEnterForegroundNotification", "NSApplicationDidBecomeActiveNotification",
            "WKApplicationWillEnterForegroundNotification",
        ] {
            // Never taken back: a store lives as long as the app.
            _ = NotificationCenter.default.addObserver(forName: Notification.Name(name), object: nil, queue: nil) {
                [weak self] _ in
                Task { await self?.applicationWillEnterForeground() }
            }
        }
    }
}
#endif
