import AppStorePayloads
import EntitlementAPI
import EntitlementCore

/// What the server last said of one customer, and which of the device's statements it has answered.
struct ServerMemory: Sendable {
    /// How the server answered one transaction.
    struct Answered: Codable, Hashable, Sendable {
        /// What it was posted as; anything else is news.
        let content: String
        let isConflict: Bool
        /// Why it is somebody else's, where the server told.
        var reason: String?
        /// When the newest statement about it was signed that the server's facts have held since; `nil`: none yet.
        var told: Timestamp?
        /// Whether they hold that no more, and the server is yet to be told again.
        var isLost: Bool?
        /// When it was answered, by the server's clock.
        var at: Timestamp?
    }

    /// After how long an answer says nothing of what the server holds, where it brings no facts to see that by, in
    /// milliseconds.
    static let answerAge: Int64 = 3 * 86_400_000

    /// The longest that a request waits for its answer, in milliseconds.
    static let longestWait: Int64 = 60_000

    /// The answer that stands.
    private(set) var answer: ServerAnswer
    /// When the server last confirmed it, by its own clock; `nil` where its word does not count.
    private(set) var confirmedAt: Timestamp?
    private(set) var answered: [String: Answered] = [:]
    /// The number of the last request that had been made when it was answered; `nil` where that was not in this
    /// process.
    private(set) var lastRequest: Int?
    /// Whether another customer's answer has shown that the log this one came of is gone, as after a backup was restored.
    private(set) var isOfFormerLog = false
    /// The payload hashes of renewal information that was answered.
    private(set) var answeredRenewals: Set<String> = []

    /// - Parameter lastRequest: the number of the last request that had been made when the answer came; `nil`: not
    ///   known.
    init(_ answer: ServerAnswer, lastRequest: Int? = nil) {
        self.answer = answer
        self.lastRequest = lastRequest
        confirmedAt = answer.confirmation
    }

    var customerID: CustomerID { answer.customerID }

    var isProven: Bool { answer.isProven }

    /// The facts it holds, where this version can read them.
    var facts: CustomerFacts? { answer.facts }

    /// Takes another answer; one that knows less does not overwrite one that knows more.
    ///
    /// - Parameters:
    ///   - askedSince: whether it answers a request that was made after the answer that stands had come. Others may
    ///     overtake each other, and instances of one server have clocks of their own.
    ///   - lastRequest: as in `init`.
    mutating func take(_ next: ServerAnswer, askedSince: Bool = true, lastRequest: Int? = nil) {
        let knowsLess = !next.isProven && answer.isProven
        let isOlder = next.position < answer.position && (next.at <= answer.at || !askedSince)
        guard !knowsLess, !isOlder else { return }
        answer = next
        self.lastRequest = lastRequest
        isOfFormerLog = false
        confirmedAt = [confirmedAt, next.confirmation].compactMap(\.self).max()
    }

    /// The same where nothing counts of what the server says, but that something is somebody else's.
    var withoutWord: ServerMemory {
        var memory = ServerMemory(answer.unvouched)
        memory.answered = answered.filter(\.value.isConflict)
        return memory
    }

    /// What was confirmed after an instant, by the disk alone, was confirmed when the answer came.
    mutating func forgetConfirmation(after now: Timestamp) {
        if let confirmedAt, confirmedAt > now { self.confirmedAt = answer.confirmation }
    }

    /// Joins what another process knows of the same customer.
    mutating func join(_ other: ServerMemory) {
        let isLater = (other.answer.at, other.answer.position) > (answer.at, answer.position)
        let (older, newer) = isLater ? (self, other) : (other, self)
        // Which request was made first, two processes do not tell each other; but none waits longer than this for its
        // answer.
        let askedSince = newer.answer.at > older.answer.at.adding(milliseconds: Self.longestWait)
        if older.isOfAnotherLog(than: newer.answer, askedSince: askedSince) {
            // What one log has answered says nothing of what the other holds.
            if isLater { self = other }
            return
        }
        if isLater { take(other.answer) }
        confirmedAt = [confirmedAt, other.confirmedAt].compactMap(\.self).max()
        answered.merge(other.answered) { isLater ? $1 : $0 }
        answeredRenewals.formUnion(other.answeredRenewals)
    }

    /// Whether an answer comes of another log than the one that stands.
    ///
    /// Its id is another, or it has become shorter, as after a backup was restored. Then nothing is known of what that log
    /// holds.
    ///
    /// - Parameter askedSince: as in `take`. An answer that was only overtaken rests on fewer events, too.
    func isOfAnotherLog(than next: ServerAnswer, askedSince: Bool) -> Bool {
        if let old = answer.ledgerID, let new = next.ledgerID, old != new { return true }
        return askedSince && next.position < answer.position && next.at > answer.at
    }

