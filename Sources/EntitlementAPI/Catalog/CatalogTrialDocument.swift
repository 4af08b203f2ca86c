package import EntitlementCore

/// What a catalog would change: the answer of `POST /v1/catalog/actions/try`.
package struct CatalogTrialDocument: Codable, Hashable, Sendable, NamedDocument {
    package struct Population: Codable, Hashable, Sendable {
        package let environment: StoreEnvironment
        package let count: Int64

        package init(environment: StoreEnvironment, count: Int64) {
            self.environment = environment
            self.count = count
        }
    }

    /// How an entitlement reads, or would read, for one customer.
    package struct Reading: Codable, Hashable, Sendable {
        package let givesAccess: Bool
        package let state: EntitlementState
        @Nullable package private(set) var until: Timestamp?
        @Nullable package private(set) var productID: String?

        package init(_ answer: EntitlementAnswer) {
            givesAccess = answer.givesAccess
            state = answer.state
            _until = Nullable(wrappedValue: answer.until)
            _productID = Nullable(wrappedValue: answer.reading.productID)
        }

        private enum CodingKeys: String, CodingKey {
            case state, until
            case givesAccess = "gives_access"
            case productID = "product_id"
        }
    }

    package struct Example: Codable, Hashable, Sendable {
        package let customerID: String
        @Nullable package private(set) var before: Reading?
        @Nullable package private(set) var after: Reading?

        package init(customerID: String, _ effect: CatalogEffect) {
            self.customerID = customerID
            _before = Nullable(wrappedValue: effect.before.map(Reading.init))
            _after = Nullable(wrappedValue: effect.after.map(Reading.init))
        }

        private enum CodingKeys: String, CodingKey {
            case before, after
            case customerID = "customer_id"
        }
    }

    package struct Effect: Codable, Hashable, Sendable {
        package let environment: StoreEnvironment
        package let entitlement: String
        package let effect: CatalogEffectKind
        package let customers: Int64
        package let examples: [Example]

        package init(
            environment: StoreEnvironment, entitlement: String, effect: CatalogEffectKind, customers: Int64,
            examples: [Example]
        ) {
            self.environment = environment
            self.entitlement = entitlement
            self.effect = effect
            self.customers = customers
            self.examples = examples
        }
    }

    package struct Difference: Codable, Hashable, Sendable {
        package let productsRemoved: [String]
        package let productsAdded: [String]
        package let productsChanged: [String]
        package let entitlementsRemoved: [String]
        package let entitlementsAdded: [String]
        package let policyChanged: Bool

        package init(_ difference: CatalogDifference) {
            productsRemoved = difference.productsRemoved
            productsAdded = difference.productsAdded
            productsChanged = difference.productsChanged
            entitlementsRemoved = difference.entitlementsRemoved
            entitlementsAdded = difference.entitlementsAdded
            policyChanged = difference.isPolicyChanged
        }

        private enum CodingKeys: String, CodingKey {
            case productsRemoved = "products_removed"
            case productsAdded = "products_added"
            case productsChanged = "products_changed"
            case entitlementsRemoved = "entitlements_removed"
            case entitlementsAdded = "entitlements_added"
            case policyChanged = "policy_changed"
        }
    }

    package static let objectName = "catalog_trial"
    package private(set) var object = Self.objectName
    package let at: Timestamp
    package let knownAt: Int64
    /// Where the catalog was written that is in force.
    package let catalogPosition: Int64
    package let foldVersion: Int
    /// Whether everybody was looked at.
    package let complete: Bool
    @Nullable package private(set) var nextAfter: Int64?
    package let customers: [Population]
    package let effects: [Effect]
    package let difference: Difference
    /// What a person should look at; `nil` and left out where there is nothing.
    package let remarks: [String]?

    package init(
        at: Timestamp, knownAt: Int64, catalogPosition: Int64, nextAfter: Int64?, customers: [Population],
        effects: [Effect], difference: Difference, remarks: [String] = []
    ) {
        self.at = at
        self.knownAt = knownAt
        self.catalogPosition = catalogPosition
        foldVersion = OriginalState.foldVersion
        complete = nextAfter == nil
        _nextAfter = Nullable(wrappedValue: nextAfter)
        self.customers = customers
        self.effects = effects
        self.difference = difference
        self.remarks = remarks.isEmpty ? nil : remarks
    }

    private enum CodingKeys: String, CodingKey {
        case object, at, complete, customers, effects, difference, remarks
        case knownAt = "known_at"
        case catalogPosition = "catalog_position"
        case foldVersion = "fold_version"
        case nextAfter = "next_after"
    }
}
