import EntitlementCore
import Testing

@testable import EntitlementAPI

@Suite("Wire coding")
struct WireTests {
    /// A grant, which has no value for most members.
    private let document: EntitlementsDocument = {
        let grant = GrantState(
            fact: GrantFact(
                grantID: "g", customer: IdentityRef(1), entitlementID: "premium", until: nil, reason: "kindness"),
            position: 2, recordedAt: Timestamp(milliseconds: 1))
        let facts = CustomerFacts(customer: IdentityRef(1), originals: [:], grants: [grant], catalog: .empty)
        let at: Timestamp = .init(milliseconds: Int64(5))
        return EntitlementsDocument(
            customerID: "c/1", environment: .sandbox, at: at, knownAt: 3,
            entitlements: facts.answers(at: at).map { EntitlementDocument($0) })
    }()

    @Test("members without a value are written as null, and one document is always the same bytes")
    func bytes() throws {
        let text = String(decoding: try WireJSON.encode(document), as: UTF8.self)
        #expect(
            text == #"{"at":"1970-01-01T00:00:00.005Z","customer_id":"c/1","entitlements":[{"gives_access":true,"#
                + #""id":"premium","offer":null,"original_transaction_id":null,"ownership":null,"product_id":null,"#
                + #""reason":{"code":"grant","positions":[2]},"since":"1970-01-01T00:00:00.001Z","source":"grant","#
                + #""state":"active","until":null,"will_renew":null}],"environment":"sandbox","fold_version":1,"#
                + #""known_at":3,"object":"entitlements"}"#)
    }

    @Test("what the server writes the device reads, unknown members and missing nulls included")
    func reading() throws {
        let bytes = try WireJSON.encode(document)
        #expect(try WireJSON.decode(EntitlementsDocument.self, from: bytes) == document)
        let text = String(decoding: bytes, as: UTF8.self)
            .replacing(#""until":null,"#, with: "").replacing(#"{"at""#, with: #"{"colour":"red","at""#)
        #expect(try WireJSON.decode(EntitlementsDocument.self, from: Array(text.utf8)) == document)
    }

    @Test("any JSON value comes back as it was")
    func values() throws {
        let value = WireValue.object([
            "a": .array([.null, .bool(true), .int(.max), .int(1), .double(1.5), .string("é/\"")]), "b": .object([:]),
        ])
        #expect(try WireJSON.decode(WireValue.self, from: WireJSON.encode(value)) == value)
    }

    @Test(
        "offers are named",
        arguments: [(1, "introductory"), (2, "promotional"), (3, "offer_code"), (4, "win_back"), (9, "unknown")])
    func offers(_ type: Int64, _ name: String) {
        let offer = OfferDocument(Offer(type: type, discount: "PAY_UP_FRONT"))
        #expect(offer.type == name)
        #expect(offer.discount == "pay_up_front")
        #expect(OfferDocument(Offer(type: type)).discount == nil)
    }
}
