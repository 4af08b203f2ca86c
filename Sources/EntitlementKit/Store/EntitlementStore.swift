import EntitlementCore

/// What the customer is entitled to, kept true for the life of the app.
///
/// Create one, as early as possible, and keep it: it listens to the store from its first use on, whatever views come and
/// go. What the store signs is put on disk first, then it counts in the published state, then it is sent to the server,
/// and only when the server lists it as finished with is the store told so.
///
/// An answer is computed by the same fold as on the server, from the server's facts and the device's joined. Nothing
/// that was once verified is forgotten because the store returns less later.
public actor EntitlementStore {
    let configuration: EntitlementConfiguration
    let store: any DeviceStore
    let server: (any EntitlementServer)?
    let storage: any EntitlementStorage
    let clock: any EntitlementClock

    var ledger: DeviceLedger
    var queue = SyncQueue()
    var gate: FinishGate
    var clockGuard = ClockGuard()
    var disk = DiskState()
    /// The customer's own, for the server; never on disk, since it is good for a short time only.
    var tokens = TokenState()
    var connection = Connection.notYetAsked
    /// About whom it was asked last.
    var askedCustomer: CustomerID?
    /// Whether the store has said in this process who has this copy of the app, and in which environment.
    var isAppShown = false
    /// What of the book the store has shown in this process; anything else comes from the disk.
    var shown = ShownStatements()
    /// The app's own purchase as it was last posted.
    var postedApp: String?
    /// The number of the request that ``connection`` tells of.
    var connectionNumber = 0
    /// Whether the store was read to its end since the app was launched.
    var isStoreRead = false
    var calls = StoreCalls()
    var storeAccounts = StoreAccounts()
    var shownPurchases = ShownPurchases()
    /// Who waits for a call at most so long.
    var waits: [Int: @Sendable () async -> Void] = [:]
    var waitCount = 0
    /// What has been shown of the passing of time.
    var passing = PassingOfTime()

    var entitlements: Entitlements
    var stateListeners = Listeners<Entitlements>()
    var syncListeners = Listeners<SyncEvent>()
    var purchaseListeners = Listeners<PurchaseRecord>()
    /// What listeners were told of last about each transaction: its refund, or, as `nil`, the purchase.
    var toldPurchases: [String: ToldRevocation?] = [:]
    weak var syncDelegate: (any EntitlementSyncDelegate)?

    private var observer: Task<Void, Never>?
    private var statusObserver: Task<Void, Never>?
    private var loading: Task<Void, Never>?
    private(set) var isStopped = false
    private var work: [Int: Task<Void, Never>] = [:]
    private var workCount = 0
    var retryTimer: Timer?
    var boundaryTimer: Timer?
    var heartbeat: Timer?
    var finishTimer: Timer?
    var unlockTimer: Timer?
    var patienceTimer: Timer?
    var tokenTimer: Timer?
    var foregroundTimer: Timer?
    var networkTimer: Timer?
    var lookTimer: Timer?
    var checkoutTimer: Timer?
    /// Runs while the server's first answer about who has just logged in is waited for.
    var loginTimer: Timer?
    /// The products that are being bought.
    var purchases: [String: PurchaseUnderWay] = [:]
    var purchaseCount = 0
    /// What was begun on the web.
    var checkouts = CheckoutBook()
    var checkoutWatch = CheckoutWatch()
    /// The pages that are shown, by their checkouts' ids, and those who wait for what they sold.
    var pages: [String: FirstAnswer<CheckoutReturn>] = [:]
    var seeing: [String: FirstAnswer<Bool>] = [:]
    var shelf: KeptShelf?
    /// When the app last came to the front, in milliseconds of uptime.
    var foregroundAt: Int64?
    /// When the network last returned, in milliseconds of uptime.
    var networkAt: Int64?
    var askers: [Asker] = []
    /// Who waits until something is finished.
    var finishWaiters: [CheckedContinuation<Void, Never>] = []

    /// Somebody who waits for an answer.
    struct Asker {
        /// The number of the last request that had been made when they came; only a later one tells what they ask.
        let after: Int
        let continuation: CheckedContinuation<Void, Never>
    }

    /// How the last attempt to reach the server went.
    enum Connection: Hashable {
        case notYetAsked
        case live(position: Int64)
        case failed(Entitlements.OfflineReason)
    }

    /// Something that is to happen later.
    struct Timer {
        /// In milliseconds of uptime.
        let due: Int64
        let task: Task<Void, Never>
    }

    /// Puts a store together; it does nothing until it is first used.
    ///
    /// - Parameters:
    ///   - configuration: what the app knows about itself.
    ///   - store: the device's own store.
    ///   - server: `nil` has the same effect as switching sync off; an ``EntitlementReader`` does not see it, so switch sync off as
    ///     well where one reads along.
    ///   - storage: where what is known is kept.
    ///   - clock: the device's, unless a test lets time pass by itself.
    public init(
        configuration: EntitlementConfiguration, store: any DeviceStore, server: (any EntitlementServer)?,
        storage: any EntitlementStorage, clock: any EntitlementClock = SystemEntitlementClock()
    ) {
        self.configuration = configuration
        self.store = store
        self.server = configuration.isSyncEnabled ? server : nil
        self.storage = storage
        self.clock = clock
        ledger = DeviceLedger(configuration)
        gate = FinishGate(needsServer: configuration.isSyncEnabled && server != nil)
        entitlements = .loading
        for problem in configuration.webCheckout?.problems ?? [] {
            configuration.logger?.log(.error, .purchase, "the addresses of webCheckout cannot work: \(word: problem)")
        }
        for mapping in configuration.bundledCatalog where mapping.isDurationUnreadable {
            configuration.logger?.log(
                .error, .purchase, "the duration of \(name: mapping.productID) in bundledCatalog is not ISO 8601")
        }
    }

    // MARK: Beginning

    /// Begins to listen to the store and to reconcile, once, however often it is called; anything else implies it.
    ///
    /// It returns at once. From here on no update of the store is lost: it is listened to before anything is read.
    public func start() {
        guard observer == nil, !isStopped else { return }
        let (updates, statuses) = (store.updates(), store.statusUpdates())
        let loading = Task { await load() }
        self.loading = loading
        observer = Task { await observe(updates) }
        statusObserver = Task { await observe(statuses) }
        perform { await $0.bootstrap() }
    }

    private func observe(_ updates: AsyncStream<SignedStatement>) async {
        await loading?.value
        let deliveries = Deliveries()
        let collecting = Task { await deliveries.collect(updates) }
        await withTaskCancellationHandler {
            while let statements = await deliveries.next() {
                await receive(StoreReading(origin: .delivery, transactions: statements))
            }
        } onCancel: {
            collecting.cancel()
        }
    }

    private func observe(_ statuses: AsyncStream<SubscriptionStatement>) async {
        await loading?.value
        for await status in statuses { await receive(StoreReading(origin: .status, subscriptions: [status])) }
    }

    /// The longest that a new customer's screen shows nothing, whatever the store does.
    private static let loadingPatience = Duration.seconds(2)

    private func bootstrap() async {
        await loading?.value
        doubtDisk()
        passing.resume(at: clockGuard.lastKnown ?? now)
        publish()
        scheduleHeartbeat()
        scheduleUnlock()
        schedule(&patienceTimer, due: uptime + Self.loadingPatience.milliseconds) { store in
            store.patienceTimer = nil
            store.isStoreRead = true
            store.publish()
        }
        resend()
        watchCheckouts()
        // Neither waits for the other: a store may take its time, and a server may be away.
        if ledger.customerID != nil { ask() }
        await readStore()
        if connection == .notYetAsked, !isAsking { ask() }
    }

    /// Starts, and waits until what is on disk is known.
    func ready() async {
        start()
        await loading?.value
    }

    /// Ends all work, as the end of the process would; what is on disk stays.
    ///
    /// An app needs no more than one store and never stops it: it listens for the life of the process, and is kept alive by that,
    /// whoever holds it. Stop one that makes way for another in the same process, as in tests, or where a person switches between
    /// servers, before the other is made. From then on ``states`` and the other streams are over, whoever waited is answered by
    /// what is known, and nothing is read, sent or finished any more; it cannot be started again.
    public func stop() {
        isStopped = true
        observer?.cancel()
        statusObserver?.cancel()
        let timers = [
            retryTimer, boundaryTimer, heartbeat, finishTimer, unlockTimer, patienceTimer, tokenTimer, foregroundTimer,
            networkTimer, lookTimer, checkoutTimer, loginTimer,
        ]
        for timer in timers { timer?.task.cancel() }
        for task in work.values { task.cancel() }
        stateListeners.finish()
        syncListeners.finish()
        purchaseListeners.finish()
        resumeAskers()
        resumeFinishWaiters()
        endWaits()
    }

    /// Waits until nothing is under way but listening and waiting.
    package func settled() async {
        await ready()
        while let task = work.values.first { await task.value }
    }

    /// Does something beside whatever else goes on.
    func perform(_ body: @escaping @Sendable (isolated EntitlementStore) async -> Void) {
        guard !isStopped else { return }
        workCount += 1
        let number = workCount
        work[number] = Task {
            await body(self)
            self.work[number] = nil
        }
    }

    // MARK: State

    /// What is published now.
    public var current: Entitlements {
        start()
        return entitlements
    }

    /// The current state, and every later one; a slow listener misses what is outdated, never the newest.
    ///
    /// Each call is a stream of its own, and any number may listen.
    public nonisolated var states: AsyncStream<Entitlements> {
        let (stream, continuation) = AsyncStream.makeStream(
            of: Entitlements.self, bufferingPolicy: .bufferingNewest(1))
        Task { await listen(continuation) }
        return stream
    }

    private func listen(_ continuation: AsyncStream<Entitlements>.Continuation) {
        start()
        guard !isStopped else { return continuation.finish() }
        let number = stateListeners.add(continuation)
        continuation.onTermination = { [weak self] _ in
            Task { await self?.removeStateListener(number) }
        }
        continuation.yield(entitlements)
    }

    private func removeStateListener(_ number: Int) { stateListeners.remove(number) }

    /// What becomes of what is sent to the server, from now on; a slow listener misses the oldest beyond 256.
    public nonisolated var syncEvents: AsyncStream<SyncEvent> {
        let (stream, continuation) = AsyncStream.makeStream(of: SyncEvent.self, bufferingPolicy: .bufferingNewest(256))
        Task { await listen(continuation) }
        return stream
    }

    private func listen(_ continuation: AsyncStream<SyncEvent>.Continuation) {
        guard !isStopped else { return continuation.finish() }
        let number = syncListeners.add(continuation)
        continuation.onTermination = { [weak self] _ in
            Task { await self?.removeSyncListener(number) }
        }
    }

    private func removeSyncListener(_ number: Int) { syncListeners.remove(number) }

    /// Who hears what ``syncEvents`` tells; it is not kept alive.
    public func setSyncDelegate(_ delegate: (any EntitlementSyncDelegate)?) { syncDelegate = delegate }

    func report(_ event: SyncEvent) {
        logEvent(event)
        syncListeners.send(event)
        syncDelegate?.entitlementStore(didReport: event)
    }

    // MARK: Time

    /// In milliseconds.
    var uptime: Int64 { clock.uptime().milliseconds }

    /// The time to evaluate at, whatever the calendar clock was set to.
    var now: Timestamp { clockGuard.now(wall: Timestamp(clock.now()), uptime: uptime) }

    /// What tells later when something was.
    struct Moment {
        /// In milliseconds.
        let uptime: Int64
        /// The newest instant at which the store had signed something by then.
        let signed: Timestamp
    }

    var moment: Moment { Moment(uptime: uptime, signed: clockGuard.signed) }

    /// When a moment was, by the time as it is known now: an answer may have put the clock right since.
    ///
    /// It was not before what the store had signed by then, where the time stands still because the server's clock is behind
    /// that.
    func instant(at moment: Moment) -> Timestamp {
        max(moment.signed, now.adding(milliseconds: moment.uptime - uptime))
    }

    /// Replaces a timer where it is due at another time.
    func schedule(
        _ timer: inout Timer?, due: Int64?, _ body: @escaping @Sendable (isolated EntitlementStore) async -> Void
    ) {
        guard timer?.due != due else { return }
        timer?.task.cancel()
        timer = nil
        guard let due, !isStopped else { return }
        let task = Task {
            guard (try? await clock.sleep(until: .milliseconds(due))) != nil, !Task.isCancelled else { return }
            perform(body)
        }
        timer = Timer(due: due, task: task)
    }
}
