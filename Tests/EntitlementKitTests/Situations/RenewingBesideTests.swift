import EntitlementCore
import Foundation
import Testing

@testable import EntitlementKit

@Suite("Kit, situations: two purchases that renew beside each other", .timeLimit(.minutes(1)))
struct RenewingBesideTests {
    /// What the customer has for one entitlement, and which of it goes on beside what is shown.
    struct Situation: Sendable, CustomTestStringConvertible {
        let name: String
        /// Days, from the second on, for which the App Store's subscription is paid; `nil`: there is none.
        var inStore: Double?
        var renewsInStore = true
        var isShared = false
        var isOnWeb = true
        /// What the payment provider says of the web's.
        var onWeb: @Sendable (inout WebSubscription) -> Void = { _ in }
        var isGrantedForEver = false
        let shown: Entitlement.Source
        let beside: [Entitlement.Source]

        var testDescription: String { name }
    }

    static let situations = [
        Situation(name: "the web's alone", shown: .webCheckout, beside: []),
        Situation(name: "the store's alone", inStore: 30, isOnWeb: false, shown: .appStore, beside: []),
        Situation(name: "both, the web's ends later", inStore: 20, shown: .webCheckout, beside: [.appStore]),
        Situation(name: "both, the store's ends later", inStore: 300, shown: .appStore, beside: [.webCheckout]),
        Situation(
            name: "both, the store's is paid for by the family", inStore: 20, isShared: true, shown: .webCheckout,
            beside: []),
        Situation(
            name: "the store's does not renew", inStore: 20, renewsInStore: false, shown: .webCheckout, beside: []),
        Situation(
            name: "the store's does not renew and ends later", inStore: 300, renewsInStore: false, shown: .appStore,
            beside: [.webCheckout]),
        Situation(
            name: "the web's ends with its period", inStore: 300, onWeb: { $0.cancelsAtPeriodEnd = true },
            shown: .appStore, beside: []),
        Situation(
            name: "the web's ends after two more", inStore: 300,
            onWeb: { $0.cancelAt = Timestamp(Statements.date(91)) }, shown: .appStore, beside: [.webCheckout]),
        Situation(
            name: "the web's card is tried again before it ends", inStore: 300,
            onWeb: { ($0.status, $0.cancelsAtPeriodEnd) = (.known(.pastDue), true) }, shown: .appStore,
            beside: [.webCheckout]),
        Situation(
            name: "the web's is paused", inStore: 300, onWeb: { $0.collectionPause = "void" }, shown: .appStore,
            beside: []),
        Situation(name: "given for ever, and the web's", isGrantedForEver: true, shown: .grant, beside: [.webCheckout]),
        Situation(
            name: "given for ever, and both", inStore: 20, isGrantedForEver: true, shown: .grant,
            beside: [.appStore, .webCheckout]),
    ]

    @Test("what else renews is told with its source and id", arguments: situations)
    func beside(_ situation: Situation) async throws {
        let payer = Payer()
        let rig = KitRig.web(payer)
        if situation.isGrantedForEver {
            rig.server.edit { $0.grants = [.forever("premium", of: $0.number(of: "apple:A").number)] }
        }
        await rig.launch()
        if situation.isOnWeb {
            rig.server.subscribe("apple:A", situation.onWeb)
        }
        if let days = situation.inStore {
            let shared = situation.isShared ? ["inAppOwnershipType": "FAMILY_SHARED"] : [:]
            let bought = Statements.transaction("1", from: 0.5, until: days, offer: shared)
            let renewal = Statements.renewal(original: "1", signed: 0.6, autoRenews: situation.renewsInStore)
            rig.device.edit { $0.subscriptions = [SubscriptionStatement(transaction: bought, renewal: renewal)] }
        }
        let held = try #require(await rig.store.refresh()["premium"])
        #expect(held.givesAccess && held.source == situation.shown, "\(held)")
        #expect(held.alsoRenews.map(\.source) == situation.beside)
        let ids: [Entitlement.Source: String] = [.appStore: "1", .webCheckout: "sub_cs_elsewhere"]
        #expect(held.alsoRenews.map(\.originalTransactionID) == situation.beside.compactMap { ids[$0] })
        #expect(held.alsoRenews.allSatisfy { $0.productID == "monthly" && $0.until != nil })
    }

    @Test("so is what the App Store still lists beyond its end, and is to charge for")
    func storeBeyondEnd() async throws {
        let rig = KitRig.web(Payer())
        await rig.launch()
        rig.server.subscribe("apple:A")
        let bought = Statements.transaction("1", from: 0.5, until: 20)
        rig.device.edit {
            $0.subscriptions = [
                SubscriptionStatement(
                    transaction: bought, renewal: Statements.renewal(original: "1", signed: 0.6))
            ]
        }
        _ = await rig.store.refresh()
        await rig.store.settled()
        rig.device.edit { $0.current = [bought] }
        rig.clock.advance(days: 19.2)
        let held = try #require(await rig.store.refresh()["premium"])
        #expect(held.source == .webCheckout)
        #expect(held.alsoRenews.map(\.originalTransactionID) == ["1"])
        #expect(held.alsoRenews.first?.until.map { $0 > Statements.date(20.2) } == true)
    }

    @Test("so is the web's, whose period ended while the server is away", arguments: [31.01, 31.5, 31.9, 32.1])
    func webBeyondEnd(day: Double) async throws {
        let rig = KitRig.web(Payer())
        await rig.launch()
        rig.server.subscribe("apple:A")
        rig.device.edit { $0.all = [Statements.transaction("1", from: 0.5, until: 300)] }
        rig.clock.advance(days: 29.9)
        _ = await rig.store.refresh()
        await rig.store.settled()
        rig.server.edit { $0.mood = .unreachable }
        rig.clock.advance(days: day - 30.9)
        let held = try #require(await rig.store.refresh()["premium"])
        #expect(held.source == .appStore)
        let beside = day < 32 ? [Statements.date(32)] : []
        #expect(held.alsoRenews.map(\.until) == beside)
        #expect(held.alsoRenews.allSatisfy { $0.source == .webCheckout })
    }
}

extension ScriptedServer {
    /// A customer has subscribed on the web elsewhere, for thirty days, and the payment provider has told of it.
    func subscribe(_ customerID: String, _ edit: (inout WebSubscription) -> Void = { _ in }) {
        let page = shop { $0.begin(customerID, "monthly", key: "elsewhere", at: now) }
        pay(page.id)
        hear(page.id)
        let item = WebItem(
            item: "si_\(page.id)", product: WebProduct(price: "price_monthly", product: nil), periodStart: now,
            periodEnd: now.adding(milliseconds: 30 * Statements.day))
        var said = WebSubscription(status: .known(.active), items: [item])
        edit(&said)
        self.edit { $0.tellWeb("customer.subscription.updated", page, at: now) { $0.subscription = said } }
    }
}
