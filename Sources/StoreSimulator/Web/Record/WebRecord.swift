/// What was bought on the web, as it happened.
///
/// The storyteller writes it while it invents the life; it never looks at an object or an event of Stripe's.
package struct WebRecord: Sendable {
    /// The stories of all subscriptions and one-time payments.
    package internal(set) var stories: [SimulatedOriginalKey: WebStory] = [:]

    package init() {}

    /// Everybody to whom something was sold, as they were named.
    package var owners: [CustomerKey] {
        stories.compactMap { key, story in story.owner.map { CustomerKey(key.environment, $0) } }
    }

    /// This and what another record holds; no story may be in both.
    package func merging(_ other: WebRecord) -> WebRecord {
        var merged = self
        merged.stories.merge(other.stories) { _, _ in preconditionFailure("two records tell one story") }
        return merged
    }
}

/// The life of one subscription, or of one payment.
package struct WebStory: Sendable, Equatable {
    /// Where somebody wrote whose it is; of several the first in this order counts.
    package enum Place: Int, Sendable, CaseIterable {
        case purchase
        case session
        case clientReference
    }

    /// How a subscription stands.
    package enum Standing: Sendable, Equatable {
        /// It runs, and is to be charged when its period is over.
        case goesOn
        case pastDue
        case unpaid
        /// It stopped, or nothing is charged, and it may go on some day.
        case paused
        /// It was not paid at first, or is no more.
        case over
    }

    /// What Stripe said of a subscription at an instant.
    package struct Statement: Sendable, Equatable {
        package let created: Int64
        let standing: Standing
        let willRenew: Bool
        /// When somebody set it to end; nil where nobody did.
        let isToEndAt: Int64?
        /// The end of the period of each item that it has.
        let periodEnds: [String: Int64]
    }

    /// A stretch of time that was paid for.
    struct Stretch: Sendable, Equatable {
        let item: String
        let payment: String
        /// Nil for what the catalog does not know.
        let productID: String?
        let start: Int64
        let end: Int64
        let paidAt: Int64
        /// Whether it takes the place of what ran before; else it follows that.
        let replaces: Bool
        /// Of what begins at one instant, what was agreed on last counts.
        let order: Int
    }

    struct Stop: Sendable, Equatable {
        let item: String
        let at: Int64
    }

    /// Something that was bought for good, or for as long as the catalog says.
    struct Purchase: Sendable, Equatable {
        let productID: String?
        let from: Int64
    }

    /// Money that went back, and stayed there.
    struct Refund: Sendable, Equatable {
        let id: String
        let created: Int64
        let amount: Int64
    }

    struct Dispute: Sendable, Equatable {
        let id: String
        let created: Int64
        /// Whether the customer has the money, for now or for good.
        var stands: Bool
        var lostAt: Int64?
    }

    /// What was paid, and what became of it.
    struct Payment: Sendable, Equatable {
        /// In the currency's smallest unit.
        let amount: Int64
        let currency: String
        let paidAt: Int64
        var refunds: [Refund] = []
        var disputes: [Dispute] = []
    }

    /// Whether it is a payment that does not renew.
    package let isOneTime: Bool
    private(set) var names: [Place: String] = [:]
    /// Everybody who was ever named, and where.
    private var allNames: [Place: Set<String>] = [:]
    /// In the order in which they were said.
    package private(set) var statements: [Statement] = []
    private(set) var stretches: [Stretch] = []
    /// When items were no longer sold, and the rest of them was credited.
    private(set) var stops: [Stop] = []
    /// Which item came in the place of another.
    private(set) var heirs: [String: String] = [:]
    private(set) var purchases: [Purchase] = []
    private(set) var payments: [String: Payment] = [:]
    /// When the subscription was ended.
    private(set) var endedAt: Int64?

    init(isOneTime: Bool) { self.isOneTime = isOneTime }

    /// Who bought it; nil where nobody said.
    package var owner: String? { Place.allCases.lazy.compactMap { names[$0] }.first }

    /// Whom metadata names beside the owner of what was sold.
    package var rivals: Set<String> {
        if isOneTime, purchases.isEmpty { return [] }
        return allNames[.purchase, default: []].union(allNames[.session, default: []]).subtracting(
            [owner].compactMap(\.self))
    }

    /// Whoever else was named: by the checkout's reference, which may have counted for a while, or of what was never
    /// paid.
    package var possibleRivals: Set<String> {
        Set(allNames.values.flatMap(\.self)).subtracting([owner].compactMap(\.self))
    }
}

// What goes back.
extension WebStory {
    /// From when on what was paid for with a payment is taken back.
    func withdrawal(of payment: String, under policy: SimulatedAccessPolicy) -> Int64? {
        guard let payment = payments[payment] else { return nil }
        let refund = refund(of: payment, isWholeAtOnce: policy.proratedRefund == .endsAccess)
        let disputes = payment.disputes.filter(\.stands).map {
            switch policy.webDispute {
            case .suspendsAccess: $0.created
            case .keepsAccess: $0.lostAt
            }
        }
        return ([refund] + disputes).compactMap(\.self).min()
    }

    /// - Parameter isWholeAtOnce: whether any part of it counts as all.
    private func refund(of payment: Payment, isWholeAtOnce: Bool) -> Int64? {
        var paidBack: Int64 = 0
        for refund in payment.refunds.sorted(by: { $0.created < $1.created }) {
            paidBack += refund.amount
            if paidBack >= payment.amount || isWholeAtOnce { return refund.created }
        }
        return nil
    }
}

// What the storyteller writes.
extension WebStory {
    /// Somebody is named; who was named first in a place stays.
    mutating func name(_ customer: String, in place: Place) {
        if names[place] == nil { names[place] = customer }
        allNames[place, default: []].insert(customer)
    }

    mutating func say(_ statement: Statement) { statements.append(statement) }

    mutating func end(at instant: Int64) { endedAt = instant }

    mutating func pay(_ id: String, _ payment: Payment, for stretches: [Stretch]) {
        payments[id] = payment
        self.stretches += stretches
    }

    /// From an instant on nothing is sold of an item any more.
    mutating func stopSelling(_ item: String, at instant: Int64) { stops.append(Stop(item: item, at: instant)) }

    /// An item takes another's place.
    mutating func succeed(_ item: String, by heir: String) { heirs[item] = heir }

    mutating func buy(_ products: [String?], payment id: String, _ payment: Payment) {
        payments[id] = payment
        purchases += products.map { Purchase(productID: $0, from: payment.paidAt) }
    }

    mutating func refund(_ payment: String, _ refund: Refund) { payments[payment]?.refunds.append(refund) }

    mutating func takeBack(refund id: String, of payment: String) {
        payments[payment]?.refunds.removeAll { $0.id == id }
    }

    /// A dispute stands from now on, or does not any more.
    mutating func dispute(_ payment: String, id: String, created: Int64, stands: Bool, lostAt: Int64? = nil) {
        let index = payments[payment]?.disputes.firstIndex { $0.id == id }
        guard let index else {
            let dispute = Dispute(id: id, created: created, stands: stands, lostAt: lostAt)
            payments[payment]?.disputes.append(dispute)
            return
        }
        payments[payment]?.disputes[index].stands = stands
        if let lostAt { payments[payment]?.disputes[index].lostAt = lostAt }
    }
}
