import EntitlementAPI
import SeededRandom
import Testing

@testable import EntitlementCore

@Suite("What a pass states")
struct PassDocumentTests {
    private static let customer = CustomerID("c-1")
    /// 2026-11-20T12:00:00.250Z.
    private static let now = Timestamp(milliseconds: second * 1000 + 250)
    private static let second: Int64 = 1_795_176_000

    private static func answer(
        _ id: String, until: Timestamp?, givesAccess: Bool = true, state: EntitlementState = .active
    ) -> EntitlementAnswer {
        let fact = TransactionFact(
            payloadHash: .zero, signedDate: nil, transactionID: "1", originalTransactionID: "1",
            productID: "com.example.pro", bundleID: "com.example.app", kind: .known(.autoRenewable),
            purchaseDate: .earliest)
        let terms = PurchaseTerms(Shared(fact), expiry: until ?? .endless, revokedAt: nil)
        let reading = Reading(
            start: .earliest, end: until ?? .endless, state: state, reason: .paidPeriod,
            giver: .purchase(Shared(terms)), positions: [1], periodEnd: until ?? .endless)
        return EntitlementAnswer(
            entitlementID: id, givesAccess: givesAccess, state: state, since: .earliest, until: until, willRenew: true,
            reading: reading)
    }

    private static func pass(
        _ answers: [EntitlementAnswer], now: Timestamp = now, ttl: Duration = .seconds(3600)
    ) throws -> PassDocument {
        PassDocument(
            customer: try #require(customer), audience: "com.example.app", environment: .production, answers: answers,
            position: 7, now: now, ttl: ttl)
    }

    @Test(
        "it expires with what it states, a whole second early rather than a millisecond late",
        arguments: [
            // Milliseconds from now until access ends; seconds from issue until expiry; whether it is stated.
            (nil, 3600, true), (7_200_000, 3600, true), (3_600_000, 3600, true), (3_599_749, 3599, true),
            (60_000, 60, true), (59_999, 60, true), (59_749, 59, true), (750, 1, true), (749, 3600, false),
            (1, 3600, false), (0, 3600, false), (-10_000, 3600, false),
        ] as [(Int64?, Int64, Bool)])
    func expiry(remaining: Int64?, lifetime: Int64, isStated: Bool) throws {
        let until = remaining.map { Self.now.adding(milliseconds: $0) }
        let pass = try Self.pass([Self.answer("premium", until: until)])
        #expect(pass.issuedAt == Self.second)
        #expect(pass.expiresAt == Self.second + lifetime)
        #expect(pass.entitlements.map(\.id) == (isStated ? ["premium"] : []))
        #expect(pass.entitlements.first?.until == (isStated ? until : nil))
    }

    @Test("it states only what gives access, whatever the state is called")
    func onlyAccess() throws {
        let soon = Self.now.adding(milliseconds: 5000)
        let pass = try Self.pass([
            Self.answer("a", until: nil), Self.answer("b", until: soon, givesAccess: false, state: .expired),
            Self.answer("c", until: nil, state: .inBillingRetry),
            Self.answer("d", until: nil, givesAccess: false, state: .inGracePeriod),
        ])
        #expect(pass.entitlements.map(\.id) == ["a", "c"])
        #expect(pass.entitlements.map(\.state) == [.active, .inBillingRetry])
        #expect(pass.expiresAt == Self.second + 3600, "what is not stated bounds nothing")
    }

    @Test("it lives whole seconds, and never longer than the longest ttl")
    func ttl() throws {
        #expect(try Self.pass([], ttl: .milliseconds(1999)).expiresAt == Self.second + 1)
        #expect(try Self.pass([], ttl: .seconds(-5)).expiresAt == Self.second)
        #expect(try Self.pass([], ttl: .seconds(Int64.max)).expiresAt == Self.second + 2_592_000)
        #expect(try Self.pass([], now: Timestamp(milliseconds: -1)).issuedAt == -1)
    }

    @Test("whatever a customer holds, no pass outlives it", arguments: 0..<200 as Range<UInt64>)
    func property(seed: UInt64) throws {
        var random = SplitMix64(seed: seed)
        let now = Timestamp(milliseconds: Self.second * 1000 + random.next(below: 5000))
        let ttl = 60 + random.next(below: 100)
        let grants = (0..<random.next(below: 8)).map { number in
            var grant = GrantState(
                fact: GrantFact(
                    grantID: "g\(number)", customer: IdentityRef(1), entitlementID: "e\(random.next(below: 4))",
                    until: random.next(below: 4) == 0
                        ? nil : now.adding(milliseconds: random.next(below: 250_000) - 50_000), reason: "test"),
                position: number + 1, recordedAt: now.adding(milliseconds: random.next(below: 20_000) - 19_000))
            if random.next(below: 3) == 0 {
                grant.revokedAt = now.adding(milliseconds: random.next(below: 5000) - 2500)
                grant.revokedPosition = 100
            }
            return grant
        }
        let facts = CustomerFacts(customer: IdentityRef(1), originals: [:], grants: grants, catalog: .empty)
        let pass = try Self.pass(facts.answers(at: now), now: now, ttl: .seconds(ttl))
        #expect(pass.issuedAt * 1000 <= now.milliseconds && now.milliseconds < (pass.issuedAt + 1) * 1000)
        #expect(pass.issuedAt < pass.expiresAt && pass.expiresAt <= pass.issuedAt + ttl)
        // Held against the timeline itself: at the last millisecond of its life, each is still given.
        let last = Timestamp(milliseconds: max(pass.expiresAt * 1000 - 1, now.milliseconds))
        let given = Set(facts.answers(at: last).filter(\.givesAccess).map(\.entitlementID))
        #expect(given.isSuperset(of: pass.entitlements.map(\.id)), "seed \(seed)")
        // And nothing is left out but what ends within the second of issue.
        let end = Timestamp(milliseconds: (pass.issuedAt + 1) * 1000)
        for answer in facts.answers(at: now) where answer.givesAccess && (answer.until ?? .endless) >= end {
            #expect(pass.entitlements.contains { $0.id == answer.entitlementID }, "seed \(seed)")
        }
    }

    @Test("its claims are named as signed tokens name them, and come back as they were")
    func claims() throws {
        let pass = try Self.pass([
            Self.answer("a", until: nil), Self.answer("b", until: Timestamp(milliseconds: (Self.second + 60) * 1000)),
        ])
        let bytes = try WireJSON.encode(pass)
        #expect(
            String(decoding: bytes, as: UTF8.self)
                == #"{"aud":"com.example.app","entitlements":[{"id":"a","product_id":"com.example.pro","source":"app_store","#
                + #""state":"active","until":null},{"id":"b","product_id":"com.example.pro","source":"app_store","#
                + #""state":"active","until":"2026-11-20T12:01:00.000Z"}],"environment":"production","#
                + #""exp":1795176060,"fold_version":\#(OriginalState.foldVersion),"iat":1795176000,"#
                + #""iss":"rightful","position":7,"sub":"c-1"}"#)
        #expect(try WireJSON.decode(PassDocument.self, from: bytes) == pass)
    }
}

extension SplitMix64 {
    fileprivate mutating func next(below bound: Int64) -> Int64 { number(in: 0...(bound - 1)) }
}
