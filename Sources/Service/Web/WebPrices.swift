import EntitlementCore
import StripeAPI

/// What products cost on the web, as Stripe said it last.
///
/// A price that was read lately is given at once. An older one is given too, with its age, while it is read again. Only for
/// one that was never read does anybody wait, and not for long.
actor WebPrices {
    struct Known: Sendable {
        let price: StripePrice
        let readAt: Timestamp
    }

    private struct Key: Hashable {
        let price: String
        let environment: StoreEnvironment
    }

    /// How long a price is taken for what it was, in milliseconds.
    private static let lifetime: Int64 = 5 * 60_000
    /// After a failure it is not asked for again so soon, in milliseconds.
    private static let pauseAfterFailure: Int64 = 30_000
    /// How many are asked for at once.
    private static let mostAtOnce = 4

    private let now: @Sendable () -> Timestamp
    private let read: @Sendable (String, StoreEnvironment) async throws -> StripePrice
    private var known: [Key: Known] = [:]
    private var failedAt: [Key: Timestamp] = [:]
    /// Waiting to be asked for, in their order.
    private var wanted: [Key] = []
    private var reading: Set<Key> = []
    private var workers = 0
    private var waiting: [UInt64: (missing: Set<Key>, continuation: CheckedContinuation<Void, Never>)] = [:]
    private var lastWaiter: UInt64 = 0

    init(
        now: @escaping @Sendable () -> Timestamp,
        read: @escaping @Sendable (String, StoreEnvironment) async throws -> StripePrice
    ) {
        self.now = now
        self.read = read
    }

    /// What is known of some prices, by their ids.
    ///
    /// - Parameter patience: how long it waits for those that were never read.
    func prices(_ ids: [String], in environment: StoreEnvironment, patience: Duration) async -> [String: Known] {
        let keys = ids.map { Key(price: $0, environment: environment) }
        let instant = now()
        for key in keys where isDue(key, at: instant) { want(key) }
        let missing = Set(keys.filter { known[$0] == nil && (reading.contains($0) || wanted.contains($0)) })
        if !missing.isEmpty { await wait(for: missing, patience: patience) }
        var found: [String: Known] = [:]
        for key in keys { found[key.price] = known[key] }
        return found
    }

    private func isDue(_ key: Key, at instant: Timestamp) -> Bool {
        if let failed = failedAt[key], !isPast(failed, by: Self.pauseAfterFailure, at: instant) { return false }
        guard let known = known[key] else { return true }
        return isPast(known.readAt, by: Self.lifetime, at: instant)
    }

    /// Also where a clock was set back: what was read in the future is as good as old.
    private func isPast(_ then: Timestamp, by length: Int64, at instant: Timestamp) -> Bool {
        then > instant || then.adding(milliseconds: length) <= instant
    }

    private func want(_ key: Key) {
        guard !reading.contains(key), !wanted.contains(key) else { return }
        wanted.append(key)
        guard workers < Self.mostAtOnce else { return }
        workers += 1
        Task { await work() }
    }

    private func work() async {
        while !wanted.isEmpty {
            let key = wanted.removeFirst()
            reading.insert(key)
            do {
                let price = try await read(key.price, key.environment)
                known[key] = Known(price: price, readAt: now())
                failedAt[key] = nil
            } catch {
                failedAt[key] = now()
            }
            reading.remove(key)
            for (waiter, waits) in waiting {
                var missing = waits.missing
                missing.remove(key)
                waiting[waiter]?.missing = missing
                if missing.isEmpty { stopWaiting(waiter) }
            }
        }
        workers -= 1
    }

    private func wait(for missing: Set<Key>, patience: Duration) async {
        lastWaiter += 1
        let waiter = lastWaiter
        let alarm = Task {
            try? await Task.sleep(for: patience)
            stopWaiting(waiter)
        }
        await withCheckedContinuation { waiting[waiter] = (missing, $0) }
        alarm.cancel()
    }

    private func stopWaiting(_ waiter: UInt64) {
        waiting.removeValue(forKey: waiter)?.continuation.resume()
    }
}
