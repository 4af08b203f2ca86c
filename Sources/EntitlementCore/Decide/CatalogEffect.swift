/// What another catalog would change for a customer.
package enum CatalogEffectKind: String, Hashable, Sendable, CaseIterable, Codable {
    /// Access to an entitlement that gives none now.
    case gains
    /// No access to an entitlement that gives it now.
    case loses
    /// Access until another instant than now.
    case until
}

/// What another catalog would change of one entitlement of one customer.
package struct CatalogEffect: Hashable, Sendable {
    package let entitlementID: String
    package let kind: CatalogEffectKind
    /// What is answered now; `nil` where it was never held.
    package let before: EntitlementAnswer?
    /// What would be answered.
    package let after: EntitlementAnswer?
}

extension CustomerFacts {
    /// What another catalog would change of what this customer holds at an instant, by entitlement.
    package func effects(of proposed: Catalog, at instant: Timestamp) -> [CatalogEffect] {
        var other = self
        other.catalog = proposed
        let before = Dictionary(answers(at: instant).map { ($0.entitlementID, $0) }) { first, _ in first }
        let after = Dictionary(other.answers(at: instant).map { ($0.entitlementID, $0) }) { first, _ in first }
        return Set(before.keys).union(after.keys).sorted().compactMap { id in
            let (now, then) = (before[id], after[id])
            let kind: CatalogEffectKind
            switch (now?.givesAccess ?? false, then?.givesAccess ?? false) {
            case (false, false): return nil
            case (false, true): kind = .gains
            case (true, false): kind = .loses
            case (true, true):
                guard now?.until != then?.until else { return nil }
                kind = .until
            }
            return CatalogEffect(entitlementID: id, kind: kind, before: now, after: then)
        }
    }
}

/// In what two catalogs differ.
package struct CatalogDifference: Hashable, Sendable {
    /// Products that the present one has, and the proposed one has not.
    package let productsRemoved: [String]
    package let productsAdded: [String]
    /// Products of both of which they say something else.
    package let productsChanged: [String]
    /// Entitlements that some product of the present one gives, and none of the proposed one.
    package let entitlementsRemoved: [String]
    package let entitlementsAdded: [String]
    package let isPolicyChanged: Bool
    /// Products sold for one payment that the proposed one has under another name.
    ///
    /// A payment states the name that it was made for, so it gives nothing by the other.
    package let oneTimeProductsRenamed: [String]

    package init(from present: Catalog, to proposed: Catalog) {
        func entitlements(_ catalog: Catalog) -> Set<String> { Set(catalog.products.flatMap(\.entitlements)) }
        func missing(_ catalog: Catalog, in other: Catalog) -> [String] {
            catalog.products.map(\.productID).filter { other.product($0) == nil }
        }
        productsRemoved = missing(present, in: proposed)
        productsAdded = missing(proposed, in: present)
        productsChanged = present.products.filter { product in
            proposed.product(product.productID).map { $0 != product } ?? false
        }.map(\.productID)
        entitlementsRemoved = entitlements(present).subtracting(entitlements(proposed)).sorted()
        entitlementsAdded = entitlements(proposed).subtracting(entitlements(present)).sorted()
        isPolicyChanged = present.policy != proposed.policy
        oneTimeProductsRenamed = present.products.filter { product in
            guard let stripe = product.stripe, stripe.mode == .payment else { return false }
            return proposed.product(product.productID) == nil
                && proposed.productID(of: WebProduct(price: stripe.price, product: nil)) != nil
        }.map(\.productID)
    }
}
