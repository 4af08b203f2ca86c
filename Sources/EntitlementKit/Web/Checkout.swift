import EntitlementAPI
import EntitlementCore

/// A page of the web checkout that was opened for a customer, and what became of it as far as is known.
struct Checkout: Codable, Hashable, Sendable {
    enum State: String, Codable, Sendable {
        /// Opened, and nobody knows more.
        case open
        /// The page says it was paid, which proves nothing; a bank may take days.
        case completed
        /// The person does not want it, but may have the page open somewhere all the same.
        case cancelled
        /// The server has told of what it sold.
        case seen
        /// The server had told of it and tells of it no more, as after a backup was restored.
        case lost

        /// Of two changes at one instant the later stage counts.
        fileprivate var stage: Int {
            switch self {
            case .open: 0
            case .cancelled: 1
            case .completed: 2
            case .lost: 3
            case .seen: 4
            }
        }
    }

    /// The server's id.
    let id: String
    let customerID: CustomerID
    /// In the server's word.
    let environment: String
    let productID: String
    /// What the product gave when the page was made.
    let entitlements: [String]
    let url: String
    let beganAt: Timestamp
    let expiresAt: Timestamp
    /// The originals of the same product that were known before.
    let known: [String]
    /// Whether one of its entitlements was held from the web before.
    let wasHeldOnWeb: Bool
    var state = State.open
    /// Since when it is in this state.
    var changedAt: Timestamp
    /// What it sold; `nil` where nobody has told.
    var original: String?
    /// Who logged in after it was begun by whoever has this copy of the app; `nil`: nobody.
    var adoptedBy: CustomerID?

    /// How long after its end a page is waited for that may have been paid in the last moment, in milliseconds.
    static let lateness: Int64 = 300_000
    /// How long a payment may take that the page says was made, in milliseconds: a direct debit takes days.
    static let settling: Int64 = 7 * 86_400_000
    /// How long it is remembered what was sold, in milliseconds: as far back as a server that was restored from a backup asks
    /// the payment provider.
    static let memory: Int64 = 30 * 86_400_000

    /// How long it is waited for what a server has lost, in milliseconds: it asks the payment provider as soon as it is started.
    static let recovery: Int64 = 86_400_000

    /// After what there is nothing left to wait for.
    var end: Timestamp {
        switch state {
        case .open, .cancelled: expiresAt.adding(milliseconds: Self.lateness)
        case .completed: max(expiresAt, changedAt.adding(milliseconds: Self.settling))
        case .seen: beganAt.adding(milliseconds: Self.memory)
        case .lost: changedAt.adding(milliseconds: Self.recovery)
        }
    }

    /// Whether it may still be, or has just been, paid, so that nobody should pay for the same elsewhere.
    var mayStillSell: Bool {
        switch state {
        case .open, .completed, .lost: true
        case .cancelled, .seen: false
        }
    }

    /// Whether it is worth looking for what it sold.
    var isAwaited: Bool {
        switch state {
        case .open, .completed, .cancelled, .lost: true
        case .seen: false
        }
    }

    /// Whether what another process, or the disk, knows of the same checkout is newer.
    fileprivate func isOlder(than other: Checkout) -> Bool {
        (changedAt, state.stage) < (other.changedAt, other.state.stage)
    }

    /// Whether both give something in common, or are the same product.
    func overlaps(_ productID: String, _ entitlements: [String]) -> Bool {
        self.productID == productID || !Set(self.entitlements).isDisjoint(with: entitlements)
    }
}

/// A purchase in the device's own store that was begun and may still come, such as one that somebody has to approve.
struct PendingPurchase: Codable, Hashable, Sendable {
    let customerID: CustomerID
    let productID: String
    let beganAt: Timestamp

    /// How long it may come, in milliseconds: Apple gives a day for its approval.
    static let patience: Int64 = 86_400_000 + 3_600_000
}

/// The checkouts that were begun on this device, and what waits for approval: for nobody to pay twice, and for what was paid to
/// be found after the app was killed.
struct CheckoutBook: Sendable {
    /// The most that are kept.
    static let limit = 32

    private(set) var checkouts: [String: Checkout] = [:]
    private(set) var pending: [PendingPurchase] = []

    var isEmpty: Bool { checkouts.isEmpty && pending.isEmpty }

    /// In the order in which they were begun.
    var all: [Checkout] { checkouts.values.sorted { ($0.beganAt, $0.id) < ($1.beganAt, $1.id) } }

    mutating func begin(_ checkout: Checkout) {
        checkouts[checkout.id] = checkout
        guard checkouts.count > Self.limit else { return }
        // What is over first, then what is oldest.
        let order = all.sorted { !$0.mayStillSell && $1.mayStillSell }
        if let first = order.first(where: { $0.id != checkout.id }) { checkouts[first.id] = nil }
    }

