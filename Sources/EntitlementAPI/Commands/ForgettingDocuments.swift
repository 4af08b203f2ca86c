package import EntitlementCore

/// Who is to be forgotten: the body of `…/actions/forget`.
package struct ForgetRequest: CommandBody {
    /// Whether to answer what would be erased, and erase nothing.
    package let isDryRun: Bool
    /// The customer's id again: what is forgotten does not come back.
    package let confirm: String?

    package init(from decoder: any Decoder) throws {
        let members = try decoder.container(keyedBy: CodingKeys.self)
        isDryRun = try members.value(.isDryRun, Bool.self, "true or false") ?? false
        confirm = try members.text(.confirm, limit: 1024)
    }

    private enum CodingKeys: String, CodingKey {
        case confirm
        case isDryRun = "dry_run"
    }
}

/// What forgetting somebody erases: the answer of `…/actions/forget`.
package struct ForgettingDocument: Codable, Hashable, Sendable, NamedDocument {
    /// A subscription that goes on being charged: nobody can look it up by the customer afterwards.
    package struct Charge: Codable, Hashable, Sendable {
        package let originalTransactionID: String
        package let environment: StoreEnvironment
        @Nullable package private(set) var productID: String?
        /// `app_store` or `stripe`: where it is ended.
        package let by: String

        package init(
            originalTransactionID: String, environment: StoreEnvironment, productID: String?, by: String
        ) {
            self.originalTransactionID = originalTransactionID
            self.environment = environment
            _productID = Nullable(wrappedValue: productID)
            self.by = by
        }

        private enum CodingKeys: String, CodingKey {
            case environment, by
            case originalTransactionID = "original_transaction_id"
            case productID = "product_id"
        }
    }

    /// An id that has to do with the customer: whether it goes, and whom it leads to.
    package struct Member: Codable, Hashable, Sendable {
        package let id: String
        package let erased: Bool
        package let leadsTo: [Lead]

        package init(id: String, erased: Bool, leadsTo: [Lead]) {
            self.id = id
            self.erased = erased
            self.leadsTo = leadsTo
        }

        private enum CodingKeys: String, CodingKey {
            case id, erased
            case leadsTo = "leads_to"
        }
    }

    /// Whom links in force lead to.
    package struct Lead: Codable, Hashable, Sendable {
        package let environment: StoreEnvironment
        package let customerID: String

        package init(environment: StoreEnvironment, customerID: String) {
            self.environment = environment
            self.customerID = customerID
        }

        private enum CodingKeys: String, CodingKey {
            case environment
            case customerID = "customer_id"
        }
    }

    package static let objectName = "forgetting"
    package private(set) var object = Self.objectName
    package let dryRun: Bool
    /// How many ids are erased: of customers, account tokens and app transactions.
    package let identities: Int
    /// The ids that go, the one asked for first, and then those that stay; left out where something was erased.
    package let ids: [Member]?
    /// How many pieces of evidence are erased.
    package let evidence: Int
    /// App transaction ids that stay, because statements of other customers bear them, too.
    package let sharedAppTransactions: Int
    /// Aliases that stay, because they stand for somebody else, too; the links from them are undone.
    package let keptAliases: Int
    /// Mail addresses by which nothing is erased, because they stand in what is other customers', too.
    package let sharedMailAddresses: Int
    /// Pieces of evidence that stay and are damaged, so that nobody can say whether they name the customer.
    package let unreadableEvidence: Int
    package let charges: [Charge]
    /// The events that say so; none where nothing was erased.
    package let positions: [Int64]

    package init(
        dryRun: Bool, identities: Int, ids: [Member]? = nil, evidence: Int, sharedAppTransactions: Int,
        keptAliases: Int,
        sharedMailAddresses: Int,
        unreadableEvidence: Int, charges: [Charge], positions: [Int64]
    ) {
        self.dryRun = dryRun
        self.identities = identities
        self.ids = ids
        self.evidence = evidence
        self.sharedAppTransactions = sharedAppTransactions
        self.keptAliases = keptAliases
        self.sharedMailAddresses = sharedMailAddresses
        self.unreadableEvidence = unreadableEvidence
        self.charges = charges
        self.positions = positions
    }

    private enum CodingKeys: String, CodingKey {
        case object, identities, ids, evidence, charges, positions
        case dryRun = "dry_run"
        case sharedAppTransactions = "shared_app_transactions"
        case keptAliases = "kept_aliases"
        case sharedMailAddresses = "shared_mail_addresses"
        case unreadableEvidence = "unreadable_evidence"
    }
}
