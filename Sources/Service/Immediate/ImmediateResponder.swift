import EntitlementCore
import HTTPServer
import Ledger
import Synchronization

/// Answers on the event loop's thread what can be answered from memory: `GET /v1/customers/{id}/entitlements`, and
/// `POST /v1/customers/{id}/reconcile` of a device that posts what it posted before.
///
/// What arrives in one turn is proven fresh together: by the read lease where this instance has it, else by one statement,
/// on a session that never waits, which tells what came into the log since the last one. It forgets the cached answers on
/// which that bears, and the others are sent as they are. Reads that are not there are loaded together, off the loop;
/// launches go the general way. What arrives while a statement is under way waits for the next: only one that was sent
/// after the request began proves its answer. So an answer shows whatever any instance had acknowledged before it was
/// asked for.
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
    /// How long a load, or a fold of the past, may take; then its reads go the general way.
    static let loadDeadline = Duration.seconds(2)
    private static let reopenAfter = Duration.milliseconds(250)
    /// The most reads that wait to be loaded; the general path, which refuses what is too much, takes the others.
    static let loadingLimit = 512
    /// The most customers loaded together, and the most such loads at once: one is folded while the database answers another.
    static let loadedTogether = 64
    static let mostLoads = 2
    /// How many reads of the past one thread folds before the first of them is sent.
    static let foldedTogether = 16

    let context: ServiceContext
    let admission: Admission
    let writer: LedgerWriter
    let tokens: CustomerTokens
    let passes: PassIssuer
    /// Reconciliations that the general way left to be answered again.
    let repeated: Mailbox<RememberedLaunch>
    let loader: EntitlementsLoader
    let folder: PastFolder
    let waker: LoopWaker
    /// Each stands for requests that are held, so there are never more than these: none may be lost.
    let deliveries = Mailbox<ResponderDelivery>(limit: .max)
    let cache: CustomerCache<CachedAnswerKey, CachedAnswer>
    let keys: RememberedKeys
    let reads: RouteRecord
    let launches: RouteRecord
    var ids = RequestIDs()

    private var tail = Tail.closed(retryAt: .now)
    private var answerDueAt: ContinuousClock.Instant?
    /// Since the last turn ended: what was taken, and how much of it was answered without a question to the database.
    private var taken = 0
    private var answeredAtOnce = 0
    var lastMoment: Moment?
    /// Arrived since the statement under way was sent.
    private var arrived: [HeldRequest] = []
    /// Proven fresh by the statement under way.
    private var asking: [HeldRequest] = []
    /// Wait until they are loaded, by customer.
    var missing: [CustomerCacheKey: [HeldRequest]] = [:]
    var loading: [Int: [[HeldRequest]]] = [:]
    var folding: [Int: [HeldRequest]] = [:]
    /// When each of those is given up, in the order in which they began.
    var loadsDue: [(batch: Int, at: ContinuousClock.Instant)] = []
    var loadingCount = 0
    var lastBatch = 0
    private var isStopped = false

    init(
        _ context: ServiceContext, _ admission: Admission, writer: LedgerWriter, tokens: CustomerTokens,
        passes: PassIssuer, repeated: Mailbox<RememberedLaunch>, waker: LoopWaker
    ) {
        self.context = context
        self.admission = admission
        self.writer = writer
        self.tokens = tokens
        self.passes = passes
        self.repeated = repeated
        self.waker = waker
        loader = EntitlementsLoader(
            reader: context.reader, sha256: context.sha256, now: context.now)
        folder = PastFolder(reader: context.reader, sha256: context.sha256, now: context.now)
        cache = CustomerCache(capacityBytes: context.limits.answerCacheBytes)
        keys = RememberedKeys(admission.authenticator)
        reads = RouteRecord(context, method: "GET", route: EntitlementsTarget.route, family: .immediateReads)
        launches = RouteRecord(context, method: "POST", route: LaunchTarget.route, family: .repeatedLaunches)
        openTail()
    }

    // MARK: - Receiving

    func receive(_ request: borrowing ImmediateRequest, _ exchange: Exchange) -> Bool {
        if answerHealth(request, exchange) { return true }
        guard case .open = tail, !isStopped else { return false }
        let held = request.body.isEmpty ? read(request, exchange) : launch(request, exchange)
        guard let held else { return false }
        taken += 1
        if let mark = proven, answerFromMemory(held, provenAt: mark.position, moment()) {
            answeredAtOnce += 1
        } else {
            arrived.append(held)
        }
        return true
    }

    private func read(_ request: borrowing ImmediateRequest, _ exchange: Exchange) -> HeldRequest? {
        guard request.method.elementsEqual("GET".utf8), EntitlementsTarget.isLikely(request.target),
            let authorization = request.header("Authorization"),
            let key = keys.key(authorization, at: request.receivedAt), key.readsCustomers,
            let question = question(request, key)
        else { return nil }
        let payers = [RateLimiter.Subject.secretKey(id: key.key.id)]
        guard pay(payers, at: request.receivedAt) else { return nil }
        return HeldRequest(
            exchange: exchange, question: question, key: key, payers: payers, receivedAt: request.receivedAt)
    }

    private func question(_ request: borrowing ImmediateRequest, _ key: RememberedKeys.Key) -> HeldRequest.Question? {
        let named = request.header("If-None-Match")
        // Nobody has looked at its bytes yet, and no tag of this service's has others. The general path joins several lines.
        if let named, !named.allSatisfy({ $0 < 0x80 }) || request.count(of: "If-None-Match") > 1 { return nil }
        let knownTags = named.map { String(decoding: $0, as: UTF8.self) }
        if let target = EntitlementsTarget(request.target) {
            // The general path refuses what the key is not for.
            if let only = key.key.environment, let named = target.environment, named != only { return nil }
            return .read(
                CustomerCacheKey(
                    customer: Array(request.target[target.customer]),
                    environment: target.environment ?? key.environment), knownTags: knownTags)
        }
        return PastRead(request.target, key: key.key).map { .past($0, knownTags: knownTags) }
    }

    private func launch(_ request: borrowing ImmediateRequest, _ exchange: Exchange) -> HeldRequest? {
        guard request.body.count <= LaunchKey.bodyLimit, let head = request.head,
            request.method.elementsEqual("POST".utf8), LaunchTarget.matches(request.target),
            let authorization = request.header("Authorization")
        else { return nil }
        let key = keys.key(authorization, at: request.receivedAt)
        // What is neither a key known lately nor a token is not worth hashing a body for.
        guard key != nil || Authenticator.bearsToken(authorization) else { return nil }
        var payers: [RateLimiter.Subject] = []
        if key?.key.isPublishable ?? true {
            payers.append(.address(ClientAddress(of: head, trusting: admission.trustedProxies)))
        }
        if let key = key?.key {
            payers.append(key.isPublishable ? .publishableKey(id: key.id) : .secretKey(id: key.id))
        }
        guard pay(payers, at: request.receivedAt) else { return nil }
        let name = LaunchKey(
            authorization: authorization, target: request.target, body: request.body, sha256: context.sha256)
        guard cache.keeps(.launch(name)) else {
            putBack(payers)
            return nil
        }
        return HeldRequest(
            exchange: exchange, question: .launch(name), key: key, payers: payers, receivedAt: request.receivedAt)
    }

    /// Takes a token of each payer; where one has none left, nothing is taken: the general path refuses it, in words.
    private func pay(_ payers: [RateLimiter.Subject], at now: ContinuousClock.Instant) -> Bool {
        for (index, payer) in payers.enumerated() where admission.rateLimiter.take(payer, at: now) != nil {
            putBack(payers[..<index])
            return false
        }
        return true
    }

    func endOfTurn() {
        for delivery in deliveries.take() { receive(delivery) }
        for launch in repeated.take() {
            cache.insert(
                .launch(launch.launch), for: .launch(launch.key), in: launch.environment, restingOn: launch.mark,
                launch.dependencies, bytes: launch.launch.byteCount)
        }
        prove()
        let now = ContinuousClock.now
        if let answerDueAt, answerDueAt <= now { loseTail() }
        giveUpLoads(at: now)
        if case .closed(let retryAt) = tail, retryAt <= now { openTail() }
        for route in [reads, launches] { route.flush(at: now) }
    }

    /// Where the log ends, as the lease proves at this moment; `nil` where it does not.
    private var proven: LogMark? {
        guard let mark = cache.mark, writer.readLease.proves(mark, at: .now) else { return nil }
        return mark
    }

    /// Goes on with what has arrived if the lease proves where the log ends, else sends the statement for it, unless one is
    /// under way; the first time for nothing, because nothing can be kept before the head of the log is known.
    private func prove() {
        if taken > 0, writer.readLease.isWorthRenewing(after: taken, at: .now) {
            Task { [writer] in await writer.renewReadLease() }
        }
        taken = 0
        context.metrics.count(.freshness, ["lease"], by: answeredAtOnce)
        answeredAtOnce = 0
        guard !arrived.isEmpty || cache.mark == nil, case .open(let tail) = tail else { return }
        if let mark = proven {
            let requests = arrived
            arrived = []
            answer(requests, provenAt: mark.position)
            context.metrics.count(.freshness, ["lease"], by: requests.count)
            return
        }
        guard !tail.isAsked else { return }
        swap(&arrived, &asking)
        context.metrics.count(.freshness, ["database"], by: asking.count)
        do {
            try tail.ask()
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
            guard let news = try tail.receive(since: cache.mark) else { return }
            answerDueAt = nil
            if cache.mark != news.head {
                let goesOn = cache.apply(news)
                context.metrics.noteHead(news.head.position, isShorter: !goesOn)
            }
            let proven = asking
            asking = []
            // The database works on the next statement while these answers are sent.
            prove()
            answer(proven, provenAt: news.head.position)
        } catch {
            loseTail()
        }
    }

    var nextDeadline: ContinuousClock.Instant? {
        var deadline = answerDueAt
        if case .closed(let retryAt) = tail, !isStopped { deadline = min(deadline ?? retryAt, retryAt) }
        for dueAt in [reads.lines.dueAt, launches.lines.dueAt, loadsDue.first?.at] {
            if let dueAt { deadline = min(deadline ?? dueAt, dueAt) }
        }
        return deadline
    }

    func stop() {
        isStopped = true
        let held =
            arrived + asking + missing.values.joined() + loading.values.joined().joined() + folding.values.joined()
        arrived = []
        asking = []
        missing = [:]
        loading = [:]
        folding = [:]
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
        Task { [reader = context.reader, deliveries, waker] in
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
        case .pasts(let batch, let answers, let loaded):
            let requests = folding.removeValue(forKey: batch) ?? []
            loadsDue.removeAll { $0.batch == batch }
            loadingCount -= requests.count
            receive(answers, to: requests, loaded)
        case .loaded(let batch, let answers):
            let groups = loading.removeValue(forKey: batch) ?? []
            loadsDue.removeAll { $0.batch == batch }
            loadMissing()
            let moment = moment()
            for (requests, loaded) in zip(groups, answers) {
                loadingCount -= requests.count
                guard let loaded, case .read(let key, _) = requests.first?.question else {
                    for request in requests { decline(request) }
                    continue
                }
                cache.insert(
                    .read(loaded.answer), for: .read(key), in: key.environment, restingOn: loaded.mark,
                    loaded.dependencies, bytes: loaded.answer.byteCount + 2 * key.customer.count)
                let position = String(loaded.mark.position)
                for request in requests {
                    send(loaded.answer, position: position, to: request, at: moment, wasInMemory: false)
                }
            }
        }
    }

    private func receive(
        _ answers: [PastAnswer?], to requests: [HeldRequest], _ loaded: [CustomerCacheKey: CustomerPast]
    ) {
        for (key, past) in loaded {
            cache.insert(
                .past(past), for: .past(key), in: past.environment, restingOn: past.mark, past.dependencies,
                bytes: past.bytes + 2 * key.customer.count)
        }
        let moment = moment()
        for (request, answer) in zip(requests, answers) {
            guard let answer, case .past(let read, let knownTags) = request.question else {
                decline(request)
                continue
            }
            send(
                answer.answer, at: answer.at, position: String(answer.position), to: request, knownTags, moment,
                wasInMemory: loaded[read.key] == nil)
        }
    }
}
