import EntitlementCore
import Foundation
import Testing

@testable import EntitlementKit

@Suite("Kit, situations: a refresh while an earlier question is under way")
struct JoinedQuestionTests {
    /// A device whose first question waits until the door is opened, and the calls of `refresh` that came meanwhile.
    private func joined(_ rig: KitRig, _ door: Door, count: Int = 3) async -> [Task<Entitlements, Never>] {
        await rig.store.start()
        await eventually("it is under way") { await door.visitors == 1 }
        let calls = (0..<count).map { _ in Task { await rig.store.refresh() } }
        await eventually("all wait") { await rig.store.askers.count == count }
        return calls
    }

    @Test(
        "it does not fail with that: one more question is asked, for all who wait",
        arguments: [ScriptedServer.Mood.unreachable, .status(502), .problem(500)])
    func fails(_ mood: ScriptedServer.Mood) async {
        let door = Door()
        let rig = KitRig(server: {
            ($0.door, $0.next) = (door, [mood])
            $0.grants = [.forever("gift", of: $0.number(of: "apple:A").number)]
        })
        let calls = await joined(rig, door)
        await door.open()
        for call in calls {
            let state = await call.value
            #expect(state.isLive && state.givesAccess(to: "gift"))
        }
        #expect(rig.server.received.count == 2)
    }

    @Test("it does not tell the earlier answer")
    func answers() async {
        let exit = Door()
        let rig = KitRig(server: { $0.exit = exit })
        let calls = await joined(rig, exit)
        rig.server.edit { $0.grants = [.forever("gift", of: $0.number(of: "apple:A").number)] }
        await exit.open()
        for call in calls { #expect(await call.value.givesAccess(to: "gift")) }
        #expect(rig.server.received.count == 2)
    }

    @Test("it fails where the further question fails, too, and nobody is asked a third time for it")
    func failsAgain() async {
        let door = Door()
        let rig = KitRig(server: { ($0.door, $0.mood) = (door, .unreachable) })
        let calls = await joined(rig, door)
        await door.open()
        for call in calls { #expect(await call.value.kind == .offline(asOf: nil, reason: .unreachable)) }
        #expect(rig.server.received.count == 2)
    }

    @Test("it fails with that where the server asks for patience")
    func isQuiet() async {
        let door = Door()
        let rig = KitRig(server: { ($0.door, $0.mood) = (door, .problem(503, retryAfter: 60)) })
        let calls = await joined(rig, door)
        await door.open()
        for call in calls { #expect(await call.value.kind == .offline(asOf: nil, reason: .refused)) }
        #expect(rig.server.received.count == 1)
    }

    @Test("one that came first is not kept by those that come after it")
    func isNotKept() async {
        let (door, second) = (Door(), Door())
        let rig = KitRig(server: { ($0.door, $0.next) = (door, [.unreachable]) })
        let calls = await joined(rig, door, count: 1)
        rig.server.edit { $0.exit = second }
        await door.open()
        await eventually("the further question is under way") { await second.visitors == 1 }
        let late = Task { await rig.store.refresh() }
        await eventually("it waits, too") { await rig.store.askers.count == 2 }
        rig.server.edit { ($0.exit, $0.door) = (nil, Door()) }
        await second.open()
        #expect(await calls[0].value.isLive)
        #expect(await rig.store.askers.count == 1)
        await rig.server.state.door?.open()
        #expect(await late.value.isLive)
    }
}
