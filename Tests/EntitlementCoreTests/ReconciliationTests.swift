import SeededRandom
import Testing

@testable import EntitlementCore

@Suite("Reconciliation")
struct ReconciliationTests {
    private static func fact(_ statement: Statement) throws -> TransactionFact {
        guard case .transaction(let fact, _) = statement else { throw NoTransaction() }
        return fact
    }

    private struct NoTransaction: Error {}

    private static func weigh(
        _ posted: [Statement], for customer: IdentityRef? = alice, known: [Statement] = [],
        _ ownership: OwnershipMap = OwnershipMap()
    ) throws -> Reconciliation {
        let renewals: [RenewalFact] = posted.compactMap { if case .renewal(let fact, _) = $0 { fact } else { nil } }
        let transactions: [TransactionFact] = posted.compactMap {
            if case .transaction(let fact, _) = $0 { fact } else { nil }
        }
        return Reconciliation(
            of: transactions, renewals: renewals, for: customer,
            states: known.isEmpty ? [:] : ["1000": OriginalState(known)], ownership: ownership)
    }

    private static let catalog = Catalog(
        products: products + [CatalogProduct(productID: "nothing", entitlements: [])], policy: AccessPolicy())

    @Test("whose a transaction is, by what it bears, who claimed it, what was linked and transferred")
    func standings() throws {
        typealias Standing = Reconciliation.Standing
        let table: [(owner: IdentityRef?, customer: IdentityRef?, words: OwnershipMap, standing: Standing)] = [
            (alice, alice, OwnershipMap(), .own), (alice, bob, OwnershipMap(), .conflict(owner: alice)),
            (alice, nil, OwnershipMap(), .foreign), (nil, alice, OwnershipMap(), .claimed),
            (nil, nil, OwnershipMap(), .unclaimed),
            (nil, alice, OwnershipMap((claim(by: alice), 0)), .own),
            (nil, bob, OwnershipMap((claim(by: alice), 0)), .conflict(owner: alice)),
            (nil, nil, OwnershipMap((claim(by: alice), 0)), .foreign),
            // A claim says nothing of what bears an identity.
            (alice, bob, OwnershipMap((claim(by: bob), 0)), .conflict(owner: alice)),
            (alice, bob, OwnershipMap((link(alice, to: bob), 0)), .own),
            (alice, carol, OwnershipMap((link(alice, to: bob), 0)), .conflict(owner: bob)),
            (nil, bob, OwnershipMap((claim(by: alice), 0), (link(alice, to: bob), 1)), .own),
            (alice, bob, OwnershipMap((transfer(to: bob), 0)), .own),
            (alice, alice, OwnershipMap((transfer(to: bob), 0)), .foreign),
            (alice, carol, OwnershipMap((transfer(to: bob), 0)), .conflict(owner: bob)),
            (nil, bob, OwnershipMap((transfer(to: bob), 0)), .own),
            (nil, carol, OwnershipMap((transfer(to: bob), 0)), .conflict(owner: bob)),
            (nil, nil, OwnershipMap((transfer(to: bob), 0)), .foreign),
            (alice, carol, OwnershipMap((transfer(to: bob), 0), (link(bob, to: carol), 1)), .own),
        ]
        for (index, row) in table.enumerated() {
            let posted = [subscription("1", from: 0, to: 30, of: row.owner)]
            let weighed = try Self.weigh(posted, for: row.customer, row.words)
            #expect(weighed.verdicts.map(\.standing) == [row.standing], "row \(index)")
            #expect(weighed.claims == (row.standing == .claimed ? ["1000"] : []), "row \(index)")
            if case .conflict(let owner) = row.standing {
                #expect(weighed.conflicts.map(\.owner) == [owner], "row \(index)")
            } else {
                #expect(weighed.conflicts.isEmpty, "row \(index)")
            }
        }
    }

