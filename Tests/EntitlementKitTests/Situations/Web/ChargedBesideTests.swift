import EntitlementCore
import Foundation
import Testing

@testable import EntitlementKit

@Suite("Kit, situations: the web goes on charging for what gives nothing now", .timeLimit(.minutes(1)))
struct ChargedBesideTests {
    /// What the payment provider says of a subscription that was bought on the first day, of which a month is paid.
    struct Situation: Sendable, CustomTestStringConvertible {
        let name: String
        var said: @Sendable (inout WebSubscription) -> Void = { _ in }
        var isRefunded = false
        var day = 2.0
        /// Whether the server is away from the second day on.
        var isAway = false
        let isSold: Bool

        var testDescription: String { name }
    }

    static let situations = [
        Situation(name: "paused", said: { $0.collectionPause = "void" }, day: 32, isSold: false),
        Situation(
            name: "paused, and the server is away", said: { $0.collectionPause = "void" }, day: 32, isAway: true,
            isSold: false),
        Situation(name: "a charge was refunded, and it goes on", isRefunded: true, isSold: false),
        Situation(
            name: "refunded, and it ends with its period", said: { $0.cancelsAtPeriodEnd = true }, isRefunded: true,
            isSold: true),
        Situation(name: "it has ended", said: { $0.cancelsAtPeriodEnd = true }, day: 32, isSold: true),
        Situation(
            name: "it was cancelled while it was paused",
            said: { ($0.status, $0.endedAt) = (.known(.canceled), Timestamp(Statements.date(1.5))) }, day: 32,
            isSold: true),
        Situation(name: "nobody knows whether it was renewed", day: 33, isAway: true, isSold: true),
    ]

    @Test("the App Store does not sell it beside that", arguments: situations)
    func inStore(_ situation: Situation) async throws {
        let rig = KitRig.web(Payer()) { $0.purchase = .success(.userCancelled) }
        await rig.launch()
        rig.server.subscribe("apple:A", situation.said)
        if situation.isRefunded { rig.server.refund(try #require(rig.server.lastPage)) }
        rig.clock.advance(days: 0.9)
        _ = await rig.store.refresh()
        await rig.store.settled()
        if situation.isAway { rig.server.edit { $0.mood = .unreachable } }
        rig.clock.advance(days: situation.day - 1.9)
        #expect(await !rig.store.refresh().givesAccess(to: "premium"))
        let outcome = await whileTimePasses(on: rig.clock) { await rig.store.purchase("monthly") }
        rig.expectSheet(situation.isSold, outcome)
    }
}
