/// What is known of a customer, and the instant at which it is read.
package struct CustomerMoment: Sendable {
    package let facts: CustomerFacts
    package let environment: StoreEnvironment
    /// Everybody who is this customer by the links in force, in ascending order.
    package let names: [IdentityRef]
    package let instant: Timestamp

    package init(
        _ facts: CustomerFacts, in environment: StoreEnvironment, names: [IdentityRef], at instant: Timestamp
    ) {
        (self.facts, self.environment, self.names, self.instant) = (facts, environment, names, instant)
    }
}

/// Something that became of a purchase.
package struct PurchaseNews: Hashable, Sendable {
    package let type: MessageType
    /// What is kept of it until it is sent; it names people by their numbers alone.
    package let body: [UInt8]

    package init(_ type: MessageType, body: [UInt8]) { (self.type, self.body) = (type, body) }
}

/// All that became of a customer's purchases from one moment to another.
package struct PurchaseChanges: Sendable {
    /// A purchase that is not this customer's any more.
    package struct Gone: Sendable {
        /// What it is, in the words of whoever tells it.
        package let purchase: [String: String]
        /// What is told of its end; nothing where it gave no access.
        package let news: [PurchaseNews]

        package init(purchase: [String: String], news: [PurchaseNews]) {
            (self.purchase, self.news) = (purchase, news)
        }
    }

    /// A purchase that was not this customer's.
    package struct Come: Sendable {
        /// What is told of it as of one that was bought.
        package let news: [PurchaseNews]
        /// What is told of it behind a transfer of all that somebody had; nothing where it gives no access.
        package let transferred: [PurchaseNews]

        package init(news: [PurchaseNews], transferred: [PurchaseNews]) {
            (self.news, self.transferred) = (news, transferred)
        }
    }

    package var news: [PurchaseNews] = []
    /// By what names the purchase.
    package var gone: [String: Gone] = [:]
    package var come: [String: Come] = [:]
    /// Whether something gives the customer access afterwards.
    package var holdsSomething = false
    /// The customer's entitlements at the two moments, as they are sent.
    package let before: [UInt8]
    package let after: [UInt8]

    package init(before: [UInt8], after: [UInt8]) { (self.before, self.after) = (before, after) }

    package var isEmpty: Bool { news.isEmpty && gone.isEmpty && come.isEmpty }
}

/// Tells what became of purchases, in the words of one format.
package protocol PurchaseTeller: Sendable {
    /// What became of one customer's purchases.
    ///
    /// It is a function of the two moments, so whoever asks again is told the same.
    ///
    /// - Parameters:
    ///   - before: `nil` where whom it was asked about was no customer of their own.
    ///   - after: the same of afterwards.
    func changes(from before: CustomerMoment?, to after: CustomerMoment?) throws -> PurchaseChanges

    /// That purchases went from one customer to another.
    ///
    /// - Parameters:
    ///   - purchases: what they are, as ``PurchaseChanges/Gone`` has it.
    ///   - teller: whose message it is, one of the two.
    func transfer(
        of purchases: [[String: String]], from giver: IdentityRef, to taker: IdentityRef, told teller: IdentityRef,
        in environment: StoreEnvironment
    ) throws -> [PurchaseNews]
}

extension CustomerFacts {
    /// The first instant after another at which time alone may make something of a purchase; `endless` where it cannot.
    package func nextPurchaseChange(after instant: Timestamp) -> Timestamp {
        var next = Timestamp.endless
        func note(_ boundary: Timestamp?) {
            if let boundary, boundary > instant, boundary < next { next = boundary }
        }
        for state in originals.values {
            for chain in state.chains(catalog) {
                for segment in state.segments(of: chain, policy: catalog.policy) {
                    note(segment.start)
                    note(segment.end)
                }
                // The store may charge for a period before it begins.
                for period in chain.periods { note(period.fact.purchaseDate) }
            }
            for fact in state.purchases(catalog) {
                note(fact.purchaseDate)
                note(fact.revocation?.date)
            }
            for renewal in state.renewals { note(renewal.fact.signedDate) }
            for stated in state.web?.subscriptions ?? [] { note(stated.statedAt) }
        }
        for grant in grants {
            note(grant.from)
            note(grant.end)
        }
        return next
    }
}
