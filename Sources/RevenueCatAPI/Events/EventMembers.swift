import EntitlementAPI
import EntitlementCore

/// The members of an event, as they are kept until it is sent.
///
/// Whoever it names is named by number, and what only the sending knows is not there yet: ids, times, names.
///
/// Source: "Event Types and Fields" of RevenueCat's documentation of webhooks.
struct EventMembers {
    /// The most names of one customer, whatever their spellings.
    static let namesLimit = 50
    /// What it is about, for its id; it is not sent.
    static let subject = "subject"

    private(set) var members: [String: WireValue]

    var bytes: [UInt8] { get throws { try WireJSON.encode(WireValue.object(members)) } }

    /// What all events have.
    private init(
        _ type: MessageType, subject: String, appID: String?, store: PurchaseStore, _ environment: StoreEnvironment
    ) {
        members = [
            Self.subject: .string(subject), "type": .string(type.rawValue), "app_id": Self.text(appID),
            "store": .string(store.rawValue.uppercased()), "environment": .string(environment.rawValue.uppercased()),
        ]
    }

    /// An event about a purchase.
    ///
    /// - Parameters:
    ///   - number: which of one customer's events of one moment it is.
    ///   - names: whose it is, the customer among them.
    init(
        _ event: PurchaseEvent, _ key: PurchaseKey, number: Int, names: [IdentityRef], customer: IdentityRef,
        in environment: StoreEnvironment
    ) {
        let view = event.view
        // Of more names than are listed the customer's own is one.
        let named = names.filter { $0 == customer } + names.filter { $0 != customer }
        self.init(
            event.type, subject: "\(customer.number) \(key.text) \(number)", appID: view.appID, store: view.store,
            environment)
        let entitlementIDs = view.entitlementIDs.map(WireValue.string)
        let price = Self.price(of: event)
        members.merge([
            "aliases": .array(named.prefix(Self.namesLimit).map { .int($0.number) }),
            "subscriber_attributes": .object([:]), "product_id": .string(view.productID),
            "entitlement_ids": entitlementIDs.isEmpty ? .null : .array(entitlementIDs),
            "entitlement_id": entitlementIDs.first ?? .null, "period_type": .string(view.periodType.rawValue),
            "purchased_at_ms": .int(view.purchasedAt.milliseconds), "expiration_at_ms": Self.instant(view.expiresAt),
            "transaction_id": .string(view.transactionID),
            "original_transaction_id": .string(view.originalTransactionID),
            "is_family_share": .bool(view.isFamilyShare), "offer_code": Self.text(view.offerCode),
            "price": price.inDollars, "price_in_purchased_currency": price.inOwnCurrency,
            "currency": Self.text(view.price?.currency), "country_code": .null, "tax_percentage": .null,
            "commission_percentage": .null, "takehome_percentage": .null, "presented_offering_id": .null,
            "renewal_number": .null, "metadata": .null, "experiments": .array([]),
        ]) { $1 }
        switch event.detail {
        case .none: break
        case .renewal(let isTrialConversion): members["is_trial_conversion"] = .bool(isTrialConversion)
        case .cancellation(let reason): members["cancel_reason"] = .string(reason.rawValue)
        case .expiration(let reason): members["expiration_reason"] = .string(reason.rawValue)
        case .billingIssue(let graceEnd): members["grace_period_expiration_at_ms"] = Self.instant(graceEnd)
        case .productChange(let product): members["new_product_id"] = .string(product)
        }
    }

    /// Purchases that went from one customer to another: RevenueCat has nothing else about it.
    init(
        transferFrom giver: IdentityRef, to taker: IdentityRef, told teller: IdentityRef, appID: String?,
        store: PurchaseStore, in environment: StoreEnvironment
    ) {
        self.init(
            .transfer, subject: "\(teller.number) \(giver.number) \(taker.number) \(store.rawValue) \(appID ?? "")",
            appID: appID, store: store, environment)
        members["transferred_from"] = .array([.int(giver.number)])
        members["transferred_to"] = .array([.int(taker.number)])
    }

    /// What was paid, or went back as less than nothing; in RevenueCat's `price` in dollars, which is known only of dollars.
    private static func price(of event: PurchaseEvent) -> (inDollars: WireValue, inOwnCurrency: WireValue) {
        let view = event.view
        // What costs nothing is known, whether it was stated or not.
        let isFree = view.periodType == .trial || view.periodType == .promotional
        // A family member's share was paid for by somebody else.
        if isFree || view.isFamilyShare { return (.int(0), .int(0)) }
        var amount = view.price.map { $0.units }
        if case .cancellation(.customerSupport) = event.detail { amount = view.refund.map { -$0.units } }
        if event.type == .refundReversed { amount = view.refund.map { $0.units } }
        let value = amount.map(WireValue.double) ?? .null
        return (view.price?.currency == "USD" || amount == 0 ? value : .null, value)
    }

    private static func text(_ text: String?) -> WireValue { text.map(WireValue.string) ?? .null }

    private static func instant(_ instant: Timestamp?) -> WireValue {
        instant.map { .int($0.milliseconds) } ?? .null
    }
}
