import AppStoreServer
import EntitlementCore
import StoreSimulator
import Testing

/// What changes something at the store, or tells it something.
@Suite("Changing calls of the App Store Server API", .timeLimit(.minutes(2)))
struct StoreAPIChangeTests {
    private static let wish = RenewalExtension(days: 7, reason: .serviceIssue, requestIdentifier: "r1")

    private static func period(
        _ id: String, expires: Int64, kind: String = "Auto-Renewable Subscription", _ more: [String: PayloadValue] = [:]
    ) -> [String: PayloadValue] {
        [
            "transactionId": .string(id), "originalTransactionId": .string(id), "productId": .string("p"),
            "type": .string(kind), "purchaseDate": .integer(StoreAPIRig.start - 10 * Span.day),
            "expiresDate": .integer(expires), "signedDate": .integer(StoreAPIRig.start - 10 * Span.day),
        ].merging(more) { $1 }
    }

    @Test("the bodies hold what Apple's pages name, and consent is always stated")
    func bodies() throws {
        func text(_ request: StoreAPIRequest) -> String { String(decoding: request.body ?? [], as: UTF8.self) }
        let extend = try StoreAPICall.extend("7", by: Self.wish).request
        #expect(extend.target == "/inApps/v1/subscriptions/extend/7")
        #expect(text(extend) == #"{"extendByDays":7,"extendReasonCode":3,"requestIdentifier":"r1"}"#)
        var told = ConsumptionInformation(sampleContentProvided: true, deliveryStatus: .delivered)
        let least = try StoreAPICall.consumption(told, of: "7").request
        #expect(least.target == "/inApps/v2/transactions/consumption/7" && least.method == .put)
        #expect(
            text(least) == #"{"customerConsented":true,"deliveryStatus":"DELIVERED","sampleContentProvided":true}"#)
        (told.consumptionPercentage, told.refundPreference) = (67_932, .grantProrated)
        #expect(
            text(try StoreAPICall.consumption(told, of: "7").request)
                == #"{"consumptionPercentage":67932,"customerConsented":true,"deliveryStatus":"DELIVERED","#
                + #""refundPreference":"GRANT_PRORATED","sampleContentProvided":true}"#)
    }

    @Test("an extension moves the date once under one name, is told of, and is refused as the store does")
    func extend() async throws {
        let rig = try StoreAPIRig()
        defer { Task { await rig.stop() } }
        let end = StoreAPIRig.start + 20 * Span.day
        try rig.store.remember(Self.period("7", expires: end))
        func ask(_ original: String, _ wish: RenewalExtension) async throws -> Int64? {
            try await rig.client.send(.extend(original, by: wish), in: .production).effectiveDate.map { Int64($0) }
        }
        // The answer is lost, and the client asks again by itself.
        rig.store.fail(.truncated)
        #expect(try await ask("7", Self.wish) == end + 7 * Span.day)
        #expect(try await ask("7", Self.wish) == end + 7 * Span.day, "the same name is the same extension")
        #expect(rig.store.count(of: "extend") == 3 && rig.store.sentPayloads.count == 1)
        var other = Self.wish
        other.requestIdentifier = "r2"
        #expect(try await ask("7", other) == end + 14 * Span.day)
        other.requestIdentifier = "r3"
        #expect(await refusal { _ = try await ask("7", other) } == 4_030_005)
        rig.clock.set(StoreAPIRig.start + 366 * Span.day)
        #expect(await refusal { _ = try await ask("7", other) } == 4_030_004, "it has expired")
        rig.clock.set(StoreAPIRig.start)
        try rig.store.remember(
            Self.period("8", expires: end, ["inAppOwnershipType": .string("FAMILY_SHARED")]))
        try rig.store.remember(Self.period("9", expires: end, ["offerDiscountType": .string("FREE_TRIAL")]))
        #expect(await refusal { _ = try await ask("8", Self.wish) } == 4_030_007)
        #expect(await refusal { _ = try await ask("9", Self.wish) } == 4_030_004)
        #expect(await refusal { _ = try await ask("none", Self.wish) } == 4_040_005)
        other.days = 91
        #expect(await refusal { _ = try await ask("7", other) } == 4_000_009)
        (other.days, other.requestIdentifier) = (1, String(repeating: "x", count: 129))
        #expect(await refusal { _ = try await ask("7", other) } == 4_000_011)
        #expect(rig.store.sentPayloads.count == 2)
    }

    @Test("what is told of a refund request is looked at as Apple's page has it, and kept")
    func consumption() async throws {
        let rig = try StoreAPIRig()
        defer { Task { await rig.stop() } }
        let end = StoreAPIRig.start + 20 * Span.day
        try rig.store.remember(Self.period("7", expires: end))
        try rig.store.remember(Self.period("8", expires: end, ["inAppOwnershipType": .string("FAMILY_SHARED")]))
        try rig.store.remember(Self.period("9", expires: end, kind: "Consumable"))
        func tell(
            _ id: String, _ share: Int64? = nil, _ preference: ConsumptionInformation.RefundPreference? = nil,
            _ delivery: ConsumptionInformation.DeliveryStatus = .delivered
        ) async -> Int64? {
            await refusal {
                try await rig.client.send(
                    .consumption(
                        ConsumptionInformation(
                            sampleContentProvided: false, deliveryStatus: delivery, consumptionPercentage: share,
                            refundPreference: preference), of: id), in: .production)
            }
        }
        #expect(await tell("7", nil, .grantProrated) == nil)
        #expect(await tell("7", 5) == 4_000_000, "the store reckons a subscription's share itself")
        #expect(await tell("8") == 4_000_185)
        #expect(await tell("none") == 4_040_010)
        #expect(await tell("9", 50_000, .grantProrated) == nil)
        #expect(await tell("9", nil, .grantProrated) == 4_000_000)
        #expect(await tell("9", 100_000, .grantProrated) == 4_000_000)
        #expect(await tell("9", 100_001) == 4_000_000)
        #expect(await tell("9", 1, nil, .undeliveredOther) == 4_000_000)
        #expect(await tell("9", 0, nil, .undeliveredOther) == nil)
        #expect(rig.store.consumption(of: "7").count == 1 && rig.store.consumption(of: "9").count == 2)
    }

    /// Apple's number of a refusal; `nil` where there was none.
    private func refusal(_ body: () async throws -> Void) async -> Int64? {
        do {
            try await body()
            return nil
        } catch {
            return (error as? StoreAPIError)?.code ?? -1
        }
    }
}
