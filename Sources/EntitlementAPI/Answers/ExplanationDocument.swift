package import EntitlementCore

/// Why a customer's entitlements read as they do: the answer of `GET /v1/customers/{id}/explain`.
package struct ExplanationDocument: Codable, Hashable, Sendable, NamedDocument {
    /// The catalog in force, as far as it bears on this customer.
    package struct CatalogPart: Codable, Hashable, Sendable {
        /// 0 before any catalog was applied.
        package let position: Int64
        @Nullable package private(set) var recordedAt: Timestamp?
        @Written<CatalogPolicyForm> package var policy: WireValue
        /// Those that the customer's purchases name, with what each gives; nothing where the catalog lacks it.
        @Written<[CatalogProductForm]> package var products: WireValue

        package init(_ explainer: Explainer) {
            let catalog = Catalog(products: explainer.products, policy: explainer.facts.catalog.policy)
            let members = CatalogDocument(catalog).members
            position = explainer.catalogPosition
            _policy = Written(wrappedValue: members["policy"] ?? .null)
            _products = Written(wrappedValue: members["products"] ?? .null)
            _recordedAt = Nullable(wrappedValue: explainer.history.catalogs.last?.event.recordedAt)
        }

        private enum CodingKeys: String, CodingKey {
            case position, policy, products
            case recordedAt = "recorded_at"
        }
    }

    /// The rule of the fold that decided.
    package struct Rule: Codable, Hashable, Sendable {
        package let code: String
        /// For people; it names no identity.
        package let sentence: String
    }

    package struct Entitlement: Codable, Hashable, Sendable {
        package let id: String
        package let decision: ExplainedDecision
        package let rule: Rule
        /// None can be left out: folding only these gives the same decision.
        package let events: [CitedEvent]
        package let considered: [ConsideredDocument]
        package let wouldChange: [OutlookDocument]
        /// The last change of the catalog that made a difference to this decision; `null` where none of those that the history
        /// keeps did.
        @Nullable package private(set) var catalogChange: CatalogChangeDocument?

        package init(_ explanation: Explanation) {
            id = explanation.decision.entitlementID
            decision = ExplainedDecision(explanation)
            rule = Rule(code: explanation.decision.rule.code, sentence: explanation.decision.sentence)
            events = explanation.events.map { CitedEvent($0) }
            considered = explanation.considered.map { ConsideredDocument($0) }
            wouldChange = explanation.outlook.map { OutlookDocument($0) }
            _catalogChange = Nullable(wrappedValue: explanation.catalogChange.map { CatalogChangeDocument($0) })
        }

        private enum CodingKeys: String, CodingKey {
            case id, decision, rule, events, considered
            case wouldChange = "would_change"
            case catalogChange = "catalog_change"
        }
    }

    package static let objectName = "explanation"
    package private(set) var object = Self.objectName
    package let customerID: String
    package let environment: StoreEnvironment
    package let at: Timestamp
    /// The position the answer rests on.
    package let knownAt: Int64
    package let foldVersion: Int
    package let catalog: CatalogPart
    /// In the order of their ids.
    package let entitlements: [Entitlement]
    /// What the customer claimed and is another's, which is why it gives them nothing.
    package let conflicts: [RefusedClaimDocument]
    /// Where a customer of whom nothing is known here is known instead; left out otherwise.
    package let alsoIn: [StoreEnvironment]?

    package init(
        customerID: String, explainer: Explainer, explanations: [Explanation], alsoIn: [StoreEnvironment]
    ) {
        self.customerID = customerID
        environment = explainer.history.environment
        at = explainer.instant
        knownAt = explainer.history.position
        foldVersion = OriginalState.foldVersion
        catalog = CatalogPart(explainer)
        entitlements = explanations.map { Entitlement($0) }
        conflicts = explainer.refusedClaims.map { RefusedClaimDocument($0) }
        self.alsoIn = alsoIn.isEmpty ? nil : alsoIn
    }

    private enum CodingKeys: String, CodingKey {
        case object, environment, at, catalog, entitlements, conflicts
        case customerID = "customer_id"
        case knownAt = "known_at"
        case foldVersion = "fold_version"
        case alsoIn = "also_in"
    }
}

/// The decision as `…/entitlements` answers it; what nothing gives has `null` in place of what there is not.
package struct ExplainedDecision: Codable, Hashable, Sendable {
    package struct Reason: Codable, Hashable, Sendable {
        package let code: String
        package let positions: [Int64]
    }

    package let id: String
    package let givesAccess: Bool
    @Nullable package private(set) var state: EntitlementState?
    @Nullable package private(set) var since: Timestamp?
    @Nullable package private(set) var until: Timestamp?
    @Nullable package private(set) var productID: String?
    @Nullable package private(set) var source: EntitlementOrigin?
    @Nullable package private(set) var ownership: OwnershipWord?
    @Nullable package private(set) var originalTransactionID: String?
    @Nullable package private(set) var willRenew: Bool?
    @Nullable package private(set) var offer: OfferDocument?
    package let reason: Reason

    package init(_ explanation: Explanation) {
        let held = explanation.answer.map { EntitlementDocument($0) }
        let decision = explanation.decision
        id = decision.entitlementID
        givesAccess = decision.givesAccess
        reason = Reason(code: decision.rule.code, positions: held?.reason.positions ?? [])
        _state = Nullable(wrappedValue: held?.state)
        _since = Nullable(wrappedValue: held?.since)
        _until = Nullable(wrappedValue: held?.until)
        _productID = Nullable(wrappedValue: held?.productID)
        _source = Nullable(wrappedValue: held?.source)
        _ownership = Nullable(wrappedValue: held?.ownership)
        _originalTransactionID = Nullable(wrappedValue: held?.originalTransactionID)
        _willRenew = Nullable(wrappedValue: held?.willRenew)
        _offer = Nullable(wrappedValue: held?.offer)
    }

    private enum CodingKeys: String, CodingKey {
        case id, state, since, until, source, ownership, offer, reason
        case givesAccess = "gives_access"
        case productID = "product_id"
        case originalTransactionID = "original_transaction_id"
        case willRenew = "will_renew"
    }
}
