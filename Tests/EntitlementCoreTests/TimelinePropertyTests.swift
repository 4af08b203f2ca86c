import SeededRandom
import Testing

@testable import EntitlementCore

@Suite("Timelines are ordered, disjoint and without gaps", .timeLimit(.minutes(5)))
struct TimelinePropertyTests {
    private func eachGiven(_ block: UInt64, _ check: (Given, UInt64, inout SplitMix64) throws -> Void) rethrows {
        for seed in block * 10..<(block + 1) * 10 {
            var random = SplitMix64(seed: seed &+ 1_000_000)
            let given = random.given()
            try check(given, seed, &random)
        }
    }

    @Test(
        "ordered, disjoint, without gaps, the last without end; intervals never repeat themselves",
        arguments: 0..<40 as Range<UInt64>)
    func shape(block: UInt64) {
        eachGiven(block) { given, seed, _ in
            for timeline in given.facts.timelines() {
                for readings in [timeline.readings, timeline.intervals] {
                    #expect(readings.last?.end == .endless, "seed \(seed)")
                    #expect(readings.allSatisfy { $0.start < $0.end }, "seed \(seed)")
                    #expect(zip(readings, readings.dropFirst()).allSatisfy { $0.end == $1.start }, "seed \(seed)")
                    #expect(readings.allSatisfy { $0.positions == Set($0.positions).sorted() }, "seed \(seed)")
                    #expect(readings.allSatisfy { !$0.positions.isEmpty }, "seed \(seed)")
                }
                let pairs = zip(timeline.intervals, timeline.intervals.dropFirst())
                #expect(
                    pairs.allSatisfy {
                        $0.state != $1.state || $0.productID != $1.productID || $0.source != $1.source
                            || $0.originalTransactionID != $1.originalTransactionID
                    }, "seed \(seed)")
            }
        }
    }

    @Test(
        "an answer is the timeline read at the instant, and since and until bound its run",
        arguments: 0..<20 as Range<UInt64>)
    func answers(block: UInt64) {
        eachGiven(block) { given, seed, random in
            let facts = given.facts
            let timelines = facts.timelines()
            let bounds = timelines.flatMap(\.readings).flatMap { [$0.start, $0.end] }.filter { $0 != .endless }
            let around = bounds.flatMap { [$0.adding(milliseconds: -1), $0, $0.adding(milliseconds: 1)] }
            for instant in around.shuffled(using: &random).prefix(12) + [.earliest, .latest] {
                let answers = facts.answers(at: instant)
                let begun = timelines.filter { ($0.readings.first?.start ?? .endless) <= instant }
                #expect(answers.map(\.entitlementID) == begun.map(\.entitlementID), "seed \(seed)")
                for (answer, timeline) in zip(answers, begun) {
                    let shown = timeline.intervals.first { $0.start <= instant && instant < $0.end }
                    #expect(answer.state == shown?.state, "seed \(seed) at \(instant)")
                    #expect(answer.reading.productID == shown?.productID, "seed \(seed) at \(instant)")
                    #expect(answer.givesAccess == given.policy.givesAccess(answer.state), "seed \(seed) at \(instant)")
                    let until = answer.until ?? .endless
                    #expect(answer.since <= instant && instant < until, "seed \(seed) at \(instant)")
                    for reading in timeline.readings {
                        let inside = answer.since <= reading.start && reading.end <= until
                        let outside = reading.end <= answer.since || until <= reading.start
                        #expect(inside != outside, "seed \(seed) at \(instant)")
                        let borders = reading.end == answer.since || reading.start == until
                        if inside || borders {
                            let gives = given.policy.givesAccess(reading.state)
                            #expect((gives == answer.givesAccess) == inside, "seed \(seed) at \(instant)")
                        }
                    }
                }
            }
        }
    }

    @Test("answers stay as they are until their next change, and not beyond it", arguments: 0..<20 as Range<UInt64>)
    func nextChange(block: UInt64) {
        eachGiven(block) { given, seed, random in
            let facts = given.facts
            let bounds = facts.timelines().flatMap(\.readings).flatMap { [$0.start, $0.end] }
            let signed = facts.originals.values.flatMap { $0.renewals.compactMap(\.fact.signedDate) }
            let around = (bounds + signed).filter { $0 != .endless }
                .flatMap { [$0.adding(milliseconds: -1), $0, $0.adding(milliseconds: 1)] }
            for instant in around.shuffled(using: &random).prefix(12) + [.earliest, .latest] {
                let (answers, until) = facts.answersHolding(at: instant)
                #expect(answers == facts.answers(at: instant) && until == facts.nextChange(after: instant))
                #expect(instant < until, "seed \(seed) at \(instant)")
                for other in around where instant < other && other < until {
                    #expect(facts.answers(at: other) == answers, "seed \(seed) from \(instant) to \(other)")
                }
                // Whatever can be seen to change does so where the next change is, or later.
                let changed = around.filter { $0 > instant && facts.answers(at: $0) != answers }.min()
                #expect(until <= changed ?? .endless, "seed \(seed) at \(instant)")
            }
        }
    }

    @Test("the union shows at each instant the best of what the sources show alone", arguments: 0..<20 as Range<UInt64>)
    func union(block: UInt64) {
        let order: [EntitlementState] = [.active, .inGracePeriod, .inBillingRetry, .revoked, .expired]
        eachGiven(block) { given, seed, random in
            var alone = given.originals.keys.sorted().map { id in
                given.with {
                    $0.originals = $0.originals.filter { $0.key == id }
                    $0.grants = []
                }
            }
            alone += given.grants.map { grant in
                given.with {
                    $0.originals = [:]
                    $0.grants = [grant]
                }
            }
            let parts = alone.map(\.facts)
            let whole = given.facts
            func rank(_ state: EntitlementState) -> Int {
                (given.policy.givesAccess(state) ? 0 : 10) + (order.firstIndex(of: state) ?? 9)
            }
            for _ in 0..<12 {
                let instant = random.instant(-2...60).adding(milliseconds: random.pick([-1, 0, 1]))
                var best: [String: EntitlementState] = [:]
                for answer in parts.flatMap({ $0.answers(at: instant) }) {
                    let current = best[answer.entitlementID]
                    if current.map({ rank(answer.state) < rank($0) }) ?? true {
                        best[answer.entitlementID] = answer.state
                    }
                }
                let shown = Dictionary(
                    uniqueKeysWithValues: whole.answers(at: instant).map { ($0.entitlementID, $0.state) })
                #expect(shown == best, "seed \(seed) at \(instant)")
            }
        }
    }
}

