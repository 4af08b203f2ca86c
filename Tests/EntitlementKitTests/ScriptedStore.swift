import EntitlementKit
import Foundation
import Synchronization

/// A device's store that says what a test tells it to.
final class ScriptedStore: DeviceStore {
    struct Script: Sendable {
        var appTransaction: SignedStatement? = Statements.appTransaction()
        var current: [SignedStatement] = []
        var all: [SignedStatement] = []
        var unfinished: [SignedStatement] = []
        var subscriptions: [SubscriptionStatement] = []
        var products: [StoreProduct] = []
        var purchase: Result<StorePurchaseResult, PurchaseError> = .failure(.productNotFound)
        var mayPay = true
        /// Where a read of the current entitlements waits.
        var readDoor: Door?
        var appDoor: Door?
        fileprivate(set) var finished: [String] = []
        fileprivate(set) var subscriptionsToUpdates = 0
        fileprivate(set) var reads = 0
        fileprivate(set) var tokens: [UUID?] = []
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

    /// Hands over an update.
    func push(_ statement: SignedStatement) {
        for listener in state.listeners { listener.yield(statement) }
    }

    func appTransaction() async -> SignedStatement? {
        await state.appDoor?.pass()
        return state.appTransaction
    }

    func currentEntitlements() async -> [SignedStatement] {
        script.withLock { $0.reads += 1 }
        await state.readDoor?.pass()
        return state.current
    }

    func allTransactions() async -> [SignedStatement] { state.all }

    func unfinishedTransactions() async -> [SignedStatement] { state.unfinished }

    func subscriptionStatuses() async -> [SubscriptionStatement] { state.subscriptions }

    func updates() -> AsyncStream<SignedStatement> {
        let (stream, continuation) = AsyncStream.makeStream(of: SignedStatement.self)
        script.withLock {
            $0.listeners.append(continuation)
            $0.subscriptionsToUpdates += 1
        }
        return stream
    }

    func products(_ ids: [String]) async throws -> [StoreProduct] { state.products.filter { ids.contains($0.id) } }

    func purchase(_ productID: String, appAccountToken: UUID?) async throws -> StorePurchaseResult {
        script.withLock { $0.tokens.append(appAccountToken) }
        return try state.purchase.get()
    }

    func finish(transactionID: String) async {
        script.withLock { script in
            script.finished.append(transactionID)
            script.unfinished.removeAll { $0.jws == Statements.transaction(transactionID).jws }
        }
    }

    func sync() async throws {}

    func canMakePayments() async -> Bool { state.mayPay }
}
