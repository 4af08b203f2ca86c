import AppStorePayloads
import EntitlementAPI
import EntitlementCore
import Foundation

extension EntitlementStore {
    /// Whether there is somebody to ask, and something to ask about.
    private var canAsk: Bool {
        server != nil && isIdentityKnown && ledger.customerID != nil
            && (ledger.environment == nil || ledger.storeEnvironment != nil)
    }

    // MARK: What is to be sent

    /// Queues transactions that say something new.
    func enqueue(_ transactionIDs: Set<String>) {
        guard canAsk else { return }
        for id in transactionIDs.sorted() {
            guard let transaction = ledger.book.transactions[id], let customerID = ledger.poster(of: transaction)
            else { continue }
            let key = SyncQueue.Key(customerID: customerID, transactionID: id)
            // What is under way is older. Its answer replaces the one that is known, even where that one was about the
            // same content as now: a refund that was taken back reads as the purchase did before.
            guard queue.isUnderWay(key) || !ledger.hasAnswered(transaction) else { continue }
            if queue.add(key) { disk.note(.queue) }
        }
    }

    /// Queues whatever the server is yet to hear of, and sends what is due.
    func resend() {
        if canAsk {
            let unasked = gate.unasked.filter { ledger.book.transactions[$0] != nil }
            var isChanged = false
            for id in Set(ledger.unsent).union(unasked).sorted() {
                guard let customerID = ledger.book.transactions[id].flatMap(ledger.poster) else { continue }
                let key = SyncQueue.Key(customerID: customerID, transactionID: id)
                if queue.add(key, isNews: false) { isChanged = true }
            }
            if isChanged {
                disk.note(.queue)
                perform { _ = await $0.persist() }
            }
        }
        pump()
    }

    /// Wishes for an answer.
    func ask() {
        askedCustomer = ledger.customerID
        guard canAsk, let customerID = ledger.customerID else { return }
        _ = queue.add(SyncQueue.Key(customerID: customerID, transactionID: nil))
        pump()
    }

    /// Whether an answer is wished for already.
    var isAsking: Bool {
        ledger.customerID.map { queue.contains(SyncQueue.Key(customerID: $0, transactionID: nil)) } ?? false
    }

    /// Wishes for an answer, and returns when it came or an attempt failed.
    ///
    /// A question that is under way was asked before, and neither its answer nor its failure is waited for: one more is asked
    /// after it, for all who have come meanwhile.
    func askAndWait() async {
        // Whoever asks a store that has stopped would wait for ever: nothing is sent any more.
        guard canAsk, !isStopped else { return }
        guard !queue.isQuiet(at: uptime) else { return ask() }
        await withCheckedContinuation { continuation in
            askers.append(Asker(after: queue.lastNumber, continuation: continuation))
            ask()
        }
    }

    /// - Parameter number: a request; only who came before it was made goes on.
    func resumeAskers(before number: Int = .max) {
        let answered = askers.filter { $0.after < number }
        askers.removeAll { $0.after < number }
        for asker in answered { asker.continuation.resume() }
    }

    /// Tries everything again from the beginning.
    func wake() {
        queue.wake()
        tokens.wake()
        gate.askAgain()
        resend()
    }

    // MARK: Sending

    /// Sends what is due, as much at once as may be, and sleeps until something else is.
    private func pump() {
        guard server != nil, !isStopped else { return }
        // What is of another environment waits until that is the app's again.
        let isSendable = { [ledger] (id: String) in ledger.book.transactions[id].map(ledger.isOurs) ?? false }
        while let batch = queue.takeBatch(uptime: uptime, isSendable: isSendable) {
            perform { await $0.post(batch) }
        }
        let due = queue.nextDue(isSendable: isSendable)
        schedule(&retryTimer, due: due) { store in
            store.retryTimer = nil
            store.pump()
        }
    }

    private func post(_ batch: SyncQueue.Batch) async {
        // Whatever became of it, another one may have waited for its place.
        defer { pump() }
        // Recalled before it was on its way.
        guard queue.isUnderWay(batch) else { return queue.settle(again: batch) }
        let posting = ledger.posting(batch, at: now)
        postedApp = posting.request.appTransaction
        let sent = uptime
        switch await send(posting) {
        case .success(let (answer, results)):
            if let position = answer.vouchedPosition {
                let isNewest = ledger.isBeyond(position, in: answer.environment)
                clockGuard.heard(answer.at, sent: sent, uptime: uptime, isNewest: isNewest)
            }
            await settle(posting, answer, results)
        case .failure(let failure): settle(posting, failure)
        }
    }

