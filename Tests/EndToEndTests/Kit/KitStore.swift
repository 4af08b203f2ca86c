import EntitlementKit
import Foundation
import StoreSimulator
import Synchronization
import Testing

/// The simulated store that all devices of a test share, and what is sent to them by itself.
final class KitStore: Sendable {
    typealias Deed = @Sendable (inout SimulatedDevices) throws -> [DeviceUpdate]

    /// A finish call that nobody allowed.
    struct Violation: Sendable, CustomStringConvertible {
        let device: Int
        let transactionID: String
        let why: String

        var description: String { "device \(device) finished \(transactionID): \(why)" }
    }

    private struct Listener {
        let device: Int
        let process: KitProcess
        let continuation: AsyncStream<SignedStatement>.Continuation
    }

    private struct Waiter {
        let number: Int
        let isMet: @Sendable (SimulatedDevices) -> Bool
        let continuation: CheckedContinuation<Void, Never>
    }

    private struct State {
        var devices: SimulatedDevices
        var listeners: [Listener] = []
        var launched: [ObjectIdentifier: Int] = [:]
        /// What happens right after a call of a device has read what it answers.
        var interruptions: [String: [Deed]] = [:]
        var waiters: [Waiter] = []
        var waiterCount = 0
        var givenUp: Set<Int> = []
        var violations: [Violation] = []
        /// What the app has granted on each device, where it grants consumables by itself.
        var granted: [Int: Set<String>] = [:]
        var unverified: Set<String> = []
        var verified: Set<String> = []
    }

    let clock: WorldClock
    let authority: SimulatedAuthority
    private let state: Mutex<State>

    init(_ service: KitService, seed: UInt64) throws {
        (clock, authority) = (service.clock, service.authority)
        state = Mutex(
            State(
                devices: try SimulatedDevices(
                    authority: service.authority, world: service.world, seed: seed, now: service.clock.instant)))
    }

    /// Reads, or changes what nobody is told of.
    func with<Answer>(_ body: (inout SimulatedDevices) throws -> sending Answer) rethrows -> sending Answer {
        try state.withLock { state in
            state.devices.now = clock.instant
            return try body(&state.devices)
        }
    }

    /// Does something of which devices are told.
    func perform(_ deed: Deed) throws {
        // No two deeds share an instant, as no two purchases of one person do.
        clock.advance(by: Span.second)
        try state.withLock { state in try Self.perform(deed, &state, at: clock.instant) }
    }

    /// Does something that has a name.
    func tell(_ deed: (inout SimulatedDevices) throws -> (word: String, updates: [DeviceUpdate])) throws -> String {
        clock.advance(by: Span.second)
        return try state.withLock { state in
            state.devices.now = clock.instant
            let (word, updates) = try deed(&state.devices)
            try Self.perform({ _ in updates }, &state, at: clock.instant)
            return word
        }
    }

    /// Does something right after a device's next call of that name has read what it answers.
    func interrupt(_ call: String, on device: Int, _ deed: @escaping Deed) {
        state.withLock { $0.interruptions["\(device) \(call)", default: []].append(deed) }
    }

    private func interrupt(_ call: String, on device: Int, _ state: inout State) {
        for deed in state.interruptions.removeValue(forKey: "\(device) \(call)") ?? [] {
            do {
                try Self.perform(deed, &state, at: clock.instant)
            } catch {
                Issue.record("right after \(call): \(error)")
            }
        }
    }

    private static func perform(_ deed: Deed, _ state: inout State, at instant: Int64) throws {
        state.devices.now = instant
        for update in try deed(&state.devices) {
            for listener in state.listeners where listener.device == update.device && !listener.process.isDead {
                hand(update.statement, &state)
                listener.continuation.yield(SignedStatement(update.statement))
            }
        }
    }

    private static func hand(_ statement: DeviceStatement, _ state: inout State) {
        if statement.isVerified {
            state.verified.insert(statement.transactionID)
        } else {
            state.unverified.insert(statement.transactionID)
        }
    }

    // MARK: - What devices do

    fileprivate func read<Answer>(
        _ call: String, on device: Int, _ body: (inout SimulatedDevices) throws -> Answer,
        _ shown: (Answer) -> [DeviceStatement]
    ) rethrows -> Answer where Answer: Sendable {
        try state.withLock { state in
            state.devices.now = clock.instant
            let answer = try body(&state.devices)
            for statement in shown(answer) { Self.hand(statement, &state) }
            interrupt(call, on: device, &state)
            return answer
        }
    }

