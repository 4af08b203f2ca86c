import Testing

@testable import EntitlementCore

@Suite("Explanations: a subscription that is to renew as another product")
struct PlannedProductTests {
    private static let month = Entry.statement(subscription("1", from: 0, to: 30))
    private static let end = "31 January 2026, 00:00 UTC"

    /// What is said of the renewal and of the end.
    private static func said(_ told: Entry..., at instant: Double = 10) -> [String] {
        CustomerHistory([month] + told).explanation(at: instant).outlook
            .filter { [.renewal, .expiry].contains($0.code) }.map(\.sentence)
    }

    private static func renewal(as product: String?, signed: Double = 5, renews: Bool = true) -> Entry {
        .statement(renewalInfo(signed: signed, renews: renews, as: product))
    }

    @Test("a planned downgrade to a product that gives less is told as the end of what it does not give")
    func downgrade() {
        #expect(
            Self.said(Self.renewal(as: "basic")) == [
                "pro is to renew as basic by \(Self.end), which gives no premium; that renewal would not keep it open.",
                "Without another purchase it ends on \(Self.end).",
            ])
    }

    @Test("a planned change to a product that gives it too names that product")
    func crossgrade() {
        #expect(
            Self.said(Self.renewal(as: "pro.yearly")) == [
                "pro is to renew as pro.yearly by \(Self.end), which gives premium too; that renewal would keep it "
                    + "open, and has not been heard of yet.",
                "Without a renewal the paid period ends on \(Self.end).",
            ])
    }

    @Test("nothing is planned where the statement names the same product, or none, or comes later, or nothing renews")
    func nothingPlanned() {
        let plain = [
            "The store is to renew pro by \(Self.end); that renewal has not been heard of yet.",
            "Without a renewal the paid period ends on \(Self.end).",
        ]
        #expect(Self.said(Self.renewal(as: "pro")) == plain)
        #expect(Self.said(Self.renewal(as: nil)) == plain)
        #expect(Self.said(Self.renewal(as: "pro"), Self.renewal(as: "basic", signed: 12)) == plain)
        #expect(Self.said(Self.renewal(as: "basic"), Self.renewal(as: "pro", signed: 7)) == plain)
        #expect(
            Self.said(Self.renewal(as: "basic", renews: false)) == [
                "It is set not to renew, and the paid period ends on \(Self.end)."
            ])
    }

    @Test("in grace and billing retry the charge that fails is for the planned product")
    func unpaid() {
        let grace = Entry.statement(renewalInfo(signed: 30, graceEnd: 46, renews: true, as: "basic"))
        #expect(
            Self.said(grace, at: 40) == [
                "pro is to renew as basic, which gives no premium; that renewal would not keep it open."
            ])
        let retry = Entry.statement(renewalInfo(signed: 30, retry: true, renews: true, as: "pro.max"))
        #expect(
            Self.said(retry, at: 40) == [
                "pro is to renew as pro.max, which gives premium too; that renewal would open it, and has not been "
                    + "heard of yet."
            ])
    }
}
