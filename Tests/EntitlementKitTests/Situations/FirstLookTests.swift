import EntitlementCore
import Foundation
import Testing

@testable import EntitlementKit

/// No paywall flashes up before the first answers, for somebody who has paid.
@Suite("Kit, situations: what is shown first", .timeLimit(.minutes(1)))
struct FirstLookTests {
    /// Gives the customer something for ever, and keeps the server from answering until the door is opened.
    private func grants(_ rig: KitRig, to customerID: String, behind door: Door) {
        rig.server.edit {
            $0.mood = .answers
            $0.grants = [.forever("premium", of: $0.number(of: customerID).number)]
            $0.doorsByCustomer[customerID] = door
        }
    }

    /// Opens the door once somebody waits behind it, and looks at all that is shown meanwhile and after.
    ///
    /// - Parameter former: who was logged in before: what was shown to them may be the first that is collected.
    private func expectNoPaywall(
        _ rig: KitRig, _ states: Collected<Entitlements>, behind door: Door, after former: String? = nil
    ) async {
        await eventually("asked") { await door.visitors > 0 }
        await rig.store.publish()
        #expect(await rig.store.current.access(to: "premium") == .loading)
        await door.open()
        await rig.waitUntilGives()
        await eventually("it is shown") { await states.values.last?.givesAccess(to: "premium") ?? false }
        let denied = await states.values.filter { $0.access(to: "premium") == .denied($0["premium"]) }
        #expect(denied.allSatisfy { $0.customerID == former && former != nil }, "\(denied)")
    }

    @Test("what the store lists first on a new device shows no paywall before it has listed what is owned")
    func partsOfTheStore() async {
        let door = Door()
        let rig = KitRig {
            $0.unfinished = [Statements.transaction("7", product: "coins", until: nil, type: "Consumable")]
            ($0.current, $0.all) = ([Statements.transaction("1")], [Statements.transaction("1")])
            for call in [ScriptedStore.Call.currentEntitlements, .allTransactions] { $0.doors[call] = door }
        }
        let states = Collected(rig.store.states)
        await rig.store.start()
        await eventually("unfinished came") { await rig.store.ledger.book.transactions["7"] != nil }
        await eventually("the server has answered") { await rig.store.ledger.memory != nil }
        await expectNoPaywall(rig, states, behind: door)
    }

    @Test("who is entitled by a grant alone sees no paywall at the first launch before the server has answered")
    func grantAtFirstLaunch() async {
        let (rig, door) = (KitRig(), Door())
        grants(rig, to: "apple:A", behind: door)
        let states = Collected(rig.store.states)
        await rig.store.start()
        await expectNoPaywall(rig, states, behind: door)
    }

    @Test("somebody logged in of whom the server has never answered sees no paywall at the next launch, either")
    func neverAnswered() async {
        var rig = KitRig(server: { $0.mood = .unreachable })
        await rig.launch()
        await rig.store.identify(customerID: "ann", token: "t")
        await rig.store.settled()
        let door = Door()
        grants(rig, to: "ann", behind: door)
        rig = await rig.relaunched()
        let states = Collected(rig.store.states)
        await rig.store.identify(customerID: "ann")
        await expectNoPaywall(rig, states, behind: door)
    }

    @Test(
        "whoever was away for a month, and has paid elsewhere meanwhile, sees no paywall before the server has answered",
        arguments: [true, false])
    func outdatedMemory(_ logsInAgain: Bool) async {
        var rig = KitRig()
        await rig.launch()
        await rig.store.identify(customerID: "ann", token: "t")
        await rig.store.settled()
        if logsInAgain { await rig.store.identify(customerID: "bob", token: "t") }
        await rig.store.settled()
        rig = await rig.relaunched()
        rig.clock.advance(days: 33)
        let door = Door()
        grants(rig, to: "ann", behind: door)
        if logsInAgain { await rig.launch() }
        let states = Collected(rig.store.states)
        await rig.store.identify(customerID: "ann", token: "t2")
        await expectNoPaywall(rig, states, behind: door, after: logsInAgain ? "bob" : nil)
    }

    @Test(
        "who subscribed outside of the app sees no paywall before the store is read, whatever else they hold",
        arguments: [true, false])
    func boughtOutside(_ holdsOther: Bool) async {
        let other = holdsOther ? [Statements.transaction("9", product: "lifetime", until: nil)] : []
        let old = Statements.transaction("1")
        var rig = KitRig {
            $0.current = other + [old]
            $0.all = other + [old]
        }
        await rig.launch()
        // Else a timer of this process lets the store list it once more after its end.
        await rig.store.stop()
        rig.device.edit { $0.current = other }
        rig.clock.advance(days: 34)
        rig = await rig.relaunched()
        await rig.launch()
        await rig.waitUntilGives(false)
        rig.clock.advance(days: 1)
        let door = Door()
        let new = Statements.transaction("2", original: "1", from: 35.5, until: 65)
        let device = ScriptedStore {
            for call in [
                ScriptedStore.Call.currentEntitlements, .allTransactions, .unfinishedTransactions,
                .subscriptionStatuses,
            ] { $0.doors[call] = door }
            $0.current = other + [new]
            $0.all = other + [old, new]
        }
        rig = await rig.relaunched(device: device)
        let states = Collected(rig.store.states)
        await rig.store.start()
        await eventually("the server has answered") { await rig.store.connection != .notYetAsked }
        #expect(await rig.gives("forever") == holdsOther)
        await expectNoPaywall(rig, states, behind: door)
    }

    @Test("loading ends after two seconds, and with the attempt where the server is away", arguments: [true, false])
    func isBounded(_ isAway: Bool) async {
        let door = Door()
        let rig = KitRig(server: { $0.mood = .unreachable })
        if !isAway { grants(rig, to: "apple:A", behind: door) }
        await rig.store.start()
        if !isAway {
            await eventually("asked") { await door.visitors > 0 }
            await eventually("patience") { rig.clock.alarms.contains(.seconds(2)) }
            #expect(await rig.store.current.kind == .loading)
            rig.clock.advance(.seconds(2))
        }
        await eventually("a paywall") { await rig.store.current.access(to: "premium") == .denied(nil) }
        await door.open()
    }

    @Test("somebody of whom the server has answered lately, and who has nothing, sees the paywall at once")
    func recentMemory() async {
        var rig = KitRig()
        await rig.launch()
        rig.clock.advance(days: 2)
        let door = Door()
        grants(rig, to: "apple:A", behind: door)
        rig = await rig.relaunched()
        await rig.store.start()
        await eventually("a paywall") { await rig.store.current.access(to: "premium") == .denied(nil) }
        await door.open()
        await rig.waitUntilGives()
    }
}
