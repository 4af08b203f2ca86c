/// What the device's store can be asked for, each with a call of its own, so that one that hangs holds up no other.
enum StorePart: CaseIterable, Hashable, Sendable {
    case current, all, statuses, unfinished

    /// What the store answers.
    ///
    /// - Parameter number: that of the reading.
    func read(_ store: any DeviceStore, number: Int) async -> StoreReading {
        var reading = StoreReading(origin: .part(self, number: number))
        switch self {
        case .current: reading.transactions = await store.currentEntitlements()
        case .all: reading.transactions = await store.allTransactions()
        case .statuses: reading.subscriptions = await store.subscriptionStatuses()
        case .unfinished: reading.transactions = await store.unfinishedTransactions()
        }
        return reading
    }
}

/// What the store handed over at once.
struct StoreReading: Sendable {
    /// How it came.
    enum Origin: Hashable, Sendable {
        /// As the answer to a call.
        case part(StorePart, number: Int)
        /// As an update or a purchase, of what is unfinished.
        case delivery
        /// As a change of a subscription's status.
        case status
        /// As the app's own purchase.
        case app
    }

    let origin: Origin
    var transactions: [SignedStatement] = []
    var subscriptions: [SubscriptionStatement] = []
    var appTransaction: SignedStatement?

    /// Whether the store waits to be told that these transactions are finished with.
    var isUnfinished: Bool {
        switch origin {
        case .delivery, .part(.unfinished, _): true
        case .app, .status, .part: false
        }
    }

    /// The number of the reading it belongs to; `nil` for what came by itself.
    var number: Int? {
        if case .part(_, let number) = origin { number } else { nil }
    }
}

/// Which calls to the store are under way.
struct StoreCalls {
    /// The most calls of one kind under way at once: each may hang, and a new one may be answered all the same.
    static let limit = 3

    /// How often it was looked again because nothing was listed as owned.
    var emptyLooks = 0
    /// How many readings have begun.
    var begun = 0
    /// The number of the last one that ended, by its answers or by its time limit.
    var ended = 0
    var reading: Task<Void, Never>?
    private(set) var underWay: [StorePart: Int] = [:]
    /// The last call for the app's own purchase.
    var app: Task<Void, Never>?
    /// When that call was made, in milliseconds of uptime.
    var appAskedAt: Int64?

    /// Whether another call may be made.
    mutating func begin(_ part: StorePart) -> Bool {
        guard underWay[part, default: 0] < Self.limit else { return false }
        underWay[part, default: 0] += 1
        return true
    }

    mutating func end(_ part: StorePart) { underWay[part, default: 1] -= 1 }
}
