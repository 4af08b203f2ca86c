import EntitlementCore
import HTTPServer
import Ledger
import Synchronization

/// Answers on the event loop's thread what can be answered from memory: `GET /v1/customers/{id}/entitlements`, and
/// `POST /v1/customers/{id}/reconcile` of a device that posts what it posted before.
///
/// What arrives in one turn is proven fresh together: one statement, on a session that never waits, tells what came into
/// the log since the last one. It forgets the cached answers on which that bears, and the others are sent as they are.
/// Reads that are not there are loaded together, off the loop; launches go the general way. What arrives while a statement is under way waits for the next: only one that was sent after the request began proves its answer.
/// So an answer shows whatever any instance had acknowledged before it was asked for.
///
/// It declines whatever is out of the ordinary, and everything while it has no session.
final class ImmediateResponder: ImmediateHandler {
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

    let application: Application
    private let loader: EntitlementsLoader
    private let waker: LoopWaker
    private let deliveries = ResponderMailbox()
    private let cache: CustomerCache<CachedAnswerKey, CachedAnswer>
    private let keys: RememberedKeys
    private let reads: RouteRecord
    private let launches: RouteRecord
    private var ids = RequestIDs()

    private var tail = Tail.closed(retryAt: .now)
    private var answerDueAt: ContinuousClock.Instant?
    /// Arrived since the statement under way was sent.
    private var arrived: [HeldRequest] = []
    /// Proven fresh by the statement under way.
    private var asking: [HeldRequest] = []
    private var loading: [Int: [[HeldRequest]]] = [:]
    private var loadingCount = 0
    private var lastBatch = 0
    private var isStopped = false

    init(_ application: Application, waker: LoopWaker) {
        self.application = application
        self.waker = waker
        loader = EntitlementsLoader(
            customers: application.reader, reader: application.reader, sha256: application.sha256, now: application.now)
        cache = CustomerCache(capacityBytes: application.limits.answerCacheBytes)
        keys = RememberedKeys(application.authenticator)
        reads = RouteRecord(application, method: "GET", route: EntitlementsTarget.route, family: .immediateReads)
        launches = RouteRecord(application, method: "POST", route: LaunchTarget.route, family: .repeatedLaunches)
        openTail()
    }

    // MARK: - Receiving

    func receive(_ request: borrowing ImmediateRequest, _ exchange: Exchange) -> Bool {
        guard case .open = tail, !isStopped else { return false }
        let held = request.body.isEmpty ? read(request, exchange) : launch(request, exchange)
        guard let held else { return false }
        arrived.append(held)
        return true
    }

    private func read(_ request: borrowing ImmediateRequest, _ exchange: Exchange) -> HeldRequest? {
        guard request.method.elementsEqual("GET".utf8), let target = EntitlementsTarget(request.target),
            let authorization = request.header("Authorization"),
            let key = keys.key(authorization, at: request.receivedAt), key.readsCustomers
        else { return nil }
        let payer = RateLimiter.Subject.secretKey(id: key.key.id)
        guard application.rateLimiter.take(payer, at: request.receivedAt) == nil else { return nil }
        let customer = CustomerCacheKey(
            customer: Array(request.target[target.customer]), environment: target.environment ?? key.environment)
        return HeldRequest(
            exchange: exchange,
            question: .read(
                customer, knownTags: request.header("If-None-Match").map { String(decoding: $0, as: UTF8.self) }),
            key: key, payers: [payer], receivedAt: request.receivedAt)
    }

    private func launch(_ request: borrowing ImmediateRequest, _ exchange: Exchange) -> HeldRequest? {
        guard request.body.count <= LaunchKey.bodyLimit, let head = request.head,
            request.method.elementsEqual("POST".utf8), LaunchTarget.matches(request.target),
            let authorization = request.header("Authorization")
        else { return nil }
        let name = LaunchKey(
            authorization: authorization, target: request.target, body: request.body, sha256: application.sha256)
        guard case .launch(let launch) = cache.answer(of: .launch(name))?.answer else { return nil }
        let address = RateLimiter.Subject.address(ClientAddress(of: head, trusting: application.trustedProxies))
        var key: RememberedKeys.Key?
        var payers: [RateLimiter.Subject]
        if launch.isSentWithToken {
            payers = [address]
        } else {
            guard let known = keys.key(authorization, at: request.receivedAt) else { return nil }
            key = known
            payers =
                known.key.isPublishable ? [address, .publishableKey(id: known.key.id)] : [.secretKey(id: known.key.id)]
        }
        for (index, payer) in payers.enumerated()
        where application.rateLimiter.take(payer, at: request.receivedAt) != nil {
            // The general path refuses it, in words.
            for paid in payers[..<index] { application.rateLimiter.putBack(paid) }
            return nil
        }
        return HeldRequest(
            exchange: exchange, question: .launch(name), key: key, payers: payers, receivedAt: request.receivedAt)
    }

