import AppStorePayloads
import EntitlementAPI
import EntitlementCore
import Foundation
import HTTPServer
import OpenSSLCrypto
import Service

extension FuzzTarget {
    /// What is read back from canonical bytes: there is one spelling of every fact, and of a state one that is written,
    /// beside others with texts that are repeated in full.
    static func canonical() -> [FuzzTarget] {
        [
            FuzzTarget("fact", .bytes) { bytes throws(FuzzFinding) in
                guard let fact = try? FactCodec.decode(bytes) else { return false }
                try require(FactCodec.encode(fact) == bytes, "a fact has a second spelling")
                _ = try? WireJSON.encode(WireValue(fact))
                return true
            },
            FuzzTarget("state", .bytes) { bytes throws(FuzzFinding) in
                guard let state = try? OriginalState(encoded: bytes) else { return false }
                let written = state.encoded()
                try require(written.count <= bytes.count, "a state is written longer than it was read")
                try require((try? OriginalState(encoded: written)) == state, "a state reads back as another one")
                fold(CustomerFacts(customer: IdentityRef(1), originals: ["1": state], catalog: Catalog(products: [])))
                return true
            },
            FuzzTarget("customer-facts", .bytes) { bytes throws(FuzzFinding) in
                guard let facts = try? CustomerFacts(encoded: bytes) else { return false }
                let written = facts.encoded()
                try require((try? CustomerFacts(encoded: written))?.encoded() == written, "a customer's facts differ")
                fold(facts)
                return true
            },
        ]
    }

    static func fold(_ facts: CustomerFacts) {
        let timelines = facts.timelines()
        for instant in [now, Timestamp.earliest, Timestamp.latest] { _ = facts.answersHolding(at: instant) }
        for timeline in timelines { _ = facts.answer(from: timeline, at: now) }
    }

    /// What is read from JSON.
    static func documents() -> [FuzzTarget] {
        [
            FuzzTarget("payload", .json) { bytes throws(FuzzFinding) in try checkPayload(bytes) },
            FuzzTarget("request", .json) { bytes throws(FuzzFinding) in
                [
                    (try? ReconcileRequest(parsing: bytes)) != nil, (try? LinkRequest(parsing: bytes)) != nil,
                    (try? TransferRequest(parsing: bytes)) != nil, (try? GrantRequest(parsing: bytes)) != nil,
                    (try? RevokeGrantRequest(parsing: bytes)) != nil,
                ].contains(true)
            },
            FuzzTarget("catalog", .json) { bytes throws(FuzzFinding) in
                guard let document = try? CatalogDocument(parsing: bytes, from: .request) else {
                    return false
                }
                guard let written = try? document.encoded(writtenAt: 1),
                    let again = try? CatalogDocument(parsing: written, from: .request)
                else { throw FuzzFinding("a catalog does not read back") }
                try require(again.catalog == document.catalog, "a catalog reads back as another one")
                let bytes = FactCodec.encode(.catalog(document.catalog))
                try require((try? FactCodec.decode(bytes)) == .catalog(document.catalog), "a catalog's fact differs")
                return true
            },
            FuzzTarget("answer", .json) { bytes throws(FuzzFinding) in
                // What a device reads of a server.
                guard let document = try? WireJSON.decode(ReconciliationDocument.self, from: bytes) else {
                    return false
                }
                if let facts = document.facts?.facts { fold(facts) }
                _ = try? WireJSON.encode(document)
                return true
            },
        ]
    }

    private static func checkPayload(_ bytes: [UInt8]) throws(FuzzFinding) -> Bool {
        guard let object = try? JSONObject(parsing: bytes) else { return false }
        var isTaken = (try? NotificationPayload(object)) != nil || (try? AppTransactionPayload(object)) != nil
        var identities = IdentityList()
        if let payload = try? TransactionPayload(object) {
            isTaken = true
            let fact = payload.fact(payloadHash: .zero, fallbackSignedDate: nil, identities: &identities)
            try checkCodec(statements(fact.originalTransactionID, transactions: [fact]))
            var state = OriginalState()
            _ = state.join(fact, source: .notification, position: 1)
            let product = CatalogProduct(
                productID: fact.productID, entitlements: ["premium"], duration: CalendarDuration(iso8601: "P1M"))
            fold(
                CustomerFacts(
                    customer: fact.accountToken ?? IdentityRef(0), originals: [fact.originalTransactionID: state],
                    catalog: Catalog(products: [product])))
        }
        if let payload = try? RenewalPayload(object) {
            isTaken = true
            let fact = payload.fact(payloadHash: .zero, fallbackSignedDate: nil, isGraceNotification: true)
            try checkCodec(statements(fact.originalTransactionID, renewals: [fact]))
        }
        return isTaken
    }

    private static func statements(
        _ original: String, transactions: [TransactionFact] = [], renewals: [RenewalFact] = []
    ) -> LedgerFact {
        .statements(
            StatementsFact(
                originalTransactionID: original, transactions: transactions, renewals: renewals, remarks: []))
    }

    private static func checkCodec(_ fact: LedgerFact) throws(FuzzFinding) {
        try require((try? FactCodec.decode(FactCodec.encode(fact))) == fact, "a fact reads back as another one")
    }

    /// What is read from texts.
    static func words() -> [FuzzTarget] {
        [
            FuzzTarget("target", .text) { bytes throws(FuzzFinding) in
                let text = String(decoding: bytes, as: UTF8.self)
                let head = HTTPRequestHead(method: "GET", target: text)
                guard let request = try? HTTPRequest(head: head) else { return false }
                for segment in request.pathSegments { _ = try checkWords(segment) }
                for item in request.query { _ = try checkWords(item.value) }
                return true
            },
            FuzzTarget("word", .text) { bytes throws(FuzzFinding) in
                let decoded = Base64.decodeURL(bytes)
                if let decoded {
                    try require(Array(Base64.encodeURL(decoded).utf8) == bytes, "base64url has a second spelling")
                }
                let isWord = try checkWords(String(decoding: bytes, as: UTF8.self))
                return isWord || decoded != nil || Base64.decode(bytes) != nil
            },
        ]
    }

    private static func checkWords(_ text: String) throws(FuzzFinding) -> Bool {
        var isWord = false
        if let instant = Timestamp(rfc3339: text) {
            try require(Timestamp(rfc3339: "\(instant)") == instant, "an instant reads back as another one")
            isWord = true
        }
        if let duration = CalendarDuration(iso8601: text) {
            for instant in [now, Timestamp.earliest, Timestamp.latest] { _ = instant.adding(duration) }
            isWord = true
        }
        if let id = CustomerID(text) { try require(CustomerID(id.value) == id, "a customer's id changes") }
        return isWord || NetworkRange(text)?.contains("127.0.0.1") != nil
    }
}