    /// Notes what became of one; returns whether that is news.
    mutating func note(_ id: String, _ state: Checkout.State, original: String? = nil, at now: Timestamp) -> Bool {
        guard var checkout = checkouts[id], checkout.state != state || checkout.original != original else {
            return false
        }
        checkout.state = state
        checkout.original = original ?? checkout.original
        // Whatever the clock says, it is later than what is known.
        checkout.changedAt = max(now, checkout.changedAt.adding(milliseconds: 1))
        checkouts[id] = checkout
        return true
    }

    /// A page was left; returns whether that is news.
    ///
    /// What says that it was paid stands, whatever says otherwise.
    mutating func returned(_ id: String, cancelled isCancelled: Bool, at now: Timestamp) -> Bool {
        switch checkouts[id]?.state {
        case .open: note(id, isCancelled ? .cancelled : .completed, at: now)
        case .cancelled where !isCancelled: note(id, .completed, at: now)
        case .cancelled, .completed, .seen, .lost, nil: false
        }
    }

    /// A page is shown once more.
    mutating func reopen(_ id: String, at now: Timestamp) {
        if checkouts[id]?.state == .cancelled { _ = note(id, .open, at: now) }
    }

    /// Somebody logged in; returns whether anything that was begun before is theirs now, too.
    mutating func adopt(from customerID: CustomerID, by login: CustomerID, at now: Timestamp) -> Bool {
        let begun = all.filter { $0.customerID == customerID && $0.adoptedBy == nil && $0.state != .seen }
        for checkout in begun where customerID != login {
            checkouts[checkout.id]?.adoptedBy = login
            checkouts[checkout.id]?.changedAt = max(now, checkout.changedAt.adding(milliseconds: 1))
        }
        return !begun.isEmpty
    }

    mutating func forget(_ id: String) { checkouts[id] = nil }

    mutating func wait(for purchase: PendingPurchase) {
        pending.removeAll { ($0.customerID, $0.productID) == (purchase.customerID, purchase.productID) }
        pending.append(purchase)
        pending.removeFirst(max(0, pending.count - Self.limit))
    }

    /// How far the device's clock may be ahead of the store's, in milliseconds.
    private static let tolerance: Int64 = 3_600_000

    /// The store has told of a purchase of the product: nothing waits for approval any more.
    ///
    /// Returns whether something did.
    mutating func came(_ productID: String, at purchaseDate: Timestamp) -> Bool {
        let count = pending.count
        pending.removeAll {
            $0.productID == productID && $0.beganAt.adding(milliseconds: -Self.tolerance) <= purchaseDate
        }
        return pending.count < count
    }

    /// Lets go of what there is nothing left to wait for; returns whether there was any.
    ///
    /// - Parameter now: by a clock that nobody here can set.
    mutating func prune(at now: Timestamp) -> Bool {
        let count = checkouts.count + pending.count
        checkouts = checkouts.filter { $0.value.end > now }
        pending.removeAll { $0.beganAt.adding(milliseconds: PendingPurchase.patience) <= now }
        return checkouts.count + pending.count < count
    }

    // MARK: Disk

    /// Joins what the disk holds, which another process may have written.
    mutating func join(_ file: WireValue) {
        for row in file["checkouts"]?.entries ?? [] {
            guard let kept = row.decoded(Checkout.self) else { continue }
            guard let known = checkouts[kept.id], !known.isOlder(than: kept) else {
                checkouts[kept.id] = kept
                continue
            }
        }
        for row in file["pending"]?.entries ?? [] {
            guard let kept = row.decoded(PendingPurchase.self), !pending.contains(kept) else { continue }
            pending.append(kept)
        }
    }

    var file: CheckoutFile { CheckoutFile(checkouts: all, pending: pending) }
}

/// What is kept on disk of checkouts.
struct CheckoutFile: Encodable {
    let checkouts: [Checkout]
    let pending: [PendingPurchase]
}

/// When it is asked what became of a page that was left.
struct CheckoutWatch: Hashable, Sendable {
    /// How long after the return, and then after each other, in milliseconds; a quarter of an hour in all.
    static let delays: [Int64] = [
        0, 1_000, 1_000, 2_000, 4_000, 8_000, 15_000, 30_000, 60_000, 120_000, 240_000, 420_000,
    ]
    /// How long between two questions from then on, in milliseconds.
    static let interval: Int64 = 900_000
    /// How often it is asked at that pace: for a day.
    static let slowSteps = 96

    /// While a page is shown there is no hurry: somebody has to type.
    static let whileShown = CheckoutWatch(steps: 7)

    private(set) var steps = 0

    init(steps: Int = 0) { self.steps = steps }

    /// How long until the next question, in milliseconds; `nil`: there is none but those that are asked anyway.
    ///
    /// - Parameter isExpected: whether something may well come; what was cancelled is not waited for so long.
    mutating func next(isExpected: Bool) -> Int64? {
        defer { steps += 1 }
        if steps < Self.delays.count { return Self.delays[steps] }
        return isExpected && steps < Self.delays.count + Self.slowSteps ? Self.interval : nil
    }
}
