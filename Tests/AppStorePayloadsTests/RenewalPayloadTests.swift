import AppStorePayloads
import EntitlementCore
import Testing

@Suite("Renewal information and app transactions")
struct RenewalPayloadTests {
    @Test("every documented field is known")
    func documentedFields() throws {
        #expect(try RenewalPayload(json(Samples.renewal)).remarks.texts.isEmpty)
        #expect(try AppTransactionPayload(json(Samples.appTransaction)).remarks.texts.isEmpty)
    }

    @Test("the fact states what was signed")
    func fact() throws {
        let fact = try RenewalPayload(json(Samples.renewal)).fact(
            payloadHash: hash(), fallbackSignedDate: .latest, isGraceNotification: true)
        #expect(
            try fact
                == RenewalFact(
                    payloadHash: hash(), signedDate: instant(1_767_225_601_235),
                    originalTransactionID: "2000000123456780", autoRenewProductID: "com.example.pro.monthly",
                    autoRenews: true, isInBillingRetry: true,
                    graceEnd: instant(1_799_000_000_000), expirationIntent: 2, priceIncreaseStatus: 0,
                    isGraceWithoutEnd: false))
    }

    @Test("only a grace notification makes a missing grace end a grace without end")
    func graceWithoutEnd() throws {
        for (value, isGrace, expected) in [(nil, true, true), (nil, false, false), ("x", true, true), (5, true, false)]
            as [(Any?, Bool, Bool)]
        {
            let payload = try RenewalPayload(json(Samples.renewal.with("gracePeriodExpiresDate", value)))
            let fact = try payload.fact(payloadHash: hash(), fallbackSignedDate: nil, isGraceNotification: isGrace)
            #expect(fact.isGraceWithoutEnd == expected)
        }
    }

    @Test("auto-renewal is on, off, or not said")
    func autoRenewal() throws {
        for (value, expected) in [(0, false), (1, true), (2, nil), (true, nil), ("1", nil), (nil, nil)]
            as [(Any?, Bool?)]
        {
            #expect(try RenewalPayload(json(Samples.renewal.with("autoRenewStatus", value))).autoRenews == expected)
        }
    }

    @Test("only the mandatory fields are mandatory")
    func minimal() throws {
        let payload = try RenewalPayload(json(["originalTransactionId": "1", "environment": "Sandbox"]))
        let date = instant(3)
        #expect(
            try payload.fact(payloadHash: hash(), fallbackSignedDate: date, isGraceNotification: false)
                == RenewalFact(payloadHash: hash(), signedDate: date, originalTransactionID: "1"))
    }

    @Test(
        "renewal information without its mandatory fields is inconsistent",
        arguments: ["originalTransactionId", "environment"])
    func mandatory(name: String) throws {
        for value in [nil, "", 1, true, [1]] as [Any?] {
            let object = try json(Samples.renewal.with(name, value))
            #expect(throws: PayloadError.inconsistent("the renewal information has no usable \(name)")) {
                try RenewalPayload(object)
            }
        }
    }

    @Test("unknown fields and values are remarked on by their path")
    func remarks() throws {
        let members = Samples.renewal.with("expirationIntent", 6).with("autoRenewStatus", 2).with("newer", 1)
            .with("eligibleWinBackOfferIds", [1])
        let payload = try RenewalPayload(json(members))
        #expect(payload.expirationIntent == 6)
        #expect(
            payload.remarks.texts == [
                "unexpected_value:renewal.eligibleWinBackOfferIds", "unknown_field:renewal.newer",
                "unknown_value:renewal.autoRenewStatus=2", "unknown_value:renewal.expirationIntent=6",
            ])
    }

    @Test("renewal information is no transaction, and neither is an app transaction")
    func kindsAreToldApart() throws {
        for members in [Samples.renewal, Samples.appTransaction, Samples.notification] {
            #expect(throws: PayloadError.self) { try TransactionPayload(json(members)) }
        }
        for members in [Samples.transaction, Samples.appTransaction, Samples.notification] {
            #expect(throws: PayloadError.self) { try RenewalPayload(json(members)) }
        }
        for members in [Samples.transaction, Samples.renewal, Samples.notification] {
            #expect(throws: PayloadError.self) { try AppTransactionPayload(json(members)) }
        }
        for members in [Samples.transaction, Samples.renewal, Samples.appTransaction] {
            #expect(throws: PayloadError.self) { try NotificationPayload(json(members)) }
        }
    }

    @Test("an app transaction's receipt fields are its environment and its signed date")
    func appTransaction() throws {
        let payload = try AppTransactionPayload(parsing: bytes(Samples.appTransaction))
        #expect(payload.bundleID == "com.example.app")
        #expect(payload.environment == "Production")
        #expect(payload.appAppleID == 1_234_567_890)
        #expect(payload.signedDate?.milliseconds == 1_767_225_601_236)
        #expect(payload.appTransactionID == "704000001")
    }

    @Test("the two environments are Apple's two words, and nothing else")
    func environments() {
        for environment in StoreEnvironment.allCases {
            #expect(StoreEnvironment(apple: environment.apple) == environment)
        }
        for word in ["Xcode", "LocalTesting", "production", "SANDBOX", ""] {
            #expect(StoreEnvironment(apple: word) == nil)
        }
    }
}
