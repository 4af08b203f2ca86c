import AppStorePayloads
import EntitlementAPI
import EntitlementCore

/// Everything the device's store ever signed that still matters: once verified it is kept, whatever the store returns
/// later.
///
/// It only ever joins. A read of the store that comes back empty, or with half of it, joins nothing or half of it, and
/// takes nothing away.
struct StatementBook: Sendable {
    /// How many transactions are kept without letting go of any; see ``prune(limit:catalog:isNeeded:at:)``.
    static let transactionLimit = 2000
    /// The most that is remembered of what was let go, at some fifty bytes each.
    static let letGoLimit = 50_000
    /// The most pieces of renewal information kept about one original transaction; the oldest go first.
    static let renewalLimit = 24

    /// The newest statement about each transaction.
    private(set) var transactions: [String: DeviceTransaction] = [:]
    /// About each original transaction, oldest first; a run that says the same is kept as its first and last.
    private(set) var renewals: [String: [DeviceRenewal]] = [:]
    private(set) var appTransaction: DeviceAppTransaction?
    /// When the store last showed something of an original transaction.
    private(set) var confirmed: [String: Timestamp] = [:]
    /// The same as it is on disk.
    private var noted: [String: Timestamp] = [:]
    /// When the store last listed an original transaction among the current entitlements although what it paid for had
    /// run out: by the store's own word it is in grace, or about to be renewed.
    private(set) var current: [String: Timestamp] = [:]
    /// Of those, what the store's last list lacked, and the uptime in milliseconds at which a list lacked it first.
    private var missed: [String: Int64] = [:]
    /// The Apple accounts that the store showed purchases of when it was last read to its end, and since, by their app
    /// transaction ids; `nil`: not known.
    private(set) var accounts: Set<String>?
    /// Whether this process has read that by itself, rather than from the disk.
    private var hasReadAccounts = false
    /// How the app has last acknowledged each transaction.
    private(set) var acknowledged: [String: Acknowledgement] = [:]
    /// What the transactions said that were let go, by their marks, so that the store's next list does not bring them
    /// back.
    private(set) var letGo: [String: String] = [:]

    /// What a statement added.
    enum Learning: Hashable, Sendable {
        case nothing
        /// What was known, on a later date.
        case newerDate
        case news
    }

    /// How much later another list has to lack the same entry before that counts, in milliseconds: while a store is not
    /// ready, all its lists lack the same.
    private static let lackPatience: Int64 = 12_000

    /// How often a confirmation is worth keeping, in milliseconds.
    private static let confirmationStep: Int64 = 3_600_000

    /// Joins a transaction.
    ///
    /// - Parameter isUnfinished: whether the store waits to be told that it is finished with. Then it is needed again even
    ///   where it was let go of: its refund may have been taken back, so that it reads as it did before.
    mutating func join(_ transaction: DeviceTransaction, isUnfinished: Bool = false) -> Learning {
        let id = transaction.payload.transactionID
        guard let known = transactions[id] else {
            let mark = letGo[id]
            guard isUnfinished || mark != transaction.mark else { return .nothing }
            // How much of it was refunded when the app acknowledged it is not known any more.
            if let mark, mark != transaction.mark { acknowledged[id] = nil }
            letGo[id] = nil
            transactions[id] = transaction
            return .news
        }
        guard known.precedes(transaction) else { return .nothing }
        transactions[id] = transaction
        // The app is to be told of a refund, of a larger one, and of one that was taken back, whatever it has acknowledged before.
        if acknowledged[id] != nil, ToldRevocation(known) != ToldRevocation(transaction) {
            acknowledged[id] = Acknowledgement(at: transaction, .withdrawn)
        }
        return known.contentHash == transaction.contentHash ? .newerDate : .news
    }

    /// Joins renewal information.
    mutating func join(_ renewal: DeviceRenewal) -> Learning {
        var history = renewals[renewal.payload.originalTransactionID] ?? []
        guard !history.contains(where: { $0.payloadHash == renewal.payloadHash }) else { return .nothing }
        let index = history.firstIndex { renewal.fact.precedes($0.fact) } ?? history.endIndex
        history.insert(renewal, at: index)
        let isNews = index == 0 || history[index - 1].contentHash != renewal.contentHash
        var collapsed: [DeviceRenewal] = []
        for (index, item) in history.enumerated() {
            let isInside =
                index > 0 && index + 1 < history.count && history[index - 1].contentHash == item.contentHash
                && history[index + 1].contentHash == item.contentHash
            if !isInside { collapsed.append(item) }
        }
        collapsed = Array(collapsed.suffix(Self.renewalLimit))
        guard collapsed != renewals[renewal.payload.originalTransactionID] else { return .nothing }
        renewals[renewal.payload.originalTransactionID] = collapsed
        return isNews ? .news : .newerDate
    }