    func endOfTurn() {
        for delivery in deliveries.take() { receive(delivery) }
        for launch in application.launches.take() { keep(launch) }
        ask()
        let now = ContinuousClock.now
        if let answerDueAt, answerDueAt <= now { loseTail() }
        if case .closed(let retryAt) = tail, retryAt <= now { openTail() }
        for route in [reads, launches] { route.flush(at: now) }
    }

    /// Sends the statement for everything that has arrived, unless one is under way; the first time for nothing, because
    /// nothing can be kept before the head of the log is known.
    private func ask() {
        guard !arrived.isEmpty || cache.position == nil, case .open(let tail) = tail, !tail.isAsked else { return }
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

    var expectsSoon: Bool { answerDueAt != nil }

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
        for dueAt in [reads.lines.dueAt, launches.lines.dueAt] {
            if let dueAt { deadline = min(deadline ?? dueAt, dueAt) }
        }
        return deadline
    }

    func stop() {
        isStopped = true
        let held = arrived + asking + loading.values.joined().joined()
        arrived = []
        asking = []
        loading = [:]
        loadingCount = 0
        for request in held { decline(request) }
        answerDueAt = nil
        tail = .opening
        for route in [reads, launches] { route.lines.flush() }
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
        for request in held { decline(request) }
    }

    private func receive(_ delivery: ResponderDelivery) {
        guard !isStopped else { return }
        switch delivery {
        case .tail(let opened):
            tail = opened.map { .open($0) } ?? .closed(retryAt: .now + Self.reopenAfter)
        case .loaded(let batch, let answers):
            let groups = loading.removeValue(forKey: batch) ?? []
            let moment = Moment(application.now())
            for (requests, loaded) in zip(groups, answers) {
                loadingCount -= requests.count
                guard let loaded, case .read(let key, _) = requests.first?.question else {
                    for request in requests { decline(request) }
                    continue
                }
                if let dependencies = loaded.dependencies {
                    cache.insert(
                        .read(loaded.answer), for: .read(key), in: key.environment, restingOn: loaded.position,
                        dependencies,
                        bytes: loaded.answer.body.count + EncodedEntitlements.overhead + 2 * key.customer.count)
                }
                let position = String(loaded.position)
                for request in requests {
                    send(loaded.answer, position: position, to: request, at: moment, wasInMemory: false)
                }
            }
        }
    }

    private func keep(_ launch: RememberedLaunch) {
        cache.insert(
            .launch(launch.launch), for: .launch(launch.key), in: launch.environment, restingOn: launch.position,
            launch.dependencies, bytes: launch.launch.byteCount)
    }

    // MARK: - Answering

    private func answer(_ requests: [HeldRequest], provenAt position: Int64) {
        let moment = Moment(application.now())
        let text = String(position)
        var missing: [HeldRequest] = []
        for request in requests {
            switch request.question {
            case .read(let key, _):
                guard case (.read(let answer), let rest)? = cache.answer(of: .read(key)),
                    answer.holds(at: moment.instant)
                else {
                    missing.append(request)
                    continue
                }
                // An answer that was loaded a moment ago may rest on more than the statement saw.
                send(
                    answer, position: rest > position ? String(rest) : text, to: request, at: moment, wasInMemory: true)
            case .launch(let key):
                guard case (.launch(let launch), let rest)? = cache.answer(of: .launch(key)),
                    launch.holds.contains(moment.instant)
                else {
                    decline(request)
                    continue
                }
                send(launch, position: max(rest, position), to: request, at: moment)
            }
        }
        if !missing.isEmpty { load(missing) }
    }

