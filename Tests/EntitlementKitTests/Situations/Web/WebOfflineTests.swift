import EntitlementCore
import Foundation
import Testing

@testable import EntitlementKit

@Suite("Kit, situations: a subscription of the web whose period ends while the server is away", .timeLimit(.minutes(1)))
struct WebOfflineTests {
    struct Situation: Sendable, CustomTestStringConvertible {
        let name: String
        /// What the payment provider has said of the subscription, of which the first month is paid, by the 30th day.
        var said: @Sendable (inout WebSubscription) -> Void = { _ in }
        var isRefunded = false
        /// When the server was asked last, and when it is asked in vain, in days.
        var confirmed = 29.9
        let day: Double
        /// What the app itself shows, and what its extension does, which cannot ask.
        let app: Bool
        let reader: Bool

        var testDescription: String { "\(name), on day \(day)" }
    }

    static let situations = [
        Situation(name: "it renews", day: 30.9, app: true, reader: true),
        Situation(name: "it renews", day: 31.01, app: true, reader: true),
        Situation(name: "it renews", day: 31.2, app: true, reader: true),
        Situation(name: "it renews", day: 31.9, app: true, reader: true),
        Situation(name: "it renews", day: 32.1, app: false, reader: true),
        Situation(name: "it renews", day: 36.8, app: false, reader: true),
        Situation(name: "it renews, and the bound is over", day: 37, app: false, reader: false),
        Situation(
            name: "its card was declined, and is tried again", said: { $0.status = .known(.pastDue) }, day: 31.9,
            app: true, reader: true),
        Situation(
            name: "it ends with its period", said: { $0.cancelsAtPeriodEnd = true }, day: 31.01, app: false,
            reader: false),
        Situation(
            name: "it is paused", said: { $0.collectionPause = "void" }, day: 31.01, app: false, reader: false),
        Situation(
            name: "it was cancelled at once", said: { ($0.status, $0.endedAt) = (.known(.canceled), .day(20)) },
            day: 29.95,
            app: false, reader: false),
        Situation(name: "its money went back", isRefunded: true, day: 31.2, app: false, reader: false),
        Situation(
            name: "the server was asked after the end and knew of no renewal", confirmed: 31.01, day: 31.2, app: false,
            reader: false),
    ]

    @Test("it goes on where it is to be charged again, in the app and in its extensions", arguments: situations)
    func endsWhileAway(_ situation: Situation) async throws {
        let rig = KitRig.web(Payer())
        await rig.launch()
        rig.server.subscribe("apple:A", situation.said)
        let page = try #require(rig.server.lastPage)
        if situation.isRefunded { rig.server.refund(page) }
        rig.clock.advance(days: situation.confirmed - 1)
        _ = await rig.store.refresh()
        await rig.store.settled()
        rig.server.edit { $0.mood = .unreachable }
        rig.clock.advance(days: situation.day - situation.confirmed)
        let shown = await rig.store.refresh()
        #expect(shown.givesAccess(to: "premium") == situation.app, "\(shown.all)")
        if situation.app {
            let held = try #require(shown["premium"])
            #expect(held.state == .active && held.source == .webCheckout && held.willRenew == true, "\(held)")
            #expect(held.until.map { $0 > Statements.date(situation.day) } == true, "\(held)")
        }
        await rig.store.stop()
        let reader = EntitlementReader(configuration: rig.configuration, storage: rig.storage, clock: rig.clock)
        #expect(await reader.current().givesAccess(to: "premium") == situation.reader)
    }

    @Test("what the server says once it is back counts")
    func serverReturns() async throws {
        let rig = KitRig.web(Payer())
        await rig.launch()
        rig.server.subscribe("apple:A")
        rig.clock.advance(days: 28)
        _ = await rig.store.refresh()
        rig.server.edit { $0.mood = .unreachable }
        rig.clock.advance(days: 2.5)
        #expect(await rig.store.refresh().givesAccess(to: "premium"))
        rig.server.edit { $0.mood = .answers }
        #expect(await !rig.store.refresh().givesAccess(to: "premium"))
    }

