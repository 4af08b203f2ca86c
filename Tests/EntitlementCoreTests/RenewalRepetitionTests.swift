import SeededRandom
import Testing

@testable import EntitlementCore

@Suite("Renewal information that devices repeat", .timeLimit(.minutes(2)))
struct RenewalRepetitionTests {
    /// One delivery of a renewal statement.
    struct Delivery: Hashable {
        var fact: RenewalFact
        let source: StatementSource
    }

    /// What is kept, positions aside.
    struct Kept: Hashable {
        let facts: [RenewalFact]
        let storeSaid: [Bool]
        let isThinned: Bool

        init(_ state: OriginalState) {
            facts = state.renewals.map(\.fact)
            storeSaid = state.renewals.map(\.sources.includesStore)
            isThinned = state.isThinned
        }

        init(_ deliveries: some Sequence<Delivery>) {
            var state = OriginalState()
            for (index, delivery) in deliveries.enumerated() {
                state.join(delivery.fact, source: delivery.source, position: Int64(index + 1))
            }
            self.init(state)
        }
    }

    /// Many on a few days that say one of a few things; some come twice, and a few from the store.
    static func flood(_ count: Int, _ random: inout SplitMix64) -> [Delivery] {
        var deliveries: [Delivery] = []
        for _ in 0..<count {
            let at = day(0).adding(milliseconds: Int64.random(in: -86_400_000...5 * 86_400_000, using: &random))
            let fact = RenewalFact(
                payloadHash: .zero, signedDate: random.once(in: 50) ? nil : at, originalTransactionID: "1000",
                autoRenews: random.pick([true, true, true, false]), isInBillingRetry: random.once(in: 20),
                expirationIntent: random.maybe(20) { _ in 2 }, priceIncreaseStatus: random.maybe(20) { _ in 0 }
            ).hashed()
            let source: StatementSource = random.once(in: 15) ? .notification : .device
            deliveries.append(Delivery(fact: fact, source: source))
            if random.once(in: 12) {
                var again = Delivery(fact: fact, source: random.pick([.device, .notification, .serverAPI]))
                // This label comes with a delivery, and only with a notification.
                if again.source == .notification { again.fact.isGraceWithoutEnd = random.once(in: 2) }
                deliveries.append(again)
            }
        }
        return deliveries.shuffled(using: &random)
    }

    /// The rule, word for word, over all statements at once.
    static func rule(_ deliveries: [Delivery]) -> [RenewalFact] {
        var statements: [Digest: (fact: RenewalFact, isOfStore: Bool)] = [:]
        for delivery in deliveries {
            let isOfStore = delivery.source != .device
            if var known = statements[delivery.fact.payloadHash] {
                known.isOfStore = known.isOfStore || isOfStore
                known.fact.isGraceWithoutEnd = known.fact.isGraceWithoutEnd || delivery.fact.isGraceWithoutEnd
                statements[delivery.fact.payloadHash] = known
            } else {
                statements[delivery.fact.payloadHash] = (delivery.fact, isOfStore)
            }
        }
        let ordered = statements.values.sorted { $0.fact.precedes($1.fact) }
        guard ordered.count > OriginalState.exactRenewals else { return ordered.map(\.fact) }
        func says(_ fact: RenewalFact) -> String {
            let day = fact.signedDate.map { String($0.description.prefix(10)) } ?? "none"
            return
                "\(day) \(String(describing: fact.autoRenews)) \(fact.isInBillingRetry) \(fact.expirationIntent ?? 0) \(fact.priceIncreaseStatus ?? 9)"
        }
        return ordered.enumerated().filter { index, statement in
            statement.isOfStore || !ordered[..<index].contains { says($0.fact) == says(statement.fact) }
                || !ordered[(index + 1)...].contains { says($0.fact) == says(statement.fact) }
        }.map(\.element.fact)
    }

