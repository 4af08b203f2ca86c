import AppStorePayloads
import EntitlementKit
import Foundation
import Synchronization

/// A device's store that says what a test tells it to.
final class ScriptedStore: DeviceStore {
    /// What a store can be asked.
    enum Call: Hashable, Sendable {
        case appTransaction, currentEntitlements, allTransactions, unfinishedTransactions, subscriptionStatuses,
            products
        case purchase, finish, sync, storefront
    }

    struct Script: Sendable {
        var appTransaction: SignedStatement? = Statements.appTransaction()
        var current: [SignedStatement] = []
        var all: [SignedStatement] = []
        var unfinished: [SignedStatement] = []
        var subscriptions: [SubscriptionStatement] = []
        var products: [StoreProduct] = []
        var purchase: Result<StorePurchaseResult, any Error> = .failure(PurchaseError(.productNotFound))
        var mayPay = true
        var storefront: String?
        var tokens: [ExternalLinkToken] = []
        /// Where a call waits, as in a store that hangs.
        var doors: [Call: Door] = [:]
        /// A store that is not ready shows nothing unfinished, and so finds nothing to finish.
        var isReady = true
        /// The transactions that were finished, in that order.
        fileprivate(set) var finished: [String] = []
        fileprivate(set) var calls: [Call: Int] = [:]
        fileprivate(set) var subscriptionsToUpdates = 0
        /// How each purchase was made.
        fileprivate(set) var purchases: [StorePurchaseOptions] = []
        /// What `sync` throws.
        var syncError: (any Error)?
        fileprivate var statusListeners: [AsyncStream<SubscriptionStatement>.Continuation] = []
        fileprivate var listeners: [AsyncStream<SignedStatement>.Continuation] = []
    }

    private let script: Mutex<Script>

    init(_ edit: (inout Script) -> Void = { _ in }) {
        var script = Script()
        edit(&script)
        self.script = Mutex(script)
    }

    var state: Script { script.withLock { $0 } }

    func edit(_ body: (inout Script) -> Void) { script.withLock { body(&$0) } }

    /// How often something was asked for.
    func count(_ call: Call) -> Int { state.calls[call] ?? 0 }

    /// Hands over an update, of what is unfinished from then on.
    func push(_ statement: SignedStatement, isUnfinished: Bool = true) {
        let listeners = script.withLock { script in
            if isUnfinished {
                script.unfinished.removeAll { Statements.id($0) == Statements.id(statement) }
                script.unfinished.append(statement)
            }
            return script.listeners
        }
        for listener in listeners { listener.yield(statement) }
    }

    private func enter(_ call: Call) async {
        let door = script.withLock { script in
            script.calls[call, default: 0] += 1
            return script.doors[call]
        }
        await door?.pass()
    }

    func appTransaction() async -> SignedStatement? {
        await enter(.appTransaction)
        return state.appTransaction
    }

    func currentEntitlements() async -> [SignedStatement] {
        await enter(.currentEntitlements)
        return state.current
    }

    func allTransactions() async -> [SignedStatement] {
        await enter(.allTransactions)
        return state.all
    }

    func unfinishedTransactions() async -> [SignedStatement] {
        await enter(.unfinishedTransactions)
        return state.isReady ? state.unfinished : []
    }

    func subscriptionStatuses() async -> [SubscriptionStatement] {
        await enter(.subscriptionStatuses)
        return state.subscriptions
    }

    func updates() -> AsyncStream<SignedStatement> {
        let (stream, continuation) = AsyncStream.makeStream(of: SignedStatement.self)
        script.withLock {
            $0.listeners.append(continuation)
            $0.subscriptionsToUpdates += 1
        }
        return stream
    }

    func statusUpdates() -> AsyncStream<SubscriptionStatement> {
        let (stream, continuation) = AsyncStream.makeStream(of: SubscriptionStatement.self)
        script.withLock { $0.statusListeners.append(continuation) }
        return stream
    }

    /// The store tells by itself that a subscription's status has changed.
    func push(_ status: SubscriptionStatement) {
        for listener in state.statusListeners { listener.yield(status) }
    }

    func products(_ ids: [String]) async throws -> [StoreProduct] {
        await enter(.products)
        return state.products.filter { ids.contains($0.id) }
    }

    func purchase(_ productID: String, options: StorePurchaseOptions) async throws -> StorePurchaseResult {
        script.withLock { $0.purchases.append(options) }
        await enter(.purchase)
        return try script.withLock { script in
            let result = try script.purchase.get()
            if case .success(let statement) = result { script.unfinished.append(statement) }
            return result
        }
    }

    func finish(transactionID: String) async -> Bool {
        await enter(.finish)
        return script.withLock { script in
            guard script.isReady, script.unfinished.contains(where: { Statements.id($0) == transactionID }) else {
                return false
            }
            script.finished.append(transactionID)
            script.unfinished.removeAll { Statements.id($0) == transactionID }
            return true
        }
    }

    func sync() async throws {
        await enter(.sync)
        if let error = state.syncError { throw error }
    }

    func canMakePayments() async -> Bool { state.mayPay }

    func storefront() async -> String? {
        await enter(.storefront)
        return state.storefront
    }

    func externalPurchaseTokens() async -> [ExternalLinkToken] { state.tokens }
}
