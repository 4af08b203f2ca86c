/// A version of Stripe's API, as far as it shows in what objects look like.
package enum StripeShape: String, Sendable, CaseIterable {
    /// Before 2025-03-31.basil: a subscription has the period, an invoice names its charge.
    case early = "2024-06-20"
    /// Since then: items have their periods, and what an invoice is of stands in `parent`.
    case recent = "2026-07-29.dahlia"

    /// The shape of a version; nil for what is no version.
    package init?(version: String) {
        let date = version.prefix(10)
        guard date.count == 10, date.allSatisfy({ $0.isASCII && ($0.isNumber || $0 == "-") }) else { return nil }
        self = date < "2025-03-31" ? .early : .recent
    }
}

/// One of Stripe's objects, as it was at some instant.
package enum StripeObject: Sendable, Equatable {
    case customer(StripeCustomer)
    case subscription(StripeSubscription)
    case invoice(StripeInvoice)
    case session(StripeSession)
    case paymentIntent(StripePaymentIntent)
    case charge(StripeCharge)
    case refund(StripeRefund)
    case dispute(StripeDispute)
    /// Something that no ledger asks for.
    case other(kind: String, id: String)

    package var id: String {
        switch self {
        case .customer(let object): object.id
        case .subscription(let object): object.id
        case .invoice(let object): object.id
        case .session(let object): object.id
        case .paymentIntent(let object): object.id
        case .charge(let object): object.id
        case .refund(let object): object.id
        case .dispute(let object): object.id
        case .other(_, let id): id
        }
    }

    /// Stripe's word for what it is.
    var kind: String {
        switch self {
        case .customer: "customer"
        case .subscription: "subscription"
        case .invoice: "invoice"
        case .session: "checkout.session"
        case .paymentIntent: "payment_intent"
        case .charge: "charge"
        case .refund: "refund"
        case .dispute: "dispute"
        case .other(let kind, _): kind
        }
    }

    /// Where it is read, without the id.
    var collection: String {
        switch self {
        case .customer: "customers"
        case .subscription: "subscriptions"
        case .invoice: "invoices"
        case .session: "checkout/sessions"
        case .paymentIntent: "payment_intents"
        case .charge: "charges"
        case .refund: "refunds"
        case .dispute: "disputes"
        case .other(let kind, _): kind + "s"
        }
    }

    /// As Stripe writes it in a version of its API.
    package func json(_ shape: StripeShape, isLive: Bool) -> PayloadValue {
        var members: [String: PayloadValue] =
            switch self {
            case .customer(let object): object.members
            case .subscription(let object): object.members(shape)
            case .invoice(let object): object.members(shape)
            case .session(let object): object.members(shape)
            case .paymentIntent(let object): object.members(shape)
            case .charge(let object): object.members(shape)
            case .refund(let object): object.members
            case .dispute(let object): object.members(shape)
            case .other: [:]
            }
        members["id"] = .string(id)
        members["object"] = .string(kind)
        // Refunds do not say in which mode they were made.
        if kind != "refund" { members["livemode"] = .boolean(isLive) }
        return .object(members)
    }
}

extension PayloadValue {
    /// An instant as Stripe writes it: in whole seconds.
    static func seconds(_ instant: Int64) -> PayloadValue { .integer(instant / 1000) }

    static func seconds(_ instant: Int64?) -> PayloadValue { instant.map { .seconds($0) } ?? .null }

    static func text(_ text: String?) -> PayloadValue { text.map { .string($0) } ?? .null }

    static func texts(_ texts: [String: String]) -> PayloadValue { .object(texts.mapValues { .string($0) }) }

    /// A list as Stripe pages it.
    static func list(_ elements: [PayloadValue], hasMore: Bool = false, url: String) -> PayloadValue {
        .object([
            "object": .string("list"), "data": .array(elements), "has_more": .boolean(hasMore), "url": .string(url),
        ])
    }
}

extension SimulatedWebPrice {
    func json(isLive: Bool) -> PayloadValue {
        let recurring = interval.map { interval -> PayloadValue in
            .object([
                "interval": .string(interval.hasSuffix("Y") ? "year" : "month"), "interval_count": .integer(1),
                "usage_type": .string("licensed"),
            ])
        }
        return .object([
            "id": .string(id), "object": .string("price"), "active": .boolean(true), "currency": .string(currency),
            "product": .string(product), "unit_amount": .integer(amount), "recurring": recurring ?? .null,
            "type": .string(interval == nil ? "one_time" : "recurring"), "livemode": .boolean(isLive),
            "billing_scheme": .string("per_unit"), "metadata": .object([:]), "nickname": .null,
        ])
    }

    /// What came before prices, still written in old versions.
    var plan: PayloadValue {
        .object([
            "id": .string(id), "object": .string("plan"), "product": .string(product), "amount": .integer(amount),
            "currency": .string(currency),
        ])
    }
}