@Suite("Chains of periods and billing problems follow the rules at every instant", .timeLimit(.minutes(5)))
struct ChainPropertyTests {
    @Test(
        "periods of one chain are ordered and disjoint, within what was paid for, and moved only by a neighbour",
        arguments: 0..<250 as Range<UInt64>)
    func chains(seed: UInt64) {
        var random = SplitMix64(seed: seed &+ 2_000_000)
        let state = OriginalState(random.deliveries(of: "1000"))
        let catalog = Catalog(products: products, policy: random.policy())
        for chain in state.chains(catalog) {
            for (earlier, later) in zip(chain.periods, chain.periods.dropFirst()) {
                #expect(earlier.end <= later.start)
                #expect(earlier.fact.purchaseDate <= later.fact.purchaseDate)
            }
            for (index, period) in chain.periods.enumerated() {
                #expect(period.fact.purchaseDate <= period.start && period.start <= period.end)
                #expect(period.end <= max(period.expiry, period.start))
                let ends = chain.periods[..<index].map(\.end)
                #expect(period.start == period.fact.purchaseDate || ends.contains(period.start))
                if period.fact.reason == .known(.purchase) { #expect(period.start == period.fact.purchaseDate) }
                if period.ending == .superseded {
                    let next = index + 1 < chain.periods.count ? chain.periods[index + 1] : nil
                    #expect(next?.start == period.end && next?.fact.reason != .known(.renewal))
                }
            }
        }
    }

    /// §4 of the contract, read for one instant.
    private func stateByTheLetter(
        at instant: Timestamp, _ chain: PeriodChain, _ renewals: [RenewalFact], _ policy: AccessPolicy
    ) -> EntitlementState? {
        guard let index = chain.periods.lastIndex(where: { $0.start <= instant }) else { return nil }
        let period = chain.periods[index]
        if instant < period.end { return .active }
        if let revokedAt = period.revokedAt, period.ending == .revoked || revokedAt <= instant { return .revoked }
        let about = renewals.filter { renewal in
            guard let signed = renewal.signedDate else { return false }
            return chain.periods.lastIndex { $0.start <= signed } == index
        }
        let first = about.firstIndex { $0.graceEnd != nil || $0.isInBillingRetry || $0.isGraceWithoutEnd }
        guard let first, period.isSubscription else {
            let leewayEnd = period.end.adding(milliseconds: policy.leewaySeconds * 1000)
            return period.ending == .ranOut && instant < leewayEnd ? .active : .expired
        }
        guard instant >= period.expiry else { return .expired }
        guard instant < period.expiry.adding(milliseconds: 60 * 86_400_000) else { return .expired }
        let speaks = about[first...].last { ($0.signedDate ?? .earliest) <= instant } ?? about[first]
        if let graceEnd = speaks.graceEnd {
            return graceEnd > instant ? .inGracePeriod : .inBillingRetry
        }
        return speaks.isInBillingRetry || speaks.isGraceWithoutEnd ? .inBillingRetry : .expired
    }

    @Test("at every instant a chain reads what the rules say of that instant", arguments: 0..<250 as Range<UInt64>)
    func billing(seed: UInt64) {
        var random = SplitMix64(seed: seed &+ 3_000_000)
        let state = OriginalState(random.deliveries(of: "1000"))
        let policy = random.policy()
        for chain in state.chains(Catalog(products: products, policy: policy)) {
            let segments = state.segments(of: chain, policy: policy)
            let bounds = segments.map(\.start)
            for instant in bounds.flatMap({ [$0.adding(milliseconds: -1), $0, $0.adding(milliseconds: 1)] })
                + (0..<10).map({ _ in random.instant(-2...60) })
            {
                let read = segments.first { $0.start <= instant && instant < $0.end }?.state
                let expected = stateByTheLetter(at: instant, chain, state.renewals.map(\.fact), policy)
                #expect(read == expected, "at \(instant)")
            }
        }
    }
}
