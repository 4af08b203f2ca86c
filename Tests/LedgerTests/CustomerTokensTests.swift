import EntitlementCore
import OpenSSLCrypto
import PostgresClient
import TestSupport
import Testing

@testable import Ledger

@Suite("Customer tokens")
struct CustomerTokensTests {
    private static let noon = Timestamp(milliseconds: Int64(1_800_000_000_000))

    private static func token(
        _ customer: String = "c-1", _ environment: StoreEnvironment = .production, app: String? = nil
    ) throws -> CustomerToken {
        CustomerToken(
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
        #expect(try row?.int(0) == 1 && row?.int(1) == 32)
    }

    @Test("once the key is known no database is needed; before, its absence is no forgery")
    func outage() async throws {
        let database = try await TestDatabase.make()
        let pool = database.pool()
        let tokens = CustomerTokens(pool: pool)
        let text = try await tokens.make(try Self.token())
        await pool.close()
        #expect(try await tokens.verify(text, now: Self.noon) == .valid(try Self.token()))
        let error = await #expect(throws: LedgerError.self) {
            try await CustomerTokens(pool: pool).verify(text, now: Self.noon)
        }
        #expect(error?.code == .unavailable)
    }
}
