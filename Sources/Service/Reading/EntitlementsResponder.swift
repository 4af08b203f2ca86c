import EntitlementCore
import HTTPServer
import Ledger
import Synchronization

/// Answers plain `GET /v1/customers/{id}/entitlements` on the event loop's thread.
///
/// What arrives in one turn is proven fresh together: one statement, on a session that never waits, tells what came into
/// the log since the last one. It forgets the cached answers on which that bears, and the others are sent as they are.
/// What is not there is loaded together, off the loop. A read that arrives while a statement is under way waits for the
/// next: only one that was sent after the read began proves its answer. So a read shows whatever any instance had
/// acknowledged before it.
///
/// It declines whatever is out of the ordinary, and everything while it has no session.
final class EntitlementsResponder: ImmediateHandler {
    private enum Tail {
        case open(LogTail)
        case opening
        case closed(retryAt: ContinuousClock.Instant)
    }

    /// How long the database may take to answer; then the reads go the general way, which has deadlines of its own.
    private static let answerDeadline = Duration.milliseconds(500)
    private static let reopenAfter = Duration.milliseconds(250)
    /// The most reads that wait to be loaded; the general path, which refuses what is too much, takes the others.
    private static let loadingLimit = 512

    private let application: Application
    private let loader: EntitlementsLoader
    private let waker: LoopWaker
    private let deliveries = ResponderMailbox()
    private let cache: CustomerCache<EncodedEntitlements>
    private let readers: RememberedReaders
    private let counters = RouteCounters(route: EntitlementsTarget.route)
    private let lines: RequestLines
    private var ids = RequestIDs()

    private var tail = Tail.closed(retryAt: .now)
    private var answerDueAt: ContinuousClock.Instant?
    /// Arrived since the statement under way was sent.
    private var arrived: [HeldRead] = []
    /// Proven fresh by the statement under way.
    private var asking: [HeldRead] = []
    private var loading: [Int: [[HeldRead]]] = [:]
    private var loadingCount = 0
    private var lastBatch = 0
    private var isStopped = false

    init(_ application: Application, waker: LoopWaker) {
        self.application = application
        self.waker = waker
        loader = EntitlementsLoader(
            customers: application.reader, reader: application.reader, sha256: application.sha256, now: application.now)
        cache = CustomerCache(capacityBytes: application.limits.answerCacheBytes)
        readers = RememberedReaders(application.authenticator)
        lines = RequestLines(application.logger, route: EntitlementsTarget.route)
        application.metrics.add(counters)
        openTail()
    }

    // MARK: - Receiving

    func receive(_ request: borrowing ImmediateRequest, _ exchange: Exchange) -> Bool {
        guard case .open = tail, !isStopped, request.method.elementsEqual("GET".utf8),
            let target = EntitlementsTarget(request.target), let authorization = request.header("Authorization"),
            let reader = readers.reader(authorization, at: request.receivedAt),
            application.rateLimiter.take(.secretKey(id: reader.keyID), at: request.receivedAt) == nil
        else { return false }
        arrived.append(
            HeldRead(
                exchange: exchange,
                key: CustomerCacheKey(
                    customer: Array(request.target[target.customer]),
                    environment: target.environment ?? reader.environment),
                reader: reader,
                knownTags: request.header("If-None-Match").map { String(decoding: $0, as: UTF8.self) },
                receivedAt: request.receivedAt))
        return true
    }

    func endOfTurn() {
        for delivery in deliveries.take() { receive(delivery) }
        ask()
        let now = ContinuousClock.now
        if let answerDueAt, answerDueAt <= now { loseTail() }
        if case .closed(let retryAt) = tail, retryAt <= now { openTail() }
        if let dueAt = lines.dueAt, dueAt <= now { lines.flush() }
    }

    /// Sends the statement for everything that has arrived, unless one is under way.
    private func ask() {
        guard !arrived.isEmpty, case .open(let tail) = tail, !tail.isAsked else { return }
        swap(&arrived, &asking)
        do {
            try tail.ask(after: cache.position)
            answerDueAt = .now + Self.answerDeadline
        } catch {
            loseTail()
        }
    }

    // MARK: - Waiting

    var watched: (descriptor: Int32, awaitsWriting: Bool)? {
        guard case .open(let tail) = tail else { return nil }
        return (tail.descriptor, tail.awaitsWriting)
    }

    func watchedIsReady() {
        guard case .open(let tail) = tail else { return }
        do {
            guard let news = try tail.receive() else { return }
            answerDueAt = nil
            if cache.position != news.position { application.metrics.noteHead(news.position) }
            cache.apply(news)
            answer(asking, provenAt: news.position)
            asking.removeAll(keepingCapacity: true)
        } catch {
            loseTail()
        }
    }

    var nextDeadline: ContinuousClock.Instant? {
        var deadline = answerDueAt
        if case .closed(let retryAt) = tail, !isStopped { deadline = min(deadline ?? retryAt, retryAt) }
        if let dueAt = lines.dueAt { deadline = min(deadline ?? dueAt, dueAt) }
        return deadline
    }

    func stop() {
        isStopped = true
        let held = arrived + asking + loading.values.joined().joined()
        arrived = []
        asking = []
        loading = [:]
        loadingCount = 0
        for read in held { decline(read) }
        answerDueAt = nil
        tail = .opening
        lines.flush()
    }

    // MARK: - The log's tail

    private func openTail() {
        guard !isStopped else { return }
        tail = .opening
        Task { [reader = application.reader, deliveries, waker] in
            deliveries.put(.tail(try? await reader.openLogTail()))
            waker.wake()
        }
    }

