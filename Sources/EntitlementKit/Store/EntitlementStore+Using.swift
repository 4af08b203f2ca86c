import EntitlementCore
public import Foundation

extension EntitlementStore {
    // MARK: Reading

    /// Reads the store and asks the server; returns when the answer came, or the attempt failed.
    ///
    /// It tells what was asked after it was called: where a question is under way already, one more is asked after it.
    ///
    /// Where the task that waits for it is cancelled, as a background task is whose time is over, it returns at once with what is
    /// known; what it has begun goes on by itself.
    @discardableResult
    public func refresh() async -> Entitlements {
        let isOver = FirstAnswer<Bool>()
        perform { store in
            await store.refreshAll()
            await isOver.give(true)
        }
        guard !isStopped else { return entitlements }
        let number = noteWait { await isOver.give(nil) }
        defer { waits[number] = nil }
        await withTaskCancellationHandler {
            _ = await isOver.wait()
        } onCancel: {
            Task { await isOver.give(nil) }
        }
        return entitlements
    }

    private func refreshAll() async {
        await ready()
        await loadAgain()
        await loadChanges()
        // Normally both are told in one request; a store that takes its time does not keep the server from being asked.
        let asked = moment
        let reading = Task { await readStore() }
        _ = await bounded(Self.storeLead) { await reading.value }
        wake()
        await askAndWait()
        await reading.value
        passing.check(instant(at: asked))
        publish()
    }

    /// How long the server is not asked yet because the store may say something new.
    private static let storeLead = Duration.milliseconds(900)

    /// Every purchase and renewal of the customer that is known, the newest first.
    public func history() async -> [PurchaseRecord] {
        await ready()
        return ledger.history(at: now, bound: bound)
    }

    /// The server's last answer about the customer in signed form, a JSON Web Token; `nil` where there is none.
    ///
    /// It is for those who verify it by themselves, such as another of your services, and states until when it holds.
    public func pass() async -> String? {
        await ready()
        return ledger.memory?.answer.pass
    }

    // MARK: Life of the app

    /// How often store and server are asked at most because the app came to the front, and because the network returned, in
    /// milliseconds.
    private static let lookInterval: Int64 = 10_000

    /// How long the app's own purchase is not asked for again where it did not come, in milliseconds: the system may have
    /// asked the person to sign in.
    private static let appInterval: Int64 = 60_000

    /// Whether the app's own purchase, which proves who is here and brings what they bought to a login, is not there, or of
    /// another environment, or nobody is known by it.
    private var isAppWanted: Bool { ledger.customerID == nil || ledger.appTransaction == nil }

    /// Call it when the app comes to the front: what rests is tried again, and the truth is asked for.
    ///
    /// However often it is called, that is done every ten seconds at most, and once more after the last call.
    public func applicationWillEnterForeground() async {
        await ready()
        if let last = foregroundAt, uptime - last < Self.lookInterval {
            watchCheckouts()
            return schedule(&foregroundTimer, due: last + Self.lookInterval) { store in
                store.foregroundTimer = nil
                await store.applicationWillEnterForeground()
            }
        }
        foregroundAt = uptime
        // Whoever left the app to pay may be back.
        watchCheckouts()
        await loadAgain()
        await loadChanges()
        if isAppWanted { askForApp(againAfter: Self.appInterval) }
        wake()
        ask()
        await readStore()
    }

    /// What rests is tried again, the store is read, and the truth is asked for, because the network returned.
    ///
    /// On Apple's systems a store that was made with a server's URL notices that by itself. However often the network comes and
    /// goes, that is done every ten seconds at most, and once more after its last return.
    public func networkDidReturn() async {
        await ready()
        if let last = networkAt, uptime - last < Self.lookInterval {
            return schedule(&networkTimer, due: last + Self.lookInterval) { store in
                store.networkTimer = nil
                await store.networkDidReturn()
            }
        }
        networkAt = uptime
        if isAppWanted { askForApp(againAfter: Self.appInterval) }
        wake()
        ask()
        // What was renewed meanwhile the store may know before the server.
        await readStore()
    }

