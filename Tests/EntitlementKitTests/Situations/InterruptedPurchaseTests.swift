import EntitlementCore
import Foundation
import Testing

@testable import EntitlementKit

@Suite("Kit, situations: a purchase that comes when its sheet is gone", .timeLimit(.minutes(1)))
struct InterruptedPurchaseTests {
    enum Way: Sendable {
        /// A bank's app comes in between, and the store says that the person did not buy.
        case interrupted
        /// Somebody has to approve it.
        case approved
        /// The process ends, and another one finds it.
        case killed
        /// The same, and the store signs it as an update that the new process is told of.
        case approvedAfterLaunch
        /// A view of the store's own has shown the sheet.
        case view
    }

    static let ways: [Way] = [.interrupted, .approved, .killed, .approvedAfterLaunch, .view]

    /// Bought by Ann, of whom no account token is known, with another Apple account than the app's.
    private static let statement = Statements.transaction("1", from: 1, until: 31, app: "B")

    private func begin(_ way: Way, isAway: Bool) async -> KitRig {
        let isApproved = [.approved, .approvedAfterLaunch].contains(way)
        let rig = KitRig {
            $0.purchase = .success(isApproved ? .pending : .userCancelled)
        } server: {
            if isAway { $0.mood = .unreachable }
        }
        await rig.launch()
        await rig.store.identify(customerID: "ann", token: "a")
        if way == .view {
            await rig.store.take(.success(.userCancelled), of: "monthly")
        } else {
            _ = await rig.store.purchase("monthly")
        }
        return rig
    }

    private func come(_ statement: SignedStatement, to rig: KitRig) async {
        rig.device.edit { ($0.current, $0.all) = ([statement], [statement]) }
        rig.device.push(statement)
        await eventually("it came") { await rig.store.ledger.book.transactions[Statements.id(statement) ?? ""] != nil }
        await rig.store.refresh()
        await rig.store.settled()
    }

    @Test("it is of who began it, whatever Apple account paid", arguments: ways, [true, false])
    func theirs(way: Way, isAway: Bool) async {
        var rig = await begin(way, isAway: isAway)
        if way == .killed {
            rig.device.edit { ($0.unfinished, $0.current) = ([Self.statement], [Self.statement]) }
        }
        if [.killed, .approvedAfterLaunch].contains(way) {
            rig = await rig.relaunched()
            await rig.launch()
        }
        if way != .killed { await come(Self.statement, to: rig) }
        await rig.waitUntilGives()
        rig = await rig.relaunched()
        await rig.launch()
        #expect(await rig.gives(), "it stays theirs")
        #expect(await rig.store.ledger.begun.isEmpty)
    }

    /// What may come that Ann has not begun.
    struct Other: Sendable, CustomTestStringConvertible {
        let testDescription: String
        let statement: SignedStatement
    }

    static let others = [
        Other(
            testDescription: "another product",
            statement: Statements.transaction("1", product: "yearly", from: 1, app: "B")),
        Other(testDescription: "bought before", statement: Statements.transaction("1", from: 0.9, app: "B")),
        Other(
            testDescription: "bought days later", statement: Statements.transaction("1", from: 2.1, until: 32, app: "B")
        ),
        Other(
            testDescription: "renewed",
            statement: Statements.transaction("2", original: "1", from: 1, until: 31, app: "B", renewal: true)),
        Other(
            testDescription: "shared by a family",
            statement: Statements.transaction(
                "1", from: 1, until: 31, app: "B", offer: ["inAppOwnershipType": "FAMILY_SHARED"])),
        Other(
            testDescription: "of another account token",
            statement: Statements.transaction("1", from: 1, until: 31, token: UUID(), app: "B")),
    ]

    @Test("what comes and was not begun is nobody's here", arguments: others)
    func notBegun(_ other: Other) async {
        let rig = await begin(.interrupted, isAway: true)
        await come(other.statement, to: rig)
        #expect(await !rig.gives())
        #expect(await rig.store.ledger.bought.isEmpty)
    }

    @Test(
        "where somebody else is logged in by then, or has begun the same, it is nobody's here",
        arguments: [true, false])
    func notTheirs(returns: Bool) async {
        let rig = await begin(.interrupted, isAway: true)
        await rig.store.identify(customerID: "bob", token: "b")
        if returns {
            _ = await rig.store.purchase("monthly")
            await rig.store.identify(customerID: "ann", token: "a")
        }
        await come(Self.statement, to: rig)
        #expect(await !rig.gives())
        await rig.store.identify(customerID: returns ? "bob" : "ann", token: "t")
        #expect(await rig.store.ledger.bought.isEmpty)
        #expect(await !rig.gives())
    }

    @Test("it is not noted where the purchase says by itself whose it is")
    func withToken() async {
        let rig = KitRig { $0.purchase = .success(.userCancelled) }
        await rig.launch()
        await rig.store.identify(customerID: UUID().uuidString, token: "a")
        _ = await rig.store.purchase("monthly")
        #expect(await rig.store.ledger.begun.isEmpty)
    }

    @Test("it is of whose sheet it was, however long that was open, and whoever has begun to buy the same since")
    func longSheet() async {
        let (first, second) = (Door(), Door())
        let rig = KitRig {
            $0.doors[.purchase] = first
            $0.purchase = .success(.success(Self.statement))
        }
        await rig.launch()
        await rig.store.identify(customerID: "ann", token: "t")
        let ann = Task { [store = rig.store] in await store.purchase("monthly") }
        await eventually("the sheet") { await first.visitors == 1 }
        rig.clock.advance(.seconds(360))
        await rig.store.settled()
        await rig.store.identify(customerID: "bob", token: "t")
        rig.device.edit { $0.doors[.purchase] = second }
        let bob = Task { [store = rig.store] in await store.purchase("monthly") }
        await eventually("the other sheet") { await second.visitors == 1 }
        rig.device.edit { ($0.current, $0.all) = ([Self.statement], [Self.statement]) }
        await first.open()
        _ = await ann.value
        await rig.store.settled()
        #expect(await !rig.gives())
        rig.device.edit { $0.purchase = .success(.userCancelled) }
        await second.open()
        _ = await bob.value
        await rig.store.identify(customerID: "ann", token: "t")
        await rig.store.refresh()
        await rig.store.settled()
        #expect(await rig.gives())
    }

    @Test("whose a subscription is is known however many coins are bought after it")
    func manyCoins() async {
        let rig = KitRig { $0.purchase = .success(.success(Self.statement)) }
        await rig.launch()
        await rig.store.identify(customerID: "ann", token: "a")
        await rig.store.settled()
        _ = await rig.store.purchase("monthly")
        rig.device.edit { ($0.current, $0.all) = ([Self.statement], [Self.statement]) }
        for number in 0..<40 {
            let coin = Statements.transaction(
                "c\(number)", product: "coins", from: 1, until: nil, app: "B", type: "Consumable")
            rig.device.edit { $0.purchase = .success(.success(coin)) }
            _ = await rig.store.purchase("coins")
        }
        await rig.store.refresh()
        await rig.store.settled()
        #expect(await rig.gives())
    }
}