    /// Why no usable answer came.
    private struct SendFailure: Error {
        var reason: Entitlements.OfflineReason
        var detail: String
        /// What was posted may be the cause, or how much it was.
        var mayBeContent = false
        /// The server itself said so, rather than somebody on the way to it.
        var isServersWord = false
        /// The server failed at it.
        var isServersFault = false
        /// The token that was not taken.
        var refusedToken: String?
        /// In milliseconds.
        var retryAfter: Int64 = 0
    }

    /// The longest that an answer of the server is waited for.
    private static let serverPatience = Duration.milliseconds(ServerMemory.longestWait)

    /// The longest that is waited because the server asked for it, and because somebody else on the way to it did, in seconds:
    /// a captive portal asks for an hour, and is gone with the next network, or once the person has logged in to it.
    private static let (longestPatience, longestPatienceOfOthers) = (3600, 60)

    private func send(_ posting: SyncPosting) async -> Result<(ServerAnswer, PostingResults), SendFailure> {
        guard let server else { return .failure(SendFailure(reason: .syncOff, detail: "sync is off")) }
        let customerID = posting.batch.customerID
        let token = await token(of: customerID)
        let answer = await bounded(Self.serverPatience) { () -> Result<EntitlementServerResponse, any Error> in
            do {
                return .success(
                    try await server.reconcile(
                        customerID: customerID.value, token: token, body: Data(try WireJSON.encode(posting.request))))
            } catch {
                return .failure(error)
            }
        }
        let response: EntitlementServerResponse
        switch answer {
        case .success(let answered): response = answered
        case .failure(let error):
            log(.error, .sync, "no answer of the server: \(error: error)")
            // The network may be too slow for the body.
            let isLate = (error as? URLError)?.code == .timedOut
            return .failure(SendFailure(reason: .unreachable, detail: "\(error)", mayBeContent: isLate))
        case nil:
            log(.error, .sync, "no answer of the server in time")
            return .failure(
                SendFailure(reason: .unreachable, detail: "no answer came in time", mayBeContent: true))
        }
        let body = Array(response.body)
        guard response.status == 200 else {
            let problem = try? WireJSON.decode(ProblemDocument.self, from: body)
            log(.error, .sync, "the server answered with status \(response.status)")
            let isUnauthorized = response.status == 401 || response.status == 403
            return .failure(
                SendFailure(
                    reason: .refused, detail: problem?.detail ?? "HTTP status \(response.status)",
                    // A server that fails is as good as away, and is not to be asked more often for that.
                    mayBeContent: [400, 413, 422].contains(response.status),
                    // Whoever says that a body is too large has seen it.
                    isServersWord: problem != nil || response.status == 413,
                    isServersFault: problem != nil && response.status == 500,
                    // A gateway knows nothing of the customer's token.
                    refusedToken: isUnauthorized && problem != nil ? token : nil,
                    retryAfter: Int64(
                        min(
                            response.retryAfter ?? 0,
                            problem != nil ? Self.longestPatience : Self.longestPatienceOfOthers)) * 1000))
        }
        if let token { tokens.accepted(token) }
        guard let wire = try? WireJSON.decode(WireValue.self, from: body), let told = ServerAnswer(wire),
            told.customerID == customerID
        else {
            log(.error, .sync, "the server's answer could not be understood")
            return .failure(
                SendFailure(
                    reason: .refused, detail: "the answer could not be understood", mayBeContent: true,
                    isServersWord: (try? WireJSON.decode(WireValue.self, from: body)) != nil))
        }
        let results = PostingResults(
            wire, transactions: posting.transactions.count, renewals: posting.renewals.count)
        // A server whose clock was ahead, and was put right, goes on in its log.
        let counted = ledger.passCheck?.limit(told) { pass in
            clockGuard.hasPassed(pass.expiresAt, uptime: uptime)
                && !ledger.isBeyond(pass.position, in: told.environment)
        }
        return .success((counted ?? told, results))
    }

