import EntitlementAPI
import EntitlementCore
import Foundation
import FuzzTargets
import OpenSSLCrypto
import SeededRandom
import StoreSimulator
import Testing

/// Writes the corpus of the fuzz targets anew, which is needed when a format changes.
///
/// A simulated store signs, a real service answers, and the store's keys are thrown away.
/// `RIGHTFUL_WRITE_CORPUS=1 deploy/test --filter CorpusTests` does it.
@Suite(
    "The corpus of the fuzz targets", .enabled(if: ProcessInfo.processInfo.environment["RIGHTFUL_WRITE_CORPUS"] != nil))
struct CorpusTests {
    private static let customer = "7e3fb20b-4cdb-47cc-936d-99d65f608138"

    @Test("the corpus is written")
    func write() async throws {
        let installation = try await Installation()
        defer { installation.remove() }
        let life = StoreLife.random(seed: 5, world: installation.world, customers: 6)
        try? FileManager.default.removeItem(at: FuzzCorpus.directory)
        try Self.put(FuzzCorpus.rootFile, Array(try installation.authority.root.certificate.pem().utf8))
        try Self.putStatements(life, installation)
        try Self.putTexts()
        let key = try await installation.adminKey()
        try await installation.rightful("catalog", "apply", installation.catalogFile.path())
        let service = try await ServiceProcess.start(installation)
        defer { service.stop() }
        let client = HTTPClient(service.url, key: key)
        for notification in life.notifications {
            #expect(try await client.notify(installation.authority.sign(notification)).status == 200)
        }
        try await Self.putAnswers(life, installation, client)
        try await Self.putExport(life, installation)
        try await Self.putLog(life, installation, client)
    }

    private static func put(_ name: String, _ bytes: [UInt8]) throws {
        let file = FuzzCorpus.directory.appending(path: name)
        try FileManager.default.createDirectory(
            at: file.deletingLastPathComponent(), withIntermediateDirectories: true)
        try Data(bytes).write(to: file)
    }

    /// What the store signs, the payloads alone, and the certificates.
    private static func putStatements(_ life: StoreLife, _ installation: Installation) throws {
        let authority = installation.authority
        var types: Set<String> = []
        for notification in life.notifications where types.count < 4 && types.insert(notification.type).inserted {
            let name = notification.type.lowercased()
            let signed = Array(try authority.sign(notification).utf8)
            try put("notification/\(name)", signed)
            if let transaction = notification.transaction {
                try put("payload/transaction-\(name)", PayloadValue.object(transaction).encoded())
            }
            if let renewal = notification.renewal {
                try put("payload/renewal-\(name)", PayloadValue.object(renewal).encoded())
            }
            try put("payload/notification-\(name)", PayloadValue.object(notification.payload).encoded())
        }
        let app: PayloadValue = .object([
            "receiptType": .string("Production"), "bundleId": .string(installation.world.bundleID),
            "appAppleId": .integer(installation.world.appAppleID), "appTransactionId": .string("704000001"),
            "receiptCreationDate": .integer(installation.world.start),
            "originalPurchaseDate": .integer(installation.world.start), "originalApplicationVersion": .string("1.0"),
        ])
        try put("payload/app-transaction", app.encoded())
        try put("statement/app-transaction", Array(authority.sign(app).utf8))
        if let notification = life.notifications.first(where: { $0.transaction != nil && $0.renewal != nil }) {
            try put("statement/transaction", Array(authority.sign(.object(notification.transaction ?? [:])).utf8))
            try put("statement/renewal", Array(authority.sign(.object(notification.renewal ?? [:])).utf8))
        }
        try put("jws/small", Array(authority.sign(.object(["signedDate": .integer(installation.world.start)])).utf8))
        let chain = [authority.leaf, authority.intermediate.certificate]
        try put("certificate/chain", Array(chain.map { try $0.pem() }.joined().utf8))
    }

