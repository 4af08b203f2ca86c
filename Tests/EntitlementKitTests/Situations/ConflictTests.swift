import EntitlementAPI
import EntitlementCore
import Foundation
import Testing

@testable import EntitlementKit

@Suite("Kit, situations: a purchase that the server says is somebody else's", .timeLimit(.minutes(1)))
struct ConflictTests {
    private func login(_ purchase: SignedStatement, as customer: String = "c-1") async -> KitRig {
        let rig = KitRig { $0.current = [purchase] }
        await rig.launch()
        let events = Collected(rig.store.syncEvents)
        await eventually("listening") { await rig.store.syncListenerCount == 1 }
        await rig.store.identify(customerID: customer, token: "t")
        await eventually("a conflict") { await events.kinds.contains(.conflict) }
        await rig.store.settled()
        return rig
    }

    private static let instant = Timestamp(milliseconds: Statements.start)

    @Test("what was bought here before a login stays until the server explains why not, also after a restart")
    func unexplained() async {
        var rig = await login(Statements.transaction("1"))
        #expect(await rig.gives())
        #expect(await rig.store.current.isLive)
        rig.server.edit { $0.mood = .unreachable }
        rig = await rig.relaunched(device: ScriptedStore())
        await rig.launch()
        #expect(await rig.gives())
        // Nothing is finished that the server did not list.
        rig.server.edit { $0.mood = .answers }
        rig.device.push(Statements.transaction("2", original: "1", from: 0.5, until: 31, renewal: true))
        _ = await rig.store.refresh()
        await rig.store.settled()
        #expect(rig.device.state.finished.isEmpty)
    }

    @Test("it ends when the app's own purchase is linked to another customer")
    func linkedToAnother() async {
        let rig = await login(Statements.transaction("1"))
        rig.server.edit { script in
            script.numbers["c-2"] = 70
            script.position += 1
            script.ownership.apply(
                .link(LinkFact(identity: IdentityRef(script.numbers["apple:A"] ?? 0), customer: IdentityRef(70))),
                position: script.position, recordedAt: Self.instant)
        }
        #expect(await !rig.store.refresh().givesAccess(to: "premium"))
    }

    @Test(
        "it ends when the server gives a reason, and not because nobody linked the two",
        arguments: [("transferred", false), ("link_undone", false), ("a_later_word", false), ("not_linked", true)])
    func reason(_ word: String, gives: Bool) async {
        let rig = await login(Statements.transaction("1"))
        rig.server.edit {
            $0.translate = { answer in
                guard case .object(var members) = answer else { return answer }
                members["results"] = .array(
                    answer["results"]?.entries.map { row in
                        guard case .object(var row) = row else { return row }
                        row["reason"] = .string(word)
                        return .object(row)
                    } ?? [])
                return .object(members)
            }
        }
        // The server is asked about it again, as what it says has changed.
        rig.device.push(Statements.transaction("1", from: 0, until: 31, signed: 1))
        if !gives { await rig.waitUntilGives(false) }
        await rig.store.settled()
        #expect(await rig.gives() == gives)
    }

    @Test("what bears another's account token, or was bought with another copy of the app, is not shown")
    func anothers() async {
        let token = UUID(uuidString: "C0FFEE00-0000-4000-8000-000000000002")
        for purchase in [Statements.transaction("1", token: token), Statements.transaction("1", app: "B")] {
            let rig = await login(purchase)
            #expect(await !rig.gives())
        }
    }
}
