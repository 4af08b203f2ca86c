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
            if let held = alone.answers(at: instant).first(where: { $0.goesOn(with: product.productID) }) {
                return .held(held.reading.source)
            }
            guard let web = state.web, ownership.currentOwner(of: web) == customer,
                let last = web.statement(at: instant)
            else { continue }
            let charged = last.items.filter { last.charging(of: $0)?.goesOn == true }
            if charged.contains(where: { catalog.isSame($0.product, as: product) }) {
                return .charged(originalTransactionID: id)
            }
        }
        return nil
    }

    /// The originals that were sold to this customer on the web and are theirs still, those that renew and the latest first:
    /// whoever paid for them is who pays next.
    ///
    /// What was transferred to them somebody else has paid for.
    package func paidOnWeb() -> [WebOriginal] {
        originals.values.compactMap { state in
            guard let web = state.web, let stated = web.statedOwner,
                ownership.customer(of: stated) == customer, ownership.currentOwner(of: web) == customer
            else { return nil }
            return (web, state.lastPosition)
        }.sorted { (left: (WebOriginal, Int64), right: (WebOriginal, Int64)) in
            let (renews, others) = (!left.0.subscriptions.isEmpty, !right.0.subscriptions.isEmpty)
            return renews != others ? renews : left.1 > right.1
        }.map(\.0)
    }

    /// What this customer has ordered of a product on the web, and not paid as far as is known: the newest first.
    package func unpaid(of product: CatalogProduct, at instant: Timestamp) -> [String] {
        originals.compactMap { id, state -> (id: String, position: Int64)? in
            guard let web = state.web, ownership.currentOwner(of: web) == customer,
                web.isOrdered(product, in: catalog, at: instant)
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
