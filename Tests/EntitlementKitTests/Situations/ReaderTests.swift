import Foundation
import Testing

@testable import EntitlementKit

@Suite("Kit, situations: an extension that is used without the app", .timeLimit(.minutes(1)))
struct ReaderTests {
    /// What a reader says of a monthly subscription on some day, where the app ran last on the 29th.
    ///
    /// - Parameter bound: in days; the library's own where it is not told.
    private func reads(day: Double, bound: Double? = nil, autoRenews: Bool = true) async -> Bool {
        let statement = Statements.transaction("1")
        let rig = KitRig(day: 29) {
            $0.current = [statement]
            $0.subscriptions = [
                .init(
                    transaction: statement,
                    renewal: Statements.renewal(original: "1", signed: 28, autoRenews: autoRenews))
            ]
        }
        await rig.launch()
        await rig.store.stop()
        rig.clock.advance(days: day - 29)
        var configuration = rig.configuration
        if let bound { configuration.offlineBound = .seconds(bound * 86_400) }
        let reader = EntitlementReader(configuration: configuration, storage: rig.storage, clock: rig.clock)
        return await reader.current().givesAccess(to: "premium")
    }

    @Test("a subscription that renews goes on beyond its end for as long as anything unconfirmed")
    func goesOn() async {
        #expect(await reads(day: 31.5))
        #expect(await reads(day: 35.9))
        #expect(await !reads(day: 36.1))
    }

    @Test("a longer bound lets it go on for longer, from what the app last heard on")
    func longerBound() async {
        #expect(await reads(day: 85, bound: 60))
        #expect(await !reads(day: 91, bound: 60))
    }

    @Test("one whose auto-renewal is off ends when it ends")
    func ends() async {
        #expect(await reads(day: 29.9, bound: 60, autoRenews: false))
        #expect(await !reads(day: 30.1, bound: 60, autoRenews: false))
    }

    @Test("one whose auto-renewal was switched off and on again on one day goes on")
    func switchedOnAgain() async {
        let rig = KitRig(day: 28, sync: false)
        await rig.launch()
        for (day, isOn) in [(27.1, true), (27.2, false), (27.3, true)] {
            let renewal = Statements.renewal(original: "1", signed: day, autoRenews: isOn)
            rig.device.edit { $0.subscriptions = [.init(transaction: Statements.transaction("1"), renewal: renewal)] }
            await rig.store.refresh()
        }
        await rig.store.stop()
        rig.clock.advance(days: 2.5)
        let reader = EntitlementReader(configuration: rig.configuration, storage: rig.storage, clock: rig.clock)
        #expect(await reader.current().givesAccess(to: "premium"))
    }

    @Test("a reader that cannot read says that it is loading, and gives nothing")
    func locked() async {
        let rig = KitRig { $0.current = [Statements.transaction("1")] }
        await rig.launch()
        await rig.storage.setLocked(true)
        let reader = EntitlementReader(configuration: rig.configuration, storage: rig.storage, clock: rig.clock)
        let state = await reader.current()
        #expect(state.access(to: "premium") == .loading)
    }
}
