import EntitlementCore
import OpenSSLCrypto
import PostgresClient
import Synchronization
import TestSupport
import Testing

@testable import Ledger

@Suite("Customer tokens")
struct CustomerTokensTests {
    private static let noon = Timestamp(milliseconds: Int64(1_800_000_000_000))

    private static func token(
        _ customer: String = "c-1", _ environment: StoreEnvironment = .production, app: String? = nil
    ) throws -> CustomerTokenClaims {
        CustomerTokenClaims(
            customerID: try #require(CustomerID(customer)), environment: environment, bundleID: app, issuedAt: noon,
            expiresAt: noon.adding(milliseconds: 60_000))
    }

    @Test("a token says on every instance what it was made for, until it expires, and is always the same text")
    func roundTrip() async throws {
        let database = try await TestDatabase.make()
        let (maker, other) = (CustomerTokens(pool: database.pool()), CustomerTokens(pool: database.pool()))
        let table = [
            try Self.token(), try Self.token("c-1", .sandbox), try Self.token("c-1", app: "com.example.app"),
            try Self.token("caf\u{E9}"), try Self.token("cafe\u{301}"),
            try Self.token(String(repeating: "\u{1F468}", count: 64), .sandbox, app: "com.example.app"),
        ]
        var texts: Set<[UInt8]> = []
        for token in table {
            let text = try await maker.make(token)
            #expect(text.hasPrefix("rc_"))
            texts.insert(Array(text.utf8))
            #expect(try await other.make(token) == text)
            let lastMoment = token.expiresAt.adding(milliseconds: -1)
            guard case .valid(let read) = try await other.verify(text, now: lastMoment) else {
                Issue.record("not valid: \(text)")
                continue
            }
            #expect(read == token)
            #expect(read.customerID.value.utf8.elementsEqual(token.customerID.value.utf8))
            #expect(try await other.verify(text, now: token.expiresAt) == .expired)
        }
        #expect(texts.count == table.count)
    }

    @Test("any change of any character of a token makes it a forgery, and so does another ledger's key")
    func forgeries() async throws {
        let tokens = CustomerTokens(pool: try await TestDatabase.make().pool())
        let text = try await tokens.make(try Self.token(app: "com.example.app"))
        let characters = Array(text)
        for index in characters.indices {
            var changed = characters
            changed[index] = changed[index] == "A" ? "B" : "A"
            #expect(try await tokens.verify(String(changed), now: Self.noon) == .forged, "character \(index)")
            #expect(try await tokens.verify(String(characters[..<index]), now: Self.noon) == .forged)
        }
        let payload = try #require(text.split(separator: ".").first)
        let guess = Base64.encodeURL(HMACSHA256.code(of: payload.utf8, key: [UInt8](repeating: 0, count: 32)))
        let stranger = CustomerTokens(pool: try await TestDatabase.make().pool())
        for forged in [
            "", "rc_", "rc_.", ".", "\(payload)", "\(payload).", "\(payload).\(guess)", text + ".", text + "=",
            text + text, String(repeating: text, count: 1000), try await stranger.make(try Self.token()),
        ] {
            #expect(try await tokens.verify(forged, now: Self.noon) == .forged, "\(forged.prefix(80))")
        }
    }

    @Test("of many instances that need the key at once all get the same, and it is made once")
    func oneKey() async throws {
        let database = try await TestDatabase.make()
        let token = try Self.token()
        let texts = try await withThrowingTaskGroup(of: String.self) { group in
            for _ in 0..<8 {
                group.addTask { try await CustomerTokens(pool: database.pool(connections: 1)).make(token) }
            }
            return try await group.reduce(into: Set()) { $0.insert($1) }
        }
        #expect(texts.count == 1)
        let owner = try await database.owner()
        let row = try await owner.query("SELECT count(*), min(length(secret)) FROM server_secret").first
        #expect(try row?.int(0) == 1 && row?.int(1) == 33)
    }

