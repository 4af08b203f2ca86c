import SeededRandom
import Testing

@testable import EntitlementCore

extension SplitMix64 {
    fileprivate mutating func day(_ range: Range<Int>) -> Double {
        Double(Int(next() % UInt64(range.count)) + range.lowerBound) / 2
    }

    /// Everything Stripe may state about one subscription, in no order and without much sense.
    mutating func webLife() -> [WebTold] {
        var told: [WebTold] = []
        for index in 0..<Int(next() % 6) + 1 {
            let start = day(0..<160)
            let length = pick([0.0, 5, 14, 30, 30, 30])
            let isProration = once(in: 5)
            told.append(
                paidLine(
                    "\(once(in: 6) ? 0 : index)", pick(["pro", "pro.yearly", "pro.max", "basic", "unknown"]),
                    from: start,
                    to: start + length, item: pick(["si_1", "si_1", "si_1", "si_2", nil]), proration: isProration,
                    amount: isProration ? pick([-500, 0, 500]) : pick([0, 999]),
                    at: once(in: 3) ? start + day(0..<20) : nil, by: once(in: 4) ? nil : "pi_\(index)"))
        }
        for _ in 0..<Int(next() % 8) {
            let created = day(0..<220)
            told.append(
                says(
                    pick(WebSubscriptionStatus.allCases.map(\.rawValue) + ["odd", "active", "active", "past_due"]),
                    at: created, until: once(in: 5) ? nil : created + day(-20..<80),
                    items: pick([["si_1"], ["si_1", "si_2"], ["si_2"], []]), cancelsAtEnd: once(in: 6),
                    ended: once(in: 9) ? created : nil, pause: once(in: 8) ? "void" : nil,
                    trial: once(in: 4) ? (0, created) : nil))
        }
        for _ in 0..<Int(next() % 4) {
            let created = day(0..<180)
            let id = pick(["a", "b"])
            let statuses = WebRefundStatus.allCases.map(\.rawValue) + ["succeeded", "succeeded", "odd"]
            told.append(
                refunded(
                    id, at: created, told: created + day(0..<10), pick([300, 699, 999]), status: pick(statuses),
                    payment: "pi_\(next() % 4)"))
        }
        for _ in 0..<Int(next() % 4) {
            let created = day(0..<180)
            told.append(
                disputed(
                    pick(["a", "b"]), at: created, told: created + day(0..<10),
                    pick(WebDisputeStatus.allCases.map(\.rawValue) + ["needs_response", "lost"]),
                    funds: pick([nil, nil, .withdrawn, .reinstated]), payment: "pi_\(next() % 4)"))
        }
        for _ in 0..<Int(next() % 3) {
            told.append(invoicePayment("pi_\(next() % 4)", to: "in_\(next() % 5)", told: day(0..<100)))
        }
        if once(in: 5) { told.append(paidOnce(pick([nil, "season", "lifetime"]), at: day(0..<60), original: "sub_1")) }
        for _ in 0..<Int(next() % 3) {
            told.append(owned(by: pick([alice, bob]), pick(WebOwner.Place.allCases), at: day(0..<20)))
        }
        return told
    }
}

/// What is kept and what is shown, positions aside.
private struct Fold: Hashable {
    let state: [UInt8]
    let shown: [String]

    init(_ told: [WebTold], _ policy: AccessPolicy) {
        var state = OriginalState()
        // All at one position, which alone depends on the order.
        for item in told {
            state.join(.web(item.fact), originalTransactionID: "sub_1", source: .notification, position: 7)
        }
        self.state = state.encoded()
        let facts = CustomerFacts(
            customer: alice, originals: ["sub_1": state], catalog: Catalog(products: webProducts, policy: policy))
        shown = facts.timelines().flatMap { timeline in
            timeline.readings.map { "\(timeline.entitlementID) \($0)" }
        }
    }
}

@Suite("Web checkout: the join is idempotent and independent of order", .timeLimit(.minutes(5)))
struct WebPropertyTests {
    private static func policy(_ random: inout SplitMix64) -> AccessPolicy {
        AccessPolicy(
            leewaySeconds: random.pick([0, 7200]), proratedRefund: random.pick([.endsAccess, .keepsAccess]),
            webGraceDays: random.pick([0, 7, 60]), webDispute: random.pick([.suspendsAccess, .keepsAccess]))
    }

    @Test(
        "any permutation, duplication, and a part with the rest later, keeps and shows the same",
        arguments: 0..<20 as Range<UInt64>)
    func permutations(block: UInt64) {
        for seed in block * 20..<(block + 1) * 20 {
            var random = SplitMix64(seed: seed)
            let told = random.webLife()
            let policy = Self.policy(&random)
            let fold = Fold(told, policy)
            for _ in 0..<4 {
                let repeated = told.filter { _ in random.once(in: 3) }
                #expect(Fold((told + repeated).shuffled(using: &random), policy) == fold, "seed \(seed)")
                let part = told.filter { _ in random.once(in: 2) }
                #expect(Fold(part + told, policy) == fold, "seed \(seed): a part, and then all")
            }
        }
    }

