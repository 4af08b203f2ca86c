import AppStorePayloads
import EntitlementCore
import Testing

@Suite("Transaction payloads")
struct TransactionPayloadTests {
    @Test("every documented field is known")
    func documentedFields() throws {
        let members = Samples.transaction.merging(Samples.refund) { first, _ in first }
        #expect(try TransactionPayload(json(members)).remarks.texts.isEmpty)
    }

    @Test("the fact states what was signed, and the owner only by reference")
    func fact() throws {
        var identities = IdentityList()
        let fact = try TransactionPayload(json(Samples.transaction)).fact(
            payloadHash: hash(), fallbackSignedDate: .latest, identities: &identities)
        #expect(
            try fact
                == TransactionFact(
                    payloadHash: hash(), signedDate: instant(1_767_225_601_234),
                    transactionID: "2000000123456790", originalTransactionID: "2000000123456780",
                    webOrderLineItemID: "2000000011112222", productID: "com.example.pro.yearly",
                    bundleID: "com.example.app", kind: .known(.autoRenewable),
                    purchaseDate: instant(1_767_225_600_000),
                    expiresDate: instant(1_798_761_600_000), revocation: nil, isUpgraded: false,
                    reason: .known(.renewal), ownership: .known(.purchased), accountToken: IdentityRef(0),
                    appTransaction: IdentityRef(1),
                    offer: Offer(type: 1, identifier: "intro", discount: "FREE_TRIAL", period: "P1M"),
                    price: Money(thousandths: 39_990, currency: "USD")))
        #expect(identities.customerIDs == ["7e3fb20b-4cdb-47cc-936d-99d65f608138", "apple:704000001"])
    }

    @Test("no fact and no remark holds an identity in clear")
    func identitiesStayOutOfFacts() throws {
        for token in ["7E3FB20B-4CDB-47CC-936D-99D65F608138", "somebody@example.com"] {
            var identities = IdentityList()
            let members = Samples.transaction.with("appAccountToken", token)
            let payload = try TransactionPayload(json(members))
            let fact = try payload.fact(payloadHash: hash(), fallbackSignedDate: nil, identities: &identities)
            let text = ("\(fact)" + payload.remarks.texts.joined()).lowercased()
            #expect(!text.contains(token.lowercased()))
            #expect(!text.contains("704000001"))
        }
    }

    @Test("a revocation is stated with all that is known of it")
    func revocation() throws {
        let members = Samples.transaction.merging(Samples.refund) { first, _ in first }
        let payload = try TransactionPayload(json(members))
        #expect(
            payload.revocation
                == Revocation(
                    date: instant(1_770_000_000_000), reason: 1, kind: .known(.refundProrated),
                    percentage: 40_000))
        #expect(payload.isUpgraded)
        let bare = try TransactionPayload(json(Samples.transaction.with("revocationDate", 0)))
        #expect(bare.revocation == Revocation(date: instant(0)))
        let undated = try TransactionPayload(json(Samples.transaction.with("revocationReason", 1)))
        #expect(undated.revocation == nil)
    }

    @Test(
        "an expiry that gives nothing is remarked: none of a subscription that renews, or one before the purchase",
        arguments: [
            (nil, "Auto-Renewable Subscription", ["subscription_without_end"]),
            (
                "1798761600000", "Auto-Renewable Subscription",
                ["subscription_without_end", "unexpected_value:transaction.expiresDate"]
            ),
            (1_767_225_599_999, "Auto-Renewable Subscription", ["end_before_purchase"]),
            (1_767_225_600_000, "Auto-Renewable Subscription", []),
            (nil, "Non-Renewing Subscription", []), (nil, "Consumable", []), (nil, "Non-Consumable", []),
        ] as [((any Sendable)?, String, [String])])
    func expiry(date: (any Sendable)?, type: String, remarks: [String]) throws {
        let members = Samples.transaction.with("expiresDate", date).with("type", type)
        #expect(try TransactionPayload(json(members)).remarks.texts == remarks)
    }

    @Test("without a signed date of its own a transaction takes the notification's")
    func signedDate() throws {
        var identities = IdentityList()
        let payload = try TransactionPayload(json(Samples.transaction.with("signedDate", nil)))
        let date = instant(5)
        let dated = try payload.fact(payloadHash: hash(), fallbackSignedDate: date, identities: &identities)
        #expect(dated.signedDate == date)
        let undated = try payload.fact(payloadHash: hash(), fallbackSignedDate: nil, identities: &identities)
        #expect(undated.signedDate == nil)
    }

    @Test(
        "a transaction without its mandatory fields is inconsistent",
        arguments: [
            "transactionId", "originalTransactionId", "productId", "bundleId", "purchaseDate", "environment",
        ])
    func mandatory(name: String) throws {
        for value in [nil, "", true, [1], ["a": 1], name == "purchaseDate" ? "1" : 1] as [Any?] {
            let object = try json(Samples.transaction.with(name, value))
            #expect(throws: PayloadError.inconsistent("the transaction information has no usable \(name)")) {
                try TransactionPayload(object)
            }
        }
    }

    @Test("only the mandatory fields are mandatory")
    func minimal() throws {
        let payload = try TransactionPayload(
            json([
                "transactionId": "1", "originalTransactionId": "1", "productId": "p", "bundleId": "b",
                "purchaseDate": -1.5, "environment": "Xcode",
            ]))
        var identities = IdentityList()
        let fact = try payload.fact(payloadHash: hash(), fallbackSignedDate: nil, identities: &identities)
        #expect(
            try fact
                == TransactionFact(
                    payloadHash: hash(), signedDate: nil, transactionID: "1", originalTransactionID: "1",
                    productID: "p", bundleID: "b", kind: nil, purchaseDate: instant(-2)))
        #expect(identities.customerIDs.isEmpty)
        #expect(payload.environment == "Xcode")
        #expect(payload.remarks.texts.isEmpty)
    }

    @Test("a price that cannot be meant is none, and is remarked on; one that is left out is not")
    func prices() throws {
        for (price, currency) in [(-1, "USD"), (Money.limit + 1, "USD"), (9990, "dollars"), (9990, nil)] {
            var members = Samples.transaction
            members["price"] = price
            members["currency"] = currency
            let payload = try TransactionPayload(json(members))
            #expect(payload.price == nil)
            #expect(payload.remarks.texts == ["unexpected_value:transaction.price"], "\(price) \(currency ?? "")")
        }
        var members = Samples.transaction
        members["price"] = nil
        members["currency"] = nil
        let old = try TransactionPayload(json(members))
        #expect(old.price == nil && old.remarks.texts.isEmpty)
    }

    @Test("unknown words are kept as signed, and remarked on")
    func unknownWords() throws {
        var members = Samples.transaction.merging(Samples.refund) { first, _ in first }
        let words = ["type", "transactionReason", "inAppOwnershipType", "revocationType", "offerDiscountType"]
        for name in words { members[name] = "NEW" }
        members["offerType"] = 9
        members["revocationReason"] = 2
        let payload = try TransactionPayload(json(members))
        #expect(payload.kind == .unknown("NEW"))
        #expect(payload.reason == .unknown("NEW"))
        #expect(payload.ownership == .unknown("NEW"))
        #expect(payload.revocation?.kind == .unknown("NEW"))
        #expect(payload.revocation?.reason == 2)
        #expect(payload.offer == Offer(type: 9, identifier: "intro", discount: "NEW", period: "P1M"))
        #expect(
            payload.remarks.texts
                == (words.map { "unknown_value:transaction.\($0)=NEW" } + [
                    "unknown_value:transaction.offerType=9", "unknown_value:transaction.revocationReason=2",
                ]).sorted())
    }

    @Test(
        "a known field of another type reads as absent, and is remarked on",
        arguments: [
            "webOrderLineItemId", "expiresDate", "signedDate", "type", "appAccountToken", "appTransactionId",
            "inAppOwnershipType", "isUpgraded", "offerType", "transactionReason", "revocationDate", "quantity",
            "commitmentInfo", "advancedCommerceInfo", "storefront",
        ])
    func wrongTypes(name: String) throws {
        let absent = try TransactionPayload(json(Samples.transaction.with(name, nil)))
        let isText = Samples.transaction[name] is String || name == "revocationDate"
        for value in [[1, 2], isText ? 5.5 : "text", isText ? ["a": 1] : [true]] as [Any] {
            guard name != "revocationDate" || !(value is Double) else { continue }
            let payload = try TransactionPayload(json(Samples.transaction.with(name, value)))
            let remarks = (absent.remarks.texts + ["unexpected_value:transaction.\(name)"]).sorted()
            #expect(payload.remarks.texts == remarks, "\(value)")
            var (ours, theirs) = (IdentityList(), IdentityList())
            #expect(
                try payload.fact(payloadHash: hash(), fallbackSignedDate: nil, identities: &ours)
                    == absent.fact(payloadHash: hash(), fallbackSignedDate: nil, identities: &theirs))
            #expect(ours == theirs)
        }
    }

    @Test("nested objects are inspected too")
    func nested() throws {
        let members = Samples.transaction
            .with("commitmentInfo", ["billingPeriodNumber": "1", "newer": 1] as Members)
            .with(
                "advancedCommerceInfo",
                ["items": [["SKU": 1, "refunds": [["reason": "x"]]] as Members, "loose"]] as Members)
        #expect(
            try TransactionPayload(json(members)).remarks.texts == [
                "unexpected_value:transaction.advancedCommerceInfo.items",
                "unexpected_value:transaction.advancedCommerceInfo.items.SKU",
                "unexpected_value:transaction.commitmentInfo.billingPeriodNumber",
                "unknown_field:transaction.advancedCommerceInfo.items.refunds.reason",
                "unknown_field:transaction.commitmentInfo.newer",
            ])
    }

    @Test("each identity is listed once, and tokens that differ in case are one")
    func identityList() {
        var identities = IdentityList()
        let upper = identities.reference(accountToken: "7E3FB20B-4CDB-47CC-936D-99D65F608138")
        let app = identities.reference(appTransactionID: "42")
        let lower = identities.reference(accountToken: "7e3fb20b-4cdb-47cc-936d-99d65f608138")
        let customer = identities.reference(customerID: "apple:42")
        #expect(upper == IdentityRef(0))
        #expect(app == IdentityRef(1))
        #expect(lower == upper)
        #expect(customer == app)
        #expect(identities.customerIDs == ["7e3fb20b-4cdb-47cc-936d-99d65f608138", "apple:42"])
    }

    @Test("an account token that is no UUID is kept as it is, and remarked on")
    func tokenThatIsNoUUID() throws {
        let payload = try TransactionPayload(json(Samples.transaction.with("appAccountToken", "User-7")))
        #expect(payload.appAccountToken == "User-7")
        #expect(payload.remarks.texts == ["unexpected_value:transaction.appAccountToken"])
    }
}
