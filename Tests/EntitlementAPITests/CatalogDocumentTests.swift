import EntitlementCore
import Testing

@testable import EntitlementAPI

@Suite("The catalog document")
struct CatalogDocumentTests {
    private func parse(
        _ text: String, _ origin: CatalogDocument.Origin = .file
    ) throws(CatalogDocumentError) -> Catalog {
        try CatalogDocument(parsing: Array(text.utf8), from: origin).catalog
    }

    @Test("the example of the contract is read")
    func example() throws {
        let catalog = try parse(
            """
            {"products":[{"product_id":"com.example.pro.yearly","entitlements":["premium"]},
            {"product_id":"com.example.season","entitlements":["season"],"duration":"P90D"}],
            "policy":{"grace_gives_access":true,"billing_retry_gives_access":false,"leeway_seconds":0,
            "prorated_refund":"ends_access"}}
            """)
        #expect(catalog.products.count == 2)
        #expect(catalog.product("com.example.season")?.duration == CalendarDuration(iso8601: "P90D"))
        #expect(catalog.policy == AccessPolicy())
    }

    @Test("what is answered reads back as the same catalog")
    func roundTrip() throws {
        let catalog = Catalog(
            products: [
                CatalogProduct(productID: "a", entitlements: ["x", "y"], duration: CalendarDuration(iso8601: "P1M")),
                CatalogProduct(productID: "b", entitlements: []),
            ],
            policy: AccessPolicy(
                graceGivesAccess: false, billingRetryGivesAccess: true, leewaySeconds: 60, proratedRefund: .keepsAccess)
        )
        let bytes = try CatalogDocument(catalog).encoded(writtenAt: 7)
        #expect(try CatalogDocument(parsing: bytes, from: .file).catalog == catalog)
    }

