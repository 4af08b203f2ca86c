import AppStorePayloads
import EntitlementCore
import Foundation
import Testing

@testable import EntitlementKit

/// Two ids are two customers where a single byte differs, although Swift's `String` takes them for the same text.
@Suite("Kit, situations: two logins whose ids differ in their spelling alone")
struct TwoSpellingsTests {
    private static let (composed, decomposed) = ("ren\u{e9}", "rene\u{301}")

    private static func bytes(_ id: String?) -> [UInt8] { Array((id ?? "").utf8) }

    @Test("nothing of the one is shown to the other, kept, posted or proven", arguments: [false, true])
    func apart(_ isReversed: Bool) async {
        let (first, second) =
            isReversed ? (Self.decomposed, Self.composed) : (Self.composed, Self.decomposed)
        let account = UUID()
        var rig = KitRig {
            $0.appTransaction = nil
            $0.all = [Statements.transaction("1", token: account, app: nil)]
        } server: { script in
            let owner = script.number(of: first)
            script.grants = [.forever("gift", of: owner.number)]
            script.ownership.apply(
                .link(LinkFact(identity: script.number(of: account.uuidString.lowercased()), customer: owner)),
                position: 1, recordedAt: .earliest)
        }
        await rig.launch()
        await rig.store.identify(customerID: first, token: "first", appAccountToken: account)
        await rig.waitUntilGives()
        await rig.waitUntilGives(true, "gift")
        await rig.store.settled()

        // By what is on the device alone, then with the server's answer, then after a launch.
        rig.server.edit { $0.mood = .unreachable }
        await rig.store.identify(customerID: second, token: "second")
        await rig.store.settled()
        await expectNothing(rig, second)
        rig.server.edit { $0.mood = .answers }
        _ = await rig.store.refresh()
        #expect(await rig.store.current.isLive)
        await expectNothing(rig, second)
        rig.server.edit { $0.mood = .unreachable }
        rig = await rig.relaunched()
        await rig.launch()
        await expectNothing(rig, second)
        let asked = rig.server.received.filter { Self.bytes($0.customerID) == Self.bytes(second) }
        #expect(!asked.isEmpty && asked.allSatisfy { $0.token != "first" })

        // Who was here first finds it all again, also without the server.
        await rig.store.identify(customerID: first)
        await rig.store.settled()
        await rig.waitUntilGives()
        await rig.waitUntilGives(true, "gift")
        #expect(await Self.bytes(rig.store.current.customerID) == Self.bytes(first))
    }

    private func expectNothing(
        _ rig: KitRig, _ customerID: String, sourceLocation: SourceLocation = #_sourceLocation
    ) async {
        let state = await rig.store.current
        #expect(Self.bytes(state.customerID) == Self.bytes(customerID), sourceLocation: sourceLocation)
        #expect(state.all.isEmpty, sourceLocation: sourceLocation)
        #expect(await rig.store.history().isEmpty, sourceLocation: sourceLocation)
        #expect(await rig.store.appAccountToken() == nil, sourceLocation: sourceLocation)
    }

    @Test("two states that differ in whose they are differ")
    func states() {
        let at = Date(timeIntervalSince1970: 0)
        let states = [Self.composed, Self.decomposed].map {
            Entitlements(kind: .live(position: 1), customerID: $0, at: at)
        }
        #expect(states[0] != states[1])
    }
}
