import EntitlementAPI
import EntitlementCore
import HTTPServer
import Ledger
import TestSupport
import Testing

@testable import Service

@Suite("Who may open a page of Stripe's", .timeLimit(.minutes(5)))
struct CheckoutProofTests {
    private static let pro = #"{"product_id":"pro"}"#

    @Test("who has not proven to be the customer opens no page")
    func proof() async throws {
        let shop = try await CheckoutShop.make()
        let device = try await shop.rig.publishableKey(environment: nil)
        let mine = try shop.rig.signAppTransaction("704")
        func body(_ proof: String?) -> String {
            proof.map { #"{"product_id":"pro","app_transaction":"\#($0)"}"# } ?? Self.pro
        }
        #expect(try await shop.post("apple:704", "checkout", body(nil), key: device).verdict == "403 forbidden")
        #expect(try await shop.post("c-1", "checkout", body(mine), key: device).verdict == "403 forbidden")
        #expect(try await shop.post("apple:704", "checkout", body("x.y.z"), key: device).verdict == "403 forbidden")
        let stranger = try shop.rig.signAppTransaction("704", bundleID: "com.example.stranger")
        #expect(try await shop.post("apple:704", "checkout", body(stranger), key: device).verdict == "403 forbidden")
        #expect(shop.asked.asked.isEmpty)
        #expect(try await shop.post("apple:704", "checkout", body(mine), key: device).status == 200)
        #expect(shop.asked.posted.last?.form["client_reference_id"] == "apple:704")
        let token = try await shop.rig.token("c-1")
        #expect(try await shop.post("c-1", "checkout", body(nil), key: token).status == 200)
        #expect(try await shop.post("c-2", "checkout", body(nil), key: token).verdict == "403 forbidden")
        let reader = try await shop.rig.keys.create(name: "reader", scopes: [.customersRead]).secret
        #expect(try await shop.post("c-1", "checkout", body(nil), key: reader).verdict == "403 forbidden")
    }

    @Test("by an Apple account that a login with a token of one app linked, nothing is told of what another app sold")
    func appBorder() async throws {
        let shop = try await CheckoutShop.make(hasOtherApp: true)
        let rig = shop.rig
        let victim = "0f1d2e3c-4b5a-6978-8796-a5b4c3d2e1f1"
        let foreign = HeldTransaction.lifetime("555", token: victim).with {
            $0.product = "pro"
            $0.bundleID = ServiceRig.otherBundleID
        }
        try await rig.notify(foreign, uuid: "n1")
        // Whoever holds a key of the first app links an Apple account of their own with the customer.
        let own = try await rig.keys.create(name: "x", scopes: [.customersWrite], bundleID: ServiceRig.bundleID).secret
        let mine = try rig.signAppTransaction("701")
        let login = try await rig.answer(victim, Posted(appTransaction: mine), key: rig.token(victim, key: own))
        #expect(login.appTransaction?.status == .accepted)
        let device = try await rig.publishableKey()
        func verdict(_ key: String) async throws -> String {
            let body = #"{"product_id":"pro","app_transaction":"\#(mine)"}"#
            return try await shop.post(victim, "checkout", body, key: key).verdict
        }
        #expect(try await verdict(rig.admin) == "409 already_owned")
        #expect(try await verdict(device) == "200 -")
        #expect(shop.asked.posted.last?.form["client_reference_id"] == victim)
        // A command's link holds in every app.
        let linked = try await rig.command("link", victim, #"{"app_transaction_id":"701"}"#)
        #expect(linked.status == 200, "\(linked.text)")
        #expect(try await verdict(device) == "409 already_owned")
    }

    @Test("one customer's devices take a few of the shop's turns at Stripe, our own server as many as it likes")
    func limited() async throws {
        let shop = try await CheckoutShop.make()
        let token = try await shop.rig.token("c-1")
        var opened = 0
        var refused: HTTPResponse?
        while refused == nil, opened < 20 {
            let page = #"{"product_id":"pro","success_url":"https://example.com/done/\#(opened)"}"#
            let answer = try await shop.post("c-1", "checkout", page, key: token)
            if answer.status == 200 { opened += 1 } else { refused = answer }
        }
        #expect((6...9).contains(opened), "six at once, and another every twenty seconds; \(opened)")
        #expect(refused?.verdict == "429 rate_limited" && shop.asked.pages.count == opened)
        #expect((1...20).contains(Int(refused?.header("Retry-After") ?? "") ?? 0))
        #expect(try await shop.post("c-1", "checkout", Self.pro).status == 200)
        let other = try await shop.rig.token("c-2")
        #expect(try await shop.post("c-2", "checkout", Self.pro, key: other).status == 200)
    }

    @Test("a device leads to the pages that are configured alone; our own server leads anywhere that is a page")
    func pages() async throws {
        let shop = try await CheckoutShop.make()
        let token = try await shop.rig.token("c-1")
        func body(_ url: String) -> String { #"{"product_id":"pro","success_url":"\#(url)"}"# }
        let rows: [(String, device: String, server: String)] = [
            ("https://example.com/app?x=1", "200", "200"), ("https://example.com:443/app", "200", "200"),
            ("https://EXAMPLE.com/app", "200", "200"),
            ("https://example.com:8443/", "403 forbidden", "200"), ("https://evil.example/", "403 forbidden", "200"),
            ("https://example.com@evil.example/", "400 malformed_request", "400 malformed_request"),
            ("javascript:alert(1)", "400 malformed_request", "400 malformed_request"),
            ("http://example.com/", "400 malformed_request", "400 malformed_request"),
        ]
        for (url, device, server) in rows {
            for (key, expected) in [(token, device), (shop.rig.admin, server)] {
                let answer = try await shop.post("c-1", "checkout", body(url), key: key)
                #expect((answer.status == 200 ? "200" : answer.verdict) == expected, "\(url): \(answer.text)")
            }
        }
    }
}
