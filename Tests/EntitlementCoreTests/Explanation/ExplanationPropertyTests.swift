import SeededRandom
import Testing

@testable import EntitlementCore

@Suite("Explanations of random histories", .timeLimit(.minutes(10)))
struct ExplanationPropertyTests {
    /// A log about a few people and originals, in which statements collide and ownership changes hands.
    private func history(_ random: inout SplitMix64) -> CustomerHistory {
        let originals = Array(["1000", "1001", "0999"].prefix(Int.random(in: 1...3, using: &random)))
        var told = originals.flatMap { random.deliveries(of: $0) }.map { Entry.statement($0) }
        for _ in 0..<Int.random(in: 0...5, using: &random) {
            let (one, other) = (IdentityRef(Int64.random(in: 1...4, using: &random)), random.pick([alice, bob]))
            let grantID = random.pick(["g1", "g2"])
            told.append(
                .fact(
                    random.pick([
                        link(one, to: other), claim(by: one, of: random.pick(originals)),
                        transfer(to: one, of: random.pick(originals)), granted(grantID, until: 60, to: other),
                        takenBack(grantID, from: other),
                    ]), recorded: random.days(0...40)))
        }
        if random.once(in: 3) {
            let products = products.filter { _ in !random.once(in: 3) }
            told.append(.fact(.catalog(Catalog(products: products, policy: random.policy())), recorded: 7))
        }
        return CustomerHistory(
            of: random.pick([alice, bob]), policy: random.policy(), told.shuffled(using: &random))
    }

    @Test(
        "folding only the cited events gives the same decision, and without any one of them another",
        arguments: 0..<40 as Range<UInt64>)
    func basis(block: UInt64) {
        for seed in block * 5..<(block + 1) * 5 {
            var random = SplitMix64(seed: seed &+ 4_000_000)
            let history = history(&random)
            let bounds = history.facts().timelines().flatMap(\.readings).map(\.start)
            let around = Set(bounds.flatMap { [$0.adding(milliseconds: -1), $0, $0.adding(milliseconds: 1)] })
            for instant in around.sorted().shuffled(using: &random).prefix(10) {
                let answers = history.facts().answers(at: instant)
                for explanation in Explainer(history, at: instant).explanations() {
                    let context = "seed \(seed) at \(instant): \(explanation.decision)"
                    expectBasis(of: explanation, history, instant, context)
                    let answer = answers.first { $0.entitlementID == explanation.decision.entitlementID }
                    #expect(explanation.answer == answer, "\(context)")
                    #expect(explanation.decision.givesAccess == (answer?.givesAccess ?? false), "\(context)")
                    #expect(explanation.decision.state == answer?.state, "\(context)")
                    #expect(explanation.decision.originalTransactionID == answer?.reading.originalTransactionID)
                }
            }
        }
    }

    @Test(
        "of what Stripe may say without much sense, too: what is cited carries the decision, and none of it is idle",
        arguments: 0..<20 as Range<UInt64>)
    func webBasis(block: UInt64) {
        for seed in block * 5..<(block + 1) * 5 {
            var random = SplitMix64(seed: seed &+ 5_000_000)
            let history = webHistory(&random)
            let bounds = history.facts().timelines().flatMap(\.readings).map(\.start)
            let around = Set(bounds.flatMap { [$0.adding(milliseconds: -1), $0, $0.adding(milliseconds: 1)] })
            for instant in around.sorted().shuffled(using: &random).prefix(6) {
                for explanation in Explainer(history, at: instant).explanations() {
                    let context = "seed \(seed) at \(instant): \(explanation.decision)"
                    expectBasis(of: explanation, history, instant, context)
                    let catalogs = explanation.events.filter { $0.catalog != nil }.map(\.position)
                    #expect(catalogs.allSatisfy { $0 == history.catalogs.last?.event.position }, "\(context)")
                    for outlook in explanation.outlook { #expect(outlook.sentence.hasSuffix("."), "\(context)") }
                }
            }
        }
    }

    /// What Stripe and the App Store may say about one customer's purchases, under several catalogs.
    private func webHistory(_ random: inout SplitMix64) -> CustomerHistory {
        func catalog(_ random: inout SplitMix64) -> LedgerFact {
            let policy = AccessPolicy(
                graceGivesAccess: !random.once(in: 4), billingRetryGivesAccess: random.once(in: 4),
                leewaySeconds: random.pick([0, 0, 86_400]),
                proratedRefund: random.pick([.endsAccess, .keepsAccess]), webGraceDays: random.pick([0, 7]),
                webDispute: random.pick([.suspendsAccess, .keepsAccess]))
            return .catalog(Catalog(products: webProducts, policy: policy))
        }
        var facts: [LedgerFact] = [catalog(&random), .web(owned(by: alice).fact)]
        facts += random.webLife().filter { $0.fact.owners.isEmpty }.shuffled(using: &random).map { .web($0.fact) }
        if random.once(in: 2) { facts.append(granted(until: random.days(0...60))) }
        if random.once(in: 2) { facts.append(catalog(&random)) }
        if random.once(in: 4) { facts.append(transfer(to: random.pick([alice, bob]), of: "sub_1")) }
        let events = facts.enumerated().map { index, fact in
            var environment: StoreEnvironment? = .production
            if case .catalog = fact { environment = nil }
            return HistoryEvent(
                position: Int64(index + 1), recordedAt: day(40), environment: environment, source: "told",
                statementSource: .notification, type: "told", occurredAt: nil, fact: fact)
        }
        return CustomerHistory(of: alice, environment: .production, position: Int64(events.count), events: events)
    }

    private func expectBasis(
        of explanation: Explanation, _ history: CustomerHistory, _ instant: Timestamp, _ context: String
    ) {
        let decision = explanation.decision
        func decide(_ events: [HistoryEvent]) -> Decision {
            let part = CustomerHistory(
                of: history.customer, environment: .production, position: history.position, events: events)
            return Explainer(part, at: instant).explanation(of: decision.entitlementID).decision
        }
        let refolded = decide(explanation.events)
        #expect(refolded.givesAccess == decision.givesAccess && refolded.state == decision.state, "\(context)")
        guard !explanation.events.isEmpty else {
            #expect(decision.state == nil, "\(context)")
            return
        }
        #expect(refolded == decision, "\(context)")
        for left in explanation.events {
            let without = explanation.events.filter { $0 != left }
            #expect(decide(without) != decision, "\(context) does not need position \(left.position)")
        }
    }
}