    private func load(_ reads: [HeldRequest]) {
        var byKey: [CustomerCacheKey: [HeldRequest]] = [:]
        for read in reads {
            guard loadingCount < Self.loadingLimit, case .read(let key, _) = read.question else {
                decline(read)
                continue
            }
            loadingCount += 1
            byKey[key, default: []].append(read)
        }
        guard !byKey.isEmpty else { return }
        lastBatch += 1
        let batch = lastBatch
        let groups = Array(byKey)
        loading[batch] = groups.map(\.value)
        let questions = groups.map { key, _ in
            LedgerQuestion(of: CustomerID(String(decoding: key.customer, as: UTF8.self)), key.environment)
        }
        Task { [loader, deliveries, waker] in
            deliveries.put(.loaded(batch: batch, await loader.load(questions)))
            waker.wake()
        }
    }

    private func send(
        _ answer: EncodedEntitlements, position: String, to request: HeldRequest, at moment: Moment, wasInMemory: Bool
    ) {
        guard answer.holds(at: moment.instant), case .read(_, let knownTags) = request.question else {
            return decline(request)
        }
        let isKnown = knownTags.map { EntityTagList($0)?.matchesWeakly(answer.tag) == true } ?? false
        let status = isKnown ? 304 : 200
        let count = isKnown ? 0 : answer.bodyCount(positionDigits: position.utf8.count)
        let made = ImmediateResponse(status: status, bodyCount: count) { buffer in
            if !isKnown { answer.write(instant: moment.text, position: position, into: buffer) }
        }
        guard let response = made else { return decline(request) }
        if !isKnown { "application/json".withCString { response.addHeader("Content-Type", $0) } }
        position.withCString { response.addHeader("Ledger-Position", $0) }
        answer.tag.withCString { response.addHeader("ETag", $0) }
        response.addHeader("Cache-Control", EncodedEntitlements.cacheControl)
        finish(request, response, status: status, on: reads, at: moment, wasInMemory: wasInMemory)
    }

    private func send(_ launch: RepeatableLaunch, position: Int64, to request: HeldRequest, at moment: Moment) {
        guard
            let pass = try? launch.pass(
                application.passKeys, position: position, at: moment.instant, ttl: application.passTTL)
        else { return decline(request) }
        let text = String(position)
        let values = ReconciliationTemplate.values(at: moment.text, position: text, pass: pass)
        let made = ImmediateResponse(status: 200, bodyCount: launch.template.count(values)) { buffer in
            launch.template.write(values, into: buffer)
        }
        guard let response = made else { return decline(request) }
        "application/json".withCString { response.addHeader("Content-Type", $0) }
        text.withCString { response.addHeader("Ledger-Position", $0) }
        response.addHeader("Cache-Control", ReconciliationTemplate.cacheControl)
        application.metrics.count(.statements, ["known"], by: launch.knownTransactions)
        finish(request, response, status: 200, on: launches, at: moment, wasInMemory: true)
    }

    /// Names, counts, logs and sends an answer.
    private func finish(
        _ request: HeldRequest, _ response: consuming ImmediateResponse, status: Int, on route: RouteRecord,
        at moment: Moment, wasInMemory: Bool
    ) {
        let duration = request.receivedAt.duration(to: moment.clock)
        ids.withNext { id in
            id.withMemoryRebound(to: CChar.self) { text in
                if let text = text.baseAddress { response.addHeader("X-Request-Id", text) }
            }
            route.lines.note(
                id, status: status, time: moment.text, duration: duration, keyID: request.key?.key.id, at: moment.clock)
        }
        route.counters.count(status: status, duration: duration, wasInMemory: wasInMemory)
        request.exchange.answer(response)
    }

    /// The general path pays for the request itself.
    private func decline(_ request: HeldRequest) {
        for payer in request.payers { application.rateLimiter.putBack(payer) }
        request.exchange.decline()
    }
}

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

/// What is counted and logged of one route's answers.
private struct RouteRecord {
    let counters: RouteCounters
    let lines: RequestLines

    init(_ application: Application, method: String, route: String, family: CounterFamily) {
        counters = RouteCounters(route: route, sourcesIn: family)
        lines = RequestLines(application.logger, method: method, route: route)
        application.metrics.add(counters)
    }

    /// Hands the log lines over that have waited long enough.
    func flush(at now: ContinuousClock.Instant) {
        if let dueAt = lines.dueAt, dueAt <= now { lines.flush() }
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
