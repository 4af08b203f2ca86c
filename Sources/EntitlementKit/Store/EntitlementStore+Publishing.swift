import AppStorePayloads
import EntitlementCore

extension EntitlementStore {
    /// How long something that nobody confirms still gives access, in milliseconds; `nil`: for ever, as without a server
    /// there is only the store, and one that shows nothing says nothing.
    var bound: Int64? { server == nil ? nil : configuration.offlineBound.milliseconds }

    /// Evaluates what is known at the current time, tells whoever listens where anything changed, and finishes what may
    /// be finished with it.
    func publish() {
        // Before anything is known, an empty answer would read as one; and before it is known who is here, any answer
        // could be somebody else's.
        guard isIdentityKnown, isStoreRead || ledger.memory != nil || !ledger.book.transactions.isEmpty else { return }
        if clockGuard.remember(wall: Timestamp(clock.now()), uptime: uptime) {
            disk.note(.clock)
            perform { _ = await $0.persist() }
        }
        let now = now
        // A clock that was set forward by mistake is right again: nothing can have been confirmed after now.
        if let shown = passing.shown, now < shown, ledger.book.forgetConfirmations(after: now) {
            disk.note(.statements)
            disk.mustReplaceRows = true
        }
        let fold = DeviceFold(ledger, leeway: configuration.renewalLeeway.milliseconds)
        guard let instant = instantToShow(of: fold, now: now) else { return }
        let next = Entitlements(
            kind: kind, customerID: ledger.customerID?.value,
            environment: ledger.environment.map { StoreEnvironmentName(rawValue: $0) }, at: instant.date,
            all: fold.entitlements(at: instant, bound: bound))
        noteCheckouts(fold, next.all)
        let isNews =
            next.kind != entitlements.kind || next.customer != entitlements.customer
            || next.environment != entitlements.environment || next.all != entitlements.all
        if isNews { logState(next, after: entitlements) }
        entitlements = next
        passing.show(instant)
        if isNews { stateListeners.send(next) }
        gate.published(ledger.book.content(of:))
        finishReady()
        scheduleBoundary(fold.nextBoundary(after: now, bound: bound))
        resumeFinishWaiters()
    }

    // MARK: The passing of time

    /// The instant to evaluate for: now, or right before access would end by the passing of time alone, while it is asked
    /// whether it does; `nil` where nothing is to be shown yet.
    private func instantToShow(of fold: DeviceFold, now: Timestamp) -> Timestamp? {
        guard let shown = passing.shown, let boundary = fold.nextBoundary(after: shown, bound: bound), boundary <= now,
            boundary > passing.checked
        else { return now }
        let before = max(shown, boundary.adding(milliseconds: -1))
        let given = fold.entitlements(at: before, bound: bound).filter(\.givesAccess).map(\.id)
        let left = Set(fold.entitlements(at: now, bound: bound).filter(\.givesAccess).map(\.id))
        guard !left.isSuperset(of: given) else { return now }
        askWhetherItEnds()
        // Who has just logged in is loading, too, and must not be left with the state of the customer before.
        return entitlements == .loading ? nil : before
    }

    /// The longest that the end of access is not shown because store and server are being asked about it.
    private static let endPatience = Duration.seconds(2)

    private func askWhetherItEnds() {
        guard !passing.isChecking else { return }
        passing.isChecking = true
        let asked = moment
        perform { store in
            _ = await store.bounded(Self.endPatience) {
                async let answer: Void = store.askAndWait()
                await store.readStore()
                await answer
            }
            store.passing.isChecking = false
            store.passing.check(store.instant(at: asked))
            store.publish()
        }
    }

    private var kind: Entitlements.Kind {
        if isEarly { return .loading }
        guard server != nil, ledger.environment == nil || ledger.storeEnvironment != nil else {
            return .offline(asOf: nil, reason: .syncOff)
        }
        let asOf = ledger.memory?.confirmedAt?.date
        switch connection {
        case .live(let position): return .live(position: position)
        case .notYetAsked: return .offline(asOf: asOf, reason: .notYetAsked)
        case .failed(let reason): return .offline(asOf: asOf, reason: reason)
        }
    }

    /// Whether the first answers of store and server are still waited for, so that no door is closed yet: for two
    /// seconds after a launch or a login at most.
    private var isEarly: Bool {
        // Before the store is read, a part of it may have come that is not what gives access. What a server says does not make
        // up for the rest: it may not have heard yet of what was bought outside of the app since that ran last.
        if !isStoreRead { return true }
        guard connection == .notYetAsked, server != nil, ledger.environment == nil || ledger.storeEnvironment != nil
        else { return false }
        // Who has just logged in may hold what only the server knows of, and so may somebody of whom it has said
        // nothing lately.
        return loginTimer != nil || patienceTimer != nil && !isMemoryRecent
    }

    /// Whether the server's last word on the customer still counts, as it does where it gives access.
    private var isMemoryRecent: Bool {
        guard let confirmedAt = ledger.memory?.confirmedAt else { return false }
        return bound.map { now <= confirmedAt.adding(milliseconds: $0) } ?? true
    }

    /// The longest that the store is waited for when it is told that something is finished with.
    private static let finishPatience = Duration.seconds(30)

    private func finishReady() {
        for (id, content) in gate.takeReady(uptime: uptime) {
            perform { store in
                let adapter = store.store
                let isDone = await store.bounded(Self.finishPatience) { await adapter.finish(transactionID: id) }
                store.gate.ended(
                    id, content: content, isDone: isDone ?? false, reading: store.calls.begun, uptime: store.uptime)
                store.finishReady()
                store.resumeFinishWaiters()
            }
        }
        schedule(&finishTimer, due: gate.nextDue) { store in
            store.finishTimer = nil
            store.finishReady()
        }
    }

    /// The longest that is slept at once, in milliseconds: a device may wake with its clock set otherwise.
    private static let longestSleep: Int64 = 3_600_000

    /// How long before something ends it is asked whether it was renewed, in milliseconds.
    private static let foresight: Int64 = 60_000

    private func scheduleBoundary(_ boundary: Timestamp?) {
        // Read once, and before the calendar: time may pass between any two lines of this, and a later reading would put the
        // alarm off by as much.
        let uptime = uptime
        let left = boundary.map { clockGuard.wait(until: $0, wall: Timestamp(clock.now()), uptime: uptime) }
        let delay = left.map { min($0 > Self.foresight ? $0 - Self.foresight : $0, Self.longestSleep) }
        let due = delay.map { uptime + $0 }
        schedule(&boundaryTimer, due: due) { await $0.reachBoundary(at: boundary) }
    }

    private func reachBoundary(at boundary: Timestamp?) async {
        boundaryTimer = nil
        publish()
        // Whatever ends may have been renewed without a word to this device.
        guard let boundary, now >= boundary.adding(milliseconds: -Self.foresight), !passing.isChecking else { return }
        await readStore()
        ask()
    }

    /// The longest that a running app goes without asking, in milliseconds.
    private static let longestSilence: Int64 = 6 * 3_600_000

    /// Asks now and then, so that what is withdrawn on the server ends here too, and nothing comes near the bound.
    func scheduleHeartbeat() {
        guard server != nil else { return }
        let interval = min(Self.longestSilence, max(60_000, configuration.offlineBound.milliseconds / 4))
        schedule(&heartbeat, due: uptime + interval) { store in
            store.heartbeat = nil
            store.scheduleHeartbeat()
            await store.readStore()
            store.ask()
        }
    }
}