    fileprivate func listen(_ device: Int, _ process: KitProcess) -> AsyncStream<SignedStatement> {
        let (stream, continuation) = AsyncStream<SignedStatement>.makeStream()
        state.withLock { state in
            guard process.passes("updates") else { return continuation.finish() }
            state.devices.now = clock.instant
            // What was never finished comes again with the first listener of a launch.
            state.launched[ObjectIdentifier(process), default: 0] += 1
            if state.launched[ObjectIdentifier(process)] == 1 {
                for statement in (try? state.devices.redelivery(to: device)) ?? [] {
                    Self.hand(statement, &state)
                    continuation.yield(SignedStatement(statement))
                }
            }
            state.listeners.append(Listener(device: device, process: process, continuation: continuation))
        }
        return stream
    }

    fileprivate func purchase(
        _ productID: String, token: UUID?, on device: Int, _ becoming: KitCondition.Purchases
    ) throws -> StorePurchaseResult {
        clock.advance(by: Span.second)
        let call = KitPurchaseCall.current
        if becoming == .networkFails {
            call?.hear(.networkLost)
            throw URLError(.timedOut)
        }
        if becoming == .cancelled {
            call?.hear(.cancelled)
            return .userCancelled
        }
        return try state.withLock { state in
            state.devices.now = clock.instant
            let asks = state.devices.devices[device].asksToBuy
            if becoming == .interrupted { state.devices.change(device) { $0.asksToBuy = true } }
            defer { state.devices.change(device) { $0.asksToBuy = asks } }
            let (result, updates) = try state.devices.purchase(
                productID, token: token?.uuidString.lowercased(), on: device)
            try Self.perform({ _ in updates }, &state, at: clock.instant)
            interrupt("purchase", on: device, &state)
            if state.devices.devices[device].losesItsConnection {
                call?.hear(.networkLost)
                throw URLError(.networkConnectionLost)
            }
            switch result {
            case .success(let statement):
                Self.hand(statement, &state)
                call?.hear(statement.isVerified ? .bought(statement.transactionID) : .unverified)
                return .success(SignedStatement(statement))
            case .pending:
                call?.hear(becoming == .interrupted ? .cancelled : .pending)
                return becoming == .interrupted ? .userCancelled : .pending
            case .offline:
                call?.hear(.networkLost)
                throw URLError(.notConnectedToInternet)
            }
        }
    }

    fileprivate func finish(_ transactionID: String, on device: Int, isListed: Bool) -> Bool {
        let (met, wasUnfinished) = state.withLock { state -> ([Waiter], Bool) in
            guard !state.devices.devices[device].isUnready else { return ([], false) }
            let wasUnfinished = state.devices.unfinishedIDs(on: device).contains(transactionID)
            func object(_ why: String) {
                state.violations.append(Violation(device: device, transactionID: transactionID, why: why))
            }
            if !isListed { object("no answer of the server listed it") }
            if state.unverified.contains(transactionID), !state.verified.contains(transactionID) {
                object("it was never verified")
            }
            if let granted = state.granted[device], state.devices.isConsumable(transactionID),
                !granted.contains(transactionID)
            {
                object("the app was yet to grant it")
            }
            state.devices.finish(transactionID, on: device)
            let devices = state.devices
            let met = state.waiters.filter { $0.isMet(devices) }
            state.waiters.removeAll { $0.isMet(devices) }
            return (met, wasUnfinished)
        }
        for waiter in met { waiter.continuation.resume() }
        return wasUnfinished
    }

    /// The app on a device grants consumables by itself: nothing it has not granted may be finished there.
    func grantsConsumables(on device: Int) {
        state.withLock { state in
            if state.granted[device] == nil { state.granted[device] = [] }
        }
    }

    /// The app has granted a purchase.
    func grant(_ transactionID: String, on device: Int) {
        state.withLock { _ = $0.granted[device, default: []].insert(transactionID) }
    }

    // MARK: - What tests look at

    var violations: [Violation] { state.withLock { $0.violations } }

    func finishCount(_ transactionID: String, on device: Int) -> Int {
        with { $0.finishCalls.count { $0.device == device && $0.transactionID == transactionID } }
    }

    /// Waits until a device has finished a transaction at least once; an issue where the test's time runs out before.
    func waitForFinish(_ transactionID: String, on device: Int, _ context: String = "") async {
        await wait("device \(device) never finished \(transactionID) \(context)") { devices in
            devices.finishCalls.contains { $0.device == device && $0.transactionID == transactionID }
        }
    }

    /// Waits until a device has nothing left to finish.
    func waitForAllFinished(on device: Int, _ context: String = "") async {
        await wait("device \(device) never finished everything \(context)") { $0.unfinishedIDs(on: device).isEmpty }
    }

