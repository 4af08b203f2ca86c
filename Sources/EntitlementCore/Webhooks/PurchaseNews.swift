/// What is known of a customer, and the instant at which it is read.
package struct CustomerMoment: Sendable {
    package let facts: CustomerFacts
    /// Up to where the log is believed.
    package let position: Int64
    package let environment: StoreEnvironment
    /// Everybody who is this customer by the links in force, in ascending order.
    package let names: [IdentityRef]
    package let instant: Timestamp
    /// Of whatever the facts hold, and of what became known later.
    package let hearings: PurchaseHearings

    package init(
        _ facts: CustomerFacts, knownAt position: Int64, in environment: StoreEnvironment, names: [IdentityRef],
        at instant: Timestamp, hearings: PurchaseHearings
    ) {
        (self.facts, self.position, self.environment) = (facts, position, environment)
        (self.names, self.instant, self.hearings) = (names, instant, hearings)
    }
}

/// A message about something that happened to a purchase.
package struct PurchaseNews: Hashable, Sendable {
    package let type: MessageType
    /// What is stored of it until it is sent; people are named only by their numbers.
    package let body: [UInt8]

    package init(_ type: MessageType, body: [UInt8]) { (self.type, self.body) = (type, body) }
}

/// Everything that happened to a customer's purchases between two moments.
package struct PurchaseChanges: Sendable {
    /// A purchase that is not this customer's any more.
    package struct Departed: Sendable {
        /// What it is, in the words of whoever tells it.
        package let purchase: [String: String]
        /// The messages about its end; none where it gave no access.
        package let news: [PurchaseNews]

        package init(purchase: [String: String], news: [PurchaseNews]) {
            (self.purchase, self.news) = (purchase, news)
        }
    }

    /// A purchase that was not this customer's.
    package struct Arrived: Sendable {
        /// The messages about it if it counts as bought.
        package let news: [PurchaseNews]
        /// The messages about it that follow the message of a transfer; none where it gives no access.
        package let transferred: [PurchaseNews]

        package init(news: [PurchaseNews], transferred: [PurchaseNews]) {
            (self.news, self.transferred) = (news, transferred)
        }
    }

    package var news: [PurchaseNews] = []
    /// By the key that names the purchase.
    package var departed: [String: Departed] = [:]
    package var arrived: [String: Arrived] = [:]
    /// Whether something gives the customer access afterwards.
    package var holdsSomething = false
    /// The customer's entitlements at the two moments, as they are sent.
    package let before: [UInt8]
    package let after: [UInt8]

    package init(before: [UInt8], after: [UInt8]) { (self.before, self.after) = (before, after) }

    package var isEmpty: Bool { news.isEmpty && departed.isEmpty && arrived.isEmpty }
}

/// Makes the messages about purchases, in one format.
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
    ///   - purchases: what they are, as ``PurchaseChanges/Departed`` has it.
    ///   - teller: whose message it is, one of the two.
    func transfer(
        of purchases: [[String: String]], from giver: IdentityRef, to taker: IdentityRef, told teller: IdentityRef,
        in environment: StoreEnvironment
    ) throws -> [PurchaseNews]
}

extension CustomerFacts {
    /// The first instant after another at which time alone may change a purchase; `endless` where it cannot.
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