    private static func putTexts() throws {
        try put(
            "target/read",
            Array(
                "/v1/customers/\(customer)/entitlements?environment=sandbox&at=2026-11-20T12%3A00%3A00Z&known_at=3".utf8
            ))
        try put("target/absolute", Array("http://host:1/v1/subscriptions/a%2Fb/?x=%F0%9F%98%80+y&&=&z".utf8))
        try put("word/instant", Array("2024-02-29T23:59:59.999+05:30".utf8))
        try put("word/duration", Array("P1Y2M3DT4H5M6S".utf8))
        try put("word/network", Array("2001:db8::/32".utf8))
        try put("word/base64url", Array("eyJhIjoiYiJ9_-8".utf8))
        let requests = [
            "link": #"{"app_account_token":"\#(customer)","environment":"sandbox"}"#,
            "transfer": #"{"original_transaction_id":"200000012345","to":"c-1","dry_run":true}"#,
            "undo": #"{"undo":12}"#, "grant": #"{"entitlement":"premium","until":"2027-01-01T00:00:00Z","reason":"x"}"#,
            "revoke": #"{"grant_id":"g-1","reason":"y"}"#,
            "reconcile": #"""
            {"app":"com.example.app","environment":"auto","signed_transactions":["a.b.c"],"signed_renewal_infos":[],
            "app_transaction":"a.b.c","facts":true,
            "claims":[{"product_id":"p","state":"active","until":"2027-01-01T00:00:00Z"}]}
            """#,
        ]
        for (name, text) in StripeInputs.texts { try put("stripe/\(name)", Array(text.utf8)) }
        for (name, text) in requests { try put("request/\(name)", Array(text.utf8)) }
    }

    /// The catalog, and what a device is answered with the facts themselves.
    private static func putAnswers(
        _ life: StoreLife, _ installation: Installation, _ client: HTTPClient
    ) async throws {
        try put("catalog/world", installation.world.catalogFile.encoded())
        let bought = try #require(life.notifications.first { $0.environment == .production && $0.transaction != nil })
        let statement = try #require(try installation.authority.signTransaction(of: bought))
        let owner = try await client.send(
            "GET", "/v1/customers", query: ["transaction_id": bought.originalTransactionID ?? ""])
        let customer = try #require((owner.json["items"] as? [[String: Any]])?.first?["customer_id"] as? String)
        let body: [String: Any] = [
            "app": installation.world.bundleID, "signed_transactions": [statement], "facts": true,
        ]
        let answer = try await client.send(
            "POST", "/v1/customers/\(customer)/reconcile", body: Array(JSONSerialization.data(withJSONObject: body)))
        #expect(answer.status == 200, "\(answer.text)")
        try put("answer/reconciliation", Array(answer.body))
        let document = try WireJSON.decode(ReconciliationDocument.self, from: Array(answer.body))
        let facts = try #require(document.facts?.facts)
        try put("customer-facts/customer", facts.encoded())
        let state = try #require(facts.originals.values.max { $0.encoded().count < $1.encoded().count })
        try put("state/life", state.encoded())
        let exported = try await export(customer, installation)
        try put(FuzzCorpus.logKeyFile, Array((exported.document.checkpoint?.logKey ?? "").utf8))
        var types: Set<String> = []
        for event in exported.document.events where types.insert(event.type).inserted {
            try put("fact/\(event.type)", try #require(event.canonicalBytes))
        }
    }

    private static func export(
        _ customer: String, _ installation: Installation
    ) async throws -> (file: [UInt8], document: CustomerExportDocument) {
        let path = installation.directory.appending(path: "export.json").path()
        try await installation.rightful("export", customer, "--output", path)
        let file = [UInt8](try Data(contentsOf: URL(filePath: path)))
        try FileManager.default.removeItem(atPath: path)
        return (file, try WireJSON.decode(CustomerExportDocument.self, from: file))
    }

    /// The smallest file that holds something signed.
    private static func putExport(_ life: StoreLife, _ installation: Installation) async throws {
        var smallest: [UInt8]?
        for customer in life.record.customers where customer.environment == .production {
            let (file, document) = try await export(customer.customerID, installation)
            guard document.events.contains(where: { $0.evidence != nil }) else { continue }
            if file.count < smallest?.count ?? .max { smallest = file }
        }
        try put("export/customer", try #require(smallest))
    }

    /// A checkpoint, and facts that no customer's file holds.
    private static func putLog(_ life: StoreLife, _ installation: Installation, _ client: HTTPClient) async throws {
        let note = try await client.send("GET", "/v1/ledger/checkpoint")
        try put("note/checkpoint", Array(note.body))
        try put(
            "note/key",
            Array(
                try String(contentsOf: FuzzCorpus.directory.appending(path: FuzzCorpus.logKeyFile), encoding: .utf8)
                    .utf8))
        let id = IdentityRef(1)
        let facts: [String: LedgerFact] = [
            "link": .link(LinkFact(identity: id, customer: IdentityRef(2))),
            "login": .link(
                LinkFact(identity: id, customer: IdentityRef(2), cause: LinkCause.allCases.last ?? .command)),
            "claim": .claim(ClaimFact(originalTransactionID: "2000", customer: id)),
            "transfer": .transfer(TransferFact(originalTransactionID: "2000", customer: id)),
            "transfer-undo": .transferUndo(TransferUndoFact(originalTransactionID: "2000", undoes: 7)),
            "grant": .grant(
                GrantFact(grantID: "g", customer: id, entitlementID: "premium", until: .latest, reason: "because")),
            "grant-revocation": .grantRevocation(GrantRevocationFact(grantID: "g", customer: id, reason: "because")),
            "conflict": .conflict(ConflictFact(originalTransactionID: "2000", claimant: id)),
            "extension": .storeRequest(
                StoreRequestFact(
                    bundleID: "com.example.app", originalTransactionID: "2000",
                    content: .renewalExtension(
                        RenewalExtension(
                            days: 7, reason: .serviceIssue, requestIdentifier: "r", until: Timestamp(milliseconds: 5))),
                    outcome: .refused(code: 4_030_004), settles: 7,
                    order: StoreRequestOrder(actor: "support", reason: "because"))),
            "consumption": .storeRequest(
                StoreRequestFact(
                    bundleID: "com.example.app", originalTransactionID: "2000",
                    content: .consumption(
                        transactionID: "2001",
                        ConsumptionInformation(
                            sampleContentProvided: true, deliveryStatus: .delivered, consumptionPercentage: 40_000,
                            refundPreference: .grantProrated)), outcome: .accepted, settles: 7)),
            "forgetting": .forgetting(ForgettingFact(identities: [id], evidencePositions: [1, 2])),
        ]
        for (name, fact) in facts { try put("fact/\(name)", FactCodec.encode(fact)) }
    }
}
