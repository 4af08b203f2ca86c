import Foundation
import OpenSSLCrypto
import SeededRandom
import StoreSimulator
import Synchronization
import Testing

@Suite("Delivery on the store's schedule")
struct DispatchTests {
    fileprivate static let start = SimulatedCalendar.instant(2026, 6, 1)

    @Test("a failed attempt is made again 1, 12, 24, 48 and 72 hours after the previous one; the sandbox makes one")
    func schedule() throws {
        var course = DeliveryCourse(.production)
        #expect(course.nextAttempt == nil && !course.isOver)
        // Each attempt may be made later than it was due: the next one counts from it.
        var instant = Self.start
        for (number, hours) in DeliveryCourse.retryHours.enumerated() {
            course.note(.status(503), at: instant)
            let next = try #require(course.nextAttempt)
            #expect(next == instant + hours * Span.hour, "attempt \(number + 1)")
            instant = next + 7 * Span.minute
        }
        course.note(.timedOut, at: instant)
        #expect(course.isOver && !course.isDelivered)
        #expect(course.attempts.count == 6 && course.attempts.last?.result == "TIMED_OUT")
        course.note(.status(200), at: instant + Span.hour)
        #expect(course.attempts.count == 6 && !course.isDelivered, "the store makes six attempts")

        var sandbox = DeliveryCourse(.sandbox)
        sandbox.note(.noResponse, at: Self.start)
        #expect(sandbox.isOver && sandbox.attempts.map(\.result) == ["NO_RESPONSE"])
    }

    @Test(
        "200 to 206 is a success, 40x and 50x are tried again, every other code is a failure for good",
        arguments: Array(100...599))
    func codes(code: Int) {
        var course = DeliveryCourse(.production)
        course.note(.status(code), at: Self.start)
        let isSuccess = (200...206).contains(code)
        let isRetried = code / 10 == 40 || code / 10 == 50
        #expect(course.isDelivered == isSuccess)
        #expect((course.nextAttempt != nil) == isRetried)
        #expect(course.attempts.map(\.result) == [isSuccess ? "SUCCESS" : "UNSUCCESSFUL_HTTP_RESPONSE_CODE"])
    }

    @Test(
        "a plan delays by the schedule of the attempts, and nothing of the sandbox", arguments: 0..<20 as Range<UInt64>)
    func delayed(seed: UInt64) {
        let notifications = StoreLife.random(seed: seed, customers: 4).notifications
        let arrivals = Delivery.plan(notifications, .delayed, seed: seed)
        #expect(Set(arrivals.map(\.index)) == Set(notifications.indices))
        for arrival in arrivals {
            let notification = notifications[arrival.index]
            let hours = [1, 12, 24, 48, 72].prefix(arrival.failures).reduce(0, +)
            #expect(arrival.instant == notification.signedDate + 200 + Int64(hours) * Span.hour, "seed \(seed)")
            #expect(notification.environment == .production || arrival.failures == 0, "seed \(seed)")
        }
    }