    @Test(
        "what is to be charged again on the web meanwhile is not sold once more", arguments: [31.01, 31.2, 31.9, 33],
        [PurchaseChannel.storeKit, .webFirst, .web])
    func isNotSoldTwice(day: Double, channel: PurchaseChannel) async throws {
        let rig = KitRig.web(Payer()) {
            $0.purchase = .success(.success(Statements.transaction("9", from: 31, until: 61)))
        } configuration: {
            $0.webCheckout?.refusesUnknownOwnership = true
        }
        await rig.launch()
        rig.server.subscribe("apple:A")
        rig.clock.advance(days: 28.9)
        _ = await rig.store.refresh()
        rig.server.edit { $0.mood = .unreachable }
        rig.clock.advance(days: day - 29.9)
        let outcome = await whileTimePasses(on: rig.clock) { await rig.store.purchase("monthly", via: channel).outcome }
        guard case .failed(let error) = outcome else {
            Issue.record("\(outcome)")
            return
        }
        // A page needs the server; else, the longer nothing is heard, the less is known.
        let reason: PurchaseError.Reason =
            channel == .web ? .webUnavailable : day < 32 ? .alreadyOwned : .ownershipUnknown
        #expect(error.reason == reason, "\(error)")
        #expect(rig.device.state.purchases.isEmpty)
    }

    @Test(
        "what was bought on the web is not sold once more to whom the server tells nothing for want of a proof",
        arguments: [PurchaseChannel.storeKit, .webFirst], [true, false])
    func unproven(channel: PurchaseChannel, hasTokens: Bool) async {
        struct Away: Error {}
        let rig = KitRig.web(Payer()) {
            $0.purchase = .success(.userCancelled)
        } server: {
            ($0.provesByAppTransaction, $0.appTransactionProves) = (true, false)
            $0.shop.mood = .problem(401, code: "unauthenticated", detail: "No proof.")
        } configuration: {
            $0.webCheckout?.refusesUnknownOwnership = true
            if hasTokens { $0.tokenProvider = { _ in throw Away() } }
        }
        rig.server.subscribe("ann")
        await rig.launch()
        await rig.store.identify(customerID: "ann")
        await rig.store.settled()
        let outcome = await whileTimePasses(on: rig.clock) { await rig.store.purchase("monthly", via: channel).outcome }
        #expect(await rig.store.connection == .failed(.unproven))
        // An app that has no tokens could never sell anything.
        #expect(outcome.failure?.reason == (hasTokens ? .ownershipUnknown : nil), "\(outcome)")
        #expect(rig.device.state.purchases.count == (hasTokens ? 0 : 1))
    }

    @Test("nothing is sold before it is known whom to ask about, and where", arguments: [true, false])
    func nobodyKnown(isLoggedIn: Bool) async {
        let door = Door(isOpen: false)
        let rig = KitRig.web(Payer()) {
            $0.doors[.appTransaction] = door
            $0.purchase = .success(.userCancelled)
        } server: {
            $0.mood = .unreachable
        } configuration: {
            $0.webCheckout?.refusesUnknownOwnership = true
        }
        await rig.store.start()
        if isLoggedIn { await rig.store.identify(customerID: "ann", token: "t") }
        let outcome = await whileTimePasses(on: rig.clock) { await rig.store.purchase("monthly") }
        #expect(outcome.failure?.reason == .ownershipUnknown, "\(outcome)")
        #expect(rig.device.state.purchases.isEmpty)
        await door.open()
    }

    @Test(
        "while it goes on it is known what is owned, so that anything else is sold",
        arguments: [(29.9, 30.5, true), (29.9, 31.5, true), (29.9, 32.1, false), (20, 31.5, false)])
    func somethingElse(confirmed: Double, day: Double, isSold: Bool) async throws {
        let rig = KitRig.web(Payer()) {
            $0.purchase = .success(.userCancelled)
            $0.products.append(StoreProduct(id: "coins", displayName: "Coins", displayPrice: "$1", kind: .consumable))
        } server: {
            $0.catalog = Catalog(products: $0.catalog.products + [CatalogProduct(productID: "coins", entitlements: [])])
        } configuration: {
            $0.webCheckout?.refusesUnknownOwnership = true
        }
        await rig.launch()
        rig.server.subscribe("apple:A")
        rig.clock.advance(days: confirmed - 1)
        _ = await rig.store.refresh()
        await rig.store.settled()
        rig.server.edit { $0.mood = .unreachable }
        rig.clock.advance(days: day - confirmed)
        let outcome = await whileTimePasses(on: rig.clock) { await rig.store.purchase("coins") }
        if case .failed(let error) = outcome {
            #expect(!isSold && error.reason == .ownershipUnknown, "\(error)")
        } else {
            #expect(isSold && outcome == .userCancelled, "\(outcome)")
        }
        #expect(rig.device.state.purchases.count == (isSold ? 1 : 0))
    }
}

extension PurchaseOutcome {
    fileprivate var failure: PurchaseError? {
        if case .failed(let error) = self { error } else { nil }
    }
}

extension Timestamp {
    fileprivate static func day(_ day: Double) -> Timestamp { Timestamp(Statements.date(day)) }
}