    private func settle(_ posting: SyncPosting, _ answer: ServerAnswer, _ results: PostingResults) async {
        let batch = posting.batch
        let isRecalled = !queue.isUnderWay(batch)
        let lacksSomething = ledger.take(answer, results, to: posting, lastRequest: queue.lastNumber)
        var failed: [String: String] = [:]
        var conflicts: [String: String] = [:]
        var held: [String: Digest] = [:]
        for (transaction, fate) in zip(posting.transactions, results.transactions) {
            let id = transaction.payload.transactionID
            switch fate {
            case .held: held[id] = transaction.contentHash
            case .conflict(_, let detail):
                held[id] = transaction.contentHash
                conflicts[id] = detail ?? "it is somebody else's"
            case .failed(let detail): failed[id] = detail
            case .untrusted(let detail): if !distrust(transaction, detail) { failed[id] = detail }
            }
        }
        for (renewal, fate) in zip(posting.renewals, results.renewals) {
            if case .untrusted = fate { distrust(renewal) }
        }
        if results.distrustsApp { distrustApp(posting.request.appTransaction) }
        // The ledger holds what this store signed, and is yet to see that it holds of a refund that it was told of.
        for transaction in posting.transactions where held[transaction.payload.transactionID] != nil {
            guard ledger.memory(of: transaction)?.isToLookAgain(at: transaction) ?? false else { continue }
            failed[transaction.payload.transactionID] = "the server still holds a refund that the store has taken back"
        }
        let failures = queue.settle(batch, refused: Set(failed.keys), uptime: uptime)
        queue.serverAnswered()
        // Asked before the app's own purchase was there, or a newer statement of it: what it proves is asked about
        // anew, and this says less.
        let newestApp = ledger.appTransaction?.jws
        let isOutdated = !answer.isProven && newestApp != nil && posting.request.appTransaction != newestApp
        if !isOutdated {
            gate.answered(held, allowed: answer.finish)
            note(answer.isProven ? .live(position: answer.position) : .failed(.unproven), of: posting)
        }
        for file in [DiskState.File.server, .clock] + (batch.transactionIDs.isEmpty ? [] : [.queue]) {
            disk.note(file)
        }
        if lacksSomething { gate.askAgain() }
        // An answer may also tell that others have become old.
        if lacksSomething || isOutdated || batch.asks { resend() }
        if isOutdated, batch.customerID == ledger.customerID, !isAsking { ask() }
        _ = await persist()
        publish()
        let taken = batch.transactionIDs.filter { held[$0] != nil && conflicts[$0] == nil && failed[$0] == nil }
        if !taken.isEmpty { report(SyncEvent(kind: .succeeded, transactionIDs: taken)) }
        for (id, detail) in conflicts.sorted(by: { $0.key < $1.key }) {
            report(SyncEvent(kind: .conflict, transactionIDs: [id], detail: detail))
        }
        for failure in failures { report(failure, detail: failed[failure.key.transactionID ?? ""] ?? "") }
        if batch.asks { endQuestion(batch, isPassedOver: isRecalled || isOutdated) }
    }

    /// Lets those go on who asked before a question was sent that is over now.
    ///
    /// One about who was here before, or that was recalled, is not what they wait for, as long as another one is to come.
    private func endQuestion(_ batch: SyncQueue.Batch, isPassedOver: Bool) {
        if !isPassedOver, batch.customerID == ledger.customerID { resumeAskers(before: batch.number) }
        if !isAsking { resumeAskers() }
    }

    private func settle(_ posting: SyncPosting, _ failure: SendFailure) {
        let batch = posting.batch
        if let token = failure.refusedToken, tokenWasRefused(token, detail: failure.detail) {
            return queue.settle(again: batch)
        }
        let isRecalled = !queue.isUnderWay(batch)
        // Devices that were sent away together are not to come back together.
        let spread = Int64.random(in: 0...failure.retryAfter / 10)
        let failures = queue.settle(
            failed: batch, mayBeContent: failure.mayBeContent, isServersWord: failure.isServersWord,
            isServersFault: failure.isServersFault, retryAfter: failure.retryAfter + spread, uptime: uptime)
        // One statement that a server cannot take does not mean that it is away.
        let isOfBatch = failure.isServersFault || failure.mayBeContent && failure.isServersWord
        if batch.asks || !isOfBatch {
            note(.failed(failure.reason), of: posting)
        }
        publish()
        for failed in failures { report(failed, detail: failure.detail) }
        if batch.asks { endQuestion(batch, isPassedOver: isRecalled) }
        // Who waits for a place is not kept until the server's patience is over.
        if queue.isQuiet(at: uptime) { resumeAskers() }
        // Who has come since it was asked does not wait for the pause after it.
        if batch.asks, !isRecalled, !askers.isEmpty { ask() }
    }

    /// How a request went says how the server can be reached, unless a later one has told already.
    private func note(_ connection: Connection, of posting: SyncPosting) {
        guard posting.batch.customerID == ledger.customerID, posting.batch.number >= connectionNumber else { return }
        self.connection = connection
        connectionNumber = posting.batch.number
    }

    private func report(_ failure: SyncQueue.Failure, detail: String) {
        report(
            SyncEvent(
                kind: failure.delay == nil ? .resting : .failed,
                transactionIDs: [failure.key.transactionID].compactMap(\.self), detail: detail,
                attempts: failure.attempts,
                nextAttempt: failure.delay.map { clock.now().addingTimeInterval(Double($0) / 1000) }))
    }
}
