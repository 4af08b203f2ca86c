public import Observation

/// What an ``EntitlementStore`` publishes, for views and whatever else observes; the same for older systems is
/// `EntitlementModel`.
///
/// It only looks on: the store does its work whether or not one of these is alive.
@available(iOS 17.0, macOS 14.0, tvOS 17.0, watchOS 10.0, visionOS 1.0, *)
@MainActor
@Observable
public final class ObservableEntitlements {
    /// What the customer holds.
    public private(set) var current = Entitlements.loading
    /// The store it looks at.
    public nonisolated let store: EntitlementStore
    @ObservationIgnored private var listening: Task<Void, Never>?

    /// Begins to look at a store, which starts it.
    public init(_ store: EntitlementStore) {
        self.store = store
        let states = store.states
        listening = Task { [weak self] in
            for await state in states { self?.current = state }
        }
    }

    deinit { listening?.cancel() }
}
