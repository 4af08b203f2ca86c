package import EntitlementCore

/// What a cached answer is about: a customer id as it was asked for, and the environment.
///
/// Keys are equal only byte for byte.
package struct CustomerCacheKey: Hashable, Sendable {
    package let customer: [UInt8]
    package let environment: StoreEnvironment

    /// A key for an id in UTF-8.
    package init(customer: [UInt8], environment: StoreEnvironment) {
        self.customer = customer
        self.environment = environment
    }

    package func hash(into hasher: inout Hasher) {
        customer.withUnsafeBytes { hasher.combine(bytes: $0) }
        hasher.combine(environment == .sandbox)
    }
}

/// Answers about customers, each under a key of the caller's, kept as long as the log says nothing new about them; for
/// one thread.
///
/// Before a read it is brought up to date: `apply` takes what came into the log since `mark`, and drops every answer
/// that this can change. An answer counts only if the log up to `mark` holds the event that was the last when the
/// answer was read: otherwise the log may have lost events on which it rests. Memory is bounded: the answers that were
/// not used for the longest time go first, roughly (the CLOCK algorithm).
package final class CustomerCache<Key: Hashable, Answer> {
    @usableFromInline
    final class Entry {
        let key: Key
        @usableFromInline let answer: Answer
        /// The end of the log at which the answer was read.
        let rest: EventMark
        /// Whether the log up to `mark` holds that event; until then it is not given.
        @usableFromInline var isProven: Bool
        let environment: StoreEnvironment
        let dependencies: [DependencyKey]
        let bytes: Int
        /// Whether it was used since the clock's hand last passed.
        ///
        /// At first it is not: what is asked for once must not push out what is asked for again and again.
        @usableFromInline var isUsed = false

        init(
            key: Key, answer: Answer, rest: EventMark, isProven: Bool, environment: StoreEnvironment,
            dependencies: [DependencyKey], bytes: Int
        ) {
            self.key = key
            self.answer = answer
            self.rest = rest
            self.isProven = isProven
            self.environment = environment
            self.dependencies = dependencies
            self.bytes = bytes
        }
    }

    /// What one entry takes beside what the caller counts: its object, its places in the tables, and its dependencies.
    package static var overheadPerEntry: Int { 320 }
    /// What each dependency of an entry takes.
    package static var overheadPerDependency: Int { 72 }

    private let capacity: Int
    @usableFromInline var slots: [Entry?] = []
    private var freeSlots: [Int32] = []
    @usableFromInline var slotOfKey: [Key: Int32] = [:]
    private var dependents = DependencyIndex()
    private var recent = RecentChanges()
    private var chain = RecentChain()
    /// Where those answers are that were read beyond `mark`.
    private var unproven: Set<Int32> = []
    private var hand = 0

    /// The end of the log when this was last brought up to date; `nil` before the first time.
    package private(set) var mark: LogMark?
    /// What everything kept takes, in bytes, as far as it is counted.
    private var bytes = 0

    /// A cache that keeps at most so many bytes.
    package init(capacityBytes: Int) { capacity = capacityBytes }

    /// The most answers kept that were read beyond `mark`.
    private static var unprovenLimit: Int { 8192 }

    /// The answer for a customer, as of `mark`.
    ///
    /// Inlinable, so that it is specialised where it is called: each read and each launch does.
    @inlinable
    package func answer(of key: Key) -> Answer? {
        guard let slot = slotOfKey[key], let entry = slots[Int(slot)], entry.isProven else { return nil }
        entry.isUsed = true
        return entry.answer
    }

    /// Whether an answer is kept, although it may count only once the log is looked at again.
    package func keeps(_ key: Key) -> Bool { slotOfKey[key] != nil }

    /// Keeps an answer, unless an event that can change it came since it was read, or the log has lost its end since.
    ///
    /// - Parameters:
    ///   - environment: the one the answer is about.
    ///   - rest: the end of the log at which it was read.
    ///   - bytes: what the answer and its key take, without this cache's own tables.
    package func insert(
        _ answer: Answer, for key: Key, in environment: StoreEnvironment, restingOn rest: EventMark,
        _ dependencies: CustomerDependencies, bytes: Int
    ) {
        remove(key)
        let keys = DependencyKey.all(of: dependencies, environment)
        guard let mark, !recent.hasChange(of: keys, environment, after: rest.position) else { return }
        let isProven = rest.position <= mark.position
        guard isProven ? chain.holds(rest) : unproven.count < Self.unprovenLimit else { return }
        let cost = Self.overheadPerEntry + Self.overheadPerDependency * keys.count + bytes
        guard cost <= capacity else { return }
        while self.bytes + cost > capacity { evictOne() }
        let entry = Entry(
            key: key, answer: answer, rest: rest, isProven: isProven, environment: environment, dependencies: keys,
            bytes: cost)
        let slot = freeSlots.popLast() ?? Int32(slots.count)
        if Int(slot) == slots.count { slots.append(entry) } else { slots[Int(slot)] = entry }
        slotOfKey[key] = slot
        for dependency in keys { dependents.insert(slot, under: dependency) }
        self.bytes += cost
        if !isProven { unproven.insert(slot) }
    }

    private func remove(_ key: Key) {
        if let slot = slotOfKey[key] { remove(slot: slot) }
    }

    /// Drops the answers that the news can change; then the cache is up to date with the log's head.
    ///
    /// - Returns: whether the log goes on from `mark`. It does not after a backup was restored, or where the database failed
    ///   over to one that lacked the last events: then nothing read before holds.
    @discardableResult
    package func apply(_ news: LogNews) -> Bool {
        let goesOn = mark.map { $0.hash == news.previousHash } ?? false
        mark = news.head
        guard let changes = news.changes, goesOn else {
            // So much has come, or so little is known of it, that everything is in doubt.
            removeAll()
            recent.forget(upTo: news.head.position)
            chain = RecentChain(news.head)
            return goesOn
        }
        for change in changes {
            switch change.scope {
            case .everybody:
                removeAll(in: change.environment)
                recent.noteEverybody(in: change.environment, at: change.position)
            case .dependents(let identities, let originalTransactionID):
                let dependencies = CustomerDependencies(
                    identities: Set(identities), originals: Set([originalTransactionID].compactMap(\.self)))
                for environment in change.environment.map({ [$0] }) ?? StoreEnvironment.allCases {
                    for key in DependencyKey.all(of: dependencies, environment) {
                        forgetDependents(on: key, changedAt: change.position)
                    }
                }
            case .becameKnown(let value):
                forgetDependents(on: DependencyKey(unknown: value), changedAt: change.position)
            }
        }
        chain.append(news.hashes)
        prove(upTo: news.head.position)
        return true
    }

    /// Of the answers that were read beyond `mark`, lets those count whose last event the log holds, and drops the
    /// others.
    private func prove(upTo position: Int64) {
        for slot in unproven {
            guard let entry = slots[Int(slot)], entry.rest.position <= position else { continue }
            if chain.holds(entry.rest) {
                entry.isProven = true
                unproven.remove(slot)
            } else {
                remove(slot: slot)
            }
        }
    }

    private func forgetDependents(on key: DependencyKey, changedAt position: Int64) {
        recent.note(key, at: position)
        // An answer loaded in the meantime may rest on the change already.
        for slot in dependents.slots(under: key) where (slots[Int(slot)]?.rest.position ?? .max) < position {
            remove(slot: slot)
        }
    }

    private func removeAll(in environment: StoreEnvironment? = nil) {
        for slot in slots.indices {
            guard let entry = slots[slot], environment == nil || entry.environment == environment else { continue }
            remove(slot: Int32(slot))
        }
    }

    private func remove(slot: Int32) {
        guard let entry = slots[Int(slot)] else { return }
        slots[Int(slot)] = nil
        slotOfKey[entry.key] = nil
        if !entry.isProven { unproven.remove(slot) }
        for dependency in entry.dependencies { dependents.remove(slot, under: dependency) }
        bytes -= entry.bytes
        freeSlots.append(slot)
    }

    /// Moves the hand past what was used since it last came by, and removes the first that was not.
    private func evictOne() {
        while true {
            hand = hand + 1 < slots.count ? hand + 1 : 0
            guard let entry = slots[hand] else { continue }
            guard entry.isUsed else { return remove(slot: Int32(hand)) }
            entry.isUsed = false
        }
    }
}