    @Test("a flood in any order, in parts and with views in between, leaves what the rule says", arguments: 0..<8)
    func anyOrder(seed: UInt64) throws {
        var random = SplitMix64(seed: seed)
        let deliveries = Self.flood(Int.random(in: 400...1100, using: &random), &random)
        let kept = Kept(deliveries)
        #expect((kept.facts == Self.rule(deliveries)) == true, "seed \(seed)")
        for order in [
            deliveries.reversed(), deliveries.sorted { $0.fact.precedes($1.fact) },
            deliveries.sorted { $1.fact.precedes($0.fact) }, deliveries.shuffled(using: &random),
            (deliveries + deliveries.prefix(200)).shuffled(using: &random),
        ] {
            #expect((Kept(order) == kept) == true, "seed \(seed)")
        }
        var state = OriginalState()
        for (index, delivery) in deliveries.shuffled(using: &random).enumerated() {
            let before = state
            let isNews = state.join(delivery.fact, source: delivery.source, position: 7)
            #expect(isNews == (Kept(before) != Kept(state) || before.renewals != state.renewals), "seed \(seed)")
            if index.isMultiple(of: 97) { state = try OriginalState(encoded: state.encoded()) }
        }
        #expect((Kept(state) == kept) == true, "seed \(seed)")
    }

    @Test("what was left out of a device's counts as soon as the store says it")
    func storeSaysIt() throws {
        var random = SplitMix64(seed: 3)
        let flood = Self.flood(900, &random).filter { $0.source == .device }
        var state = OriginalState()
        for delivery in flood { state.join(delivery.fact, source: .device, position: 1) }
        let dropped = flood.filter { delivery in !state.renewals.contains { $0.fact == delivery.fact } }
        #expect(state.isThinned && dropped.count > 100)
        for delivery in dropped.prefix(20) {
            let isNewsOfDevice = state.join(delivery.fact, source: .device, position: 2)
            #expect(!isNewsOfDevice, "a device may repeat it for ever")
            let isNewsOfStore = state.join(delivery.fact, source: .notification, position: 3)
            #expect(isNewsOfStore)
            #expect(state.renewals.contains { $0.fact == delivery.fact && $0.sources.includesStore })
        }
    }

    @Test("thirty thousand of one day take no more room than two, in whatever order they come")
    func flood() {
        for isRising in [true, false] {
            var state = OriginalState()
            var most = 0
            for number in 0..<30_000 {
                let second = Double(isRising ? number : 30_000 - number)
                guard case .renewal(let fact, _) = renewalInfo(signed: second / 86_400, renews: true) else { return }
                state.join(fact, source: .device, position: Int64(number + 1))
                most = max(most, state.renewals.count)
            }
            #expect(most == OriginalState.exactRenewals)
            #expect(state.renewals.count == 2 && state.encoded().count < 400)
        }
    }

    @Test("a device that says the same twice a day, for five years, is believed in every word")
    func genuineLife() {
        var statements: [Statement] = []
        for number in 0..<5 * 365 * 2 {
            guard case .renewal(let fact, _) = renewalInfo(signed: Double(number) / 2, renews: true) else { return }
            statements.append(.renewal(fact, .device))
        }
        #expect(OriginalState(statements).renewals.count == statements.count)
    }

    @Test("what repeats a statement beside it, or of its day, is told from what takes it back")
    func repetition() {
        func fact(_ signed: Double, renews: Bool) -> RenewalFact? {
            guard case .renewal(let fact, _) = renewalInfo(signed: signed, renews: renews) else { return nil }
            return fact
        }
        var state = OriginalState()
        for (signed, renews) in [(1.0, true), (3.0, false)] {
            if let fact = fact(signed, renews: renews) { state.join(fact, source: .device, position: 1) }
        }
        let table: [(Double, Bool, Bool)] = [
            (0.5, true, true), (2, true, true), (2, false, true), (4, false, true), (4, true, false),
            // On the day of the first, behind a statement of other content.
            (3.5, false, true), (0, false, false), (1.9, true, true),
        ]
        for (signed, renews, repeats) in table {
            #expect(fact(signed, renews: renews).map { state.repeats($0) } == repeats, "\(signed) \(renews)")
        }
    }
}
