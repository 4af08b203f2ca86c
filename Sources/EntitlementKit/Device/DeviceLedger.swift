import AppStorePayloads
import EntitlementAPI
import EntitlementCore
import Foundation

/// All that the device knows: what its store signed, what the server answered, and who the customer is.
///
/// A value that decides and does nothing: every instant is an argument, and whoever holds it does the reading, writing
/// and sending.
struct DeviceLedger: Sendable {
    /// The most customers whose answers are kept.
    static let memoryLimit = 8
    /// The most account tokens, and purchases of who was logged in, that are remembered.
    static let issuedLimit = 32

    let bundleID: String
    /// Checks how much of an answer is believed; `nil`: all of it.
    private(set) var passCheck: PassCheck?
    private let configuredEnvironment: String?
    private var bundledCatalog: Catalog
    var book = StatementBook()
    private(set) var memories: [ServerMemory] = []
    private(set) var serverCatalog: AnsweredCatalog?
    /// When the server answered last, by its own clock; `nil`: not known.
    private var heardAt: Timestamp?
    /// Whom the app said the customer is.
    var identified: CustomerID?
    /// The environment of what the store shows, in Apple's word, where what the disk says of the app's own purchase is of
    /// another, and the store has not said who has this copy of the app.
    var shownEnvironment: String?
    /// The account tokens that the server has issued, to whoever was logged in here, the last one last.
    private(set) var issued: [IssuedAccountToken] = []
    /// What whoever was logged in has bought here that bears nothing of theirs, the last one last.
    var bought: [PurchaseWhileLoggedIn] = []
    /// What whoever was logged in has begun to buy here that will bear nothing of theirs, and that has not come, the last one last.
    var begun: [PendingPurchase] = []

    init(_ configuration: EntitlementConfiguration) {
        bundleID = configuration.bundleID
        passCheck = PassCheck(configuration)
        configuredEnvironment = configuration.environment?.rawValue
        bundledCatalog = Catalog(configuration.bundledCatalog)
    }

    // MARK: Who and where

    /// The app's own purchase, where it is of the environment that the store shows.
    var appTransaction: DeviceAppTransaction? {
        guard let known = book.appTransaction else { return nil }
        return known.payload.environment == shownEnvironment ?? known.payload.environment ? known : nil
    }

    /// Who has this copy of the app.
    var appCustomer: CustomerID? { appTransaction?.customerID }

    /// Whose entitlements are shown: whom the app named, else who has this copy of it, else who bought last.
    var customerID: CustomerID? { identified ?? appCustomer ?? buyer }

    /// What the purchases of whoever is logged in are signed with.
    var accountToken: UUID? {
        identified.flatMap { id in UUID(uuidString: id.value) ?? issued.last { $0.customerID == id }?.token }
    }

    /// What their purchases were ever signed with on this device.
    var accountTokens: [UUID] {
        [identified.flatMap { UUID(uuidString: $0.value) }].compactMap(\.self)
            + issued.filter { $0.customerID == identified }.map(\.token)
    }

    /// Whether a purchase bears an account token that is not known to be of who is logged in; while nobody is, one that is
    /// known to be of somebody who was.
    func bearsAnotherToken(_ transaction: DeviceTransaction) -> Bool {
        guard let token = transaction.payload.appAccountToken?.lowercased() else { return false }
        let ofOthers = issued.map(\.token) + memories.compactMap { UUID(uuidString: $0.customerID.value) }
        func isAmong(_ tokens: [UUID]) -> Bool { tokens.contains { $0.uuidString.lowercased() == token } }
        return identified == nil ? isAmong(ofOthers) : !isAmong(accountTokens)
    }

    /// Remembers the account token that the server issued to the customer who is logged in; returns whether it is new.
    mutating func noteIssued(_ token: UUID) -> Bool {
        guard let identified, accountToken != token else { return false }
        let row = IssuedAccountToken(customerID: identified, token: token)
        issued.removeAll { $0 == row }
        issued.append(row)
        issued.removeFirst(max(0, issued.count - Self.issuedLimit))
        return true
    }

    /// Whether who is logged in has bought a transaction's original here, and it does not say so itself.
    func isBoughtByCustomer(_ transaction: DeviceTransaction) -> Bool {
        bought.contains {
            $0.customerID == identified && $0.originalTransactionID == transaction.payload.originalTransactionID
        }
    }

