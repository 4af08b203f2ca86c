import AppStorePayloads
import EntitlementCore

/// What was read of the store at once.
struct StoreReading: Sendable {
    var transactions: [SignedStatement] = []
    var subscriptions: [SubscriptionStatement] = []
    var appTransaction: SignedStatement?
    /// Whether the store waits to be told that these transactions are finished with.
    var isUnfinished = false
}

extension EntitlementStore {
    /// Reads everything the store shows, and joins each part as it comes.
    ///
    /// What it reads is no older than the call; one read serves all who called before it began.
    func readStore() async {
        let wanted = readsBegun + 1
        while readsDone < wanted {
            let reading = lastRead ?? Task { await readEverything() }
            lastRead = reading
            await reading.value
        }
    }

    private func readEverything() async {
        readsBegun += 1
        let number = readsBegun
        defer {
            readsDone = number
            lastRead = nil
        }
        let store = store
        // Its answer may need the network, so nothing else waits for it where it is known from before.
        let appTransaction = Task { StoreReading(appTransaction: await store.appTransaction()) }
        perform { await $0.receive(await appTransaction.value) }
        await withTaskGroup(of: StoreReading.self) { group in
            group.addTask { StoreReading(transactions: await store.currentEntitlements()) }
            group.addTask { StoreReading(transactions: await store.allTransactions()) }
            group.addTask { StoreReading(subscriptions: await store.subscriptionStatuses()) }
            group.addTask { StoreReading(transactions: await store.unfinishedTransactions(), isUnfinished: true) }
            for await reading in group { await receive(reading) }
        }
        if ledger.customerID == nil { await receive(await appTransaction.value) }
        isStoreRead = true
        publish()
    }

    /// Joins what the store handed over: on disk first, then in the published state, then on its way to the server.
    ///
    /// Returns the transactions that were believed.
    @discardableResult
    func receive(_ reading: StoreReading) async -> [DeviceTransaction] {
        let customerBefore = ledger.customerID
        var intake = Intake()
        for statement in reading.transactions { take(statement, &intake) }
        for status in reading.subscriptions {
            guard let transaction = take(status.transaction, &intake) else { continue }
            take(status.renewal, of: transaction, &intake)
        }
        if let statement = reading.appTransaction { takeApp(statement, &intake) }
        for transaction in intake.transactions {
            if let signed = transaction.payload.signedDate { clockGuard.saw(signedDate: signed) }
            if ledger.book.confirm(transaction.payload.originalTransactionID, at: now) { intake.isChanged = true }
            if reading.isUnfinished { offerToFinish(transaction) }
        }
        if intake.isChanged {
            disk.note(.statements)
            disk.note(.clock)
        } else if reading.isUnfinished, !disk.outdated.contains(.statements) {
            gate.stored(intake.transactions.map(\.payload.transactionID))
        }
        enqueue(intake.news)
        _ = await persist()
        if ledger.customerID != customerBefore, ledger.customerID != nil {
            gate.askAgain()
            connection = .notYetAsked
            ask()
        }
        publish()
        resend()
        return intake.transactions
    }

    private struct Intake {
        var transactions: [DeviceTransaction] = []
        /// The transactions that say something new, or that renewal information came with.
        var news: Set<String> = []
        var isChanged = false
    }

    @discardableResult
    private func take(_ statement: SignedStatement, _ intake: inout Intake) -> DeviceTransaction? {
        do throws(StatementRefusal) {
            let transaction = try DeviceTransaction(statement)
            guard transaction.payload.bundleID == configuration.bundleID else {
                throw StatementRefusal(reason: "it is of another app, \(transaction.payload.bundleID)")
            }
            intake.transactions.append(transaction)
            switch ledger.book.join(transaction) {
            case .nothing: break
            case .newerDate: intake.isChanged = true
            case .news:
                intake.isChanged = true
                intake.news.insert(transaction.payload.transactionID)
            }
            return transaction
        } catch {
            report(SyncEvent(kind: .unverified, transactionIDs: [], detail: error.reason))
            return nil
        }
    }

    private func take(_ statement: SignedStatement, of transaction: DeviceTransaction, _ intake: inout Intake) {
        do throws(StatementRefusal) {
            let renewal = try DeviceRenewal(statement)
            // It names no app, so it counts only beside a transaction of the same original.
            guard renewal.payload.originalTransactionID == transaction.payload.originalTransactionID,
                renewal.payload.environment == transaction.payload.environment
            else { throw StatementRefusal(reason: "it is of another subscription than its transaction") }
            switch ledger.book.join(renewal) {
            case .nothing: break
            case .newerDate: intake.isChanged = true
            case .news:
                intake.isChanged = true
                intake.news.insert(transaction.payload.transactionID)
            }
        } catch {
            report(SyncEvent(kind: .unverified, transactionIDs: [], detail: error.reason))
        }
    }

    private func takeApp(_ statement: SignedStatement, _ intake: inout Intake) {
        do throws(StatementRefusal) {
            let appTransaction = try DeviceAppTransaction(statement)
            guard appTransaction.payload.bundleID == configuration.bundleID else {
                throw StatementRefusal(reason: "it is of another app, \(appTransaction.payload.bundleID)")
            }
            if ledger.book.join(appTransaction) != .nothing { intake.isChanged = true }
        } catch {
            report(SyncEvent(kind: .unverified, transactionIDs: [], detail: error.reason))
        }
    }

    private func offerToFinish(_ transaction: DeviceTransaction) {
        let id = transaction.payload.transactionID
        gate.offer(id)
        // Xcode's own store signs nothing that a server could verify.
        if StoreEnvironment(apple: transaction.payload.environment) == nil { gate.allow(id) }
    }
}
