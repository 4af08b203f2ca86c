import EntitlementAPI
import EntitlementCore
import Foundation
import Testing

@testable import EntitlementKit

@Suite("Kit, situations: a server that was restored from a backup", .timeLimit(.minutes(1)))
struct RestoredServerTests {
    /// Lets the server forget what it was told, and go on from a position.
    private func restore(_ rig: KitRig, to position: Int64, ledgerID: String) {
        rig.server.edit { script in
            script.states = [:]
            script.ownership = OwnershipMap()
            script.numbers = [:]
            script.position = position
            script.translate = { answer in
                guard case .object(var members) = answer else { return answer }
                members["ledger_id"] = .string(ledgerID)
                return .object(members)
            }
        }
    }

    /// Lets the server give something for `monthly`, by a catalog that was written at a position of its log.
    private func give(_ entitlement: String, writtenAt position: Int64, head: Int64, _ rig: KitRig) {
        rig.server.edit { script in
            script.catalog = Catalog(products: [CatalogProduct(productID: "monthly", entitlements: [entitlement])])
            script.position = head
            script.translate = { answer in
                guard case .object(var members) = answer, case .object(var catalog)? = members["catalog"] else {
                    return answer
                }
                catalog["position"] = .int(position)
                members["catalog"] = .object(catalog)
                return .object(members)
            }
        }
    }

    @Test("a catalog that a log has lost gives way to the one in force, which was written before it")
    func lostCatalog() async {
        var rig = KitRig { $0.current = [Statements.transaction("1")] }
        give("premium", writtenAt: 105, head: 110, rig)
        await rig.launch()
        await rig.store.refresh()
        #expect(await rig.gives())
        // It lost its end, and has grown again before this device asks.
        give("basic", writtenAt: 90, head: 200, rig)
        rig.clock.advance(.seconds(60))
        await rig.store.refresh()
        await rig.store.settled()
        for _ in 0..<2 {
            #expect(await rig.gives("basic"))
            #expect(await !rig.gives())
            // From the disk it reads the same.
            rig.server.edit { $0.mood = .unreachable }
            rig = await rig.relaunched()
            await rig.launch()
        }
    }

    @Test("a catalog that a log has lost gives way in the app's other processes, too, by what one has left on the disk")
    func lostCatalogOnDisk() async {
        let rig = KitRig { $0.current = [Statements.transaction("1")] }
        give("premium", writtenAt: 105, head: 110, rig)
        await rig.launch()
        await rig.store.refresh()
        await rig.store.settled()
        give("basic", writtenAt: 90, head: 200, rig)
        rig.clock.advance(.seconds(60))
        let other = rig.another()
        await other.launch()
        await other.store.refresh()
        await other.store.settled()
        #expect(await other.gives("basic"))
        rig.server.edit { $0.mood = .unreachable }
        await rig.store.refresh()
        #expect(await rig.gives("basic"))
        #expect(await !rig.gives())
        await other.store.stop()
    }

