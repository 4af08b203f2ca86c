import SeededRandom
import Testing

@testable import EntitlementCore

@Suite("The union of sources")
struct TimelineUnionTests {
    private static func reading(
        _ start: Int64, _ end: Int64, of source: Int, _ random: inout SplitMix64
    ) -> Reading {
        let state = EntitlementState.allCases.randomElement(using: &random) ?? .active
        // Some are equals in everything.
        let id = "\(source % 3)"
        return Reading(
            start: Timestamp(milliseconds: start), end: end == .max ? .endless : Timestamp(milliseconds: end),
            state: state, reason: .paidPeriod,
            giver: Bool.random(using: &random) ? .grant(id: id) : .purchase(Self.terms(originalID: id)),
            positions: [Int64.random(in: 1...2, using: &random)],
            periodEnd: Timestamp(milliseconds: Int64.random(in: 0...3, using: &random)))
    }

    private static func terms(originalID: String) -> Shared<PurchaseTerms> {
        let fact = TransactionFact(
            payloadHash: .zero, signedDate: nil, transactionID: originalID,
            originalTransactionID: originalID, productID: "pro", bundleID: "com.example", kind: nil,
            purchaseDate: Timestamp(milliseconds: 0))
        return Shared(PurchaseTerms(Shared(fact), expiry: .endless, revokedAt: nil))
    }

    /// Readings of one source: disjoint, in their order, with gaps now and then.
    private static func source(_ number: Int, _ random: inout SplitMix64) -> [Reading] {
        var readings: [Reading] = []
        var instant = Int64.random(in: 0...8, using: &random)
        for _ in 0..<Int.random(in: 1...4, using: &random) {
            let end = instant + Int64.random(in: 1...6, using: &random)
            readings.append(reading(instant, end, of: number, &random))
            instant = end + (Bool.random(using: &random) ? 0 : Int64.random(in: 1...3, using: &random))
        }
        if Bool.random(using: &random) { readings.append(reading(instant, .max, of: number, &random)) }
        return readings
    }

    /// At each instant the first of those that nobody is shown before.
    private static func shown(_ sources: [[Reading]], at instant: Timestamp, _ policy: AccessPolicy) -> Reading? {
        var best: Reading?
        for reading in sources.joined() where reading.start <= instant && instant < reading.end {
            if let current = best, !reading.isShown(before: current, policy: policy) { continue }
            best = reading
        }
        return best
    }

    @Test("at each instant what is shown is what comes first among all that reads then, and nothing where nothing does")
    func union() {
        for seed in UInt64(1)...400 {
            var random = SplitMix64(seed: seed)
            let sources = (0..<Int.random(in: 2...7, using: &random)).map { Self.source($0, &random) }
            let policy = AccessPolicy(
                graceGivesAccess: Bool.random(using: &random), billingRetryGivesAccess: Bool.random(using: &random))
            let readings = EntitlementTimeline(entitlementID: "pro", sources: sources, policy: policy).readings
            for (one, next) in zip(readings, readings.dropFirst()) {
                #expect(one.start < one.end && one.end <= next.start, "seed \(seed)")
            }
            for instant in Int64(0)...45 {
                let at = Timestamp(milliseconds: instant)
                var found = readings.first { $0.start <= at && at < $0.end }
                var expected = Self.shown(sources, at: at, policy)
                for part in [\Reading.start, \Reading.end] {
                    found?[keyPath: part] = at
                    expected?[keyPath: part] = at
                }
                #expect(found == expected, "seed \(seed) at \(instant)")
            }
        }
    }

    @Test("thousands of grants of one entitlement are one timeline, which reads on for ever")
    func many() {
        let sources = (0..<3000).map { number -> [Reading] in
            let start = Timestamp(milliseconds: Int64(number))
            return [
                Reading(
                    start: start, end: .endless, state: .active, reason: .grant,
                    giver: .grant(id: "\(999_999 - number)"), positions: [1], periodEnd: .endless)
            ]
        }
        let readings = EntitlementTimeline(entitlementID: "pro", sources: sources, policy: AccessPolicy()).readings
        #expect(readings.count == 3000 && readings.last?.end == .endless)
        #expect(readings.map(\.sourceID) == sources.map { $0[0].sourceID })
    }
}
