import SeededRandom

/// Who buys on the web.
package struct WebBuyer: Sendable, Hashable {
    /// Our own id of the customer.
    package let customerID: String
    /// `cus_…`; nil for a guest, of whom Stripe keeps nothing.
    package let stripeID: String?
}

/// Where our customer's id is written when something is sold.
package struct WebNames: Sendable, Equatable {
    /// In the metadata of the subscription or payment intent.
    package var purchase: String?
    /// In that of the session.
    package var session: String?
    /// As the session's `client_reference_id`.
    package var clientReference: String?
    /// Whether our own product stands in the metadata of what is paid once.
    package var namesProduct = true

    package init(_ everywhere: String?) {
        (purchase, session, clientReference) = (everywhere, everywhere, everywhere)
    }
}

/// Invents lives on the web: each action is told twice, to the record and to Stripe's books.
///
/// The record is written from what the storyteller decides; events are the books' objects at that instant, and nobody here
/// reads them back. Instants are whole seconds, in milliseconds since 1970.
package struct WebStoryteller: Sendable {
    package let environment: SimulatedStoreEnvironment
    /// The truth.
    package internal(set) var record = WebRecord()
    package internal(set) var books = StripeBooks()
    /// From when on events are listed in the new shape.
    package var upgradedAt = Int64.min
    /// Whether prorations name the item that they are of.
    package var namesItemsOfProrations = true

    /// Whether nothing is invented that only some events tell.
    var isReadable = false

    var random: SplitMix64
    var subscriptions: [String: StripeSubscription] = [:]
    var invoices: [String: StripeInvoice] = [:]
    var sessions: [String: StripeSession] = [:]
    var charges: [String: StripeCharge] = [:]
    var refunds: [String: StripeRefund] = [:]
    var disputes: [String: StripeDispute] = [:]
    /// Which payment was made for what: the key of the story, and the name of the payment in it.
    var payees: [String: (key: SimulatedOriginalKey, payment: String)] = [:]
    /// What stands on each invoice of a subscription.
    var billed: [String: [PendingLine]] = [:]
    /// What is still to be billed, by subscription.
    var pending: [String: [PendingLine]] = [:]
    /// Items whose price was changed without a credit or a charge.
    var unbilled: Set<String> = []
    /// When the newest statement of a subscription was made.
    private var lastStatement: [String: Int64] = [:]
    private var number = 0
    private var prefix: String

    /// A line before it stands on an invoice, with the item that it is of.
    struct PendingLine: Sendable {
        let line: StripeLine
        let item: String
        /// Of what begins at one instant, what was agreed on last counts.
        let order: Int
        /// The item is not sold any more from where this begins.
        var endsItem = false
    }

    /// Equal seeds and actions give equal stories; ids of seeds that differ never meet.
    package init(_ environment: SimulatedStoreEnvironment = .production, seed: UInt64) {
        self.environment = environment
        random = SplitMix64(seed: seed)
        prefix = Self.prefix(environment, seed)
    }

    private static func prefix(_ environment: SimulatedStoreEnvironment, _ seed: UInt64) -> String {
        "\(environment == .production ? "L" : "T")\(seed)S"
    }

    /// Tells a story as a storyteller of another seed would, with the ids that it would give, and then goes on with its own.
    mutating func tell(asOf seed: UInt64, _ story: (inout WebStoryteller) -> Void) {
        let own = (random, number, prefix)
        (random, number, prefix) = (SplitMix64(seed: seed), 0, Self.prefix(environment, seed))
        story(&self)
        (random, number, prefix) = own
    }

    var isLive: Bool { environment == .production }

    mutating func newID(_ kind: String) -> String {
        number += 1
        let digits = String(number)
        return "\(kind)_\(prefix)\(String(repeating: "0", count: max(0, 7 - digits.count)))\(digits)"
    }

    /// An id of a line, which does not tell in which order lines were made.
    mutating func newLineID() -> String {
        let id = newID("il")
        return "il_\(String(random.number(in: 0x1000...0xFFFF), radix: 16))\(id.dropFirst(3))"
    }

    /// How many lines were made so far.
    var lineOrder: Int { number }

    package func key(_ id: String) -> SimulatedOriginalKey { SimulatedOriginalKey(environment, id) }

    /// A customer of Stripe's.
    package mutating func buyer(_ customerID: String, at instant: Int64) -> WebBuyer {
        let id = newID("cus")
        let customer = StripeCustomer(
            id: id, created: instant, email: "\(id)@example.com", metadata: ["rightful_customer_id": customerID])
        books.keep(.customer(customer), at: instant)
        emit("customer.created", .customer(customer), at: instant)
        return WebBuyer(customerID: customerID, stripeID: id)
    }

    package func subscription(_ id: String) -> StripeSubscription {
        guard let subscription = subscriptions[id] else { preconditionFailure("nobody sold \(id)") }
        return subscription
    }

    package func invoice(_ id: String) -> StripeInvoice {
        guard let invoice = invoices[id] else { preconditionFailure("nobody wrote \(id)") }
        return invoice
    }

    /// Stripe notes that something happened.
    mutating func emit(_ type: String, _ object: StripeObject, at instant: Int64) {
        books.add(
            StripeEventEntry(
                id: newID("evt"), type: type, created: instant, object: object, isLive: isLive,
                shape: instant < upgradedAt ? .early : .recent, request: random.chance(50) ? newID("req") : nil))
    }

    /// Something changes, and an event tells of it.
    mutating func keep(_ object: StripeObject, at instant: Int64, as types: String...) {
        books.keep(object, at: instant)
        for type in types { emit(type, object, at: instant) }
    }

    /// Changes a subscription, and says how it stands now; later than what was said of it before, and in a whole second.
    ///
    /// - Returns: when it was said.
    @discardableResult
    mutating func say(
        _ id: String, as types: [String] = ["customer.subscription.updated"], at instant: Int64,
        mayTie: Bool = false, _ change: (inout StripeSubscription) -> Void = { _ in }
    ) -> Int64 {
        var instant = instant
        if let last = lastStatement[id], instant < last + (mayTie ? 0 : Span.second) {
            instant = last + (mayTie ? 0 : Span.second)
        }
        lastStatement[id] = instant
        var subscription = subscription(id)
        change(&subscription)
        subscriptions[id] = subscription
        books.keep(.subscription(subscription), at: instant)
        for type in types { emit(type, .subscription(subscription), at: instant) }
        if let named = subscription.metadata["rightful_customer_id"], named.utf8.count <= 255 {
            record.stories[key(id)]?.name(named, in: .purchase)
        }
        if let endedAt = subscription.endedAt { record.stories[key(id)]?.end(at: endedAt) }
        if let standing = Self.standing(of: subscription) {
            record.stories[key(id)]?.say(
                WebStory.Statement(
                    created: instant, standing: standing, willRenew: Self.willRenew(subscription),
                    isToEndAt: subscription.cancelsAtPeriodEnd ? subscription.periodEnd : subscription.cancelAt,
                    periodEnds: Dictionary(uniqueKeysWithValues: subscription.items.map { ($0.id, $0.end) })))
        }
        return instant
    }

    private static func standing(of subscription: StripeSubscription) -> WebStory.Standing? {
        if subscription.endedAt != nil { return .over }
        if subscription.pause != nil { return .paused }
        return switch subscription.status {
        case "active", "trialing": .goesOn
        case "past_due": .pastDue
        case "unpaid": .unpaid
        case "paused": .paused
        case "canceled", "incomplete", "incomplete_expired": .over
        default: nil
        }
    }

    private static func willRenew(_ subscription: StripeSubscription) -> Bool {
        ["active", "trialing", "past_due"].contains(subscription.status) && !subscription.cancelsAtPeriodEnd
            && subscription.cancelAt == nil && subscription.pause == nil && subscription.endedAt == nil
    }

    /// A line that sells some time of an item.
    mutating func line(
        _ price: SimulatedWebPrice, of item: String, from start: Int64, to end: Int64, amount: Int64,
        isProration: Bool = false, replaces: Bool = false
    ) -> PendingLine {
        PendingLine(
            line: StripeLine(
                id: newLineID(), amount: amount, price: price, start: start, end: end,
                item: isProration && !namesItemsOfProrations ? nil : item, isProration: isProration,
                isPeriod: amount >= 0, replaces: replaces), item: item, order: lineOrder)
    }
}
