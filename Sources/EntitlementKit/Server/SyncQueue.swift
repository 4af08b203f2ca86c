import EntitlementCore

/// What is to be sent to the server, and when.
///
/// An item names a transaction, whose newest statement is sent with whatever renewal information goes with it. It waits
/// for nobody: each has attempts of its own, and those that the server refused together are sent in ever smaller batches,
/// until the one at fault is alone. After the last attempt it rests, and is never dropped.
struct SyncQueue: Sendable {
    /// How often an item is tried before it rests.
    static let attemptLimit = 5
    /// The most requests under way at once.
    static let flightLimit = 4
    /// The most transactions in one request; far below what the server takes, so that a body stays small.
    static let batchLimit = 100
    /// The smallest batch that a failed one is split into where not the server itself refused it: a gateway or a slow
    /// network may have failed because of the size, and does not say which statement is at fault.
    static let blindLimit = 10
    /// How long it waits after each failed attempt but the last, in milliseconds.
    static let delays: [Int64] = [1_000, 5_000, 30_000, 300_000]

    /// What an item is about.
    struct Key: Codable, Hashable, Sendable {
        let customerID: CustomerID
        /// `nil`: nothing but the wish for an answer.
        let transactionID: String?
    }

    /// What is sent in one request.
    struct Batch: Hashable, Sendable {
        /// Counts the requests.
        let number: Int
        let customerID: CustomerID
        /// In the order in which they are posted.
        let transactionIDs: [String]
        let asks: Bool

        var keys: [Key] {
            transactionIDs.map { Key(customerID: customerID, transactionID: $0) }
                + (asks ? [Key(customerID: customerID, transactionID: nil)] : [])
        }
    }

    /// What became of an attempt in vain.
    struct Failure: Hashable, Sendable {
        let key: Key
        let attempts: Int
        /// In milliseconds from now; `nil`: it rests.
        let delay: Int64?
    }

    private struct Item {
        var attempts = 0
        /// In milliseconds of uptime.
        var due: Int64 = 0
        var isResting = false
        /// The number of the request it is under way in.
        var flight: Int?
        /// It has changed while it was under way, so the answer is about something older.
        var isStale = false
        /// It was woken while it was under way, so that a failure says nothing of now.
        var isWoken = false
        /// It failed by itself, not because nothing could be reached.
        var isRefused = false
        /// How many may go in one request with it.
        var company = SyncQueue.batchLimit
    }

    private var items: [Key: Item] = [:]
    private var flights = 0
    /// The number of the last request.
    private(set) var lastNumber = 0
    /// Until when the server asked for patience, in milliseconds of uptime; whatever is sent, it is sent after it.
    private var quietUntil: Int64 = 0

    /// What is kept on disk.
    var pending: [Key] {
        items.keys.filter { $0.transactionID != nil }
            .sorted { ($0.customerID.value, $0.transactionID ?? "") < ($1.customerID.value, $1.transactionID ?? "") }
    }

    var isEmpty: Bool { items.isEmpty }

    /// Whether the server asked for patience.
    func isQuiet(at uptime: Int64) -> Bool { uptime < quietUntil }

    func contains(_ key: Key) -> Bool { items[key] != nil }

    /// Whether an item is being sent.
    func isUnderWay(_ key: Key) -> Bool { items[key]?.flight != nil }

    /// Adds an item; returns whether it was not there.
    ///
    /// - Parameter isNews: whether there is something to send that was not there when it was last sent.
    mutating func add(_ key: Key, isNews: Bool = true) -> Bool {
        guard var item = items[key] else {
            items[key] = Item()
            return true
        }
        guard isNews else { return false }
        if item.flight != nil {
            item.isStale = true
        } else {
            item.attempts = 0
            item.due = 0
            item.isResting = false
        }
        items[key] = item
        return false
    }

    /// Tries everything again from the beginning, what rests included: the app was launched or came to the front, or the
    /// network returned.
    ///
    /// A batch may be as large as at first again, unless the server itself refused what is in it: the network may be another
    /// one now. An answer does not allow that, because a small batch that got through says nothing about a large one.
    mutating func wake() {
        for (key, item) in items {
            items[key]?.attempts = 0
            items[key]?.due = 0
            items[key]?.isResting = false
            items[key]?.isWoken = item.flight != nil
            if !item.isRefused { items[key]?.company = Self.batchLimit }
        }
    }

    /// Sends a customer's items again that are under way, since what they were sent with is outdated; what comes of it is
    /// passed over.
    mutating func recall(_ customerID: CustomerID) {
        for (key, item) in items where key.customerID == customerID && item.flight != nil { items[key] = Item() }
    }

    /// The server answered something: what could not reach it before is tried again, and what it refused is not.
    mutating func serverAnswered() {
        for (key, item) in items where item.attempts > 0 && item.flight == nil && !item.isRefused {
            items[key]?.attempts = 0
            items[key]?.due = 0
            items[key]?.isResting = false
        }
    }

    /// Whether a batch was not recalled.
    func isUnderWay(_ batch: Batch) -> Bool { !keys(of: batch).isEmpty }

