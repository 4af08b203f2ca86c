package import EntitlementCore
import Foundation

/// The truth as a device is told it: the answer of `POST /v1/customers/{id}/reconcile`.
package struct ReconciliationDocument: Codable, Hashable, Sendable, NamedDocument {
    /// What tells whose device it is; from the strongest to none.
    package enum Proof: String, Codable, Hashable, Sendable, CaseIterable {
        case secretKey = "secret_key"
        case customerToken = "customer_token"
        case appTransaction = "app_transaction"
        case none
    }

    package static let objectName = "reconciliation"
    package private(set) var object = Self.objectName
    package let customerID: String
    package let environment: StoreEnvironment
    /// The position the answer rests on; what was posted is recorded at or before it.
    package let position: Int64
    package let foldVersion: Int
    package let at: Timestamp
    /// As in ``EntitlementsDocument``.
    package let entitlements: [EntitlementDocument]
    /// As in ``TimelineDocument``.
    package let timeline: [TimelineDocument.Entitlement]
    package let catalog: CatalogCopy
    /// The ids of the transactions that the device may finish: what they state is durable.
    package let finish: [String]
    /// One for each posted transaction, in the order in which they were posted.
    package let results: [TransactionResult]
    /// One for each posted piece of renewal information, in the order in which they were posted.
    package let renewalResults: [RenewalResult]
    /// `null` where none was posted.
    @Nullable package private(set) var appTransaction: AppTransactionResult?
    package let proof: Proof
    /// What the device claimed and is not so.
    package let drift: [DriftDocument]
    /// A signed form of the answer for the device to keep; `null` where there is no key to sign with.
    @Nullable package private(set) var pass: String?
    /// Only where it was asked for, and there is proof.
    package let facts: FactsCopy?
    /// The ledger's own id: a device that finds another one has everything to tell again.
    package let ledgerID: String?

    package init(
        customerID: String, environment: StoreEnvironment, position: Int64, at: Timestamp,
        entitlements: [EntitlementDocument], timeline: [TimelineDocument.Entitlement], catalog: CatalogCopy,
        finish: [String], results: [TransactionResult], renewalResults: [RenewalResult],
        appTransaction: AppTransactionResult?, proof: Proof, drift: [DriftDocument], pass: String?,
        facts: FactsCopy? = nil, ledgerID: String? = nil
    ) {
        self.customerID = customerID
        self.environment = environment
        self.position = position
        foldVersion = OriginalState.foldVersion
        self.at = at
        self.entitlements = entitlements
        self.timeline = timeline
        self.catalog = catalog
        self.finish = finish
        self.results = results
        self.renewalResults = renewalResults
        self.proof = proof
        self.drift = drift
        self.facts = facts
        self.ledgerID = ledgerID
        _appTransaction = Nullable(wrappedValue: appTransaction)
        _pass = Nullable(wrappedValue: pass)
    }

    private enum CodingKeys: String, CodingKey {
        case object, environment, position, at, entitlements, timeline, catalog, finish, results, proof, drift, pass,
            facts
        case customerID = "customer_id"
        case foldVersion = "fold_version"
        case ledgerID = "ledger_id"
        case renewalResults = "renewal_results"
        case appTransaction = "app_transaction"
    }
}

/// The facts behind an answer, for a device that folds them together with what it alone knows yet.
package struct FactsCopy: Codable, Hashable, Sendable {
    /// The canonical bytes of ``CustomerFacts``, in base64.
    package let encoded: String
    /// The numbers by which the facts mean the customer, and those whom the posted statements name.
    package let identities: [String: Int64]

    package init(_ facts: CustomerFacts, identities: [String: Int64]) {
        encoded = Data(facts.encoded()).base64EncodedString()
        self.identities = identities
    }

    /// The facts; `nil` where they are not of this program's form or fold version, and the answer itself stands.
    package var facts: CustomerFacts? {
        Data(base64Encoded: encoded).flatMap { try? CustomerFacts(encoded: Array($0)) }
    }
}

/// The catalog inside another answer, as `GET /v1/catalog` answers it.
package struct CatalogCopy: Hashable, Sendable {
    package let catalog: Catalog
    /// The position at which it was written; 0 where none was.
    package let position: Int64

    package init(_ catalog: Catalog, writtenAt position: Int64) {
        self.catalog = catalog
        self.position = position
    }
}

extension CatalogCopy: StandsFor, Sampled {
    package typealias Meant = CatalogForm
    package static var sample: CatalogCopy { CatalogCopy(Catalog(products: [], policy: AccessPolicy()), writtenAt: 0) }
}

extension CatalogCopy: Codable {
    package init(from decoder: any Decoder) throws {
        let document = try WireValue(from: decoder)
        guard case .object(let members) = document, case .int(let position) = members["position"] else {
            throw DecodingError.dataCorrupted(
                DecodingError.Context(codingPath: decoder.codingPath, debugDescription: "not a catalog with a position")
            )
        }
        catalog = try CatalogDocument(parsing: WireJSON.encode(document), from: .answer).catalog
        self.position = position
    }

    package func encode(to encoder: any Encoder) throws {
        // Not by way of the bytes: with thousands of products this is most of the answer.
        var members = CatalogDocument(catalog).members
        members["object"] = .string("catalog")
        members["position"] = .int(position)
        try WireValue.object(members).encode(to: encoder)
    }
}
