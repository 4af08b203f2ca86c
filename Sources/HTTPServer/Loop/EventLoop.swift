import CMicroHTTPD
import Glibc

/// Serves every socket, on one thread, without ever waiting for anything but the next thing to do.
///
/// A turn takes what has come: connections, requests, responses of handlers, and whatever the immediate handler waits
/// for. All objects that it owns are used by its thread alone once that has begun, so they have no locks; `LoopMailbox` is
/// the way in.
final class EventLoop {
    let core: ServerCore
    let mailbox: LoopMailbox
    private(set) var immediate: (any ImmediateHandler)?
    private let lingering: LingeringSockets
    private let acceptor: LoopAcceptor
    /// Set by the initialiser, which has to have `self` for it.
    private var daemon: MHDDaemon?
    /// What is waited for: the daemon, the mailbox, the acceptor, and what the immediate handler watches.
    private var watched = [pollfd](repeating: pollfd(fd: -1, events: Int16(POLLIN), revents: 0), count: 4)

    /// When this turn began.
    private(set) var now = ContinuousClock.now
    private var nextSweepAt: ContinuousClock.Instant
    private let sweepInterval: Duration

    private var connections: ConnectionTable
    private var bodies: BodyMemory
    private var handling: [UInt64: Exchange] = [:]
    /// Exchanges whose gates are asked.
    private var gated: [UInt64: Exchange] = [:]
    private var exchanges = 0
    private var heldExchanges = 0
    private var lastExchangeID: UInt64 = 0
    /// Something was queued that only the next run of the daemon sends.
    var hasProgress = false
    /// An exchange can be answered, which the next run of the daemon does.
    var hasAnswers = false

    private var stopping: LoopStop?
    private var hasStopped = false
    /// Whether connections are to be closed after the response they are waiting for.
    var isDraining: Bool { stopping != nil }

    /// A loop that does not run yet; `nil` when the system has no descriptors left for it.
    init?(_ core: ServerCore, listeningOn socket: ListeningSocket, mailbox: LoopMailbox) {
        self.core = core
        self.mailbox = mailbox
        lingering = LingeringSockets(limit: core.configuration.overshoot)
        acceptor = LoopAcceptor(socket)
        connections = ConnectionTable(core.configuration)
        bodies = BodyMemory(core.configuration)
        let shortest = min(
            core.configuration.requestDeadline, core.configuration.responseDeadline, core.configuration.handlerDeadline)
        sweepInterval = max(.milliseconds(20), min(.seconds(1), shortest / 4))
        nextSweepAt = now + sweepInterval
        guard let daemon = MHDDaemon(core.configuration, context: Unmanaged.passUnretained(self).toOpaque()) else {
            return nil
        }
        self.daemon = daemon
        watched[0].fd = daemon.descriptor
        watched[1].fd = mailbox.descriptor
        immediate = core.makeImmediateHandler?(LoopWaker(mailbox: mailbox))
    }

    /// Serves until it is told to stop, and closes everything.
    ///
    /// - Returns: who waits for that, to be resumed when this object is gone.
    func run() -> (waiters: [CheckedContinuation<Void, Never>], lingering: LingeringSockets) {
        while !hasStopped { turn() }
        immediate?.stop()
        immediate = nil
        // The daemon may not be stopped while a connection is suspended.
        for exchange in Array(handling.values) + Array(gated.values) { exchange.giveUp() }
        daemon?.stop()
        return (stopping?.waiters ?? [], lingering)
    }

    // MARK: - A turn

    private func turn() {
        let daemonIsPatient = wait()
        now = .now
        if watched[1].revents != 0 {
            for message in mailbox.take() { receive(message) }
        }
        if watched[2].revents != 0, let daemon {
            acceptor.acceptBatch(
                daemon, at: now, hasRoom: { connections.makeRoom(at: now) },
                admits: { address in
                    connections.admits(
                        PeerAddress(address), isTrusted: core.trusts(numericAddress(address)), at: now)
                })
            hasAnswers = true
        }
        if watched[3].revents != 0 { immediate?.watchedIsReady() }
        if watched[0].revents != 0 || hasAnswers || !daemonIsPatient { runDaemon() }
        immediate?.endOfTurn()
        if hasAnswers { runDaemon() }
        if now >= nextSweepAt { sweep() }
        advanceStop()
    }

    /// Runs the daemon as long as that leads to something: what one run queues, often only the next one sends.
    private func runDaemon() {
        var runs = 0
        repeat {
            hasAnswers = false
            hasProgress = false
            daemon?.run()
            runs += 1
        } while (hasAnswers || hasProgress) && runs < Self.runsPerTurn
    }

    /// So many that everything is sent, and few enough that one client cannot keep the others waiting.
    private static let runsPerTurn = 8

    /// Waits until there is something to do.
    ///
    /// - Returns: whether the daemon may be left alone when its descriptor is not readable.
    private func wait() -> Bool {
        var patience = daemon?.patience.map { Int64(clamping: $0) }
        // Held exchanges make the daemon impatient for as long as they are held. Should it have something else to do
        // that no descriptor tells of, a moment later is soon enough.
        if patience == 0, heldExchanges > 0, !hasAnswers, !hasProgress { patience = 1 }
        if hasAnswers || hasProgress { patience = 0 }
        var deadline = patience.map { now + .milliseconds($0) }
        func wake(at instant: ContinuousClock.Instant?) {
            if let instant { deadline = min(deadline ?? instant, instant) }
        }
        wake(at: connections.isEmpty ? nil : nextSweepAt)
        wake(at: immediate?.nextDeadline)
        wake(at: stopping?.deadline)

        watched[2].fd = acceptor.descriptor(at: now)
        wake(at: acceptor.pausedUntil)
        let own = immediate?.watched
        watched[3].fd = own?.descriptor ?? -1
        watched[3].events = Int16(POLLIN) | (own?.awaitsWriting == true ? Int16(POLLOUT) : 0)
        for index in watched.indices { watched[index].revents = 0 }
        if immediate?.expectsSoon == true, deadline.map({ $0 > now }) ?? true, looksBriefly() {
            return patience.map { $0 > 1 } ?? true
        }
        let milliseconds = deadline.map { max(0, ((($0 - now) / .milliseconds(1)) as Double).rounded(.up)) }
        poll(&watched, nfds_t(watched.count), milliseconds.map { Int32(min($0, 3_600_000)) } ?? -1)
        return patience.map { $0 > 1 } ?? true
    }