    /// Takes what is due for one customer, as far as it may go together; it is under way until `settle` is told.
    ///
    /// - Parameters:
    ///   - uptime: in milliseconds.
    ///   - isSendable: whether there is a statement to send for a transaction.
    mutating func takeBatch(uptime: Int64, isSendable: (String) -> Bool) -> Batch? {
        guard flights < Self.flightLimit, !isQuiet(at: uptime) else { return nil }
        let due = items.filter { key, item in
            item.flight == nil && !item.isResting && item.due <= uptime && (key.transactionID.map(isSendable) ?? true)
        }
        let order = due.sorted { left, right in
            (left.value.due, left.key.customerID.value, left.key.transactionID ?? "")
                < (right.value.due, right.key.customerID.value, right.key.transactionID ?? "")
        }
        guard let first = order.first else { return nil }
        var company = first.value.company
        var taken: [Key] = []
        for (key, item) in order where key.customerID == first.key.customerID {
            company = min(company, item.company)
            guard taken.count < company else { break }
            taken.append(key)
        }
        lastNumber += 1
        for key in taken {
            items[key]?.flight = lastNumber
            items[key]?.isWoken = false
            items[key]?.isStale = false
        }
        flights += 1
        return Batch(
            number: lastNumber, customerID: first.key.customerID, transactionIDs: taken.compactMap(\.transactionID),
            asks: taken.contains { $0.transactionID == nil })
    }

    /// The server answered a batch: what it took is done, and what it refused by itself has failed by itself.
    mutating func settle(_ batch: Batch, refused: Set<String>, uptime: Int64) -> [Failure] {
        flights -= 1
        var failures: [Failure] = []
        for key in keys(of: batch) {
            if let id = key.transactionID, refused.contains(id) {
                failures.append(fail(key, company: 1, uptime: uptime, notBefore: 0, isRefused: true))
            } else if items[key]?.isStale == true {
                items[key] = Item()
            } else {
                items[key] = nil
            }
        }
        return failures
    }

    /// No usable answer came.
    ///
    /// - Parameters:
    ///   - mayBeContent: whether something in the batch may be the cause, or its size, so that it is taken apart.
    ///   - isServersWord: whether the server itself said so; a gateway before one that is away knows nothing of content.
    ///   - isServersFault: whether the server failed at it (500), which may be because of one item. So as not to be sent
    ///     more while it is broken, it is sent the question alone at once, and the rest taken apart only after all tries.
    ///   - retryAfter: what the server asked for, in milliseconds.
    mutating func settle(
        failed batch: Batch, mayBeContent: Bool, isServersWord: Bool = true, isServersFault: Bool = false,
        retryAfter: Int64, uptime: Int64
    ) -> [Failure] {
        flights -= 1
        quietUntil = max(quietUntil, uptime + retryAfter)
        let smallest = isServersWord ? 1 : Self.blindLimit
        let part = max(smallest, batch.keys.count / 4)
        return keys(of: batch).map { key in
            let isAlone = isServersFault && key.transactionID == nil
            return fail(
                key, company: mayBeContent ? part : isAlone ? 1 : Self.batchLimit,
                companyAfterAll: isServersFault && !isAlone ? part : nil, uptime: uptime, notBefore: retryAfter,
                isRefused: mayBeContent && isServersWord)
        }
    }

    /// A batch is to be sent again at once, since the fault was not with it.
    mutating func settle(again batch: Batch) {
        flights -= 1
        for key in keys(of: batch) {
            items[key]?.flight = nil
            items[key]?.isStale = false
        }
    }

    /// What is still under way with a batch, and was not recalled.
    private func keys(of batch: Batch) -> [Key] { batch.keys.filter { items[$0]?.flight == batch.number } }

    /// - Parameters:
    ///   - company: how many may go together with it from now on.
    ///   - companyAfterAll: how many, once it was tried as often as it is; `nil`: as many.
    private mutating func fail(
        _ key: Key, company: Int, companyAfterAll: Int? = nil, uptime: Int64, notBefore: Int64, isRefused: Bool
    ) -> Failure {
        var item = items[key] ?? Item()
        item.isRefused = isRefused
        item.flight = nil
        item.company = min(item.company, company)
        if item.isStale { item.attempts = 0 }
        item.attempts += 1
        var delay = item.attempts < Self.attemptLimit ? max(Self.delays[item.attempts - 1], notBefore) : nil
        if item.isWoken {
            (item.isWoken, item.attempts) = (false, 0)
            delay = notBefore
        }
        item.due = uptime + (delay ?? 0)
        item.isResting = delay == nil
        if item.isResting, let companyAfterAll {
            item.company = min(item.company, companyAfterAll)
            item.isRefused = true
        }
        items[key] = item
        return Failure(key: key, attempts: item.attempts, delay: delay)
    }

    /// When the next item is due, in milliseconds of uptime; `nil` where all are under way or rest.
    func nextDue(isSendable: (String) -> Bool) -> Int64? {
        guard flights < Self.flightLimit else { return nil }
        return items.filter { key, item in
            item.flight == nil && !item.isResting && (key.transactionID.map(isSendable) ?? true)
        }.map { max($0.value.due, quietUntil) }.min()
    }
}