    @Test(
        "cut anywhere, with views written and read back in between, it is the same", arguments: 0..<10 as Range<UInt64>)
    func incremental(block: UInt64) throws {
        for seed in block * 20..<(block + 1) * 20 {
            var random = SplitMix64(seed: seed)
            let told = random.webLife()
            var state = OriginalState()
            for (index, item) in told.enumerated() {
                let learns = state.web?.learns(from: item.fact)
                let isChanged = state.join(
                    .web(item.fact), originalTransactionID: "sub_1", source: .notification, position: Int64(index + 1))
                #expect(isChanged || learns != true, "seed \(seed): what teaches changes what is kept")
                let read = try OriginalState(encoded: state.encoded())
                #expect(read == state && read.encoded() == state.encoded(), "seed \(seed)")
                state = read
                #expect(state.web?.learns(from: item.fact) == false, "seed \(seed): twice is no news")
            }
            #expect(state == OriginalState(web: told, of: "sub_1"), "seed \(seed)")
        }
    }

    @Test(
        "every chain reads without gaps from its first period on, and no instant reads twice",
        arguments: 0..<10 as Range<UInt64>)
    func gapless(block: UInt64) {
        for seed in block * 30..<(block + 1) * 30 {
            var random = SplitMix64(seed: seed)
            let state = OriginalState(web: random.webLife(), of: "sub_1")
            let catalog = Catalog(products: webProducts, policy: Self.policy(&random))
            for chain in state.chains(catalog) {
                let segments = state.segments(of: chain, policy: catalog.policy)
                #expect(segments.last?.end == .endless, "seed \(seed)")
                #expect(zip(segments, segments.dropFirst()).allSatisfy { $0.end == $1.start }, "seed \(seed)")
                #expect(segments.allSatisfy { $0.start < $0.end && !$0.positions.isEmpty }, "seed \(seed)")
                let active = segments.filter { $0.reason == .paidPeriod }
                for segment in active {
                    let period = chain.periods[segment.periodIndex]
                    #expect(period.start <= segment.start && segment.end <= period.expiry, "seed \(seed)")
                }
            }
        }
    }

    @Test(
        "what a customer is told is the same on a device that is handed the facts", arguments: 0..<40 as Range<UInt64>)
    func handedOver(seed: UInt64) throws {
        var random = SplitMix64(seed: seed)
        let facts = CustomerFacts(
            customer: alice, originals: ["sub_1": OriginalState(web: random.webLife(), of: "sub_1")],
            catalog: Catalog(products: webProducts, policy: Self.policy(&random)))
        let read = try CustomerFacts(encoded: facts.encoded())
        #expect(read.encoded() == facts.encoded(), "seed \(seed)")
        #expect(read.timelines().map(\.readings) == facts.timelines().map(\.readings), "seed \(seed)")
    }

    @Test(
        "a fact of the web, and a catalog that speaks of it, are read as they were written",
        arguments: 0..<40 as Range<UInt64>)
    func codec(seed: UInt64) throws {
        var random = SplitMix64(seed: seed)
        let catalog = Catalog(products: webProducts, policy: Self.policy(&random))
        for fact in random.webLife().map({ LedgerFact.web($0.fact) }) + [.catalog(catalog)] {
            let bytes = FactCodec.encode(fact)
            #expect(try FactCodec.decode(bytes) == fact)
            for cut in stride(from: 0, to: bytes.count, by: 7) {
                #expect(throws: FactCodec.DecodingFailure.self) { try FactCodec.decode(Array(bytes[..<cut])) }
            }
            var damaged = bytes
            damaged[Int(random.next() % UInt64(bytes.count))] ^= 1 << UInt8(random.next() % 8)
            if let other = try? FactCodec.decode(damaged) {
                #expect(FactCodec.encode(other) == damaged, "seed \(seed)")
            }
        }
    }

    @Test("a catalog that says nothing of the web is written as it always was")
    func plainCatalog() throws {
        #expect(FactCodec.encode(.catalog(Catalog(products: products)))[1] == 2)
        #expect(FactCodec.encode(.catalog(Catalog(products: webProducts)))[1] == 22)
        #expect(FactCodec.encode(.catalog(Catalog(products: [], policy: AccessPolicy(webGraceDays: 8))))[1] == 22)
        var bytes = FactCodec.encode(.catalog(Catalog(products: [], policy: AccessPolicy(webGraceDays: 8))))
        let days = try #require(bytes.lastIndex(of: 8))
        bytes[days] = 7
        #expect(throws: FactCodec.DecodingFailure.self, "the same in another form") { try FactCodec.decode(bytes) }
        #expect(MemoryLayout<WebFact>.size < MemoryLayout<NotificationFact>.size, "no fact takes more room than before")
        #expect(OriginalState([subscription("1", from: 0, to: 30)]).encoded().count < 600, "no byte more for others")
    }
}