    @Test("of two answers the one that was overtaken brings no catalog, whichever comes last, or lies on the disk")
    func catalogsInOrder() throws {
        func read(_ json: String) throws -> WireValue { try WireJSON.decode(WireValue.self, from: Array(json.utf8)) }
        func catalog(_ position: Int) -> String {
            #"{"object":"catalog","position":\#(position),"products":[]}"#
        }
        func answer(_ customer: String, at minute: Int, head: Int, catalog position: Int) throws -> ServerAnswer {
            let answer = try read(
                #"{"customer_id":"\#(customer)","environment":"production","position":\#(head),"#
                    + #""at":"2026-01-02T00:0\#(minute):00.000Z","catalog":\#(catalog(position))}"#)
            return try #require(ServerAnswer(answer))
        }
        let configuration = EntitlementConfiguration(bundleID: Statements.bundleID)
        let empty = PostingResults(.object([:]), transactions: 0, renewals: 0)
        let late = try answer("c-1", at: 2, head: 200, catalog: 90)
        let overtaken = try answer("c-2", at: 1, head: 110, catalog: 105)
        for answers in [[late, overtaken], [overtaken, late]] {
            var ledger = DeviceLedger(configuration)
            for next in answers {
                let batch = SyncQueue.Batch(number: 1, customerID: next.customerID, transactionIDs: [], asks: true)
                let posting = ledger.posting(batch, at: next.at)
                _ = ledger.take(next, empty, to: posting)
            }
            #expect(ledger.serverCatalog?.position == 90)
        }
        func file(at minute: Int, head: Int, catalog position: Int) throws -> ServerFile {
            let file = try read(
                #"{"memories":[],"catalog":\#(catalog(position)),"#
                    + #""catalogAnswered":{"at":"2026-01-02T00:0\#(minute):00.000Z","position":\#(head)}}"#)
            return ServerFile(file, check: nil)
        }
        let newer = try file(at: 2, head: 200, catalog: 90)
        let older = try file(at: 1, head: 110, catalog: 105)
        for files in [[newer, older], [older, newer]] {
            var ledger = DeviceLedger(configuration)
            for file in files { ledger.restore(file) }
            #expect(ledger.serverCatalog?.position == 90)
        }
    }

    @Test("what a restored server lost is told again, whether its position is behind or ahead", arguments: [1, 900])
    func toldAgain(_ position: Int64) async {
        let lifetime = Statements.transaction("2", product: "lifetime", until: nil)
        var rig = KitRig { $0.current = [Statements.transaction("1"), lifetime] }
        restore(rig, to: 40, ledgerID: "led_1")
        await rig.launch()
        _ = await rig.store.refresh()
        let posts = rig.server.posts.count
        _ = await rig.store.refresh()
        #expect(rig.server.posts.count == posts)
        restore(rig, to: position, ledgerID: "led_2")
        rig.clock.advance(.seconds(60))
        _ = await rig.store.refresh()
        await rig.store.settled()
        #expect(Set(rig.server.state.states.keys) == ["1", "2"])
        #expect(await rig.gives("forever"))
        #expect(await rig.store.current.isLive)
        // Once, and not at every launch.
        let after = rig.server.posts.count
        rig = await rig.relaunched()
        await rig.launch()
        #expect(rig.server.posts.count == after)
    }

    @Test(
        "what a device remembers of who used it before the restored log is told again once, and not at each question",
        arguments: ["led_1", "led_2"], [true, false])
    func formerCustomer(_ ledgerID: String, _ tellsFacts: Bool) async {
        var rig = KitRig {
            $0.current = [Statements.transaction("1")]
        } server: {
            $0.tellsFacts = tellsFacts
        }
        restore(rig, to: 40, ledgerID: "led_1")
        await rig.launch()
        _ = await rig.store.refresh()
        await rig.store.settled()
        restore(rig, to: 5, ledgerID: ledgerID)
        rig.clock.advance(.seconds(60))
        await rig.store.identify(customerID: "c-1", token: "t")
        _ = await rig.store.refresh()
        await rig.store.settled()
        let posts = rig.server.posts.count
        for _ in 0..<3 {
            rig.clock.advance(.seconds(60))
            _ = await rig.store.refresh()
            rig = await rig.relaunched()
            await rig.launch()
            await rig.store.settled()
        }
        #expect(rig.server.posts.count == posts)
        // Who used it before is answered by the new log, too.
        await rig.store.signOut()
        _ = await rig.store.refresh()
        await rig.store.settled()
        #expect(await rig.store.current.isLive)
        #expect(await rig.gives())
    }

    @Test("what a log lost that has become as long again, under the same id, is told once more, and once only")
    func overtaken() async {
        let lifetime = Statements.transaction("2", product: "lifetime", until: nil)
        var rig = KitRig { $0.current = [Statements.transaction("1"), lifetime] }
        restore(rig, to: 40, ledgerID: "led_1")
        await rig.launch()
        _ = await rig.store.refresh()
        let posts = rig.server.posts.count
        restore(rig, to: 900, ledgerID: "led_1")
        rig.clock.advance(.seconds(60))
        _ = await rig.store.refresh()
        await rig.store.settled()
        #expect(Set(rig.server.state.states.keys) == ["1", "2"])
        let state = await rig.store.current
        #expect(state.givesAccess(to: "premium") && state.givesAccess(to: "forever"))
        let after = rig.server.posts.count
        #expect(after > posts)
        rig = await rig.relaunched()
        await rig.launch()
        _ = await rig.store.refresh()
        #expect(rig.server.posts.count == after)
    }

    @Test("what a restored server does not take again is sent as seldom as anything else that it refuses")
    func refusedAgain() async {
        let lifetime = Statements.transaction("2", product: "lifetime", until: nil)
        let rig = KitRig {
            $0.current = [Statements.transaction("1"), lifetime]
            $0.unfinished = [Statements.transaction("1")]
        } server: {
            $0.listsToFinish = false
        }
        restore(rig, to: 40, ledgerID: "led_1")
        await rig.launch()
        _ = await rig.store.refresh()
        restore(rig, to: 900, ledgerID: "led_1")
        rig.server.edit { $0.refused = ["2"] }
        rig.clock.advance(.seconds(60))
        let before = rig.server.received.count
        _ = await rig.store.refresh()
        await rig.store.settled()
        #expect(rig.server.received.count <= before + 8)
        #expect(await rig.gives("forever"))
    }

    @Test("what waits to be finished is asked about again, and finished")
    func finishing() async {
        let rig = KitRig {
            $0.unfinished = [Statements.transaction("1")]
        } server: {
            $0.listsToFinish = false
        }
        restore(rig, to: 40, ledgerID: "led_1")
        await rig.launch()
        #expect(rig.device.state.finished.isEmpty)
        restore(rig, to: 2, ledgerID: "led_2")
        rig.server.edit { $0.listsToFinish = true }
        rig.clock.advance(.seconds(60))
        _ = await rig.store.refresh()
        await eventually("finished") { rig.device.state.finished == ["1"] }
    }

    @Test("a later statement that was lost is told again, also where the purchase itself was not")
    func olderBackup() async throws {
        let rig = KitRig { $0.current = [Statements.transaction("1")] }
        restore(rig, to: 40, ledgerID: "led_1")
        await rig.launch()
        let backup = rig.server.state.states
        rig.device.push(Statements.transaction("1", revoked: 2, signed: 2))
        await eventually("posted") { rig.server.posts.count == 2 }
        await rig.store.settled()
        rig.server.edit { script in
            script.states = backup
            script.position = 900
        }
        rig.clock.advance(.seconds(60))
        await rig.store.refresh()
        await rig.store.settled()
        let held = try #require(rig.server.state.states["1"]?.transactions)
        #expect(held.contains { $0.fact.revocation != nil })
        let posts = rig.server.posts.count
        await rig.store.refresh()
        await rig.store.settled()
        #expect(rig.server.posts.count == posts)
    }

    @Test("a server that shows nobody what it holds is told again after three days, and not before, or more often")
    func unproven() async {
        let lifetime = Statements.transaction("2", product: "lifetime", until: nil)
        var rig = KitRig {
            $0.current = [Statements.transaction("1", until: 90), lifetime]
            $0.subscriptions = [
                SubscriptionStatement(
                    transaction: Statements.transaction("1", until: 90),
                    renewal: Statements.renewal(original: "1", signed: 0))
            ]
        } server: {
            $0.proof = .none
        }
        restore(rig, to: 40, ledgerID: "led_1")
        await rig.launch()
        await rig.store.refresh()
        await rig.store.settled()
        restore(rig, to: 900, ledgerID: "led_1")
        let posts = rig.server.posts.count
        // What it answered lately is believed: neither launches nor the front send anything again.
        for _ in 0..<5 {
            rig.clock.advance(days: 0.5)
            rig = await rig.relaunched()
            await rig.launch()
            await rig.store.refresh()
            await rig.store.settled()
        }
        #expect(rig.server.posts.count == posts)
        rig.clock.advance(days: 0.6)
        rig = await rig.relaunched()
        await rig.launch()
        await rig.store.settled()
        #expect(Set(rig.server.posts.dropFirst(posts).joined()) == ["1", "2"])
        #expect(Set(rig.server.state.states.keys) == ["1", "2"])
        #expect(rig.server.state.states["1"]?.renewals.isEmpty == false)
        let after = rig.server.posts.count
        #expect(after <= posts + 2)
        for _ in 0..<4 {
            rig.clock.advance(days: 0.5)
            rig = await rig.relaunched()
            await rig.launch()
            await rig.store.refresh()
            await rig.store.settled()
        }
        #expect(rig.server.posts.count == after)
    }

    @Test("much that is told again goes in requests of a hundred, a few at each launch")
    func unprovenWithMuch() async {
        let many = (0..<130).map { Statements.transaction("\(1000 + $0)", product: "lifetime", until: nil) }
        var rig = KitRig {
            $0.all = many
        } server: {
            $0.proof = .none
        }
        await rig.launch()
        await rig.store.settled()
        #expect(Set(rig.server.posts.joined()).count == 130)
        rig.clock.advance(days: 4)
        for (launch, count) in [(1, 100), (2, 130)] {
            let posts = rig.server.posts.count
            rig = await rig.relaunched()
            await rig.launch()
            await rig.store.settled()
            #expect(rig.server.posts.count <= posts + 4, "launch \(launch)")
            let told = Set(rig.server.posts.dropFirst(2).joined()).count
            #expect(told >= count, "launch \(launch)")
        }
    }

    @Test("a clock that is far from the server's makes no storm of it")
    func unprovenClocks() async {
        for day in [-3000.0, 3000] {
            var rig = KitRig {
                $0.current = [Statements.transaction("1")]
            } server: {
                $0.proof = .none
            }
            rig.clock.set(day: day)
            await rig.launch()
            await rig.store.settled()
            let posts = rig.server.posts.count
            for _ in 0..<4 {
                rig = await rig.relaunched()
                await rig.launch()
                await rig.store.refresh()
                await rig.store.settled()
            }
            #expect(rig.server.posts.count <= posts + 1)
        }
    }
}