    /// Takes the newest app transaction; one of another environment takes the place of an older one, too.
    ///
    /// One that was only signed anew counts, because a server may take for proof only what is not too old.
    ///
    /// - Parameter isDoubted: whether the store has not shown the one that is known. Then it comes from the disk, and may have
    ///   come there from another person's device; what the store shows counts, however old it is.
    mutating func join(_ appTransaction: DeviceAppTransaction, isDoubted: Bool = false) -> Learning {
        guard let known = self.appTransaction else {
            self.appTransaction = appTransaction
            return .news
        }
        let isLater = (known.payload.signedDate ?? .earliest) < (appTransaction.payload.signedDate ?? .earliest)
        let saysMore =
            known.customerID != appTransaction.customerID
            || known.payload.environment != appTransaction.payload.environment
        guard isLater || isDoubted && saysMore else { return .nothing }
        self.appTransaction = appTransaction
        return saysMore ? .news : .newerDate
    }

    /// The store showed something of an original transaction; returns whether that is worth keeping on disk.
    mutating func confirm(_ originalTransactionID: String, at now: Timestamp) -> Bool {
        confirmed[originalTransactionID] = max(confirmed[originalTransactionID] ?? .earliest, now)
        let step = noted[originalTransactionID]?.adding(milliseconds: Self.confirmationStep) ?? .earliest
        guard now >= step else { return false }
        noted[originalTransactionID] = now
        return true
    }

    /// Moves confirmations that a wrong clock dated after an instant back to that instant; returns whether there were
    /// any.
    mutating func forgetConfirmations(after now: Timestamp) -> Bool {
        guard confirmed.values.contains(where: { $0 > now }) || current.values.contains(where: { $0 > now }) else {
            return false
        }
        confirmed = confirmed.mapValues { min($0, now) }
        noted = noted.mapValues { min($0, now) }
        current = current.mapValues { min($0, now) }
        return true
    }

    /// Drops confirmations that the disk dates after an instant; returns whether there were any.
    mutating func dropConfirmations(after now: Timestamp) -> Bool {
        let before = confirmed.count + current.count
        confirmed = confirmed.filter { $0.value <= now }
        noted = noted.filter { $0.value <= now }
        current = current.filter { $0.value <= now }
        return confirmed.count + current.count != before
    }

    /// Takes the store's own text of a statement in the place of another that says the same; returns whether it was another.
    mutating func restate(_ transaction: DeviceTransaction) -> Bool {
        let id = transaction.payload.transactionID
        guard let known = transactions[id], known.payloadHash == transaction.payloadHash, known.jws != transaction.jws
        else { return false }
        transactions[id] = transaction
        return true
    }

    /// Forgets a statement that nobody trusted has signed.
    mutating func remove(_ transaction: DeviceTransaction) {
        let id = transaction.payload.transactionID
        if transactions[id]?.jws == transaction.jws { transactions[id] = nil }
    }

    /// The same of renewal information.
    mutating func remove(_ renewal: DeviceRenewal) {
        renewals[renewal.payload.originalTransactionID]?.removeAll { $0.jws == renewal.jws }
    }

    /// The same of the app's own purchase.
    mutating func removeApp() { appTransaction = nil }

    /// The store listed what is owned now; returns whether that is worth keeping on disk.
    ///
    /// A list without entries says nothing: stores have been seen to answer so before they are ready. They have been seen to
    /// leave out one entry, too, so what a single list lacks is owned still.
    ///
    /// - Parameters:
    ///   - now: by the device's calendar clock where that is behind, since the store goes by it, too: set back, it lists what
    ///     has run out.
    ///   - uptime: in milliseconds.
    mutating func listed(_ transactions: [DeviceTransaction], at now: Timestamp, uptime: Int64) -> Bool {
        guard !transactions.isEmpty else { return false }
        let before = Set(current.keys)
        let missing = before.subtracting(transactions.map(\.payload.originalTransactionID))
        missed = Dictionary(uniqueKeysWithValues: missing.map { ($0, missed[$0] ?? uptime) })
        for (original, first) in missed where uptime >= first + Self.lackPatience {
            current[original] = nil
            missed[original] = nil
        }
        for transaction in transactions where transaction.payload.revocation == nil {
            guard let expiry = transaction.payload.expiresDate, expiry <= now else { continue }
            current[transaction.payload.originalTransactionID] = now
        }
        return Set(current.keys) != before
    }

    /// From when on another list of the store confirms what the last one lacked, in milliseconds of uptime; `nil` where
    /// it lacked nothing.
    var nextListDue: Int64? { missed.values.min().map { $0 + Self.lackPatience } }

    /// The store was read to its end, and shows purchases of these accounts alone; returns whether that is news.
    mutating func showsOnly(_ accounts: Set<String>) -> Bool {
        defer { (self.accounts, hasReadAccounts) = (accounts, true) }
        return self.accounts != accounts
    }

    /// The store shows something of these accounts; returns whether that is news.
    mutating func shows(_ accounts: Set<String>) -> Bool {
        guard let known = self.accounts, !known.isSuperset(of: accounts) else { return false }
        self.accounts = known.union(accounts)
        return true
    }