    private func wait(_ complaint: String, until isMet: @escaping @Sendable (SimulatedDevices) -> Bool) async {
        let number = state.withLock { state in
            state.waiterCount += 1
            return state.waiterCount
        }
        await withTaskCancellationHandler {
            await clock.passing {
                await withCheckedContinuation { continuation in
                    let isOver = state.withLock { state in
                        if isMet(state.devices) || state.givenUp.contains(number) { return true }
                        state.waiters.append(Waiter(number: number, isMet: isMet, continuation: continuation))
                        return false
                    }
                    if isOver { continuation.resume() }
                }
            }
        } onCancel: {
            let waiter = state.withLock { state -> Waiter? in
                state.givenUp.insert(number)
                guard let index = state.waiters.firstIndex(where: { $0.number == number }) else { return nil }
                return state.waiters.remove(at: index)
            }
            waiter?.continuation.resume()
        }
        if !state.withLock({ isMet($0.devices) }) { Issue.record("\(complaint)") }
    }

    /// Lets everybody go who still waits or listens.
    func close() {
        let (waiters, listeners) = state.withLock { state in
            defer { (state.waiters, state.listeners) = ([], []) }
            return (state.waiters, state.listeners)
        }
        for waiter in waiters { waiter.continuation.resume() }
        for listener in listeners { listener.continuation.finish() }
    }
}

/// The store, as one launch on one device sees it.
struct KitDeviceStore: DeviceStore {
    let device: Int
    let process: KitProcess
    let store: KitStore
    let proxy: KitProxy
    var condition = KitCondition()

    func appTransaction() async -> SignedStatement? {
        await condition.pass("appTransaction")
        return await process.call("appTransaction", or: nil) {
            let statement = try? store.read("appTransaction", on: device) { devices in
                try devices.appTransaction(of: device)
            } _: { _ in
                []
            }
            return statement.flatMap { $0 }.map { SignedStatement($0) }
        }
    }

    func currentEntitlements() async -> [SignedStatement] {
        await list("currentEntitlements") { try $0.currentEntitlements(of: device) }
    }

    func allTransactions() async -> [SignedStatement] {
        await list("allTransactions") { try $0.allTransactions(of: device) }
    }

    func unfinishedTransactions() async -> [SignedStatement] {
        await list("unfinishedTransactions") { try $0.unfinishedTransactions(of: device) }
    }

    private func list(
        _ call: String, _ body: @Sendable (inout SimulatedDevices) throws -> [DeviceStatement]
    ) async -> [SignedStatement] {
        await condition.pass(call)
        return await process.call(call, or: []) {
            let shown = (try? store.read(call, on: device, body) { $0 }) ?? []
            return shown.map { condition.signsAnew ? store.signedAnew($0) : SignedStatement($0) }
        }
    }

    func subscriptionStatuses() async -> [SubscriptionStatement] {
        await condition.pass("subscriptionStatuses")
        return await process.call("subscriptionStatuses", or: []) {
            let statuses = try? store.read("subscriptionStatuses", on: device) { devices in
                try devices.subscriptionStatuses(of: device).map { SubscriptionStatement($0.transaction, $0.renewal) }
            } _: { _ in
                []
            }
            return statuses ?? []
        }
    }

    func updates() -> AsyncStream<SignedStatement> { store.listen(device, process) }

    func products(_ ids: [String]) async throws -> [StoreProduct] {
        try await process.call("products") {
            let sold = Set(StoreWorld.standard.products.map(\.id))
            return ids.filter { sold.contains($0) }.map {
                StoreProduct(id: $0, displayName: $0, displayPrice: "$1")
            }
        }
    }

    /// Nothing: this store tells of a changed status when it is asked.
    func statusUpdates() -> AsyncStream<SubscriptionStatement> { AsyncStream { $0.finish() } }

    func purchase(_ productID: String, options: StorePurchaseOptions) async throws -> StorePurchaseResult {
        try await process.call("purchase") {
            try store.purchase(productID, token: options.appAccountToken, on: device, condition.purchases)
        }
    }

    func finish(transactionID: String) async -> Bool {
        await condition.pass("finish")
        return await process.call("finish", or: false) {
            store.finish(transactionID, on: device, isListed: proxy.lists(transactionID))
        }
    }

    func sync() async throws { try await process.call("sync") {} }

    func canMakePayments() async -> Bool { await process.call("canMakePayments", or: false) { true } }

    func storefront() async -> String? { await process.call("storefront", or: nil) { "USA" } }
}

extension SignedStatement {
    init(_ statement: DeviceStatement) {
        self.init(jws: statement.jws, unverifiedReason: statement.isVerified ? nil : "invalid_signature")
    }
}

extension SubscriptionStatement {
    fileprivate init(_ transaction: DeviceStatement, _ renewal: String) {
        self.init(
            transaction: SignedStatement(transaction),
            renewal: SignedStatement(
                jws: renewal, unverifiedReason: transaction.isVerified ? nil : "invalid_signature"))
    }
}