    /// How long the loop looks before it sleeps.
    ///
    /// A small statement takes about as long as a sleeping thread takes to wake.
    private static let brieflyLooking = Duration.microseconds(60)

    /// Looks for what has come without going to sleep, and lets others have the processor between two looks.
    ///
    /// - Returns: whether there is something to do.
    private func looksBriefly() -> Bool {
        let end = ContinuousClock.now + Self.brieflyLooking
        repeat {
            if poll(&watched, nfds_t(watched.count), 0) != 0 { return true }
            sched_yield()
        } while ContinuousClock.now < end
        return false
    }

    private func sweep() {
        for client in connections.all { client.sweep(at: now) }
        // A machine that stood still, or had no time for this thread, had none for the handlers either.
        let missed = now - nextSweepAt
        if missed > Self.unnoticed {
            for exchange in Array(handling.values) + Array(gated.values) {
                exchange.handledSince = min(now, exchange.handledSince + missed)
            }
        }
        let late = now - core.configuration.handlerDeadline
        for exchange in handling.values.filter({ $0.handledSince <= late }) {
            exchange.abandon(core.tooSlow)
        }
        for exchange in gated.values.filter({ $0.handledSince <= late }) { exchange.abandon(core.tooSlow) }
        nextSweepAt = now + sweepInterval
    }

    /// By how much a sweep may be late without anybody being given more time for it.
    private static let unnoticed = Duration.milliseconds(500)

    private func receive(_ message: LoopMessage) {
        switch message {
        case .finished(let id, let response): handling[id]?.finish(response)
        case .gated(let id, let refusal): gated[id]?.finishGate(refusal)
        case .stop(let grace, let waiter):
            acceptor.stop()
            if stopping == nil { stopping = LoopStop(deadline: now + grace) }
            stopping?.waiters.append(waiter)
        }
    }

    // MARK: - Connections

    func connectionOpened(_ client: ClientConnection) {
        if connections.isEmpty { nextSweepAt = now + sweepInterval }
        connections.insert(client)
    }

    func connectionClosed(_ client: ClientConnection) {
        if let duplicate = client.close() { lingering.adopt(duplicate) }
        connections.remove(client)
    }

    // MARK: - Exchanges

    func nextExchangeID() -> UInt64 {
        lastExchangeID += 1
        return lastExchangeID
    }

    func exchangeBegan() { exchanges += 1 }

    func exchangeEnded(_ exchange: Exchange) {
        bodies.release(exchange)
        exchanges -= 1
    }

    func heldExchangeBegan() { heldExchanges += 1 }

    func heldExchangeEnded() { heldExchanges -= 1 }

    /// Counts body bytes about to be held.
    ///
    /// - Returns: `false`, and counts nothing, when they are too many over all requests.
    func reserveBody(_ count: Int, for exchange: Exchange) -> Bool { bodies.reserve(count, for: exchange) }

    func gateBegan(_ exchange: Exchange) { gated[exchange.id] = exchange }

    func gateEnded(_ exchange: Exchange) { gated[exchange.id] = nil }

    /// Counts a handler about to start.
    ///
    /// - Returns: why it may not start, if it may not.
    func admit(_ exchange: Exchange) -> HTTPRefusal? {
        guard stopping?.hasAbandoned != true else { return core.shuttingDown }
        let more = exchange.bodyMemory == .reserved ? core.configuration.maxReservedHandlers : 0
        guard handling.count < core.configuration.maxHandlersInFlight + more else { return core.overloaded }
        handling[exchange.id] = exchange
        return nil
    }

    func handlerEnded(_ exchange: Exchange) { handling[exchange.id] = nil }

    // MARK: - Stopping

    /// Ends the loop when no exchange is under way.
    ///
    /// When the grace is over, no handler may start any more, and those at
    /// work are answered for; they get a moment to read that they need not wait any longer.
    private func advanceStop() {
        guard let stop = stopping else { return }
        if exchanges == 0 {
            hasStopped = true
        } else if now >= stop.deadline {
            let isWaitedFor = !handling.isEmpty || !gated.isEmpty || heldExchanges > 0
            guard !stop.hasAbandoned, isWaitedFor else {
                hasStopped = true
                return
            }
            stopping?.hasAbandoned = true
            stopping?.deadline = now + .seconds(1)
            immediate?.stop()
            for exchange in Array(handling.values) + Array(gated.values) { exchange.abandon(core.shuttingDown) }
        }
    }
}

/// How far the end of a loop has come.
private struct LoopStop {
    /// When the loop goes on to the next step, however many exchanges are under way.
    var deadline: ContinuousClock.Instant
    /// Whether handlers were given up, and no new one may start.
    var hasAbandoned = false
    var waiters: [CheckedContinuation<Void, Never>] = []
}