    /// Forgets a transaction, but not that it was known.
    ///
    /// - Parameter limit: the most that is remembered so.
    mutating func letGo(of transaction: DeviceTransaction, limit: Int = letGoLimit) {
        let id = transaction.payload.transactionID
        transactions[id] = nil
        if letGo.count >= limit { forgetOldestLetGo() }
        letGo[id] = transaction.mark
    }

    /// Forgets half of what was let go; the store numbers its transactions in the order in which they are made.
    private mutating func forgetOldestLetGo() {
        let order = letGo.keys.sorted { ($0.utf8.count, $0) < ($1.utf8.count, $1) }
        for id in order.prefix(order.count / 2) { letGo[id] = nil }
    }

    /// The app has granted what a transaction paid for, or taken it back after a refund.
    mutating func acknowledge(_ transaction: DeviceTransaction) {
        acknowledged[transaction.payload.transactionID] = Acknowledgement(
            at: transaction, transaction.payload.revocation == nil ? .granted : .takenBack)
    }

    /// Whether it has done so as the transaction reads now.
    func isAcknowledged(_ transaction: DeviceTransaction) -> Bool {
        acknowledged[transaction.payload.transactionID]?.deed
            == (transaction.payload.revocation == nil ? .granted : .takenBack)
    }

    /// Every statement that is held, as it was signed.
    var texts: Set<String> {
        var texts = Set(transactions.values.map(\.jws)).union(renewals.values.joined().map(\.jws))
        if let appTransaction { texts.insert(appTransaction.jws) }
        return texts
    }

    /// What the newest statement about a transaction says; `nil` where there is none.
    func content(of transactionID: String) -> Digest? { transactions[transactionID]?.contentHash }

    /// The transactions of one original transaction, the newest purchase last.
    func transactions(of originalTransactionID: String) -> [DeviceTransaction] {
        transactions.values.filter { $0.payload.originalTransactionID == originalTransactionID }
            .sorted {
                ($0.payload.purchaseDate, $0.payload.transactionID) < (
                    $1.payload.purchaseDate, $1.payload.transactionID
                )
            }
    }
}

extension DeviceTransaction {
    /// The length of a mark.
    fileprivate static let markLength = 16

    /// Tells what it says from what else it might say, in few bytes.
    fileprivate var mark: String { String(contentHash.hex.prefix(Self.markLength)) }

    /// As the fold orders statements about one period.
    fileprivate func precedes(_ other: DeviceTransaction) -> Bool {
        var ids = IdentityList()
        return fact(&ids).precedes(other.fact(&ids))
    }
}

extension StatementBook {
    /// Puts a book together again from what was kept of one; a statement that cannot be read is left out.
    ///
    /// - Parameter isSigned: whether the store has signed a statement, since anybody may have written the disk.
    init(_ file: StatementFile, isSigned: (String) -> Bool = { _ in true }) {
        self.init()
        appTransaction = file.appTransaction.flatMap {
            isSigned($0) ? try? DeviceAppTransaction(SignedStatement(jws: $0)) : nil
        }
        for jws in file.transactions where isSigned(jws) {
            if let transaction = try? DeviceTransaction(SignedStatement(jws: jws)) { _ = join(transaction) }
        }
        for jws in file.renewals where isSigned(jws) {
            if let renewal = try? DeviceRenewal(SignedStatement(jws: jws)) { _ = join(renewal) }
        }
        confirmed = file.confirmed
        noted = file.confirmed
        current = file.current
        accounts = file.accounts
        acknowledged = file.acknowledged
        // What was let go of stands in the file until that is written anew.
        for (id, content) in file.letGo {
            // Earlier versions wrote more of it.
            let mark = String(content.prefix(DeviceTransaction.markLength))
            guard transactions[id].map({ $0.mark == mark }) ?? true else { continue }
            transactions[id] = nil
            letGo[id] = mark
        }
    }

    /// Joins what another book knows.
    mutating func join(_ other: StatementBook) {
        for transaction in other.transactions.values { _ = join(transaction) }
        for renewal in other.renewals.values.joined() { _ = join(renewal) }
        if let appTransaction = other.appTransaction { _ = join(appTransaction) }
        confirmed.merge(other.confirmed) { max($0, $1) }
        noted.merge(other.noted) { max($0, $1) }
        current.merge(other.current) { max($0, $1) }
        if !hasReadAccounts { accounts = other.accounts ?? accounts }
        acknowledged.merge(other.acknowledged) { max($0, $1) }
        letGo.merge(other.letGo) { $1 }
        for id in transactions.keys { letGo[id] = nil }
    }

    /// What is to be on disk, each thing by itself.
    var rows: [StatementRow] {
        var rows = [StatementRow.current(current)]
        if let appTransaction { rows.append(.app(appTransaction)) }
        if let accounts { rows.append(.accounts(accounts)) }
        rows += transactions.values.map { .transaction($0) }
        rows += renewals.values.joined().map { .renewal($0) }
        rows += noted.map { .confirmed($0.key, $0.value) }
        // What was let go of is finished, and does not come again.
        rows += acknowledged.filter { transactions[$0.key] != nil }.map { .acknowledged($0.key, $0.value) }
        rows += letGo.map { .letGo($0.key, $0.value) }
        return rows
    }
}