    /// Whether somebody else bought a transaction's original here while they were logged in, it does not say so itself, and
    /// the server has not said that it is the present customer's.
    func isBoughtByAnother(_ transaction: DeviceTransaction) -> Bool {
        let original = transaction.payload.originalTransactionID
        guard bought.contains(where: { $0.originalTransactionID == original }), !isBoughtByCustomer(transaction) else {
            return false
        }
        return memory(of: transaction)?.isTheirs(transaction) != true
    }

    private var buyer: CustomerID? {
        let bought = book.transactions.values.filter { $0.payload.appTransactionID != nil && isOurs($0) }
        let last = bought.max {
            ($0.payload.purchaseDate, $0.payload.transactionID) < ($1.payload.purchaseDate, $1.payload.transactionID)
        }
        return last?.payload.appTransactionID.flatMap(CustomerID.ofAppTransaction)
    }

    /// Whom a transaction is posted for, and asked about: the present customer, unless it was bought with another Apple
    /// account than the one that downloaded the app.
    ///
    /// The server takes no signed purchase for proof of who posts it. So while nobody is logged in, such a one is posted
    /// for its own account's customer: it is recorded and finished there, and contradicts nothing.
    func poster(of transaction: DeviceTransaction) -> CustomerID? {
        isOfAnotherAccount(transaction)
            ? transaction.payload.appTransactionID.flatMap(CustomerID.ofAppTransaction) : customerID
    }

    /// Whether a transaction was bought with another Apple account than the present customer's, while nobody is logged in.
    ///
    /// It is shown all the same: on this device its own app transaction id is the customer's, too.
    func isOfAnotherAccount(_ transaction: DeviceTransaction) -> Bool {
        guard identified == nil, transaction.payload.appAccountToken == nil, let customerID,
            let bearer = transaction.payload.appTransactionID.flatMap(CustomerID.ofAppTransaction)
        else { return false }
        return bearer != customerID
    }

    /// What the server last said of whom a transaction is posted for.
    func memory(of transaction: DeviceTransaction) -> ServerMemory? {
        memory(ofCustomer: poster(of: transaction))
    }

    /// Whether the server has answered about a transaction as it reads now.
    func hasAnswered(_ transaction: DeviceTransaction) -> Bool {
        memory(of: transaction)?.hasAnswered(transaction) ?? false
    }

    private func memory(ofCustomer customerID: CustomerID?) -> ServerMemory? {
        guard let customerID else { return nil }
        return memories.last { $0.customerID == customerID && hasOurEnvironment($0) }
    }

    /// The environment in Apple's word: the one configured, else that of the app itself, else that of what the store shows, or
    /// of what was signed last.
    var environment: String? {
        if let word = statedEnvironment { return word }
        let last = book.transactions.values.max {
            (($0.payload.signedDate ?? .earliest), $0.payload.transactionID)
                < (($1.payload.signedDate ?? .earliest), $1.payload.transactionID)
        }
        return last?.payload.environment
    }

    /// The environment as a server knows it; `nil` also where no server could.
    var storeEnvironment: StoreEnvironment? { environment.flatMap { StoreEnvironment(apple: $0) } }

    /// What the server last said of the present customer.
    var memory: ServerMemory? { memory(ofCustomer: customerID) }

    private func hasOurEnvironment(_ memory: ServerMemory) -> Bool {
        environment == nil || StoreEnvironment(rawValue: memory.answer.environment)?.apple == environment
    }

    /// What products give: the server's word, else what the app was built with.
    var catalog: Catalog {
        guard let serverCatalog, serverCatalog.position > 0 else { return bundledCatalog }
        return serverCatalog.catalog
    }

    /// A catalog with what the app was built to know of products that it lacks, as long as the server has not answered about
    /// who has bought them: the app may be newer than what the server last said.
    func completed(_ catalog: Catalog) -> Catalog {
        let known = Set(catalog.products.map(\.productID))
        let missing = bundledCatalog.products.filter { !known.contains($0.productID) }
        guard !missing.isEmpty else { return catalog }
        let unanswered = Set(
            book.transactions.values.filter { isOurs($0) && !hasAnswered($0) }.map(\.payload.productID))
        return Catalog(
            products: catalog.products + missing.filter { unanswered.contains($0.productID) }, policy: catalog.policy)
    }

    /// The same as though no server had said what anybody holds, but for what is somebody else's: what the store has signed, and
    /// what products give by what the app was built with and by passes.
    var withoutServersWord: DeviceLedger {
        var ledger = self
        ledger.bundledCatalog = bundledCatalog.adding(memories.compactMap(\.answer.claims).flatMap(\.entitlements))
        (ledger.passCheck, ledger.serverCatalog) = (nil, nil)
        ledger.memories = memories.map(\.withoutWord)
        return ledger
    }

