import EntitlementCore

/// Which transactions may be finished, and when: only when everything that depends on them is done.
///
/// A finished consumable is never shown again by the store. So it must be on disk, in the published state, and in what
/// the server listed as finished with, which says that its facts are durable there. All of that holds of one content: a
/// transaction that says something new, such as a refund, goes through the gate again.
struct FinishGate: Hashable, Sendable {
    /// The pause after each attempt at which the store found nothing to finish, in milliseconds; after the last one the
    /// transaction is left until the store shows it again.
    static let delays: [Int64] = [1_000, 5_000, 30_000, 300_000]

    private struct Candidate: Hashable {
        /// What the transaction said when it was offered.
        var content: Digest
        var isStored = false
        var isPublished = false
        /// The app is yet to say that it has granted it.
        var isUnacknowledged = false
        var isAllowed = false
        /// The server was asked, and did not list it; it is asked again after a rest.
        var isAsked = false
        var attempts = 0
        /// Not to be tried before this, in milliseconds of uptime.
        var due: Int64 = 0
        /// The store is being told.
        var isUnderWay = false
    }

    private struct Finished: Hashable {
        let content: Digest
        /// The last reading of the store that had begun when it was finished.
        let reading: Int
    }

    /// Without a server there is nobody to wait for.
    let needsServer: Bool
    private var candidates: [String: Candidate] = [:]
    private var finished: [String: Finished] = [:]

    init(needsServer: Bool) { self.needsServer = needsServer }

    /// Whether a transaction is yet to be finished.
    func isWaiting(_ transactionID: String) -> Bool { candidates[transactionID] != nil }

    /// What is yet to be finished.
    var waiting: Set<String> { Set(candidates.keys) }

    /// Whether a transaction waits for nothing but the disk and the store, of which the latter has not failed to find it.
    func isAboutToBeFinished(_ transactionID: String) -> Bool {
        guard let candidate = candidates[transactionID] else { return false }
        return !candidate.isUnacknowledged && (candidate.isAllowed || !needsServer) && candidate.attempts == 0
    }

    /// What the server is yet to be asked about.
    var unasked: Set<String> { Set(candidates.filter { !$0.value.isAllowed && !$0.value.isAsked }.keys) }

    /// The store says that a transaction it verified is unfinished.
    ///
    /// - Parameters:
    ///   - content: what the transaction says.
    ///   - reading: the number of the reading that listed it; `nil` for one that came as an update or a purchase, which
    ///     may be older than the finishing of the same content.
    ///   - isUnacknowledged: whether the app is yet to say that it has granted it.
    mutating func offer(_ transactionID: String, content: Digest, reading: Int?, isUnacknowledged: Bool = false) {
        guard var candidate = candidates[transactionID] else {
            if let known = finished[transactionID], known.content == content {
                // Listed by a reading that began after it was finished: the store did not keep it.
                guard let reading, reading > known.reading else { return }
            }
            candidates[transactionID] = Candidate(content: content, isUnacknowledged: isUnacknowledged)
            return
        }
        guard candidate.content != content else { return }
        let isUnderWay = candidate.isUnderWay
        candidate = Candidate(content: content, isUnacknowledged: isUnacknowledged)
        candidate.isUnderWay = isUnderWay
        candidates[transactionID] = candidate
    }

    /// Everything that was known when the disk was last written is on it.
    ///
    /// - Parameter content: what a transaction said then; `nil` where it was not known.
    mutating func stored(_ content: (String) -> Digest?) {
        for (id, candidate) in candidates where content(id) == candidate.content { candidates[id]?.isStored = true }
    }

    /// Everything that was known when the state was last published is reflected in it.
    mutating func published(_ content: (String) -> Digest?) {
        for (id, candidate) in candidates where content(id) == candidate.content { candidates[id]?.isPublished = true }
    }

    /// The server answered about these, as they were posted, and listed some as finished with.
    mutating func answered(_ contents: [String: Digest], allowed: Set<String>) {
        for (id, content) in contents where candidates[id]?.content == content {
            candidates[id]?.isAsked = true
            if allowed.contains(id) { candidates[id]?.isAllowed = true }
        }
    }

    /// No server could ever verify these.
    mutating func allow(_ transactionID: String) { candidates[transactionID]?.isAllowed = true }

    /// What the app is yet to say that it has granted.
    var unacknowledged: Set<String> { Set(candidates.filter(\.value.isUnacknowledged).keys) }

    /// The app has granted a transaction.
    mutating func acknowledged(_ transactionID: String) { candidates[transactionID]?.isUnacknowledged = false }

    /// Asks about everything again: somebody else may be the customer now, or own it.
    mutating func askAgain() {
        for id in candidates.keys { candidates[id]?.isAsked = false }
    }

    /// Takes the transactions that may be finished now; they count as under way until `ended` is called.
    mutating func takeReady(uptime: Int64) -> [(id: String, content: Digest)] {
        let ready = candidates.filter { isReady($0.value) && $0.value.due <= uptime }.sorted { $0.key < $1.key }
        for (id, _) in ready { candidates[id]?.isUnderWay = true }
        return ready.map { ($0.key, $0.value.content) }
    }

    private func isReady(_ candidate: Candidate) -> Bool {
        candidate.isStored && candidate.isPublished && !candidate.isUnacknowledged
            && (candidate.isAllowed || !needsServer) && !candidate.isUnderWay
    }

    /// When the next attempt is due, in milliseconds of uptime; `nil` where none is.
    var nextDue: Int64? { candidates.values.filter(isReady).map(\.due).min() }

    /// An attempt has ended.
    ///
    /// - Parameters:
    ///   - content: what the transaction said when the store was told.
    ///   - isDone: whether the store had it unfinished, and was told.
    ///   - reading: the number of the last reading of the store that had begun.
    mutating func ended(_ transactionID: String, content: Digest, isDone: Bool, reading: Int, uptime: Int64) {
        if isDone { finished[transactionID] = Finished(content: content, reading: reading) }
        guard var candidate = candidates[transactionID] else { return }
        candidate.isUnderWay = false
        if candidate.content == content {
            candidate.attempts += 1
            // After the last attempt it is most likely finished already; if not, the store shows it again.
            guard !isDone, candidate.attempts <= Self.delays.count else {
                candidates[transactionID] = nil
                return
            }
            candidate.due = uptime + Self.delays[candidate.attempts - 1]
        }
        candidates[transactionID] = candidate
    }
}
