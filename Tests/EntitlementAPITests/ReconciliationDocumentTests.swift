import EntitlementCore
import Testing

@testable import EntitlementAPI

@Suite("The answer of reconcile")
struct ReconciliationDocumentTests {
    private let catalog = Catalog(
        products: [
            CatalogProduct(productID: "p", entitlements: ["premium"], duration: CalendarDuration(iso8601: "P1M"))
        ],
        policy: AccessPolicy(leewaySeconds: 60))

    private var customer: CustomerFacts {
        let grant = GrantState(
            fact: GrantFact(
                grantID: "g", customer: IdentityRef(1), entitlementID: "premium", until: nil, reason: "kindness"),
            position: 2, recordedAt: Timestamp(milliseconds: 1))
        return CustomerFacts(customer: IdentityRef(1), originals: [:], grants: [grant], catalog: catalog)
    }

    /// An answer in which everything is there.
    private var full: ReconciliationDocument {
        let at = Timestamp(milliseconds: Int64(5))
        return ReconciliationDocument(
            customerID: "c/1", environment: .sandbox, position: 9, at: at,
            entitlements: customer.answers(at: at).map { EntitlementDocument($0) },
            timeline: customer.timelines().map { TimelineDocument.Entitlement($0, policy: catalog.policy) },
            catalog: CatalogCopy(catalog, writtenAt: 7), finish: ["200", "201"],
            results: [
                TransactionResult(transactionID: "200", status: .recorded),
                TransactionResult(transactionID: "201", status: .known),
                TransactionResult(
                    transactionID: nil, status: .refused, code: "malformed_jws", detail: "It is no JWS."),
                TransactionResult(
                    transactionID: "203", status: .conflict, code: "ownership_conflict", detail: "Another's."),
            ],
            renewalResults: [
                RenewalResult(originalTransactionID: "100", status: .recorded),
                RenewalResult(originalTransactionID: nil, status: .refused, code: "unknown_app", detail: "Alone."),
            ],
            appTransaction: AppTransactionResult(status: .refused, code: "unknown_app", detail: "Another app."),
            proof: .customerToken,
            drift: [
                DriftDocument(
                    productID: "p", claimed: .active, claimedUntil: at, actual: .expired, actualUntil: at,
                    explanation: "It ran out."),
                DriftDocument(
                    productID: "q", claimed: .active, claimedUntil: nil, actual: nil, actualUntil: nil,
                    explanation: "Nobody knows of it."),
            ],
            pass: "a.b.c")
    }

    private var bare: ReconciliationDocument {
        ReconciliationDocument(
            customerID: "c", environment: .production, position: 0, at: Timestamp(milliseconds: 0), entitlements: [],
            timeline: [], catalog: CatalogCopy(.empty, writtenAt: 0), finish: [], results: [], renewalResults: [],
            appTransaction: nil, proof: .none, drift: [], pass: nil)
    }

    @Test("what the server writes the device reads")
    func roundTrip() throws {
        #expect(!full.entitlements.isEmpty && !full.timeline.isEmpty)
        for document in [full, bare] {
            let bytes = try WireJSON.encode(document)
            #expect(try WireJSON.decode(ReconciliationDocument.self, from: bytes) == document)
        }
    }

    @Test("an answer without anything still has every member, as null or as an empty list")
    func empty() throws {
        let text = String(decoding: try WireJSON.encode(bare), as: UTF8.self)
        #expect(
            text == #"{"app_transaction":null,"at":"1970-01-01T00:00:00.000Z","catalog":{"object":"catalog","#
                + #""policy":{"billing_retry_gives_access":false,"grace_gives_access":true,"leeway_seconds":0,"#
                + #""prorated_refund":"ends_access"},"position":0,"products":[]},"customer_id":"c","drift":[],"#
                + #""entitlements":[],"environment":"production","finish":[],"#
                + "\"fold_version\":\(OriginalState.foldVersion),"
                + #""object":"reconciliation","pass":null,"position":0,"proof":"none","renewal_results":[],"#
                + #""results":[],"timeline":[]}"#)
    }

    @Test("the parts read as they do where they are answered alone")
    func parts() throws {
        guard case .object(let members) = try WireJSON.decode(WireValue.self, from: WireJSON.encode(full)) else {
            Issue.record("no object")
            return
        }
        let alone = try CatalogDocument(catalog).encoded(writtenAt: 7)
        #expect(members["catalog"] == (try WireJSON.decode(WireValue.self, from: alone)))
        let nothing: [String: WireValue] = ["transaction_id": .string("200"), "status": .string("recorded")]
        let refused: [String: WireValue] = [
            "transaction_id": .null, "status": .string("refused"), "code": .string("malformed_jws"),
            "detail": .string("It is no JWS."),
        ]
        guard case .array(let results) = members["results"], case .array(let drift) = members["drift"] else {
            Issue.record("no lists")
            return
        }
        #expect(results[0] == .object(nothing))
        #expect(results[2] == .object(refused))
        let unknown: [String: WireValue] = [
            "product_id": .string("q"), "claimed": .string("active"), "actual": .null,
            "explanation": .string("Nobody knows of it."),
        ]
        #expect(drift[1] == .object(unknown))
        #expect(members["proof"] == .string("customer_token"))
    }

    @Test("members that a later server adds do not trouble the device")
    func laterServer() throws {
        let text = String(decoding: try WireJSON.encode(full), as: UTF8.self)
            .replacing(#""object":"reconciliation""#, with: #""object":"reconciliation","later":{"a":[1]}"#)
            .replacing(#""object":"catalog""#, with: #""object":"catalog","later":1"#)
            .replacing(#""status":"known""#, with: #""later":null,"status":"known""#)
        #expect(try WireJSON.decode(ReconciliationDocument.self, from: Array(text.utf8)) == full)
    }

    @Test("a catalog that is none is an error, not an empty one")
    func badCatalog() throws {
        let text = String(decoding: try WireJSON.encode(bare), as: UTF8.self)
        for bad in [#""products":{}"#, #""products":[{"product_id":1}]"#, #""product":[]"#] {
            let spoiled = Array(text.replacing(#""products":[]"#, with: bad).utf8)
            #expect(throws: (any Error).self) { try WireJSON.decode(ReconciliationDocument.self, from: spoiled) }
        }
    }
}
