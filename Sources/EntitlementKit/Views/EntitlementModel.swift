#if canImport(Combine)
public import Combine

/// What an ``EntitlementStore`` publishes, for views.
///
/// It only looks on: the store does its work whether or not one of these is alive.
@MainActor
public final class EntitlementModel: ObservableObject {
    /// What the customer holds.
    @Published public private(set) var entitlements: Entitlements
    /// The store it looks at.
    public nonisolated let store: EntitlementStore
    private var listening: Task<Void, Never>?

    /// Begins to look at a store, which starts it.
    public init(_ store: EntitlementStore) {
        self.store = store
        entitlements = .loading
        let states = store.states
        listening = Task { [weak self] in
            for await state in states { self?.entitlements = state }
        }
    }

    deinit { listening?.cancel() }
}
#endif