    @Test("a new key is known everywhere before it is used, and an older one counts until its last token has run out")
    func rotation() async throws {
        let keys = DatabaseTokenKeys(pool: try await TestDatabase.make().pool())
        let tokens = CustomerTokens(keys: keys, lifetime: .zero)
        func made(at issuedAt: Timestamp) async throws -> String {
            try await tokens.make(
                CustomerTokenClaims(
                    customerID: try #require(CustomerID("c-1")), environment: .production, bundleID: nil,
                    issuedAt: issuedAt, expiresAt: issuedAt.adding(milliseconds: CustomerTokens.longestLife * 1000)))
        }
        func isValid(_ text: String, at now: Timestamp) async throws -> Bool {
            if case .valid = try await tokens.verify(text, now: now) { true } else { false }
        }
        let before = try await made(at: Self.noon)
        let key = try await keys.rotate(now: Self.noon, endsEarlier: false)
        #expect(key.id == 2 && key.firstUse == Self.noon.adding(milliseconds: 10_000))
        #expect(try await made(at: Self.noon) == before, "not used yet")
        let lastOfOld = try await made(at: Self.noon.adding(milliseconds: 9_999))
        let firstOfNew = try await made(at: key.firstUse)
        let anHourLater = Self.noon.adding(milliseconds: 3_600_000)
        for text in [before, lastOfOld, firstOfNew] { #expect(try await isValid(text, at: anHourLater)) }
        let lastMoment = Self.noon.adding(milliseconds: 86_400_000 + 9_998)
        #expect(try await isValid(lastOfOld, at: lastMoment))
        // Whoever has the old key can make no token any more by the time that its last one has run out.
        let old = try #require(try await keys.read().first { $0.id == 1 })
        let later = key.endOfEarlier.adding(milliseconds: 60_000)
        let forger = CustomerTokens(keys: FixedTokenKeys(keys: [old]), lifetime: .zero)
        let forged = try await forger.make(
            CustomerTokenClaims(
                customerID: try #require(CustomerID("c-1")), environment: .production, bundleID: nil, issuedAt: later,
                expiresAt: later.adding(milliseconds: 1000)))
        #expect(try await tokens.verify(forged, now: later) == .forged)
    }

    @Test("keys that cannot be read again go on counting, and that is told", arguments: [true, false])
    func unread(_ isEmpty: Bool) async throws {
        let stored = DatabaseTokenKeys(pool: try await TestDatabase.make().pool())
        _ = try await stored.readOrMake(now: Self.noon)
        let keys = FailingTokenKeys(try await stored.read())
        let reasons = Mutex<[String]>([])
        let tokens = CustomerTokens(keys: keys, lifetime: .zero) { reason in reasons.withLock { $0.append(reason) } }
        let text = try await tokens.make(try Self.token())
        #expect(reasons.withLock { $0.isEmpty })
        keys.answer.withLock { $0 = isEmpty ? .success([]) : .failure(LedgerError(.unavailable, "no permission")) }
        #expect(try await tokens.verify(text, now: Self.noon) == .valid(try Self.token()))
        #expect(reasons.withLock { $0.count == 1 && $0[0].contains(isEmpty ? "none" : "no permission") })
    }

    @Test(
        "a read that fails late brings back no key that has ended meanwhile, and one that is called off is not told of")
    func lateReads() async throws {
        let stored = DatabaseTokenKeys(pool: try await TestDatabase.make().pool())
        _ = try await stored.readOrMake(now: Self.noon)
        let keys = SlowTokenKeys(try await stored.read())
        let reasons = Mutex<[String]>([])
        let lifetime = Duration.seconds(1)
        let tokens = CustomerTokens(keys: keys, lifetime: lifetime) { reason in reasons.withLock { $0.append(reason) } }
        let text = try await tokens.make(try Self.token())
        try await Task.sleep(for: lifetime)
        let late = Task { try await tokens.verify(text, now: Self.noon) }
        await keys.waitUntilHeld()
        _ = try await stored.rotate(now: Self.noon, endsEarlier: true)
        keys.put(try await stored.read())
        #expect(try await tokens.verify(text, now: Self.noon) == .forged)
        keys.fail(LedgerError(.unavailable, "no permission"))
        #expect(try await late.value == .forged, "it knows by then what somebody else has read")
        #expect(try await tokens.verify(text, now: Self.noon) == .forged)
        #expect(reasons.withLock { $0.count == 1 && $0[0].contains("no permission") })

        try await Task.sleep(for: lifetime)
        keys.holdNext()
        let calledOff = Task { try await tokens.verify(text, now: Self.noon) }
        await keys.waitUntilHeld()
        calledOff.cancel()
        keys.fail(CancellationError())
        _ = try await calledOff.value
        #expect(reasons.withLock { $0.count } == 1)
    }

    @Test("keys that are ended at once end with all their tokens, and the new one is used at once")
    func rotationAtOnce() async throws {
        let keys = DatabaseTokenKeys(pool: try await TestDatabase.make().pool())
        let tokens = CustomerTokens(keys: keys, lifetime: .zero)
        let old = try await tokens.make(try Self.token())
        let key = try await keys.rotate(now: Self.noon, endsEarlier: true)
        #expect(key.firstUse == Self.noon && key.endOfEarlier == Self.noon)
        #expect(try await tokens.verify(old, now: Self.noon) == .forged)
        let new = try await tokens.make(try Self.token())
        #expect(new != old)
        #expect(try await tokens.verify(new, now: Self.noon) == .valid(try Self.token()))
        // Of many who rotate at once each makes a key of its own.
        let made = try await withThrowingTaskGroup(of: Int64.self) { group in
            for _ in 0..<5 { group.addTask { try await keys.rotate(now: Self.noon, endsEarlier: false).id } }
            return try await group.reduce(into: Set<Int64>()) { $0.insert($1) }
        }
        #expect(made == [3, 4, 5, 6, 7])
    }

    @Test("once the key is known no database is needed; before, its absence is no forgery")
    func outage() async throws {
        let database = try await TestDatabase.make()
        let pool = database.pool()
        // It would read them again each time.
        let tokens = CustomerTokens(keys: DatabaseTokenKeys(pool: pool), lifetime: .zero)
        let text = try await tokens.make(try Self.token())
        await pool.close()
        #expect(try await tokens.verify(text, now: Self.noon) == .valid(try Self.token()))
        let error = await #expect(throws: LedgerError.self) {
            try await CustomerTokens(pool: pool).verify(text, now: Self.noon)
        }
        #expect(error?.code == .unavailable)
    }
}

