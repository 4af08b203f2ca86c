#if canImport(SwiftUI)
public import SwiftUI

extension EnvironmentValues {
    /// What the customer holds, as the nearest `entitlementStore(_:)` above publishes it; loading where there is none.
    public var entitlements: Entitlements {
        get { self[EntitlementsKey.self] }
        set { self[EntitlementsKey.self] = newValue }
    }

    /// The store of the nearest `entitlementStore(_:)` above.
    public var entitlementStore: EntitlementStore? {
        get { self[EntitlementStoreKey.self] }
        set { self[EntitlementStoreKey.self] = newValue }
    }
}

private struct EntitlementsKey: EnvironmentKey {
    static let defaultValue = Entitlements.loading
}

private struct EntitlementStoreKey: EnvironmentKey {
    static let defaultValue: EntitlementStore? = nil
}

extension View {
    /// Tells all views below what the customer holds, by the environment's `entitlements`, and takes what StoreKit's views
    /// among them buy.
    ///
    /// Once, around the app's first view, is enough. It starts the store.
    nonisolated public func entitlementStore(_ store: EntitlementStore) -> some View {
        modifier(EntitlementStoreModifier(store: store))
    }

    /// Shows this view to whoever holds an entitlement, to others a paywall, and until it is known who they are the view
    /// `loading`.
    ///
    /// - Parameter paywall: is told what they held before; `nil`: nothing.
    nonisolated public func requiresEntitlement<Paywall: View, Loading: View>(
        _ id: String, @ViewBuilder paywall: @escaping @MainActor (Entitlement?) -> Paywall,
        @ViewBuilder loading: @escaping @MainActor () -> Loading
    ) -> some View {
        modifier(EntitlementGate(id: id, paywall: paywall, loading: loading))
    }

    /// The same with a `ProgressView` until it is known who they are.
    nonisolated public func requiresEntitlement<Paywall: View>(
        _ id: String, @ViewBuilder paywall: @escaping @MainActor (Entitlement?) -> Paywall
    ) -> some View {
        requiresEntitlement(id, paywall: paywall) { ProgressView() }
    }
}

private struct EntitlementStoreModifier: ViewModifier {
    let store: EntitlementStore
    @State private var entitlements = Entitlements.loading

    func body(content: Content) -> some View {
        content
            .handingPurchases(to: store)
            .environment(\.entitlements, entitlements)
            .environment(\.entitlementStore, store)
            .task(id: ObjectIdentifier(store)) {
                for await state in store.states { entitlements = state }
            }
    }
}

private struct EntitlementGate<Paywall: View, Loading: View>: ViewModifier {
    let id: String
    let paywall: @MainActor (Entitlement?) -> Paywall
    let loading: @MainActor () -> Loading
    @Environment(\.entitlements) private var entitlements

    func body(content: Content) -> some View {
        switch entitlements.access(to: id) {
        case .loading: loading()
        case .given: content
        case .denied(let entitlement): paywall(entitlement)
        }
    }
}
#endif
