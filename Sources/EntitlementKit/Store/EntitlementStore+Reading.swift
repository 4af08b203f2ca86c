import AppStorePayloads
import EntitlementCore

extension EntitlementStore {
    /// The longest that a reading of the store is waited for.
    static let storePatience = Duration.seconds(10)

    /// Reads everything the store shows, and joins each part as it comes; returns after ``storePatience`` at the latest.
    ///
    /// What it reads is no older than the call; one read serves all who called before it began.
    func readStore() async {
        let wanted = calls.begun + 1
        while calls.ended < wanted, !isStopped {
            let reading = calls.reading ?? Task { await readEverything() }
            calls.reading = reading
            await reading.value
        }
    }

    private func readEverything() async {
        calls.begun += 1
        let number = calls.begun
        var parts = StorePart.allCases.compactMap { begin($0, number) }
        let app = askForApp()
        // Its answer may need the network, so it is waited for only where nobody is known without it.
        if ledger.customerID == nil, let app { parts.append(app) }
        _ = await bounded(Self.storePatience) { [parts] in for part in parts { await part.value } }
        calls.ended = number
        calls.reading = nil
        isStoreRead = true
        publish()
    }

    /// Asks for one part of what the store knows; the answer counts however late it comes.
    private func begin(_ part: StorePart, _ number: Int) -> Task<Void, Never>? {
        guard calls.begin(part) else { return nil }
        return Task {
            let reading = await part.read(store, number: number)
            calls.end(part)
            guard !isStopped else { return }
            let believed = await receive(reading)
            if part == .current { noteListed(isEmpty: believed.isEmpty) }
        }
    }

    /// After how long a store is looked at again that has listed nothing as owned since the process began, in milliseconds.
    private static let secondLooks: [Int64] = [3_000, 12_000, 45_000]

    /// A store that lists nothing, or nothing that is believed, may not be ready yet, and does not tell when it is: so it is
    /// looked at a few times more, and once where it leaves something out.
    private func noteListed(isEmpty: Bool) {
        guard isEmpty else {
            calls.emptyLooks = Self.secondLooks.count
            return schedule(&lookTimer, due: ledger.book.nextListDue) { store in
                store.lookTimer = nil
                await store.readStore()
            }
        }
        guard lookTimer == nil, calls.emptyLooks < Self.secondLooks.count else { return }
        schedule(&lookTimer, due: uptime + Self.secondLooks[calls.emptyLooks]) { store in
            store.lookTimer = nil
            store.calls.emptyLooks += 1
            await store.readStore()
        }
    }

    /// Asks for the app's own purchase, once in the life of the process, unless nothing came and it is still needed.
    ///
    /// - Parameter interval: how long ago it was asked for at least, in milliseconds of uptime; `nil`: only where it never
    ///   was.
    @discardableResult
    func askForApp(againAfter interval: Int64? = nil) -> Task<Void, Never>? {
        if let asked = calls.appAskedAt {
            guard let interval, uptime - asked >= interval else { return calls.app }
        }
        calls.appAskedAt = uptime
        let call = Task {
            let statement = await store.appTransaction()
            guard !isStopped else { return }
            await receive(StoreReading(origin: .app, appTransaction: statement))
        }
        calls.app = call
        return call
    }

    /// Joins what the store handed over: on disk first, then in the published state, then on its way to the server.
    ///
    /// Returns the transactions that were believed.
    @discardableResult
    func receive(_ reading: StoreReading) async -> [DeviceTransaction] {
        var intake = Intake()
        for statement in reading.transactions { take(statement, isUnfinished: reading.isUnfinished, &intake) }
        for status in reading.subscriptions {
            guard let transaction = take(status.transaction, &intake) else { continue }
            take(status.renewal, of: transaction, &intake)
        }
        if let statement = reading.appTransaction { takeApp(statement, &intake) }
        doubtApp(besides: intake.transactions, &intake)
        for signed in intake.signedDates.compactMap(\.self).sorted() {
            clockGuard.saw(signedDate: signed, wall: Timestamp(clock.now()), uptime: uptime)
        }
        for transaction in intake.transactions {
            if ledger.book.confirm(transaction.payload.originalTransactionID, at: now) { intake.isChanged = true }
            if reading.isUnfinished { offerToFinish(transaction, reading: reading.number) }
        }
        noteAccounts(reading, &intake)
        if case .part(.current, _) = reading.origin {
            let now = min(now, Timestamp(clock.now()))
            if ledger.book.listed(intake.transactions, at: now, uptime: uptime) { intake.isChanged = true }
        }
        if intake.isChanged {
            disk.note(.statements)
            disk.note(.clock)
        } else if reading.isUnfinished, !disk.outdated.contains(.statements) {
            gate.stored(ledger.book.content(of:))
        }
        for transaction in intake.transactions where intake.news.contains(transaction.payload.transactionID) {
            purchases[transaction.payload.productID]?.note(transaction, isDelivered: reading.origin == .delivery)
            if ledger.noteCame(transaction) { disk.note(.identity) }
            // What was approved waits no more.
            if checkouts.came(transaction.payload.productID, at: transaction.payload.purchaseDate) {
                disk.note(.checkouts)
            }
        }
        enqueue(intake.news)
        prune()
        _ = await persist()
        // Who the app's own purchase says to be here is proof of what was only taken to be so before.
        let provesMore = intake.hasNewApp && postedApp != ledger.appTransaction?.jws
        let asksOther = provesMore || intake.isOfNewEnvironment || ledger.customerID != askedCustomer
        if asksOther, ledger.customerID != nil {
            askAnew()
            resumeWatch()
        }
        publish()
        tellUnacknowledged()
        resend()
        return intake.transactions
    }

