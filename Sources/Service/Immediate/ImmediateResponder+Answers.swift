import EntitlementAPI
import EntitlementCore
import HTTPServer
import Ledger

// How what was proven fresh is answered, and what is not at hand is loaded or folded.
extension ImmediateResponder {
    func answer(_ requests: [HeldRequest], provenAt position: Int64) {
        let moment = moment()
        var missing: [HeldRequest] = []
        var past: [HeldRequest] = []
        for request in requests where !answerFromMemory(request, provenAt: position, moment) {
            switch request.question {
            case .read: missing.append(request)
            case .past: past.append(request)
            case .launch: decline(request)
            }
        }
        if !missing.isEmpty { load(missing) }
        for start in stride(from: 0, to: past.count, by: Self.foldedTogether) {
            fold(Array(past[start..<min(start + Self.foldedTogether, past.count)]), provenAt: position)
        }
    }

    /// Answers a request whose whole answer is in memory, and holds at this moment; `false` where it is not.
    func answerFromMemory(_ request: HeldRequest, provenAt position: Int64, _ moment: Moment) -> Bool {
        switch request.question {
        case .read(let key, _):
            guard case .read(let answer)? = cache.answer(of: .read(key)), answer.holds(at: moment.instant)
            else { return false }
            send(answer, position: String(position), to: request, at: moment, wasInMemory: true)
            return true
        case .launch(let key):
            guard case .launch(let launch)? = cache.answer(of: .launch(key)),
                launch.holds.contains(moment.instant),
                launch.oldestTokenKey.map({ $0 == tokens.oldestKey(at: moment.instant) }) ?? true
            else { return false }
            send(launch, position: position, to: request, at: moment)
            return true
        case .past: return false
        }
    }

    /// The instant at which requests are answered now.
    func moment() -> Moment {
        let instant = context.now()
        // Many are answered in one millisecond, and to write it out takes longer than to look.
        let moment = Moment(instant, text: instant == lastMoment?.instant ? lastMoment?.text : nil)
        lastMoment = moment
        return moment
    }

    /// Folds reads of the past on another thread, each from what is in memory or from the log.
    private func fold(_ requests: [HeldRequest], provenAt position: Int64) {
        guard loadingCount + requests.count <= Self.loadingLimit else {
            for request in requests { decline(request) }
            return
        }
        let reads = requests.compactMap { if case .past(let read, _) = $0.question { read } else { nil } }
        var known: [CustomerCacheKey: CustomerPast] = [:]
        for read in reads {
            if case .past(let past)? = cache.answer(of: .past(read.key)) { known[read.key] = past }
        }
        loadingCount += requests.count
        lastBatch += 1
        folding[lastBatch] = requests
        loadsDue.append((lastBatch, .now + Self.loadDeadline))
        Task { [folder, deliveries, waker, batch = lastBatch] in
            let (answers, loaded) = await folder.answers(to: reads, known: known, provenAt: position)
            deliveries.put(.pasts(batch: batch, answers, loaded: loaded))
            waker.wake()
        }
    }

    /// Gives the reads of loads that the database does not answer to the general path, which has deadlines of its own.
    func giveUpLoads(at now: ContinuousClock.Instant) {
        guard let first = loadsDue.first, first.at <= now else { return }
        let waiting = missing.values.flatMap { $0 }
        missing = [:]
        loadingCount -= waiting.count
        for request in waiting { decline(request) }
        while let first = loadsDue.first, first.at <= now {
            loadsDue.removeFirst()
            let loads = loading.removeValue(forKey: first.batch)?.flatMap { $0 } ?? []
            for request in loads + (folding.removeValue(forKey: first.batch) ?? []) {
                loadingCount -= 1
                decline(request)
            }
        }
    }

