import AppStorePayloads
import EntitlementCore
import Foundation
import Testing

@testable import EntitlementKit

@Suite("Kit, situations: a part of what was bought is refunded", .timeLimit(.minutes(1)))
struct PartRefundTests {
    /// An app that acknowledges each purchase as it is told, and notes how much of it was refunded.
    private actor Wallet {
        private(set) var granted: [String] = []

        init(of store: EntitlementStore) {
            let purchases = store.unacknowledgedPurchases
            Task { [weak self] in
                for await purchase in purchases {
                    await self?.grant(purchase)
                    await store.acknowledge(purchase)
                }
            }
        }

        private func grant(_ purchase: PurchaseRecord) {
            let part = purchase.revokedShare.map { $0 < 1 ? " \(Int(($0 * 100).rounded())) %" : "" } ?? " in part"
            granted.append(purchase.transactionID + (purchase.revocationDate == nil ? "" : " refunded" + part))
        }
    }

    /// Three of it, of which a part was refunded, or, without a day, nothing.
    private static func threeCoins(
        refunded day: Double? = nil, _ percentage: Int? = nil, _ kind: String = "REFUND_PRORATED",
        signed: Double? = nil
    ) -> SignedStatement {
        var more: [String: Any] = ["quantity": 3]
        if day != nil {
            more["revocationType"] = kind
            more["revocationPercentage"] = percentage.map { $0 * 1000 }
        }
        return Statements.transaction(
            "1", product: "coins", until: nil, revoked: day, signed: signed ?? day, offer: more, type: "Consumable")
    }

    private static func rig(_ edit: (inout EntitlementConfiguration) -> Void = { _ in }) -> KitRig {
        KitRig(configuration: {
            $0.acknowledgedKinds = [.consumable]
            edit(&$0)
        })
    }

    @Test(
        "how much of a purchase was refunded is told, and each change of it, also after a launch",
        arguments: [false, true])
    func partlyRefunded(_ isLaunchedBetween: Bool) async {
        var rig = Self.rig()
        await rig.launch()
        let changes: [(SignedStatement, String)] = [
            (Self.threeCoins(), "1"), (Self.threeCoins(refunded: 0.1, 33), "1 refunded 33 %"),
            // The same refund, of which more went back: its date is no news.
            (Self.threeCoins(refunded: 0.1, 67, signed: 0.2), "1 refunded 67 %"),
            (Self.threeCoins(refunded: 0.3), "1 refunded in part"),
            (Self.threeCoins(refunded: 0.4, 100, "REFUND_FULL"), "1 refunded"),
            (Self.threeCoins(signed: 0.5), "1"),
        ]
        var wallet = Wallet(of: rig.store)
        var told: [String] = []
        for (number, (statement, says)) in changes.enumerated() {
            if isLaunchedBetween {
                rig = await rig.relaunched()
                (wallet, told) = (Wallet(of: rig.store), [])
                await rig.launch()
            }
            rig.device.push(statement)
            told.append(says)
            await eventually(says) { await wallet.granted == told }
            await eventually("finished") { rig.device.state.finished.count == number + 1 }
        }
        await rig.store.settled()
        #expect(await wallet.granted == told)
    }

    @Test("an acknowledgement of a part that was refunded is none of a larger one that came meanwhile")
    func largerMeanwhile() async throws {
        let rig = Self.rig()
        await rig.launch()
        rig.device.push(Self.threeCoins(refunded: 0.1, 33))
        await eventually("known") { await rig.store.ledger.book.transactions["1"] != nil }
        await rig.store.settled()
        let third = PurchaseRecord(try DeviceTransaction(Self.threeCoins(refunded: 0.1, 33)), isSynced: false)
        rig.device.push(Self.threeCoins(refunded: 0.1, 67, signed: 0.2))
        await eventually("more") {
            await rig.store.ledger.book.transactions["1"]?.payload.revocation?.percentage == 67_000
        }
        #expect(await !rig.store.acknowledge(third))
        await rig.store.settled()
        #expect(rig.device.state.finished.isEmpty)
    }

    @Test("a larger refund of what was acknowledged, and let go of since, is told")
    func largerAfterLettingGo() async {
        let rig = Self.rig { $0.transactionLimit = 1 }
        await rig.launch()
        let wallet = Wallet(of: rig.store)
        rig.device.push(Self.threeCoins(refunded: 0.1, 33))
        await eventually("finished") { rig.device.state.finished == ["1"] }
        for id in ["2", "3"] {
            rig.device.push(
                Statements.transaction(id, product: "coins", until: nil, type: "Consumable"))
            await eventually("finished") { rig.device.state.finished.last == id }
        }
        await eventually("let go of") { await rig.store.ledger.book.transactions["1"] == nil }
        rig.device.push(Self.threeCoins(refunded: 0.1, 67, signed: 0.2))
        await eventually("told") { await wallet.granted.last == "1 refunded 67 %" }
    }

    @Test(
        "how much was taken back is told by kind and percentage",
        arguments: [
            ("REFUND_FULL", nil, 1), ("REFUND_FULL", 40, 1), ("REFUND_PRORATED", 40, 0.4),
            ("REFUND_PRORATED", 33.333, 0.33333), ("REFUND_PRORATED", nil, nil), ("FAMILY_REVOKE", nil, 1),
            (nil, nil, 1), (nil, 25, 0.25), (nil, 100, 1), ("LATER_KIND", 50, 0.5), ("REFUND_PRORATED", .nan, nil),
            ("REFUND_PRORATED", 140, nil), ("REFUND_PRORATED", .infinity, nil),
        ] as [(String?, Double?, Double?)])
    func share(type: String?, percentage: Double?, share: Double?) {
        func record(_ date: Date?) -> PurchaseRecord {
            PurchaseRecord(
                transactionID: "1", originalTransactionID: "1", productID: "coins", kind: "Consumable",
                purchaseDate: Statements.date(0), expiresDate: nil, revocationDate: date, isRenewal: false,
                isUpgraded: false, ownership: .purchased, offer: nil, quantity: 3, isSynced: true,
                revocationType: type, revocationPercentage: percentage)
        }
        let told = record(Statements.date(1)).revokedShare
        #expect(told == share || abs((told ?? 9) - (share ?? -9)) < 1e-9)
        #expect(record(nil).revokedShare == 0)
    }

    @Test(
        "a refund on the web is told as one of all or of a part",
        arguments: [(399, "REFUND_FULL", 1), (100, "REFUND_PRORATED", nil)])
    func onTheWeb(amount: Int64, kind: String, share: Double?) async throws {
        let rig = KitRig.web(Payer())
        await rig.launch()
        rig.server.subscribe("apple:A")
        rig.clock.advance(days: 1)
        let page = try #require(rig.server.state.shop.pages.last)
        let now = rig.server.now
        rig.server.edit {
            $0.tellWeb("refund.created", page, at: now) {
                $0.refunds = [
                    WebRefund(
                        refundID: "re_1", amount: amount, status: .known(.succeeded), created: now,
                        paymentIntent: "pi_\(page.id)", charge: nil)
                ]
            }
        }
        await rig.store.refresh()
        let record = try #require(await rig.store.history().first)
        #expect(record.revocationDate == now.date, "\(record)")
        #expect(record.revocationType == kind && record.revokedShare == share, "\(record)")
    }
}
