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
        Situation(name: "nobody knows whose", account: nil, isSold: false),
        Situation(name: "nobody knows whose, and the store shows it", account: nil, isShown: true, isSold: true),
    ]

    @Test("the store would charge its own account once more for the same, and is not asked", arguments: situations)
    func samePlan(_ situation: Situation) async throws {
        let customer = UUID()
        let held = Statements.transaction("1", token: customer, app: situation.account)
        let other = Statements.transaction("2", product: "lifetime", until: nil)
        let rig = KitRig {
            $0.purchase = .success(.userCancelled)
            $0.current = (situation.isShown || situation.wasShown ? [held] : []) + (situation.showsOther ? [other] : [])
        }
        let known = try DeviceTransaction(held)
        rig.server.edit { $0.hold(known, source: .notification) }
        await rig.launch()
        await rig.store.identify(customerID: customer.uuidString, token: "t")
        await rig.store.settled()
        if situation.wasShown {
            rig.device.edit { $0.current = [other] }
            _ = await rig.store.refresh()
        }
        #expect(await rig.gives())
        let outcome = await rig.store.purchase("monthly")
        rig.expectSheet(situation.isSold, outcome)
    }
}
