import SeededRandom
import Testing

@testable import EntitlementCore

/// What is kept of an original transaction, positions aside.
private struct Kept: Hashable {
    let transactions: [TransactionFact]
    let storeSaid: [Bool]
    let sources: [StatementSources]
    let renewals: [RenewalFact]
    let renewalSources: [StatementSources]

    init(_ state: OriginalState) {
        transactions = state.transactions.map(\.fact)
        storeSaid = state.transactions.map(\.sources.includesStore)
        sources = state.transactions.map(\.sources)
        renewals = state.renewals.map(\.fact)
        renewalSources = state.renewals.map(\.sources)
    }
}

/// An interval as it is shown, positions aside.
private struct Shown: Hashable {
    let entitlementID: String
    let readings: [Reading]

    init(_ timeline: EntitlementTimeline) {
        entitlementID = timeline.entitlementID
        readings = timeline.intervals.map {
            var reading = $0
            reading.positions = []
            return reading
        }
    }
}

/// An answer as it is given, positions aside.
private struct Told: Hashable {
    let words: [String]

    init(_ answers: [EntitlementAnswer]) {
        words = answers.map { answer in
            let reading = answer.reading
            return """
                \(answer.entitlementID) \(answer.givesAccess) \(answer.state) \(answer.since) \
                \(answer.until?.description ?? "null") \(answer.willRenew.map(String.init) ?? "null") \(reading.reason) \
                \(reading.productID ?? "-") \(reading.source) \(reading.originalTransactionID ?? "-") \
                \(String(describing: reading.ownership)) \(String(describing: reading.offer))
                """
        }
    }
}

@Suite("The join of statements is idempotent and independent of order", .timeLimit(.minutes(5)))
struct JoinPropertyTests {
    @Test(
        "any permutation and duplication of the same deliveries keeps the same facts and shows the same",
        arguments: 0..<40 as Range<UInt64>)
    func permutations(block: UInt64) {
        for seed in block * 8..<(block + 1) * 8 {
            var random = SplitMix64(seed: seed)
            let given = random.given()
            let facts = given.facts
            let kept = given.originals.mapValues { Kept(OriginalState($0)) }
            let shown = facts.timelines().map(Shown.init)
            let instants = (0..<8).map { _ in random.instant(-2...60) }
            let told = instants.map { Told(facts.answers(at: $0)) }
            for _ in 0..<4 {
                let other = given.with {
                    $0.originals = $0.originals.mapValues { statements in
                        let repeated = statements.filter { _ in random.once(in: 3) }
                        return (statements + repeated).shuffled(using: &random)
                    }
                }
                #expect(other.originals.mapValues { Kept(OriginalState($0)) } == kept, "seed \(seed)")
                let otherFacts = other.facts
                #expect(otherFacts.timelines().map(Shown.init) == shown, "seed \(seed)")
                #expect(instants.map { Told(otherFacts.answers(at: $0)) } == told, "seed \(seed)")
            }
        }
    }

    @Test(
        "joining step by step, with views written and read back in between, equals folding from scratch",
        arguments: 0..<20 as Range<UInt64>)
    func incremental(block: UInt64) throws {
        for seed in block * 8..<(block + 1) * 8 {
            var random = SplitMix64(seed: seed)
            let statements = random.deliveries(of: "1000")
            var state = OriginalState()
            for (index, statement) in statements.enumerated() {
                state.join(statement, position: Int64(index + 1))
                let read = try OriginalState(encoded: state.encoded())
                #expect(read == state, "seed \(seed)")
                #expect(read.encoded() == state.encoded(), "seed \(seed)")
                state = read
            }
            #expect(state == OriginalState(statements), "seed \(seed)")
            #expect(state.lastPosition == Int64(statements.count), "seed \(seed)")
        }
    }

    @Test("no more is kept of a spelling than its newest statement, and the newest of the store")
    func bounded() {
        for seed in 0..<20 as Range<UInt64> {
            var random = SplitMix64(seed: seed)
            let state = OriginalState((0..<20).map { _ in random.deliveries(of: "1000") }.flatMap { $0 })
            let kept = Dictionary(grouping: state.transactions, by: { TransactionKey($0.fact) })
            #expect(kept.values.allSatisfy { $0.count <= 2 }, "seed \(seed)")
            #expect(
                state.transactions.map { TransactionKey($0.fact) }
                    == state.transactions.map { TransactionKey($0.fact) }.sorted(), "seed \(seed)")
        }
    }

    @Test("only what a notification says of this original transaction is joined")
    func otherOriginals() {
        guard case .transaction(let fact, _) = subscription("1", from: 0, to: 30),
            case .renewal(let renewal, _) = renewalInfo(signed: 3, retry: true)
        else { return }
        let notification = NotificationFact(
            type: "DID_RENEW", subtype: nil, uuid: "u", signedDate: day(1), payloadHash: .zero, bundleID: "com.example",
            transaction: fact, renewal: renewal, remarks: [])
        var own = OriginalState()
        own.join(.notification(notification), originalTransactionID: "1000", source: .notification, position: 7)
        #expect(own.transactions.map(\.fact) == [fact])
        #expect(own.renewals.map(\.fact) == [renewal])
        #expect(own.lastPosition == 7)
        var other = OriginalState()
        other.join(.notification(notification), originalTransactionID: "1001", source: .notification, position: 7)
        #expect(other.transactions.isEmpty && other.renewals.isEmpty)
    }

    @Test("a device's repetition of what the store said is forgotten, whenever it came")
    func sources() {
        let one = subscription("1", from: 0, to: 30)
        let newer = subscription("1", from: 0, to: 31, signed: 5).fromDevice
        let kept = [[one.fromDevice, one, newer], [newer, one.fromDevice, one], [one, newer, one.fromDevice]]
            .map { OriginalState($0).transactions.map(\.sources) }
        #expect(Set(kept).count == 1)
    }
}