    private var statedEnvironment: String? {
        configuredEnvironment ?? shownEnvironment ?? appTransaction?.payload.environment
    }

    /// Whether a transaction is of this app and environment.
    func isOurs(_ transaction: DeviceTransaction) -> Bool {
        transaction.payload.bundleID == bundleID
            && (statedEnvironment ?? transaction.payload.environment) == transaction.payload.environment
    }

    // MARK: What the server says

    /// Takes an answer about a customer, and what of the posted statements it answers; returns whether its log lacks what
    /// those before held: it is another one, which has to be told everything again, or has lost something.
    ///
    /// - Parameter lastRequest: the number of the last request that was made before the answer came; `nil`: that which
    ///   it answers.
    mutating func take(
        _ answer: ServerAnswer, _ results: PostingResults, to posted: SyncPosting, lastRequest: Int? = nil
    ) -> Bool {
        if answer.isVouched { heardAt = answer.at }
        let number = posted.batch.number
        let isAnotherLog = memories.contains {
            $0.answer.environment == answer.environment && !$0.isOfFormerLog
                && $0.isOfAnotherLog(than: answer, askedSince: $0.precedes(request: number))
        }
        if isAnotherLog {
            for index in memories.indices { memories[index].forgetAnswered(since: answer, toRequest: number) }
            serverCatalog = nil
        }
        // What is not wholly understood is good for this answer alone.
        if let catalog = answer.catalog, catalog.isWhole || serverCatalog == nil,
            !(serverCatalog.map { catalog.answered.isOvertaken(by: $0.answered) } ?? false)
        {
            serverCatalog = catalog
        }
        let known = remove(answer)
        let new = ServerMemory(answer, lastRequest: lastRequest ?? number)
        var memory = known ?? new
        if isAnotherLog || memory.isOfFormerLog, answer.isProven || !memory.isProven {
            memory = new
        } else {
            memory.take(answer, askedSince: memory.precedes(request: number), lastRequest: new.lastRequest)
        }
        for (transaction, fate) in zip(posted.transactions, results.transactions) {
            switch fate {
            case .held: memory.noteAnswered(transaction, isConflict: false, at: answer.at)
            case .conflict(let reason, _):
                memory.noteAnswered(transaction, isConflict: true, reason: reason, at: answer.at)
            case .failed, .untrusted: break
            }
        }
        for (renewal, fate) in zip(posted.renewals, results.renewals) where fate == .held {
            memory.noteAnswered(renewal: renewal.payloadHash)
        }
        let hasLost = memory.noteTold()
        memory.keep(
            transactions: Set(book.transactions.keys),
            renewals: Set(book.renewals.values.joined().map(\.payloadHash.hex)))
        memories.append(memory)
        memories.removeFirst(max(0, memories.count - Self.memoryLimit))
        return isAnotherLog || hasLost
    }

    /// Takes out what is remembered of an answer's customer and environment.
    private mutating func remove(_ answer: ServerAnswer) -> ServerMemory? {
        let index = memories.firstIndex {
            $0.customerID == answer.customerID && $0.answer.environment == answer.environment
        }
        return index.map { memories.remove(at: $0) }
    }

    // MARK: What to send

    /// The transactions that the server is yet to hear of, or is to hear of again.
    var unsent: [String] {
        guard customerID != nil, storeEnvironment != nil else { return [] }
        let ours = book.transactions.values.filter(isOurs)
        let news = ours.filter { memory(of: $0)?.wantsToHear($0) ?? true }
        // What it has answered long ago, as much as goes into one request at a time.
        let outdated = ours.filter { memory(of: $0)?.isOutdated($0) ?? false }
            .map(\.payload.transactionID).sorted().prefix(SyncQueue.batchLimit)
        return news.map(\.payload.transactionID).sorted() + unsentRenewalCarriers + outdated
    }

    /// For each original transaction with renewal information that the server has not answered, the transaction that
    /// carries it there.
    private var unsentRenewalCarriers: [String] {
        book.renewals.keys.sorted().compactMap { original in
            guard let carrier = book.transactions(of: original).last(where: { isOurs($0) }),
                !unsentRenewals(of: original, for: poster(of: carrier)).isEmpty
            else { return nil }
            return carrier.payload.transactionID
        }
    }

    /// The renewal information of an original transaction that a customer's server has not answered.
    func unsentRenewals(of originalTransactionID: String, for customerID: CustomerID?) -> [DeviceRenewal] {
        let memory = memory(ofCustomer: customerID)
        return (book.renewals[originalTransactionID] ?? []).filter {
            !(memory?.answeredRenewals.contains($0.payloadHash.hex) ?? false)
        }
    }