    /// Notes whose purchases the store shows.
    private func noteAccounts(_ reading: StoreReading, _ intake: inout Intake) {
        let accounts = Set(intake.transactions.compactMap(\.payload.appTransactionID))
        if ledger.book.shows(accounts) { intake.isChanged = true }
        guard case .part(let part, let number) = reading.origin else {
            shownPurchases.took(deliveryOf: intake.transactions, begun: calls.begun)
            return storeAccounts.took(deliveryOf: accounts, begun: calls.begun)
        }
        shownPurchases.took(part, of: number, showing: intake.transactions)
        if let all = storeAccounts.took(part, of: number, showing: accounts), ledger.book.showsOnly(all) {
            intake.isChanged = true
        }
    }

    /// Lets go of statements that are over, where there are too many.
    private func prune() {
        guard ledger.book.transactions.count > configuration.transactionLimit else { return }
        let (ledger, needsServer) = (ledger, server != nil)
        let (gate, now) = (gate, now)
        let isSmaller = self.ledger.book.prune(
            limit: configuration.transactionLimit, catalog: ledger.completed(ledger.catalog),
            isNeeded: { transaction in
                if gate.isWaiting(transaction.payload.transactionID) { return true }
                return needsServer && !ledger.hasAnswered(transaction)
            }, at: now)
        if isSmaller { disk.note(.statements) }
    }

    /// Asks everything again, of whoever is the customer now.
    func askAnew() {
        gate.askAgain()
        connection = .notYetAsked
        if let customerID = ledger.customerID { queue.recall(customerID) }
        ask()
    }

    private struct Intake {
        var transactions: [DeviceTransaction] = []
        /// When each statement was signed.
        var signedDates: [Timestamp?] = []
        /// The transactions that say something new, or that renewal information came with.
        var news: Set<String> = []
        var isChanged = false
        var hasNewApp = false
        var isOfNewEnvironment = false
    }

    @discardableResult
    private func take(
        _ statement: SignedStatement, isUnfinished: Bool = false, _ intake: inout Intake
    ) -> DeviceTransaction? {
        do throws(StatementRefusal) {
            let transaction = try DeviceTransaction(statement)
            guard transaction.payload.bundleID == configuration.bundleID else {
                throw StatementRefusal(reason: "it is of another app, \(transaction.payload.bundleID)")
            }
            intake.transactions.append(transaction)
            intake.signedDates.append(transaction.payload.signedDate)
            shown.insert(transaction.jws, in: ledger.book)
            if ledger.book.restate(transaction) {
                intake.isChanged = true
                disk.mustReplaceRows = true
            }
            switch ledger.book.join(transaction, isUnfinished: isUnfinished) {
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
            shown.insert(renewal.jws, in: ledger.book)
            intake.signedDates.append(renewal.payload.signedDate)
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
            let isDoubted = ledger.book.appTransaction.map { !shown.contains($0.jws) } ?? false
            isAppShown = true
            if appTransaction.customerID == nil {
                log(
                    .error, .sync,
                    "the app's own purchase bears no number, so that nobody is known to the server before a login")
            }
            if let environment = ledger.shownEnvironment {
                ledger.shownEnvironment = nil
                intake.isOfNewEnvironment = environment != appTransaction.payload.environment
            }
            shown.insert(appTransaction.jws, in: ledger.book)
            intake.signedDates.append(appTransaction.payload.signedDate)
            let learning = ledger.book.join(appTransaction, isDoubted: isDoubted)
            guard learning != .nothing else { return }
            intake.isChanged = true
            // One that says the same goes with the next request, unless the server took the older one for no proof.
            intake.hasNewApp = learning == .news || connection == .failed(.unproven)
        } catch {
            report(SyncEvent(kind: .unverified, transactionIDs: [], detail: error.reason))
        }
    }

    /// Goes by the environment of what the store shows, where the disk says another of the app's own purchase, and the store
    /// nothing yet: TestFlight's app may have given way to the App Store's.
    private func doubtApp(besides shown: [DeviceTransaction], _ intake: inout Intake) {
        guard !isAppShown, configuration.environment == nil,
            let kept = ledger.book.appTransaction?.payload.environment,
            let other = shown.last(where: { $0.payload.environment != kept })?.payload.environment,
            ledger.shownEnvironment != other
        else { return }
        ledger.shownEnvironment = other
        intake.isOfNewEnvironment = true
    }

    private func offerToFinish(_ transaction: DeviceTransaction, reading: Int?) {
        let id = transaction.payload.transactionID
        // The newest statement about it is what must be durable, whichever one the store has shown.
        let newest = ledger.book.transactions[id] ?? transaction
        gate.offer(
            id, content: newest.contentHash, reading: reading, isUnacknowledged: isUnacknowledged(newest))
        // Xcode's own store signs nothing that a server could verify.
        if StoreEnvironment(apple: transaction.payload.environment) == nil { gate.allow(id) }
    }
}
