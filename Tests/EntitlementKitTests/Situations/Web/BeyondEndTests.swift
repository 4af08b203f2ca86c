import EntitlementCore
import Foundation
import Testing

@testable import EntitlementKit

@Suite("Kit, situations: what gives access beyond its end is not sold on the web", .timeLimit(.minutes(1)))
struct BeyondEndTests {
    @Test(
        "a subscription that the App Store still lists is not, whatever else gives the same",
        arguments: [(29.9, false), (29.9, true), (30.1, false), (30.1, true)], [PurchaseChannel.web, .webFirst])
    func listedByStore(_ moment: (day: Double, isGranted: Bool), channel: PurchaseChannel) async {
        let (day, isGranted) = moment
        let payer = Payer()
        let rig = KitRig.web(payer) {
            $0.current = [Statements.transaction("1", product: "weekly", from: 0, until: 30)]
        } server: {
            if isGranted { $0.grants = [.forever("premium", of: $0.number(of: "apple:A").number)] }
            $0.catalog = Catalog(
                products: $0.catalog.products + [CatalogProduct(productID: "weekly", entitlements: ["premium"])],
                policy: $0.catalog.policy)
        }
        await rig.launch()
        rig.clock.advance(days: day - 1)
        let shown = await rig.store.refresh()
        #expect(shown.isLive && shown["premium"]?.source == (isGranted ? .grant : .appStore), "\(shown.all)")
        let report = await rig.buy("monthly", via: channel, payer)
        guard case .failed(let error) = report.outcome else {
            Issue.record("\(report.outcome)")
            return
        }
        #expect(error.reason == .alreadyOwned, "\(error)")
        #expect(await payer.pages.isEmpty)
        #expect(rig.device.state.purchases.isEmpty)
    }
}
