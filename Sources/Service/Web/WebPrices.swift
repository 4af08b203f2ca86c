import EntitlementCore
import StripeAPI

/// What products cost on the web, as Stripe said it last.
///
/// A price that was read lately is given at once. An older one is given too, with its age, while it is read again. Only for
/// one that was never read does anybody wait, and not for long; while Stripe keeps a question waiting, nobody waits for another.
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
    private let report: @Sendable (String, StoreEnvironment, any Error) -> Void
    private var known: [Key: Known] = [:]
    private var failedAt: [Key: Timestamp] = [:]
    /// Waiting to be asked for, in their order.
    private var wanted: [Key] = []
    /// Being asked for, and since when.
    private var reading: [Key: ContinuousClock.Instant] = [:]
    private var workers = 0
    private var waiting: [UInt64: (missing: Set<Key>, continuation: CheckedContinuation<Void, Never>)] = [:]
    private var lastWaiter: UInt64 = 0

    /// - Parameter report: is told of a price that cannot be read, once until it can be again.
    init(
        now: @escaping @Sendable () -> Timestamp,
        report: @escaping @Sendable (String, StoreEnvironment, any Error) -> Void = { _, _, _ in },
        read: @escaping @Sendable (String, StoreEnvironment) async throws -> StripePrice
    ) {
        self.now = now
        self.report = report
        self.read = read
    }

    /// What is known of some prices, by their ids.
    ///
    /// - Parameter patience: how long it waits for those that were never read.
    func prices(_ ids: [String], in environment: StoreEnvironment, patience: Duration) async -> [String: Known] {
        let keys = ids.map { Key(price: $0, environment: environment) }
        let instant = now()
        for key in keys where isDue(key, at: instant) { want(key) }
        let missing = Set(keys.filter { known[$0] == nil && (reading[$0] != nil || wanted.contains($0)) })
        let isHanging = reading.values.contains { $0.duration(to: .now) > patience }
        if !missing.isEmpty, !isHanging { await wait(for: missing, patience: patience) }
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
        guard reading[key] == nil, !wanted.contains(key) else { return }
        wanted.append(key)
        guard workers < Self.mostAtOnce else { return }
        workers += 1
        Task { await work() }
    }

    private func work() async {
        while !wanted.isEmpty {
            let key = wanted.removeFirst()
            reading[key] = .now
            do {
                let price = try await read(key.price, key.environment)
                known[key] = Known(price: price, readAt: now())
                failedAt[key] = nil
            } catch {
                if failedAt.updateValue(now(), forKey: key) == nil { report(key.price, key.environment, error) }
            }
            reading[key] = nil
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