    @Test("a tester in the sandbox subscribes each day, is renewed every five minutes, twelve times, and expires")
    func tester() throws {
        var lives = OngoingLives(seed: 60, customers: 1, instant: Self.start)
        _ = lives.take(before: Self.start)
        let days = (1...3).map { day in
            lives.take(before: Self.start + Int64(day) * Span.day).filter {
                $0.originalTransactionID?.hasPrefix("2999999") == true
            }
        }
        for (number, day) in days.enumerated() {
            #expect(day.allSatisfy { $0.environment == .sandbox })
            #expect(
                day.map { "\($0.type) \($0.subtype ?? "")" } == [
                    "SUBSCRIBED \(number == 0 ? "INITIAL_BUY" : "RESUBSCRIBE")"
                ]
                    + Array(repeating: "DID_RENEW ", count: 12) + ["EXPIRED VOLUNTARY"])
            let dates = day.map(\.signedDate)
            #expect(zip(dates, dates.dropFirst()).allSatisfy { $1 - $0 == 5 * Span.minute })
        }
        #expect(Set(days.joined().map(\.originalTransactionID)).count == 1)
    }

    @Test("the clock begins in the past, runs faster until it has caught up, and is never ahead")
    func clock() {
        let real = Self.start
        var clock = StoreClock(start: real - 7 * Span.day, speed: 10_080)
        #expect(clock.instant(at: real + Span.hour) == real - 7 * Span.day, "it stands until it is begun")
        clock.begin(at: real)
        #expect(clock.instant(at: real + 30 * Span.second) == real - 7 * Span.day + 302_400 * Span.second)
        #expect(clock.instant(at: real + 2 * Span.minute) == real + 2 * Span.minute)
        clock.begin(at: real + Span.day)
        #expect(clock.instant(at: real + Span.minute) <= real + Span.minute)
        #expect(clock.instant(at: real + 400 * Span.day) == real + 400 * Span.day)
        // A real clock that is set back does not carry it into the future.
        #expect(clock.instant(at: real - 10 * Span.day) == real - 10 * Span.day)
    }

    @Test(
        "lives go on the same however they are taken, in order, and no running period ends unheard",
        arguments: [1, 7, 30])
    func ongoing(step: Int64) throws {
        let end = Self.start + 200 * Span.day
        var whole = OngoingLives(seed: 60, customers: 12, instant: Self.start)
        let expected = whole.take(before: end)
        var lives = OngoingLives(seed: 60, customers: 12, instant: Self.start)
        var taken: [StoreNotification] = []
        var until = Self.start - 90 * Span.day
        while until < end {
            until = min(end, until + step * Span.day)
            taken += lives.take(before: until)
        }
        #expect(taken.count == expected.count)
        #expect(taken.map(\.uuid) == expected.map(\.uuid))
        #expect(zip(taken, taken.dropFirst()).allSatisfy { $0.signedDate <= $1.signedDate })
        #expect(taken.contains { $0.signedDate > Self.start + 150 * Span.day && $0.type == "DID_RENEW" })
        #expect(Set(taken.map(\.uuid)).count == taken.count)
        // Of each subscription the last word is that it runs still, has expired, or was revoked or is being collected.
        for (key, last) in Dictionary(grouping: taken.filter { $0.renewal != nil }, by: \.originalTransactionID) {
            guard let newest = last.last, let transaction = newest.transaction, let renewal = newest.renewal,
                case .integer(let expires)? = transaction["expiresDate"], expires < end - 2 * Span.day
            else { continue }
            let isSettled =
                newest.type == "EXPIRED" || transaction["revocationDate"] != nil
                || renewal["isInBillingRetryPeriod"] == .boolean(true) || renewal["gracePeriodExpiresDate"] != nil
                || newest.signedDate > expires || last.contains { $0.type == "REFUND" || $0.type == "REVOKE" }
            #expect(isSettled, "\(key ?? "") \(newest.type) \(newest.signedDate) \(expires)")
        }
    }

    @Test(
        "while nothing gets through the store goes on and tries again; afterwards each arrives once, in the same bytes")
    func outage() throws {
        let rig = try DispatchRig(
            from: Self.start - 20 * Span.day,
            StoreDispatch.Way(outage: Self.start - 20 * Span.day..<Self.start - 13 * Span.day))
        try rig.run(until: Self.start - 20 * Span.day)
        let before = rig.delivered.count
        try rig.run(until: Self.start - 13 * Span.day - 1)
        #expect(rig.delivered.count == before, "an outage is an outage")
        let sentMeanwhile = rig.dispatch.sentCount - before
        try #require(sentMeanwhile > 5)
        try rig.run(until: Self.start)
        let late = rig.delivered.filter(\.isRetry)
        #expect(!late.isEmpty && Set(rig.delivered.map(\.payload)).count == rig.delivered.count)
        for attempt in late {
            let course = try #require(rig.course(of: attempt.payload))
            #expect(course.isDelivered && course.attempts.count <= 6)
            #expect(Set(course.attempts.dropLast().map(\.result)) == ["NO_RESPONSE"])
            for (number, (attempt, next)) in zip(course.attempts, course.attempts.dropFirst()).enumerated() {
                #expect(next.instant - attempt.instant == DeliveryCourse.retryHours[number] * Span.hour)
            }
        }
        let never = Set(rig.signed.values).subtracting(rig.delivered.map(\.payload))
        for payload in never {
            let course = try #require(rig.course(of: payload))
            #expect(!course.isDelivered && course.attempts.count == (rig.isSandbox(payload) ? 1 : 6))
        }
        #expect(rig.dispatch.sentCount == rig.delivered.count + never.count)
    }

    @Test(
        "whatever the way does to them, the same bytes arrive, at the plan's times, and none before it was signed",
        arguments: DeliveryStyle.allCases)
    func styles(style: DeliveryStyle) throws {
        let rig = try DispatchRig(from: Self.start - 60 * Span.day, StoreDispatch.Way(style, seed: 3))
        // Enough for whatever was planned or retried to have come.
        for day in Array(-60...0) as [Int64] { try rig.run(until: Self.start + day * Span.day) }
        let counts = Dictionary(grouping: rig.delivered, by: \.payload).mapValues(\.count)
        #expect(Set(counts.keys).isSubset(of: rig.signed.values))
        let missing = rig.dispatch.sentCount - counts.count
        // What was sent in the last days may be on its way.
        let underWay = rig.signedDates.values.count { $0 > Self.start - 8 * Span.day }
        let areRepeated = counts.values.contains { $0 > 1 }
        switch style {
        case .lossy: #expect(missing > 0 && !areRepeated)
        case .inOrder: #expect(missing <= 1 && !areRepeated)
        case .shuffled, .delayed: #expect(missing <= underWay && !areRepeated)
        case .duplicated, .chaotic: #expect(missing <= underWay && areRepeated)
        }
        let instants = rig.delivered.map(\.instant)
        #expect(instants == instants.sorted())
        let hasRetries = rig.delivered.contains { $0.isRetry }
        #expect(hasRetries == (style == .delayed))
        let signedDates = rig.signedDates
        for attempt in rig.delivered {
            #expect(signedDates[attempt.payload].map { $0 < attempt.instant } ?? false)
        }
    }

    @Test("the history tells each attempt and its result, and what no attempt has delivered is listed by itself")
    func history() async throws {
        let rig = try DispatchRig(from: Self.start - 25 * Span.day, StoreDispatch.Way())
        rig.answer = .status(200)
        try rig.run(until: Self.start - 25 * Span.day)
        rig.answer = .status(500)
        try rig.run(until: Self.start - 5 * Span.day)
        rig.set(clock: Self.start - 5 * Span.day)
        for environment in SimulatedStoreEnvironment.allCases {
            let all = try await rig.history(environment, onlyFailures: false)
            let failed = try await rig.history(environment, onlyFailures: true)
            #expect(!failed.isEmpty && (failed.count < all.count || environment == .sandbox))
            for (payload, attempts) in all {
                let course = try #require(rig.course(of: payload))
                #expect(attempts.map(\.instant) == course.attempts.map(\.instant))
                #expect(attempts.map(\.result) == course.attempts.map(\.result))
                #expect((1...6).contains(attempts.count))
                let isFailed = failed.contains { $0.payload == payload }
                #expect(isFailed == !attempts.contains { $0.result == "SUCCESS" })
            }
        }
        // As soon as one gets through it is no failure any more; after the last attempt it is one for good.
        let failed = try await rig.history(.production, onlyFailures: true).count
        rig.answer = .status(200)
        try rig.run(until: Self.start)
        rig.set(clock: Self.start)
        let lost = try await rig.history(.production, onlyFailures: true)
        #expect(!lost.isEmpty && lost.count < failed)
        for (_, attempts) in lost { #expect(attempts.count == 6) }
        for (_, attempts) in try await rig.history(.sandbox, onlyFailures: true) { #expect(attempts.count == 1) }
    }

    @Test(
        "the answer decides: a 503 is tried again in an hour, a 429 never, and a restart of the service heals the rest")
    func answers() throws {
        let rig = try DispatchRig(from: Self.start - 30 * Span.day, StoreDispatch.Way())
        try rig.run(until: Self.start - 30 * Span.day)
        rig.answer = .status(429)
        let refused = rig.delivered.count
        try rig.run(until: Self.start - 26 * Span.day)
        let lost = rig.delivered.dropFirst(refused)
        let areOver = lost.allSatisfy { rig.course(of: $0.payload)?.isOver == true && !$0.isRetry }
        #expect(!lost.isEmpty && areOver)
        rig.answer = .status(503)
        let tried = rig.delivered.count
        try rig.run(until: Self.start - 22 * Span.day)
        rig.answer = .status(206)
        try rig.run(until: Self.start)
        let waiting = Dictionary(grouping: rig.delivered.dropFirst(tried), by: \.payload)
        #expect(waiting.values.contains { $0.count > 3 })
        for (payload, _) in waiting where !rig.isSandbox(payload) {
            #expect(rig.course(of: payload)?.isDelivered == true)
        }
    }
}

/// Lives, both APIs, and a service that answers as it is told to.
private final class DispatchRig {
    let dispatch: StoreDispatch
    var answer = DeliveryAnswer.status(200)
    private(set) var delivered: [StoreDispatch.Attempt] = []
    private let key: PrivateKey
    private let apis: [SimulatedStoreEnvironment: SimulatedStoreAPI]
    private let keeper: Keeper

    /// What was signed, by UUID.
    private final class Keeper: Sendable {
        let authority: SimulatedAuthority
        let signed = Mutex<[String: (payload: String, notification: StoreNotification)]>([:])
        let clock = Mutex<Int64>(0)

        init() throws { authority = try SimulatedAuthority() }

        func sign(_ notification: StoreNotification) throws -> String {
            let payload = try authority.sign(notification)
            signed.withLock { $0[notification.uuid] = (payload, notification) }
            return payload
        }
    }

    init(from start: Int64, _ way: StoreDispatch.Way) throws {
        let keeper = try Keeper()
        key = try PrivateKey.generate(.p256)
        let access = SimulatedStoreAPI.Access(issuerID: "issuer", keyID: "KEY1", key: key.publicKey)
        apis = Dictionary(
            uniqueKeysWithValues: SimulatedStoreEnvironment.allCases.map {
                (
                    $0,
                    SimulatedStoreAPI(
                        authority: keeper.authority, world: .standard, access: access, environment: $0,
                        now: { keeper.clock.withLock { $0 } })
                )
            })
        for api in apis.values { api.reportAttempts() }
        self.keeper = keeper
        dispatch = StoreDispatch(
            OngoingLives(seed: 400, customers: 40, instant: DispatchTests.start + 31 * Span.hour), from: start,
            way: way,
            apis: apis,
            sign: keeper.sign)
    }

    func run(until instant: Int64) throws {
        try dispatch.send(until: instant)
        while let attempt = dispatch.nextAttempt(until: instant) {
            delivered.append(attempt)
            dispatch.note(answer, of: attempt)
        }
    }

    var signed: [String: String] { keeper.signed.withLock { $0.mapValues(\.payload) } }
    var signedDates: [String: Int64] {
        keeper.signed.withLock { signed in
            Dictionary(uniqueKeysWithValues: signed.values.map { ($0.payload, $0.notification.signedDate) })
        }
    }

    func course(of payload: String) -> DeliveryCourse? {
        apis.values.lazy.compactMap { $0.course(of: payload) }.first
    }

    func set(clock instant: Int64) { keeper.clock.withLock { $0 = instant } }

    /// The whole history, as whoever asks reads it.
    func history(
        _ environment: SimulatedStoreEnvironment, onlyFailures: Bool
    ) async throws -> [(payload: String, attempts: [(instant: Int64, result: String)])] {
        let now = keeper.clock.withLock { $0 }
        let body = try PayloadValue.object([
            "startDate": .integer(now - 29 * Span.day), "endDate": .integer(now + 1),
            "onlyFailures": .boolean(onlyFailures),
        ]).encoded()
        var items: [(payload: String, attempts: [(instant: Int64, result: String)])] = []
        var token: String?
        repeat {
            let response = try await #require(apis[environment])
                .answer(
                    SimulatedStoreAPI.Request(
                        method: "POST", path: ["inApps", "v1", "notifications", "history"],
                        query: token.map { [("paginationToken", $0)] } ?? [], authorization: try bearer(now), body: body
                    ))
            try #require(response.status == 200)
            let json = try #require(try JSONSerialization.jsonObject(with: Data(response.body)) as? [String: Any])
            for item in try #require(json["notificationHistory"] as? [[String: Any]]) {
                let attempts = try #require(item["sendAttempts"] as? [[String: Any]]).map {
                    (
                        instant: try #require(($0["attemptDate"] as? NSNumber)?.int64Value),
                        result: try #require($0["sendAttemptResult"] as? String)
                    )
                }
                items.append((try #require(item["signedPayload"] as? String), attempts))
            }
            token = json["paginationToken"] as? String
        } while token != nil
        return items
    }

    private func bearer(_ now: Int64) throws -> String {
        func segment(_ members: [String: PayloadValue]) throws -> String {
            Base64.encodeURL(try PayloadValue.object(members).encoded())
        }
        let header = try segment(["alg": .string("ES256"), "kid": .string("KEY1"), "typ": .string("JWT")])
        let claims = try segment([
            "iss": .string("issuer"), "aud": .string("appstoreconnect-v1"),
            "bid": .string(StoreWorld.standard.bundleID),
            "iat": .integer(now / 1000), "exp": .integer(now / 1000 + 600),
        ])
        let message = "\(header).\(claims)"
        return "Bearer \(message).\(Base64.encodeURL(try key.signES256(Array(message.utf8))))"
    }

    func isSandbox(_ payload: String) -> Bool { apis[.sandbox]?.course(of: payload) != nil }
}
