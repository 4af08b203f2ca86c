/// Why a product is not sold to a customer on the web.
package enum WebSaleObstacle: Hashable, Sendable {
    /// They have it, and it goes on for good or until it is paid again.
    case held(EntitlementOrigin)
    /// They subscribed to it on the web, and Stripe charges them for it, tries to, or will when it goes on: another would be
    /// paid beside it.
    case charged(originalTransactionID: String)
}

extension CustomerFacts {
    /// What stands in the way of selling a product on the web, so that nobody pays twice for one thing.
    ///
    /// Each original is looked at by itself: what is shown of an entitlement may be another that reaches further.
    package func obstacle(toSelling product: CatalogProduct, at instant: Timestamp) -> WebSaleObstacle? {
        for (id, state) in originals.sorted(by: { $0.key < $1.key }) {
            var alone = self
            (alone.originals, alone.grants) = ([id: state], [])
            let answers = alone.answers(at: instant)
            if let held = answers.first(where: { $0.goesOn(with: product.productID) }) {
                return .held(held.reading.source)
            }
            if alone.charged(on: state, at: instant).contains(where: { catalog.isSame($0, as: product) }) {
                return .charged(originalTransactionID: id)
            }
        }
        return nil
    }

    /// The products of the catalog for which Stripe charges this customer again, tries to, or will when collection goes on,
    /// whether or not they give anything now.
    package func productsChargedOnWeb(at instant: Timestamp) -> Set<String> {
        originals.reduce(into: []) { found, original in
            var alone = self
            (alone.originals, alone.grants) = ([original.key: original.value], [])
            found.formUnion(alone.charged(on: original.value, at: instant).compactMap(catalog.productID(of:)))
        }
    }

    /// What of the one original that these facts hold Stripe charges this customer for, tries to, or will when collection goes on.
    private func charged(on state: OriginalState, at instant: Timestamp) -> [WebProduct] {
        guard let web = state.web, ownership.currentOwner(of: web) == customer, let last = web.statement(at: instant)
        else { return [] }
        // A card that a stranger brought, and that is charged in vain, keeps nobody from buying.
        if isNamedByPayerAlone(web), !answers(at: instant).contains(where: \.givesAccess) { return [] }
        return last.items.filter { last.charging(of: $0)?.goesOn == true }.map(\.product)
    }

    /// The originals that were sold to this customer on the web and are theirs still, those that renew and the latest first:
    /// whoever paid for them is who pays next.
    ///
    /// What was transferred to them somebody else has paid for; what names them by a reference alone, anybody may have.
    package func paidOnWeb() -> [WebOriginal] {
        originals.values.compactMap { state in
            guard let web = state.web, isSold(web), ownership.currentOwner(of: web) == customer,
                !isNamedByPayerAlone(web)
            else { return nil }
            return (web, state.lastPosition)
        }.sorted { (left: (WebOriginal, Int64), right: (WebOriginal, Int64)) in
            let (renews, others) = (!left.0.subscriptions.isEmpty, !right.0.subscriptions.isEmpty)
            return renews != others ? renews : left.1 > right.1
        }.map(\.0)
    }

    /// Whether they have something from the web, and it is of none known that they paid for it: it names them by a reference
    /// alone.
    package var isNamedByPayersAlone: Bool {
        paidOnWeb().isEmpty
            && originals.values.contains { state in
                guard let web = state.web else { return false }
                return ownership.currentOwner(of: web) == customer && isNamedByPayerAlone(web)
            }
    }

    private func isSold(_ web: WebOriginal) -> Bool {
        web.statedOwner.map(ownership.customer(of:)) == customer
    }

    /// Whether it is this customer's by nothing but a name that whoever paid may have written themselves.
    private func isNamedByPayerAlone(_ web: WebOriginal) -> Bool {
        isSold(web)
            && !web.owners.contains { named in
                named.value.place.isWrittenBySeller && ownership.customer(of: named.value.customer) == customer
            }
    }

    /// What this customer has ordered of a product on the web, and not paid as far as is known: the newest first.
    ///
    /// An order that names them by a reference alone may be a stranger's, and costs whoever made it nothing.
    package func unpaid(of product: CatalogProduct, at instant: Timestamp) -> [String] {
        originals.compactMap { id, state -> (id: String, position: Int64)? in
            guard let web = state.web, ownership.currentOwner(of: web) == customer,
                !isNamedByPayerAlone(web), web.isOrdered(product, in: catalog, at: instant)
            else {
                return nil
            }
            return (id, state.lastPosition)
        }.sorted { $0.position > $1.position }.map(\.id)
    }

}

extension WebOriginal {
    /// The events that may say who paid, those that were heard last of their kind.
    package var positionsOfPayer: [Int64] {
        let heard = [
            subscriptions.last?.position, lines.map(\.position).max(), payments.last?.position, owners.first?.position,
        ]
        return heard.reduce(into: []) { known, position in
            if let position, !known.contains(position) { known.append(position) }
        }
    }
}

extension WebOriginal {
    /// How long a payment may take that does not fail, in milliseconds; of a subscription's first Stripe says so after a day.
    private static let longestPayment = 14 * Timestamp.millisecondsPerDay

    /// Whether it is of a product, or of another price of the same product of Stripe's, and nothing was paid for it yet that
    /// may still be.
    fileprivate func isOrdered(_ product: CatalogProduct, in catalog: Catalog, at instant: Timestamp) -> Bool {
        let stated = subscriptions.last?.statedAt ?? payments.last?.statedAt
        guard let stated, stated > instant.adding(milliseconds: -Self.longestPayment) else { return false }
        if let last = subscriptions.last?.value {
            return last.status == .known(.incomplete) && last.items.contains { catalog.isSame($0.product, as: product) }
        }
        return payments.allSatisfy { $0.value.paidAt == nil }
            && payments.contains { payment in
                payment.value.catalogProductID == product.productID
                    || payment.value.products.contains { catalog.isSame($0, as: product) }
            }
    }
}

extension Catalog {
    /// Whether what was sold is this product, or another price of the same product of Stripe's.
    fileprivate func isSame(_ sold: WebProduct, as product: CatalogProduct) -> Bool {
        if productID(of: sold) == product.productID { return true }
        guard let name = sold.product, let stripe = product.stripe else { return false }
        return [stripe.product, stripe.sandboxProduct].contains(name)
    }
}

extension EntitlementAnswer {
    /// Whether it gives access by a product and will do so for good, or until it is paid again.
    fileprivate func goesOn(with productID: String) -> Bool {
        guard givesAccess, let held = reading.productID, held.utf8.elementsEqual(productID.utf8) else { return false }
        return until == nil || willRenew == true
    }
}