    /// Nobody stands behind the state any more, because there is no network; what is known goes on counting.
    func networkWasLost() async {
        await ready()
        guard case .live = connection else { return }
        connection = .failed(.unreachable)
        publish()
    }

    /// Files can be read from now on.
    func deviceWasUnlocked() async {
        await ready()
        await loadAgain()
    }

    // MARK: Identity

    /// Says who the customer is, after they logged in.
    ///
    /// Before it, the customer is whoever has this copy of the app, by the store's account. What was bought then comes along
    /// with the first answer to their token, unless the app's configuration on the server leaves that link to your own
    /// server; until the server has answered, the device goes on giving it.
    ///
    /// - Parameters:
    ///   - customerID: your own id for them; where it is a UUID, purchases are signed with it.
    ///   - token: a customer token that your server obtained, which proves to the ledger who they are; without one
    ///     ``EntitlementConfiguration/tokenProvider`` is asked.
    ///   - appAccountToken: what purchases are signed with where `customerID` is no UUID; your server is told it with
    ///     every token.
    /// - Returns: `false` for what no customer can be called: empty, longer than 256 bytes, with control characters, or `.` and
    ///   `..`, which mean something else in the address of a request. Then nobody is logged in any more, as after ``signOut()``: whoever was meant, it is not the customer before.
    @discardableResult
    public func identify(customerID: String, token: String? = nil, appAccountToken: UUID? = nil) async -> Bool {
        guard let id = CustomerID(customerID), ![".", ".."].contains(id.value) else {
            await signOut()
            return false
        }
        await ready()
        // An app says it at every launch, and is asked for nothing by that.
        let isKnown = isIdentityKnown && id == ledger.identified && tokens.isUntroubled
        if isKnown, token == nil, appAccountToken.map(ledger.accountTokens.contains) ?? true {
            // The last word counts: on which token is theirs, and over another process that has named somebody else.
            if let appAccountToken { _ = ledger.noteIssued(appAccountToken) }
            disk.noteCustomer()
            _ = await persist()
            return true
        }
        tokens = TokenState(token.map { CustomerToken($0, appAccountToken: appAccountToken) })
        await setCustomer(id, appAccountToken)
        return true
    }

    /// Goes back to whoever has this copy of the app.
    ///
    /// - Returns: whether that is on disk. Where it is not, as on a full disk, it holds all the same, and is tried again with
    ///   whatever is written next; but if the process ends before that, the next launch finds the customer logged in. Call it again then,
    ///   as at every launch where nobody is logged in.
    @discardableResult
    public func signOut() async -> Bool {
        await ready()
        tokens = TokenState()
        return await setCustomer(nil, nil)
    }

    /// The longest that it is left open what somebody holds who has just logged in, and whom the server has never answered about.
    private static let loginPatience = Duration.seconds(2)

    private func expectAnswer() {
        schedule(&loginTimer, due: uptime + Self.loginPatience.milliseconds) { store in
            store.loginTimer = nil
            store.publish()
        }
    }

    /// Returns whether it is on disk.
    @discardableResult
    private func setCustomer(_ id: CustomerID?, _ accountToken: UUID?) async -> Bool {
        let before = ledger.customerID
        ledger.identified = id
        if ledger.customerID != before {
            expectAnswer()
            // What nobody has acknowledged is the next customer's to be told of.
            toldPurchases = [:]
        }
        if let accountToken { _ = ledger.noteIssued(accountToken) }
        disk.noteCustomer()
        let change = disk.changes
        if ledger.customerID != before { connection = .notYetAsked }
        gate.askAgain()
        adoptCheckouts()
        publish()
        _ = await persist()
        resend()
        ask()
        watchCheckouts()
        return disk.isDurable(.identity, upTo: change)
    }
}