    /// Whether a request of this process was made after the answer that stands had come.
    func precedes(request number: Int) -> Bool { lastRequest.map { number > $0 } ?? true }

    /// Forgets what the server has answered, but not what it said, because another log answers now.
    ///
    /// - Parameter number: the number of the request that it has answered.
    mutating func forgetAnswered(since next: ServerAnswer, toRequest number: Int) {
        answered = [:]
        answeredRenewals = []
        if isOfAnotherLog(than: next, askedSince: precedes(request: number)) { isOfFormerLog = true }
    }

    mutating func noteAnswered(
        _ transaction: DeviceTransaction, isConflict: Bool, reason: String? = nil, at instant: Timestamp
    ) {
        // The answer that stands is later where a server's clock was set back.
        answered[transaction.payload.transactionID] = Answered(
            content: transaction.contentHash.hex, isConflict: isConflict, reason: reason, at: max(instant, answer.at))
    }

    mutating func noteAnswered(renewal payloadHash: Digest) { answeredRenewals.insert(payloadHash.hex) }

    /// Forgets about statements that the device no longer has.
    mutating func keep(transactions: Set<String>, renewals: Set<String>) {
        answered = answered.filter { transactions.contains($0.key) }
        answeredRenewals.formIntersection(renewals)
    }

    /// Whether the server has answered about a transaction as it reads now.
    func hasAnswered(_ transaction: DeviceTransaction) -> Bool {
        answered[transaction.payload.transactionID]?.content == transaction.contentHash.hex
    }

    /// The same of renewal information.
    func hasAnswered(_ renewal: DeviceRenewal) -> Bool { answeredRenewals.contains(renewal.payloadHash.hex) }

    /// Whether the server has answered that a transaction, as it reads now, is the customer's.
    func isTheirs(_ transaction: DeviceTransaction) -> Bool {
        hasAnswered(transaction) && answered[transaction.payload.transactionID]?.isConflict == false
    }

    /// The same of the statement that a book holds.
    func hasAnswered(_ transactionID: String, in book: StatementBook) -> Bool {
        book.transactions[transactionID].map(hasAnswered) ?? false
    }

    /// Notes which of the transactions it has answered about are in its facts; returns whether it has lost any since it was
    /// asked last, as after a backup was restored whose log has become as long as it was.
    ///
    /// What was handed to somebody else reads the same. It is told once more, and the answer to that says so.
    mutating func noteTold() -> Bool {
        guard let facts else { return false }
        var newest: [String: Timestamp] = [:]
        for stated in facts.originals.values.flatMap(\.transactions) {
            let signed = stated.fact.signedDate ?? .earliest
            newest[stated.fact.transactionID] = max(newest[stated.fact.transactionID] ?? .earliest, signed)
        }
        var hasLost = false
        for (id, known) in answered {
            let told = newest[id]
            if let before = known.told, told.map({ $0 < before }) ?? true {
                answered[id]?.isLost = true
                hasLost = true
            }
            answered[id]?.told = told
        }
        return hasLost
    }

    /// Whether the answer about a transaction is so old that it is sent again, to a server whose answers do not show what it
    /// holds: that may have been restored from a backup.
    ///
    /// By the server's clock alone, since the device's may say anything.
    func isOutdated(_ transaction: DeviceTransaction) -> Bool {
        guard facts == nil, hasAnswered(transaction) else { return false }
        let at = answered[transaction.payload.transactionID]?.at ?? .earliest
        return at.adding(milliseconds: Self.answerAge) <= answer.at
    }

    /// Whether it should be told of a transaction.
    func wantsToHear(_ transaction: DeviceTransaction) -> Bool {
        guard hasAnswered(transaction), answered[transaction.payload.transactionID]?.isLost != true else { return true }
        // What was taken back reads as it did before, and is news all the same.
        return isTakenBack(told(of: transaction).newest, by: transaction) || isToLookAgain(at: transaction)
    }

    /// Whether the server holds a revocation that the store does not state any more on this device.
    ///
    /// A device's statement alone does not withdraw a revocation: the server asks the store, or hears of it later. So
    /// the transaction is posted again.
    func isToLookAgain(at transaction: DeviceTransaction) -> Bool {
        isTakenBack(told(of: transaction).filter(\.sources.includesStore).newest, by: transaction)
    }

    private func told(of transaction: DeviceTransaction) -> [StatedTransaction] {
        (facts?.originals[transaction.payload.originalTransactionID]?.transactions ?? []).filter {
            $0.fact.transactionID == transaction.payload.transactionID
        }
    }

