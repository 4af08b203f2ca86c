import EntitlementCore
import Foundation
import Testing

@testable import EntitlementKit

@Suite("Kit, situations: what is owned with another Apple account than the store's", .timeLimit(.minutes(1)))
struct OtherAppleAccountTests {
    /// With which Apple account a subscription was bought that the server tells of, and what the store of account A shows.
    struct Situation: Sendable, CustomTestStringConvertible {
        let name: String
        let account: String?
        var isShown = false
        /// The store has shown it before somebody else signed in to it.
        var wasShown = false
        var showsOther = true
        /// The app is launched anew since it was shown, so that the disk alone tells of that.
        var isRelaunched = false
        /// The store shows it again, and nobody has read it since.
        var isBack = false
        let isSold: Bool

        var testDescription: String { name }
    }

    static let situations = [
        Situation(name: "another account's", account: "B", isSold: false),
        Situation(
            name: "another account's, and the store shows nothing", account: "B", showsOther: false, isSold: false),
        Situation(
            name: "another account's, which the store has shown before", account: "B", wasShown: true, isSold: false),
        Situation(name: "another account's, which the store shows as well", account: "B", isShown: true, isSold: true),
        Situation(name: "its own, which it does not show yet", account: "A", isSold: true),
        Situation(name: "its own, and the store shows nothing", account: "A", showsOther: false, isSold: true),
        Situation(name: "its own", account: "A", isShown: true, isSold: true),
        Situation(
            name: "its own of before, and the store shows nothing now", account: "A", wasShown: true,
            showsOther: false, isSold: false),
        Situation(
            name: "its own of before the launch, and the store shows nothing", account: "A", wasShown: true,
            showsOther: false, isRelaunched: true, isSold: false),
        Situation(
            name: "its own of before the launch, and the store was not ready", account: "A", wasShown: true,
            showsOther: false, isRelaunched: true, isBack: true, isSold: true),
        Situation(name: "nobody knows whose", account: nil, isSold: false),
        Situation(name: "nobody knows whose, and the store shows it", account: nil, isShown: true, isSold: true),
        Situation(
            name: "nobody knows whose, and the store has shown it before", account: nil, wasShown: true, isSold: false),
    ]

    @Test("the store would charge its own account once more for the same, and is not asked", arguments: situations)
    func samePlan(_ situation: Situation) async throws {
        let customer = UUID()
        let held = Statements.transaction("1", token: customer, app: situation.account)
        let other = Statements.transaction("2", product: "lifetime", until: nil)
        var rig = KitRig {
            $0.purchase = .success(.userCancelled)
            $0.current = (situation.isShown || situation.wasShown ? [held] : []) + (situation.showsOther ? [other] : [])
        }
        let known = try DeviceTransaction(held)
        rig.server.edit { $0.hold(known, source: .notification) }
        await rig.launch()
        await rig.store.identify(customerID: customer.uuidString, token: "t")
        await rig.store.settled()
        if situation.wasShown { rig.device.edit { $0.current = situation.showsOther ? [other] : [] } }
        if situation.isRelaunched {
            rig = await rig.relaunched()
            await rig.launch()
        } else if situation.wasShown {
            _ = await rig.store.refresh()
        }
        if situation.isBack { rig.device.edit { $0.current = [held] } }
        #expect(await rig.gives())
        let outcome = await rig.store.purchase("monthly")
        rig.expectSheet(situation.isSold, outcome)
    }

    @Test("what each part of the store has shown last counts, and what came since the last reading of all began")
    func shownPurchases() throws {
        func bought(_ id: String, _ account: String?) throws -> DeviceTransaction {
            try DeviceTransaction(Statements.transaction(id, app: account))
        }
        let (first, other, unnamed) = (try bought("1", "A"), try bought("2", "B"), try bought("3", nil))
        var shown = ShownPurchases()
        #expect(shown.isEmpty)
        for part in StorePart.allCases { shown.took(part, of: 2, showing: part == .all ? [first, unnamed] : []) }
        #expect(shown.accounts == ["A"] && shown.showsUnnamed("3") && !shown.showsUnnamed("1"))
        shown.took(.all, of: 1, showing: [other])
        #expect(shown.accounts == ["A"], "an answer that comes late")
        shown.took(deliveryOf: [other], begun: 2)
        shown.took(.all, of: 3, showing: [])
        #expect(shown.accounts == ["B"] && !shown.showsUnnamed("3"))
        for part in StorePart.allCases { shown.took(part, of: 3, showing: []) }
        #expect(shown.isEmpty)
    }
}