    @Test("what is sold on the web is read, and answered as it was written")
    func web() throws {
        let catalog = try parse(
            """
            {"products":[{"product_id":"pro","entitlements":["premium"],
            "stripe":{"price":"price_1","product":"prod_1","mode":"subscription"}},
            {"product_id":"lifetime","entitlements":["premium"],"stripe":{"price":"price_2","mode":"payment"},
            "app_store":false}],"policy":{"web_grace_days":3,"web_dispute":"keeps_access"}}
            """)
        #expect(
            catalog.product("pro")?.stripe == StripeProduct(price: "price_1", product: "prod_1", mode: .subscription))
        #expect(catalog.product("pro")?.isInAppStore == true && catalog.product("lifetime")?.isInAppStore == false)
        #expect(catalog.policy == AccessPolicy(webGraceDays: 3, webDispute: .keepsAccess))
        let bytes = try CatalogDocument(catalog).encoded(writtenAt: 7)
        #expect(try CatalogDocument(parsing: bytes, from: .file).catalog == catalog)
        #expect(catalog.productID(of: WebProduct(price: "price_9", product: "prod_1")) == "pro")
        #expect(catalog.productID(of: WebProduct(price: "price_2", product: "prod_1")) == "lifetime")
        #expect(catalog.productID(of: WebProduct(price: "price_9", product: nil)) == nil)
    }

    @Test(
        "what is wrong of what is sold on the web is named by its path",
        arguments: [
            (#"{"product_id":"a","entitlements":[],"stripe":"price_1"}"#, "products[0].stripe"),
            (#"{"product_id":"a","entitlements":[],"stripe":{"mode":"payment"}}"#, "products[0].stripe.price"),
            (
                #"{"product_id":"a","entitlements":[],"stripe":{"price":"","mode":"payment"}}"#,
                "products[0].stripe.price"
            ),
            (#"{"product_id":"a","entitlements":[],"stripe":{"price":"p"}}"#, "products[0].stripe.mode"),
            (#"{"product_id":"a","entitlements":[],"stripe":{"price":"p","mode":"setup"}}"#, "products[0].stripe.mode"),
            (
                #"{"product_id":"a","entitlements":[],"stripe":{"price":"p","mode":"payment","product":1}}"#,
                "products[0].stripe.product"
            ),
            (
                #"{"product_id":"a","entitlements":[],"stripe":{"price":"p","mode":"payment","prize":1}}"#,
                "products[0].stripe.prize"
            ),
            (#"{"product_id":"a","entitlements":[],"app_store":false}"#, "products[0].app_store"),
            (#"{"product_id":"a","entitlements":[],"app_store":0}"#, "products[0].app_store"),
            (
                #"{"product_id":"a","entitlements":[],"stripe":{"price":"p","mode":"payment"}},"#
                    + #"{"product_id":"b","entitlements":[],"stripe":{"price":"p","mode":"payment"}}"#,
                "products[1].stripe.price"
            ),
        ])
    func wrongWebProduct(products: String, path: String) {
        do {
            _ = try parse(#"{"products":[\#(products)]}"#)
            Issue.record("read: \(products)")
        } catch {
            #expect(error.path == path)
        }
    }

    @Test(
        "the policy for the web has limits",
        arguments: [
            (#"{"web_grace_days":-1}"#, "policy.web_grace_days"), (#"{"web_grace_days":61}"#, "policy.web_grace_days"),
            (#"{"web_grace_days":"7"}"#, "policy.web_grace_days"), (#"{"web_dispute":"ends"}"#, "policy.web_dispute"),
        ])
    func wrongWebPolicy(policy: String, path: String) {
        do {
            _ = try parse(#"{"products":[],"policy":\#(policy)}"#)
            Issue.record("read: \(policy)")
        } catch {
            #expect(error.path == path)
        }
    }

    @Test(
        "what is wrong is named by its path",
        arguments: [
            ("x", ""), ("[]", ""), ("{}", "products"), (#"{"products":{}}"#, "products"),
            (#"{"products":[1]}"#, "products[0]"), (#"{"products":[{}]}"#, "products[0].product_id"),
            (#"{"products":[{"product_id":1,"entitlements":[]}]}"#, "products[0].product_id"),
            (#"{"products":[{"product_id":"","entitlements":[]}]}"#, "products[0].product_id"),
            (#"{"products":[{"product_id":"a\u0000","entitlements":[]}]}"#, "products[0].product_id"),
            (#"{"products":[{"product_id":"a\u009b","entitlements":[]}]}"#, "products[0].product_id"),
            (#"{"products":[{"product_id":"a","entitlements":["x","\u0085"]}]}"#, "products[0].entitlements[1]"),
            (#"{"products":[{"product_id":"a"}]}"#, "products[0].entitlements"),
            (#"{"products":[{"product_id":"a","entitlements":["x",2]}]}"#, "products[0].entitlements[1]"),
            (#"{"products":[{"product_id":"a","entitlements":["x","x"]}]}"#, "products[0].entitlements[1]"),
            (#"{"products":[{"product_id":"a","entitlements":[],"duration":"P0D"}]}"#, "products[0].duration"),
            (#"{"products":[{"product_id":"a","entitlements":[],"duration":90}]}"#, "products[0].duration"),
            (#"{"products":[{"product_id":"a","entitlements":[],"durations":"P1D"}]}"#, "products[0].durations"),
            (
                #"{"products":[{"product_id":"a","entitlements":[]},{"product_id":"a","entitlements":[]}]}"#,
                "products[1].product_id"
            ),
            (#"{"products":[],"x":[1,{"y":1e400}]}"#, "x[1].y"),
            (#"{"products":[{"product_id":"\ud800","entitlements":[]}]}"#, "products[0].product_id"),
            (#"{"products":[],"policies":{}}"#, "policies"), (#"{"products":[],"policy":[]}"#, "policy"),
            (#"{"products":[],"policy":{"grace_gives_access":1}}"#, "policy.grace_gives_access"),
            (#"{"products":[],"policy":{"leeway_seconds":-1}}"#, "policy.leeway_seconds"),
            (#"{"products":[],"policy":{"leeway_seconds":2592001}}"#, "policy.leeway_seconds"),
            (#"{"products":[],"policy":{"leeway_seconds":1.5}}"#, "policy.leeway_seconds"),
            (#"{"products":[],"policy":{"prorated_refund":"never"}}"#, "policy.prorated_refund"),
            (#"{"products":[],"policy":{"grace":true}}"#, "policy.grace"),
        ])
    func paths(_ text: String, _ path: String) {
        #expect { try parse(text) } throws: { ($0 as? CatalogDocumentError)?.path == path }
    }

    @Test(
        "what is no JSON, what lies too deep and what cannot be read are told apart",
        arguments: [
            ("{", "the catalog is not JSON"), (#"{"products":[] 1}"#, "the catalog is not JSON"),
            (#"{"products":[],"x":"# + String(repeating: "[", count: 64), "the catalog has more than 64 levels"),
            (#"{"products":[],"x":"\udc00"}"#, "x is a number that is too large, or has half of a surrogate pair"),
            (#"{"products":[],"x":{"\ud800":1}}"#, "x is a number that is too large, or has half of a surrogate pair"),
        ])
    func faults(_ text: String, _ reason: String) {
        #expect { try parse(text, .request) } throws: { "\($0)" == reason }
    }

    @Test("unknown members may be ignored, and null reads as absent")
    func lenient() throws {
        let text =
            #"{"products":[{"product_id":"a","entitlements":[],"colour":1,"duration":null}],"x":2,"policy":null}"#
        #expect(try parse(text, .request).products.count == 1)
    }

    @Test("an id that the log has had since before it was refused is read in answers")
    func olderIDs() throws {
        let catalog = try parse(#"{"products":[{"product_id":"a\u009b","entitlements":["b\u0085"]}]}"#, .answer)
        #expect(catalog.products.map(\.productID) == ["a\u{9B}"])
    }

    @Test("the limits hold")
    func limits() {
        func product(_ id: String, _ entitlements: Int) -> String {
            let list = (0..<entitlements).map { "\"e\($0)\"" }.joined(separator: ",")
            return #"{"product_id":"\#(id)","entitlements":[\#(list)]}"#
        }
        func catalog(_ products: [String]) -> String { #"{"products":[\#(products.joined(separator: ","))]}"# }
        #expect(throws: Never.self) { try parse(catalog([product("a", 64)])) }
        #expect(throws: CatalogDocumentError.self) { try parse(catalog([product("a", 65)])) }
        #expect(throws: Never.self) { try parse(catalog((0..<5000).map { product("p\($0)", 0) })) }
        #expect(throws: CatalogDocumentError.self) { try parse(catalog((0...5000).map { product("p\($0)", 0) })) }
        #expect(throws: Never.self) { try parse(catalog([product(String(repeating: "a", count: 255), 0)])) }
        #expect(throws: CatalogDocumentError.self) {
            try parse(catalog([product(String(repeating: "a", count: 256), 0)]))
        }
        #expect(throws: Never.self) { try parse(#"{"products":[],"policy":{"leeway_seconds":2592000}}"#) }
    }
}
