/// Which transactions may be finished: each once, and only when everything that depends on it is done.
///
/// A finished consumable is never shown again by the store. So it must be on disk, in the published state, and in what
/// the server listed as finished with, which says that its facts are durable there.
struct FinishGate: Hashable, Sendable {
    private struct Candidate: Hashable {
        var isStored = false
        var isPublished = false
        var isAllowed = false
        /// The server was asked, and did not list it; it is asked again after a rest.
        var isAsked = false
    }

    /// Without a server there is nobody to wait for.
    let needsServer: Bool
    private var candidates: [String: Candidate] = [:]
    private var finished: Set<String> = []

    init(needsServer: Bool) { self.needsServer = needsServer }

    /// What the server is yet to be asked about.
    var unasked: Set<String> { Set(candidates.filter { !$0.value.isAllowed && !$0.value.isAsked }.keys) }

    /// The store says that a transaction it verified is unfinished.
    mutating func offer(_ transactionID: String) {
        guard !finished.contains(transactionID), candidates[transactionID] == nil else { return }
        candidates[transactionID] = Candidate()
    }

    /// Everything that was known when the disk was last written is on it.
    mutating func stored(_ transactionIDs: some Sequence<String>) {
        for id in transactionIDs { candidates[id]?.isStored = true }
    }

    /// Everything that was known when the state was last published is reflected in it.
    mutating func published(_ transactionIDs: some Sequence<String>) {
        for id in transactionIDs { candidates[id]?.isPublished = true }
    }

    /// The server answered about these, and listed some as finished with.
    mutating func answered(_ transactionIDs: some Sequence<String>, allowed: Set<String>) {
        for id in transactionIDs {
            candidates[id]?.isAsked = true
            if allowed.contains(id) { candidates[id]?.isAllowed = true }
        }
    }

    /// No server could ever verify these.
    mutating func allow(_ transactionID: String) { candidates[transactionID]?.isAllowed = true }

    /// Asks about everything again: somebody else may be the customer now, or own it.
    mutating func askAgain() {
        for id in candidates.keys { candidates[id]?.isAsked = false }
    }

    /// What may be finished now; it is given out once.
    mutating func takeReady() -> [String] {
        let ready = candidates.filter {
            $0.value.isStored && $0.value.isPublished && ($0.value.isAllowed || !needsServer)
        }
        .keys.sorted()
        for id in ready {
            candidates[id] = nil
            finished.insert(id)
        }
        return ready
    }
}