    /// The statements behind a batch, and the body to post them with.
    func posting(_ batch: SyncQueue.Batch, at now: Timestamp) -> SyncPosting {
        let transactions = batch.transactionIDs.compactMap { book.transactions[$0] }
        let originals = Set(transactions.map(\.payload.originalTransactionID)).sorted()
        let outdated = Set(
            transactions.filter { memory(ofCustomer: batch.customerID)?.isOutdated($0) ?? false }
                .map(\.payload.originalTransactionID))
        let renewals = originals.flatMap { original in
            outdated.contains(original)
                ? book.renewals[original] ?? [] : unsentRenewals(of: original, for: batch.customerID)
        }.suffix(ReconcileRequest.renewalLimit)
        return SyncPosting(
            batch: batch, transactions: transactions, renewals: Array(renewals),
            request: ReconcileRequest(
                app: bundleID, environment: storeEnvironment.map { ReconcileRequest.Environment($0) },
                signedTransactions: transactions.map(\.jws),
                signedRenewalInfos: renewals.map(\.jws), appTransaction: appTransaction?.jws,
                claims: batch.customerID == customerID ? claims(at: now) : [], wantsFacts: true))
    }

    // MARK: Disk

    /// Drops confirmations on disk that are dated after the present instant, because they prove nothing.
    ///
    /// The time on disk may lag behind them by ``ClockGuard/tolerance``. Returns whether there were any.
    mutating func forgetConfirmations(after now: Timestamp) -> Bool {
        let limit = now.adding(milliseconds: ClockGuard.tolerance)
        for index in memories.indices { memories[index].forgetConfirmation(after: limit) }
        return book.dropConfirmations(after: limit)
    }

    /// When the store signed the newest of what is known.
    var lastSigned: Timestamp? { book.transactions.values.compactMap(\.payload.signedDate).max() }

    /// When the server last answered, by its own clock.
    ///
    /// Not the latest of all answers: that clock may have been ahead for a while, and what it says now replaces what it said
    /// then, whomever it was about.
    var lastAnswered: Timestamp? { heardAt ?? memories.last(where: \.answer.isVouched)?.answer.at }

    /// Takes what was kept on disk, beside what came before it could be read.
    mutating func restore(_ file: ServerFile) {
        heardAt = heardAt ?? file.heardAt
        for kept in file.memories.reversed() {
            let index = memories.firstIndex {
                $0.customerID == kept.customerID && $0.answer.environment == kept.answer.environment
            }
            // What is known already was used later.
            if let index { memories[index].join(kept) } else { memories.insert(kept, at: 0) }
        }
        memories.removeFirst(max(0, memories.count - Self.memoryLimit))
        serverCatalog = [serverCatalog, file.catalog].compactMap(\.self).max { $0.answered < $1.answered }
    }

    /// Takes whom the app said the customer is, and what their purchases are signed with.
    ///
    /// - Parameter isNamed: whether the app has said since who it is.
    mutating func restore(identity kept: WireValue, isNamed: Bool = false) {
        if !isNamed { identified = kept["customerID"]?.text.flatMap(CustomerID.init) }
        let rows = kept["accountTokens"]?.entries.compactMap { $0.decoded(IssuedAccountToken.self) } ?? []
        // The last one counts: what the app has said since, or else what somebody has written.
        let all = isNamed ? rows.filter { !issued.contains($0) } + issued : issued.filter { !rows.contains($0) } + rows
        issued = Array(all.suffix(Self.issuedLimit))
        let purchases = kept["purchases"]?.entries.compactMap { $0.decoded(PurchaseWhileLoggedIn.self) } ?? []
        bought = Array((purchases.filter { !bought.contains($0) } + bought).suffix(Self.issuedLimit))
        let waiting = kept["begun"]?.entries.compactMap { $0.decoded(PendingPurchase.self) } ?? []
        begun = Array((waiting.filter { !begun.contains($0) } + begun).suffix(Self.issuedLimit))
    }

    var serverFile: ServerFile { ServerFile(catalog: serverCatalog, memories: memories, heardAt: heardAt) }

    var identityFile: IdentityFile {
        IdentityFile(customerID: identified, accountTokens: issued, purchases: bought, begun: begun)
    }
}

/// A batch with the statements it stands for.
struct SyncPosting: Sendable {
    let batch: SyncQueue.Batch
    let transactions: [DeviceTransaction]
    let renewals: [DeviceRenewal]
    let request: ReconcileRequest
}