/// Keys that somebody stole.
private struct FixedTokenKeys: TokenKeyStore {
    let keys: [TokenKey]

    func read() async throws -> [TokenKey] { keys }

    func add(_ key: TokenKey) async throws {}
}

/// Answers at once, but for its second reader and whom it is told to hold, who wait until it fails.
private final class SlowTokenKeys: TokenKeyStore {
    private struct State {
        var keys: [TokenKey]
        var asked = 0
        var held: CheckedContinuation<Void, any Error>?
        var heldNumber = 2
    }

    private let state: Mutex<State>

    init(_ keys: [TokenKey]) { state = Mutex(State(keys: keys)) }

    func put(_ keys: [TokenKey]) { state.withLock { $0.keys = keys } }

    func holdNext() { state.withLock { $0.heldNumber = $0.asked + 1 } }

    func fail(_ error: any Error) {
        state.withLock { state in
            defer { state.held = nil }
            return state.held
        }?.resume(throwing: error)
    }

    func waitUntilHeld() async {
        while state.withLock({ $0.held == nil }) { try? await Task.sleep(for: .milliseconds(1)) }
    }

    func read() async throws -> [TokenKey] {
        try await withCheckedThrowingContinuation { continuation in
            let isHeld = state.withLock { state in
                state.asked += 1
                if state.asked == state.heldNumber { state.held = continuation }
                return state.asked == state.heldNumber
            }
            if !isHeld { continuation.resume() }
        }
        return state.withLock { $0.keys }
    }

    func add(_ key: TokenKey) {}
}

private final class FailingTokenKeys: TokenKeyStore {
    let answer: Mutex<Result<[TokenKey], LedgerError>>

    init(_ keys: [TokenKey]) { answer = Mutex(.success(keys)) }

    func read() throws -> [TokenKey] { try answer.withLock { try $0.get() } }

    func add(_ key: TokenKey) {}
}
