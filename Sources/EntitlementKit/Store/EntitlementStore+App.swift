#if canImport(StoreKit)
import Dispatch
public import Foundation
import Network

extension EntitlementStore {
    #if !os(visionOS)
    /// A store for an app that sells through StoreKit: create one when the app is launched, and keep it.
    ///
    /// - Parameters:
    ///   - serverURL: your Rightful server.
    ///   - publishableKey: `rightful_pk_…`.
    ///   - directory: where files are kept; `nil` is the app's own place. An app whose extensions and widgets read along with
    ///     an ``EntitlementReader`` passes a directory of their App Group; the files in the app's own place are moved to it.
    public init(
        configuration: EntitlementConfiguration, serverURL: URL, publishableKey: String, directory: URL? = nil
    ) {
        self.init(
            configuration: configuration, serverURL: serverURL, publishableKey: publishableKey,
            store: StoreKitDeviceStore(), directory: directory)
    }
    #endif

    /// The same for an app that says how its products are bought, as it must on visionOS.
    ///
    /// - Parameter directory: where files are kept; `nil` is the app's own place. An app whose extensions and widgets read
    ///   along with an ``EntitlementReader`` passes a directory of their App Group; the files in the app's own place are moved
    ///   to it.
    public init(
        configuration: EntitlementConfiguration, serverURL: URL, publishableKey: String, store: StoreKitDeviceStore,
        directory: URL? = nil
    ) {
        self.init(
            configuration: configuration, store: store,
            server: HTTPEntitlementServer(baseURL: serverURL, publishableKey: publishableKey),
            storage: FileEntitlementStorage.ofApp(configuration.bundleID, directory: directory))
        Task { [weak self] in
            await self?.logPlace(directory)
            await self?.start()
        }
        watchForeground()
        watchNetwork()
    }

    /// Tries again what rests whenever the network returns, and says so when it is lost.
    private nonisolated func watchNetwork() {
        Task { [weak self] in
            let (changes, continuation) = AsyncStream.makeStream(of: Bool.self, bufferingPolicy: .bufferingNewest(8))
            let monitor = NWPathMonitor()
            monitor.pathUpdateHandler = { path in
                if case .satisfied = path.status { continuation.yield(true) } else { continuation.yield(false) }
            }
            monitor.start(queue: DispatchQueue(label: "EntitlementKit.network"))
            var wasUp = true
            for await isUp in changes {
                guard let self else { break }
                if isUp, !wasUp { await networkDidReturn() }
                if !isUp, wasUp { await networkWasLost() }
                wasUp = isUp
            }
            // It ends with its last owner.
            withExtendedLifetime(monitor) {}
        }
    }

    /// Tries again what rests, and asks for the truth, whenever the app comes to the front.
    private nonisolated func watchForeground() {
        // By name, so that no framework for views is linked.
        for name in [
            "UIApplicationWillEnterForegroundNotification", "NSApplicationDidBecomeActiveNotification",
            "WKApplicationWillEnterForegroundNotification",
        ] { observe(name) { await $0.applicationWillEnterForeground() } }
        // It comes at every unlock, also to an app that plays music: only what could not be read is read.
        observe("UIApplicationProtectedDataDidBecomeAvailable") { await $0.deviceWasUnlocked() }
    }

    /// Never taken back: a store lives as long as the app.
    private nonisolated func observe(_ name: String, _ body: @escaping @Sendable (EntitlementStore) async -> Void) {
        _ = NotificationCenter.default.addObserver(forName: Notification.Name(name), object: nil, queue: nil) {
            [weak self] _ in
            Task { if let self { await body(self) } }
        }
    }
}
#endif