    /// Answers `GET /healthz` here, so that it is answered whatever everybody else waits for.
    func answerHealth(_ request: borrowing ImmediateRequest, _ exchange: Exchange) -> Bool {
        guard request.method.elementsEqual("GET".utf8), request.target.elementsEqual("/healthz".utf8) else {
            return false
        }
        let body = Array(#"{"status":"ok"}"#.utf8)
        guard let response = ImmediateResponse(status: 200, bodyCount: body.count, write: { $0.copyBytes(from: body) })
        else { return false }
        response.addHeader("Content-Type", "application/json")
        response.addHeader("Cache-Control", "no-store")
        ids.withNext { id in
            id.withMemoryRebound(to: CChar.self) { id in
                if let id = id.baseAddress { response.addHeader("X-Request-Id", id) }
            }
        }
        context.metrics.count(.requests, ["/healthz", "200"])
        exchange.answer(response)
        return true
    }

    private func load(_ reads: [HeldRequest]) {
        for read in reads {
            guard loadingCount < Self.loadingLimit, case .read(let key, _) = read.question else {
                decline(read)
                continue
            }
            loadingCount += 1
            missing[key, default: []].append(read)
        }
        loadMissing()
    }

    /// Loads what is missing, unless so much is under way that it had better gather: a statement for many customers costs
    /// little more than one for a few.
    func loadMissing() {
        while loading.count < Self.mostLoads, !missing.isEmpty {
            let groups = Array(missing.prefix(Self.loadedTogether))
            for (key, _) in groups { missing[key] = nil }
            lastBatch += 1
            loading[lastBatch] = groups.map(\.value)
            loadsDue.append((lastBatch, .now + Self.loadDeadline))
            let questions = groups.map { key, _ in
                LedgerQuestion(of: CustomerID(String(decoding: key.customer, as: UTF8.self)), key.environment)
            }
            Task { [loader, deliveries, waker, batch = lastBatch] in
                deliveries.put(.loaded(batch: batch, await loader.load(questions)))
                waker.wake()
            }
        }
    }

    func send(
        _ answer: EncodedEntitlements, position: String, to request: HeldRequest, at moment: Moment, wasInMemory: Bool
    ) {
        guard answer.holds(at: moment.instant), case .read(_, let knownTags) = request.question else {
            return decline(request)
        }
        send(answer, at: moment.text, position: position, to: request, knownTags, moment, wasInMemory: wasInMemory)
    }

    func send(
        _ answer: EncodedEntitlements, at instant: String, position: String, to request: HeldRequest,
        _ knownTags: String?, _ moment: Moment, wasInMemory: Bool
    ) {
        // A key of one environment is not told of others.
        guard !answer.namesOtherEnvironments || request.key?.key.environment == nil else { return decline(request) }
        // Most who name a tag name this one alone.
        let isKnown =
            knownTags.map { $0 == answer.tag || EntityTagList($0)?.matchesWeakly(answer.tag) == true } ?? false
        let status = isKnown ? 304 : 200
        let values = EncodedEntitlements.values(at: instant, position: position)
        let made = ImmediateResponse(status: status, bodyCount: isKnown ? 0 : answer.template.count(values)) { buffer in
            if !isKnown { answer.template.write(values, into: buffer) }
        }
        guard let response = made else { return decline(request) }
        if !isKnown { "application/json".withCString { response.addHeader("Content-Type", $0) } }
        position.withCString { response.addHeader("Ledger-Position", $0) }
        answer.tag.withCString { response.addHeader("ETag", $0) }
        response.addHeader("Cache-Control", EncodedEntitlements.cacheControl)
        finish(request, response, status: status, on: reads, at: moment, wasInMemory: wasInMemory)
    }

    func send(_ launch: RepeatableLaunch, position: Int64, to request: HeldRequest, at moment: Moment) {
        guard
            let pass = try? launch.pass(
                passes.keys, position: position, at: moment.instant, ttl: passes.ttl)
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
        context.metrics.count(.statements, ["known"], by: launch.knownTransactions)
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
    func decline(_ request: HeldRequest) {
        putBack(request.payers)
        request.exchange.decline()
    }

    func putBack(_ payers: some Sequence<RateLimiter.Subject>) {
        for payer in payers { admission.rateLimiter.putBack(payer) }
    }
}
