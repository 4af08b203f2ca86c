import AppStorePayloads
import EntitlementAPI
import EntitlementCore
import Foundation
import Testing

@testable import EntitlementKit

@Suite("Kit: merging statements of store and server")
struct MergeTests {
    private static let configuration = EntitlementConfiguration(
        bundleID: Statements.bundleID,
        bundledCatalog: ["a", "b", "c"].map { .init(productID: $0, entitlements: [$0]) })

    /// A store's whole truth: some of it over, some refunded, some in grace.
    private static func truth(_ random: inout SeededGenerator) -> (
        transactions: [SignedStatement], renewals: [SignedStatement]
    ) {
        var transactions: [SignedStatement] = []
        var renewals: [SignedStatement] = []
        for original in 1...Int.random(in: 1...4, using: &random) {
            let product = ["a", "b", "c"].randomElement(using: &random) ?? "a"
            for period in 0..<Int.random(in: 1...4, using: &random) {
                let isRevoked = Int.random(in: 0..<6, using: &random) == 0
                let start = Double(period * 30)
                transactions.append(
                    Statements.transaction(
                        "\(original)-\(period)", original: "\(original)", product: product, from: start,
                        until: start + 30, revoked: isRevoked ? start + 3 : nil, signed: isRevoked ? start + 4 : start,
                        renewal: period > 0))
            }
            if Bool.random(using: &random) {
                renewals.append(
                    Statements.renewal(
                        original: "\(original)", signed: 31, retry: true, graceUntil: 46, product: product))
            }
        }
        return (transactions, renewals)
    }

    private static func join(
        _ transactions: [SignedStatement], _ renewals: [SignedStatement], to ledger: inout DeviceLedger
    ) throws {
        for statement in transactions { _ = ledger.book.join(try DeviceTransaction(statement)) }
        for statement in renewals { _ = ledger.book.join(try DeviceRenewal(statement)) }
    }

    private static func read(_ ledger: DeviceLedger, day: Double) -> [Entitlement] {
        DeviceFold(ledger).entitlements(at: Timestamp(milliseconds: Statements.instant(day)), bound: nil)
    }

    @Test(
        "a partial read after a whole one changes nothing",
        arguments: 0..<60 as Range<UInt64>)
    func partialReads(seed: UInt64) throws {
        var random = SeededGenerator(seed)
        let (transactions, renewals) = Self.truth(&random)
        var ledger = DeviceLedger(Self.configuration)
        _ = ledger.book.join(try DeviceAppTransaction(Statements.appTransaction()))
        try Self.join(transactions, renewals, to: &ledger)
        let days = [1.0, 15, 31, 45, 50, 61, 95, 119, 200]
        let known = days.map { Self.read(ledger, day: $0) }
        for _ in 0..<6 {
            let part = transactions.filter { _ in Bool.random(using: &random) }.shuffled(using: &random)
            try Self.join(part, renewals.filter { _ in Bool.random(using: &random) }, to: &ledger)
            #expect(days.map { Self.read(ledger, day: $0) } == known, "seed \(seed)")
        }
    }

    @Test("partial reads in any order come to what one whole read says", arguments: 0..<60 as Range<UInt64>)
    func partsAddUp(seed: UInt64) throws {
        var random = SeededGenerator(seed)
        let (transactions, renewals) = Self.truth(&random)
        var whole = DeviceLedger(Self.configuration)
        var parts = DeviceLedger(Self.configuration)
        for statement in [Statements.appTransaction()] {
            _ = whole.book.join(try DeviceAppTransaction(statement))
            _ = parts.book.join(try DeviceAppTransaction(statement))
        }
        try Self.join(transactions, renewals, to: &whole)
        for _ in 0..<4 {
            try Self.join(transactions.filter { _ in Bool.random(using: &random) }, [], to: &parts)
        }
        try Self.join(transactions.shuffled(using: &random), renewals.shuffled(using: &random), to: &parts)
        for day in [1.0, 31, 45, 50, 95, 200] {
            #expect(Self.read(whole, day: day) == Self.read(parts, day: day), "seed \(seed), day \(day)")
        }
    }

    @Test(
        "the device says what the server says once it has told it everything, and never less before",
        arguments: 0..<40 as Range<UInt64>)
    func agreesWithServer(seed: UInt64) async throws {
        var random = SeededGenerator(seed)
        let (transactions, renewals) = Self.truth(&random)
        let (early, late) = (
            transactions.prefix(transactions.count / 2), transactions.dropFirst(transactions.count / 2)
        )
        let rig = KitRig(day: 95) {
            $0.all = Array(early)
            $0.subscriptions = []
        } server: {
            $0.catalog = Catalog(
                products: ["a", "b", "c"].map { CatalogProduct(productID: $0, entitlements: [$0]) })
        }
        await rig.launch()
        rig.device.edit {
            $0.current = []
            $0.all = Array(late)
            $0.subscriptions = renewals.compactMap { renewal in
                transactions.last {
                    (try? DeviceTransaction($0).payload.originalTransactionID)
                        == (try? DeviceRenewal(renewal).payload.originalTransactionID)
                }.map { SubscriptionStatement(transaction: $0, renewal: renewal) }
            }
        }
        let state = await rig.store.refresh()
        await rig.store.settled()
        let server = rig.server.state
        let facts = CustomerFacts(
            customer: IdentityRef(server.numbers["apple:A"] ?? 0), originals: server.states,
            ownership: server.ownership, catalog: server.catalog)
        let told = facts.answers(at: Timestamp(milliseconds: Statements.instant(95)))
        #expect(state.all.map(\.id) == told.map(\.entitlementID), "seed \(seed)")
        #expect(state.all.map(\.givesAccess) == told.map(\.givesAccess), "seed \(seed)")
        #expect(state.all.map(\.state.rawValue) == told.map(\.state.rawValue), "seed \(seed)")
        #expect(state.all.map(\.until) == told.map { $0.until?.date }, "seed \(seed)")
    }

    @Test("an answer with less proof does not replace one with more")
    func unproven() async {
        let rig = KitRig {
            $0.current = [Statements.transaction("1")]
        } server: {
            $0.numbers["apple:A"] = 1
            let fact = GrantFact(
                grantID: "g", customer: IdentityRef(1), entitlementID: "gift", until: nil, reason: "")
            $0.grants = [
                GrantState(fact: fact, position: 1, recordedAt: Timestamp(milliseconds: Statements.start))
            ]
        }
        await rig.launch()
        rig.server.edit {
            $0.proof = .none
            $0.grants = []
        }
        let state = await rig.store.refresh()
        #expect(state.givesAccess(to: "premium"))
        #expect(state.givesAccess(to: "gift"))
        #expect(state.kind == .offline(asOf: Statements.date(1), reason: .unproven))
    }

    @Test("an answer whose facts this version cannot read stands as it is, beside what is new on the device")
    func unreadableFacts() async {
        let rig = KitRig(bound: .seconds(90 * 86_400)) {
            $0.current = [Statements.transaction("1")]
        } server: {
            $0.tellsFacts = false
        }
        await rig.launch()
        #expect(await rig.store.current.isLive)
        #expect(await rig.gives())
        rig.server.edit { $0.mood = .unreachable }
        rig.device.push(Statements.transaction("2", product: "lifetime", until: nil))
        await rig.waitUntilGives(true, "forever")
        #expect(await rig.gives())
        rig.device.edit { $0.current = [] }
        rig.clock.advance(days: 30)
        await rig.waitUntilGives(false)
        #expect(await rig.gives("forever"))
    }
}