    private func isTakenBack(_ told: TransactionFact?, by transaction: DeviceTransaction) -> Bool {
        guard let told, told.revocation != nil, transaction.payload.revocation == nil else { return false }
        return (told.signedDate ?? .earliest) < (transaction.payload.signedDate ?? .earliest)
    }
}

extension ServerAnswer {
    /// When it confirmed what it says; `nil` where its word does not count.
    fileprivate var confirmation: Timestamp? { isVouched ? at : nil }
}

extension DeviceLedger {
    /// Whether a position is beyond all that the server has told of before, so that what says it is newer than that.
    func isBeyond(_ position: Int64, in environment: String) -> Bool {
        let known = memories.filter { $0.answer.environment == environment }.compactMap(\.answer.vouchedPosition).max()
        return known.map { position > $0 } ?? true
    }
}

extension [StatedTransaction] {
    fileprivate var newest: TransactionFact? {
        self.max { ($0.fact.signedDate ?? .earliest) < ($1.fact.signedDate ?? .earliest) }?.fact
    }
}

extension ServerMemory: Encodable {
    /// Reads what was kept; `nil` where it holds no answer.
    ///
    /// - Parameter check: what the answer has to bear, since anybody may have written the disk; `nil`: nothing.
    init?(_ row: WireValue, check: PassCheck?) {
        guard let answer = row["answer"].flatMap({ ServerAnswer($0) }) else { return nil }
        self.init(check?.limit(answer) ?? answer)
        // When it was confirmed is not signed, and its pass says when that was made.
        if check == nil, let instant = row["confirmedAt"]?.instant { confirmedAt = instant }
        answered = row["answered"]?.members.compactMapValues { $0.decoded(Answered.self) } ?? [:]
        isOfFormerLog = row["isOfFormerLog"]?.flag ?? false
        answeredRenewals = Set(row["answeredRenewals"]?.entries.compactMap(\.text) ?? [])
    }

    func encode(to encoder: any Encoder) throws {
        var members = encoder.container(keyedBy: CodingKeys.self)
        try members.encode(answer.kept, forKey: .answer)
        try members.encodeIfPresent(confirmedAt, forKey: .confirmedAt)
        try members.encode(answered, forKey: .answered)
        if isOfFormerLog { try members.encode(true, forKey: .isOfFormerLog) }
        try members.encode(answeredRenewals.sorted(), forKey: .answeredRenewals)
    }

    private enum CodingKeys: String, CodingKey {
        case answer, confirmedAt, answered, answeredRenewals, isOfFormerLog
    }
}

/// What is kept on disk of the server's answers.
struct ServerFile: Sendable {
    var catalog: AnsweredCatalog?
    /// The last used last.
    var memories: [ServerMemory]
    /// When the server answered last, by its own clock; `nil` where an earlier version wrote the file, or the word of a disk
    /// does not count.
    var heardAt: Timestamp?
}

extension ServerFile {
    /// Reads what was kept, row by row.
    ///
    /// - Parameter check: what answers have to bear; see ``ServerMemory``.
    init(_ file: WireValue, check: PassCheck?) {
        memories = file["memories"]?.entries.compactMap { ServerMemory($0, check: check) } ?? []
        // Nobody has signed it, and an early instant would let a clock be set back.
        heardAt = check == nil ? file["heardAt"]?.instant : nil
        // Nobody has signed a catalog: it may take away, and what it gives is limited like the rest of its answer (``SignedWord``).
        // Which is the newest, only the moments of signed answers tell.
        guard check == nil else {
            catalog = memories.compactMap(\.answer.catalog).max { $0.answered < $1.answered }
            return
        }
        // Where it was not noted which answer brought it, every answer is newer.
        let answered = file["catalogAnswered"]?.decoded(AnswerMoment.self) ?? AnswerMoment(at: .earliest, position: 0)
        catalog = file["catalog"].flatMap { AnsweredCatalog($0, answered: answered) }
    }
}

extension ServerFile: Encodable {
    func encode(to encoder: any Encoder) throws {
        var members = encoder.container(keyedBy: CodingKeys.self)
        try members.encodeIfPresent(catalog, forKey: .catalog)
        try members.encodeIfPresent(catalog?.answered, forKey: .catalogAnswered)
        try members.encode(memories, forKey: .memories)
        try members.encodeIfPresent(heardAt, forKey: .heardAt)
    }

    private enum CodingKeys: String, CodingKey {
        case catalog, catalogAnswered, memories, heardAt
    }
}
