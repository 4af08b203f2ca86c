import AppStorePayloads
import EntitlementCore
import Foundation
import OpenSSLCrypto
import Testing

@testable import AppStoreServer

@Suite("Remembered statements")
struct RememberedStatementsTests {
    let store: TestStore
    let remembered: RememberedStatements
    let verifier: StatementVerifier

    init() throws {
        store = try TestStore()
        remembered = RememberedStatements()
        verifier = StatementVerifier(jws: try store.verifier(), apps: [exampleApp], remembered: remembered)
    }

    private func transaction(_ id: Int = 200, signedDate: Int64? = Instant.signed - 1) throws -> String {
        var payload = try StatementKind.transaction.payload()
        payload["transactionId"] = "\(id)"
        payload["signedDate"] = signedDate
        return try store.sign(text(payload))
    }

    private func hash(_ compact: String) throws -> Digest { try #require(Digest(SHA256.hash(compact.utf8))) }

    @Test("a statement is given back as it was verified, without its signature being looked at again")
    func hit() throws {
        let compact = try transaction()
        #expect(try !verifier.isRemembered(hash(compact)))
        let first = try verifier.transaction(compact, now: present)
        #expect(try verifier.isRemembered(hash(compact)))
        #expect(remembered.count == 1)
        // One that trusts nobody who signed this shows that it comes from memory.
        let blind = StatementVerifier(jws: try TestStore().verifier(), apps: [exampleApp], remembered: remembered)
        let again = try blind.transaction(compact, now: present)
        #expect(again == first)
        #expect(again.evidence == Array(compact.utf8))
        #expect(again.evidenceParts.payload == first.evidenceParts.payload)
        #expect(again.evidenceParts.signature == first.evidenceParts.signature)
        #expect(again.evidenceParts.header == first.evidenceParts.header)
        #expect(remembered.count == 1)
    }

    @Test("each kind is remembered as what it is, and found by the hash of its bytes alone")
    func byHash() throws {
        let signed = try StatementKind.places.map { try store.sign(text($0.payload())) }
        let transaction = try verifier.transaction(signed[0], now: present)
        let renewal = try verifier.renewal(signed[1], now: present)
        let appTransaction = try verifier.appTransaction(signed[2], now: present)
        let hashes = try signed.map { try hash($0) }
        #expect(hashes.allSatisfy { verifier.isRemembered($0) })
        #expect(verifier.rememberedTransaction(hashes[0], now: present) == transaction)
        #expect(remembered.statement(hashes[1], now: present) == renewal)
        #expect(remembered.statement(hashes[2], now: present) == appTransaction)
        // Put together again from what is kept.
        #expect(verifier.rememberedTransaction(hashes[0], now: present)?.evidence == Array(signed[0].utf8))
        let again: (VerifiedRenewal?, VerifiedAppTransaction?) = (
            remembered.statement(hashes[1], now: present), remembered.statement(hashes[2], now: present)
        )
        #expect(again.0?.evidence == Array(signed[1].utf8))
        #expect(again.1?.evidence == Array(signed[2].utf8))
        #expect(verifier.rememberedTransaction(hashes[1], now: present) == nil)
        #expect(remembered.statement(hashes[2], now: present) as VerifiedRenewal? == nil)
        #expect(remembered.statement(hashes[0], now: present) as VerifiedAppTransaction? == nil)
        #expect(throws: NotificationRefusal.self) { try verifier.renewal(signed[0], now: present) }
        #expect(throws: NotificationRefusal.self) { try verifier.transaction(signed[1], now: present) }
        #expect(remembered.count == 3)
    }

    @Test("a statement with any byte changed is none that was remembered")
    func changedBytes() throws {
        let compact = Array(try transaction().utf8)
        _ = try verifier.transaction(String(decoding: compact, as: UTF8.self), now: present)
        for index in stride(from: 0, to: compact.count, by: 11) + Array(compact.count - 3..<compact.count) {
            for bit: UInt8 in [1, 2, 0x20] {
                var changed = compact
                changed[index] ^= bit
                #expect(throws: NotificationRefusal.self, "byte \(index)") {
                    try verifier.transaction(String(decoding: changed, as: UTF8.self), now: present)
                }
                #expect(try !verifier.isRemembered(hash(String(decoding: changed, as: UTF8.self))), "byte \(index)")
            }
        }
        #expect(throws: NotificationRefusal.self) {
            try verifier.transaction(String(decoding: compact.dropLast(), as: UTF8.self), now: present)
        }
        #expect(remembered.count == 1)
    }

    @Test("what was refused, for whatever reason, is never remembered, nor is what bears no date")
    func neverRemembered() throws {
        let other = try TestStore()
        var wrongApp = try StatementKind.transaction.payload()
        wrongApp["bundleId"] = "com.example.other"
        var wrongEnvironment = try StatementKind.transaction.payload()
        wrongEnvironment["environment"] = "Xcode"
        var inconsistent = try StatementKind.transaction.payload()
        inconsistent["productId"] = nil
        let good = try transaction()
        let parts = good.split(separator: ".").map(String.init)
        let forged = [parts[0], parts[1], try transaction(201).split(separator: ".").map(String.init)[2]]
        for compact in [
            try other.sign(text(StatementKind.transaction.payload())), forged.joined(separator: "."),
            try store.sign(text(wrongApp)), try store.sign(text(wrongEnvironment)), try store.sign(text(inconsistent)),
            "", "a.b.c", try transaction(signedDate: Instant.end),
        ] {
            for _ in 0..<2 {
                #expect(throws: NotificationRefusal.self, "\(compact)") {
                    try verifier.transaction(compact, now: present)
                }
            }
            #expect(try !verifier.isRemembered(hash(compact)))
        }
        _ = try verifier.transaction(transaction(signedDate: nil), now: present)
        #expect(remembered.count == 0)
        #expect(remembered.byteCount == 0)
    }

    @Test("whether a statement is of the future is asked anew each time")
    func future() throws {
        let compact = try transaction(signedDate: Instant.signed + 600_000)
        #expect(try verifier.transaction(compact, now: present).isFuture)
        #expect(try !verifier.transaction(compact, now: present.adding(milliseconds: 600_000)).isFuture)
        #expect(try verifier.transaction(compact, now: present).isFuture)
        #expect(verifier.rememberedTransaction(try hash(compact), now: present)?.isFuture == true)
        #expect(remembered.count == 1)
    }

    @Test("memory is bounded, and what was asked for lately is forgotten last")
    func eviction() throws {
        // One shard's worth of names cannot be chosen, so the circle itself is tested.
        var state = StatementShard.State(byteLimit: 1_000)
        let names = try (0..<200).map { StatementName(try hash("\($0)"), .transaction) }
        let favourite = names[0]
        for (number, name) in names.enumerated() {
            state.remember(Box(number), name, byteCount: 90 + number % 20)
            #expect((state.statement(favourite) as? Box)?.number == 0, "after \(number)")
            #expect(state.byteCount <= 1_000)
            #expect(state.contains(name), "after \(number)")
        }
        for (number, name) in names.enumerated() where state.contains(name) {
            #expect((state.statement(name) as? Box)?.number == number)
        }
        let kept = names.filter { state.contains($0) }
        #expect(kept.count == state.count)
        #expect((9...11).contains(state.count))
        state.remember(Box(-1), StatementName(try hash("large"), .renewal), byteCount: 1_001)
        #expect(state.count == kept.count)
        state.remember(Box(-2), StatementName(try hash("whole"), .renewal), byteCount: 1_000)
        #expect(state.count == 1)
        #expect(state.byteCount == 1_000)
    }

    @Test("one that may use no memory remembers nothing and verifies all the same")
    func nothing() throws {
        let none = RememberedStatements(byteLimit: 0)
        let verifier = StatementVerifier(jws: try store.verifier(), apps: [exampleApp], remembered: none)
        let compact = try transaction()
        for _ in 0..<2 { #expect(try verifier.transaction(compact, now: present).evidence == Array(compact.utf8)) }
        #expect(none.count == 0)
    }

    @Test("many threads at once get what they ask for, and the limit holds", .timeLimit(.minutes(1)))
    func concurrent() async throws {
        let limit = 16 * 3 * 2_400
        let small = RememberedStatements(byteLimit: limit)
        let verifier = StatementVerifier(jws: try store.verifier(), apps: [exampleApp], remembered: small)
        let good = try (0..<64).map { try transaction(1000 + $0) }
        let forged = try TestStore().sign(text(StatementKind.transaction.payload()))
        let wrong = await withTaskGroup(of: Int.self) { group in
            for worker in 0..<8 {
                group.addTask {
                    (0..<100).count { round in
                        let index = (worker * 7 + round * 13) % good.count
                        let statement = try? verifier.transaction(good[index], now: present)
                        let isRight =
                            statement?.payload.transactionID == "\(1000 + index)"
                            && statement?.evidence == Array(good[index].utf8)
                        return !isRight || (try? verifier.transaction(forged, now: present)) != nil
                            || small.byteCount > limit
                    }
                }
            }
            return await group.reduce(0, +)
        }
        #expect(wrong == 0)
        #expect(small.count > 0)
    }
}

private final class Box: Sendable {
    let number: Int

    init(_ number: Int) { self.number = number }
}