    /// Gives whoever waits for the session to the general path; what is cached stays, for the next session tells what has
    /// come meanwhile.
    private func loseTail() {
        let held = asking + arrived
        asking = []
        arrived = []
        answerDueAt = nil
        tail = .closed(retryAt: .now + Self.reopenAfter)
        for read in held { decline(read) }
    }

    private func receive(_ delivery: ResponderDelivery) {
        guard !isStopped else { return }
        switch delivery {
        case .tail(let opened):
            tail = opened.map { .open($0) } ?? .closed(retryAt: .now + Self.reopenAfter)
        case .loaded(let batch, let answers):
            let reads = loading.removeValue(forKey: batch) ?? []
            let moment = Moment(application.now())
            for (reads, loaded) in zip(reads, answers) {
                loadingCount -= reads.count
                guard let loaded, let key = reads.first?.key else {
                    for read in reads { decline(read) }
                    continue
                }
                if let dependencies = loaded.dependencies {
                    cache.insert(
                        loaded.answer, for: key, restingOn: loaded.position, dependencies,
                        bytes: loaded.answer.body.count + EncodedEntitlements.overhead)
                }
                let position = String(loaded.position)
                for read in reads {
                    send(loaded.answer, position: position, to: read, at: moment, wasInMemory: false)
                }
            }
        }
    }

    // MARK: - Answering

    /// An instant, as those who are answered at it are told.
    private struct Moment {
        let instant: Timestamp
        let text: String
        let clock = ContinuousClock.now

        init(_ instant: Timestamp) {
            self.instant = instant
            text = instant.description
        }
    }

    private func answer(_ reads: [HeldRead], provenAt position: Int64) {
        let moment = Moment(application.now())
        let text = String(position)
        var missing: [HeldRead] = []
        for read in reads {
            guard let (answer, rest) = cache.answer(of: read.key), answer.holds(at: moment.instant) else {
                missing.append(read)
                continue
            }
            // An answer that was loaded a moment ago may rest on more than the statement saw.
            send(answer, position: rest > position ? String(rest) : text, to: read, at: moment, wasInMemory: true)
        }
        if !missing.isEmpty { load(missing) }
    }

    private func load(_ reads: [HeldRead]) {
        var byKey: [CustomerCacheKey: [HeldRead]] = [:]
        for read in reads {
            if loadingCount < Self.loadingLimit {
                loadingCount += 1
                byKey[read.key, default: []].append(read)
            } else {
                decline(read)
            }
        }
        guard !byKey.isEmpty else { return }
        lastBatch += 1
        let batch = lastBatch
        let groups = Array(byKey.values)
        loading[batch] = groups
        let questions = groups.compactMap(\.first?.key).map { key in
            LedgerQuestion(of: CustomerID(String(decoding: key.customer, as: UTF8.self)), key.environment)
        }
        Task { [loader, deliveries, waker] in
            deliveries.put(.loaded(batch: batch, await loader.load(questions)))
            waker.wake()
        }
    }

    private func send(
        _ answer: EncodedEntitlements, position: String, to read: HeldRead, at moment: Moment, wasInMemory: Bool
    ) {
        guard answer.holds(at: moment.instant) else { return decline(read) }
        let isKnown = read.knownTags.map { EntityTagList($0)?.matchesWeakly(answer.tag) == true } ?? false
        let status = isKnown ? 304 : 200
        let count = isKnown ? 0 : answer.bodyCount(positionDigits: position.utf8.count)
        let made = ImmediateResponse(status: status, bodyCount: count) { buffer in
            if !isKnown { answer.write(instant: moment.text, position: position, into: buffer) }
        }
        guard let response = made else { return decline(read) }
        if !isKnown { "application/json".withCString { response.addHeader("Content-Type", $0) } }
        position.withCString { response.addHeader("Ledger-Position", $0) }
        answer.tag.withCString { response.addHeader("ETag", $0) }
        EncodedEntitlements.cacheControl.withUTF8Buffer { value in
            value.withMemoryRebound(to: CChar.self) { value in
                if let value = value.baseAddress { response.addHeader("Cache-Control", value) }
            }
        }
        let duration = read.receivedAt.duration(to: moment.clock)
        ids.withNext { id in
            id.withMemoryRebound(to: CChar.self) { text in
                if let text = text.baseAddress { response.addHeader("X-Request-Id", text) }
            }
            lines.note(
                id, status: status, time: moment.text, duration: duration, keyID: read.reader.keyID, at: moment.clock)
        }
        counters.count(status: status, duration: duration, wasInMemory: wasInMemory)
        read.exchange.answer(response)
    }

    /// The general path pays for the request itself.
    private func decline(_ read: HeldRead) {
        application.rateLimiter.putBack(.secretKey(id: read.reader.keyID))
        read.exchange.decline()
    }
}

/// Where other threads leave what they bring.
private final class ResponderMailbox: Sendable {
    private let deliveries = Mutex<[ResponderDelivery]>([])
    private let hasSome = Atomic(false)

    func put(_ delivery: ResponderDelivery) {
        deliveries.withLock { $0.append(delivery) }
        hasSome.store(true, ordering: .releasing)
    }

    func take() -> [ResponderDelivery] {
        guard hasSome.exchange(false, ordering: .acquiring) else { return [] }
        return deliveries.withLock { deliveries in
            defer { deliveries = [] }
            return deliveries
        }
    }
}