    @Test("what may be finished, by whose it is and what the catalog says of it")
    func finishing() throws {
        let fact = try Self.fact(subscription("1", from: 0, to: 30))
        let strange = try Self.fact(subscription("1", "unheard", from: 0, to: 30))
        let nothing = try Self.fact(subscription("1", "nothing", from: 0, to: 30))
        for standing in [Reconciliation.Standing.own, .claimed, .foreign] {
            for item in [fact, strange, nothing] { #expect(standing.allowsFinishing(item, catalog: Self.catalog)) }
        }
        for standing in [Reconciliation.Standing.conflict(owner: bob), .unclaimed] {
            #expect(!standing.allowsFinishing(fact, catalog: Self.catalog))
            #expect(!standing.allowsFinishing(strange, catalog: Self.catalog), "the catalog may lack it by mistake")
            #expect(standing.allowsFinishing(nothing, catalog: Self.catalog))
        }
    }

    @Test("news is an event for each transaction, one for all advances of an original, renewals with the first")
    func events() throws {
        let first = subscription("1", from: 0, to: 30)
        let second = subscription("2", from: 30, to: 60, .renewal)
        let later = [first, second].map { statement in statement.with { $0.signedDate = day(70) } }
        let third = subscription("3", from: 60, to: 90, .renewal)
        let renewal = renewalInfo(signed: 70, renews: true)
        let fresh = try Self.weigh([first, second, third, renewal])
        #expect(fresh.news.map(\.transactions.count) == [1, 1, 1] && fresh.news.map(\.renewals.count) == [1, 0, 0])
        let advanced = try Self.weigh(later + [third, renewal], known: [first, second])
        #expect(advanced.news.map(\.transactions.count) == [1, 2] && advanced.news.first?.renewals.count == 1)
        #expect(advanced.verdicts.map(\.isNews) == [true, true, true] && advanced.renewalNews == [true])
        let onlyRenewal = try Self.weigh([first, renewal], known: [first])
        #expect(onlyRenewal.news.map(\.transactions.count) == [0] && onlyRenewal.verdicts.map(\.isNews) == [false])
        let nothing = try Self.weigh([first, second, renewal], known: [second, renewal, first] + later)
        #expect(nothing.news.isEmpty && nothing.renewalNews == [false])
        #expect(nothing.verdicts.map(\.isNews) == [false, false])
    }

    @Test("of one transaction signed many times only the newest is news, in whichever order they are posted")
    func onlyTheNewest() throws {
        let signings = (0..<6).map { number in subscription("1", from: 0, to: 30, signed: Double(number)) }
        for order in [signings, signings.reversed(), Array(signings[3...] + signings[..<3])] {
            let weighed = try Self.weigh(order)
            #expect(weighed.news.map(\.transactions) == [[try Self.fact(signings[5])]])
            #expect(weighed.verdicts.map(\.isNews) == order.map { $0 == signings[5] })
        }
    }

    @Test("a device's newer word is news even where the store's revocation stands against it")
    func againstTheStore() throws {
        let refunded = subscription("1", from: 0, to: 30, signed: 10, revoked: 9)
        let whole = subscription("1", from: 0, to: 30, signed: 20)
        #expect(try Self.weigh([whole], known: [refunded]).verdicts.map(\.isNews) == [true])
        #expect(try Self.weigh([whole], known: [refunded, whole.fromDevice]).news.isEmpty)
        #expect(try Self.weigh([subscription("1", from: 0, to: 30, signed: 5)], known: [refunded]).news.isEmpty)
    }

    @Test("a post that brings more than are kept exactly is recorded whole, so that the ledger counts the same")
    func crossing() throws {
        var state = OriginalState()
        func renewal(_ second: Int) -> RenewalFact {
            RenewalFact(
                payloadHash: .zero, signedDate: day(Double(second) / 86_400), originalTransactionID: "1000",
                autoRenews: true
            ).hashed()
        }
        for second in 0..<500 { state.join(renewal(second), source: .device, position: 1) }
        let posted = (500..<540).map(renewal)
        func weigh(_ state: OriginalState) -> Reconciliation {
            Reconciliation(
                of: [], renewals: posted, for: alice, states: ["1000": state], ownership: OwnershipMap())
        }
        let news = weigh(state).news.flatMap(\.renewals)
        #expect(news == posted)
        for fact in news { state.join(fact, source: .device, position: 2) }
        #expect(state.isThinned && state.renewals.count == 2)
        #expect(weigh(state).news.isEmpty)
    }

    @Test(
        "recording the news of a post leaves no news in it, and the state is that of all statements",
        arguments: 0..<40 as Range<UInt64>)
    func converges(seed: UInt64) throws {
        var random = SplitMix64(seed: seed)
        let all = random.deliveries(of: "1000")
        let cut = Int.random(in: 0...all.count, using: &random)
        let (known, posted) = (Array(all[..<cut]), all[cut...].map(\.fromDevice))
        let customer = random.pick([alice, bob, nil])
        let ownership = random.ownership(of: ["1000"])
        let weighed = try Self.weigh(posted, for: customer, known: known, ownership)
        var state = OriginalState(known)
        for news in weighed.news {
            for fact in news.transactions { state.join(fact, source: .device, position: 99) }
            for fact in news.renewals { state.join(fact, source: .device, position: 99) }
        }
        let whole = OriginalState(known + posted)
        #expect(state.transactions.map(\.fact) == whole.transactions.map(\.fact), "seed \(seed)")
        #expect(state.transactions.map(\.sources) == whole.transactions.map(\.sources), "seed \(seed)")
        #expect(state.renewals.map(\.fact) == whole.renewals.map(\.fact), "seed \(seed)")
        let transactions: [TransactionFact] = posted.compactMap {
            if case .transaction(let fact, _) = $0 { fact } else { nil }
        }
        let renewals: [RenewalFact] = posted.compactMap { if case .renewal(let fact, _) = $0 { fact } else { nil } }
        let again = Reconciliation(
            of: transactions, renewals: renewals, for: customer, states: ["1000": state], ownership: ownership)
        #expect(again.news.isEmpty && again.verdicts.allSatisfy { !$0.isNews }, "seed \(seed)")
        #expect(again.verdicts.map(\.standing) == weighed.verdicts.map(\.standing), "seed \(seed)")
        // Each of the news says something by itself at the time: nothing is recorded for nothing.
        var grown = OriginalState(known)
        for news in weighed.news {
            let before = grown
            for fact in news.transactions { grown.join(fact, source: .device, position: 99) }
            for fact in news.renewals { grown.join(fact, source: .device, position: 99) }
            #expect(grown.transactions != before.transactions || grown.renewals != before.renewals, "seed \(seed)")
        }
    }
}
