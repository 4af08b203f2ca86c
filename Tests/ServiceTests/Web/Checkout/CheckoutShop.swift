import EntitlementCore
import HTTPServer
import TestSupport

@testable import Service

/// A rig that sells in production, and what it asks.
struct CheckoutShop {
    let stripe: StripeRig
    let asked: ScriptedStripe

    var rig: ServiceRig { stripe.rig }

    static func make(hasOtherApp: Bool = false) async throws -> CheckoutShop {
        let asked = ScriptedStripe()
        let clock = TestClock(try instant(ServiceRig.noon))
        return CheckoutShop(
            stripe: try await StripeRig.make(
                hasOtherApp: hasOtherApp, shops: [.production: try asked.shop(clock)]), asked: asked)
    }

    func post(
        _ customer: String, _ action: String = "checkout", _ body: String, key: String? = nil,
        headers: [(String, String)] = []
    ) async throws -> HTTPResponse {
        try await rig.send(
            "POST", "/v1/customers/\(customer)/\(action)", key: key ?? rig.admin, headers: headers,
            body: Array(body.utf8))
    }
}
