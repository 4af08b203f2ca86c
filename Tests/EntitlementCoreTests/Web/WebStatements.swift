@testable import EntitlementCore

/// What one event of Stripe states in a test, and when.
struct WebTold: Hashable {
    var fact: WebFact

    init(_ type: String, at created: Double, of original: String? = "sub_1", _ change: (inout WebFact) -> Void) {
        var fact = WebFact(type: type, eventID: "evt", statedAt: day(created), originalTransactionID: original)
        change(&fact)
        var writer = CanonicalWriter()
        writer.web(fact)
        fact.payloadHash = digest(of: writer.bytes)
        fact.eventID = "evt_\(fact.payloadHash.hex.prefix(12))"
        self.fact = fact
    }

    /// The same as Stripe would say it at another time.
    func with(_ change: (inout WebFact) -> Void) -> WebTold {
        WebTold(fact.type, at: 0, of: fact.originalTransactionID) { copy in
            let statedAt = self.fact.statedAt
            copy = self.fact
            copy.payloadHash = .zero
            copy.eventID = "evt"
            copy.statedAt = statedAt
            change(&copy)
        }
    }
}

/// The tests' products, as Stripe sells them: the price of `pro` is `price_pro`, its product `prod_pro`.
func sold(_ product: String) -> WebProduct { WebProduct(price: "price_\(product)", product: "prod_\(product)") }

/// One line of an invoice, for the days given.
func line(
    _ id: String, _ product: String = "pro", from start: Double, to end: Double, item: String? = "si_1",
    proration: Bool = false, amount: Int64 = 999
) -> WebLine {
    WebLine(
        lineID: "il_\(id)", item: item, product: sold(product), start: day(start), end: day(end),
        isProration: proration, amount: amount)
}

/// An invoice that was paid, at the beginning of its first line unless the test says otherwise; told when it was paid.
func paid(
    _ id: String, _ lines: WebLine..., at paidAt: Double? = nil, told: Double? = nil, amount: Int64 = 999,
    by payment: String? = nil, of original: String = "sub_1"
) -> WebTold {
    let begun = lines.map(\.start).min().map { Double($0.milliseconds - day(0).milliseconds) / 86_400_000 } ?? 0
    return WebTold("invoice.paid", at: told ?? paidAt ?? begun, of: original) { fact in
        fact.invoices = [
            WebInvoice(
                invoiceID: "in_\(id)", paidAt: day(paidAt ?? begun), amountPaid: amount, currency: "usd", lines: lines)
        ]
        if let payment {
            fact.invoicePayments = [
                WebInvoicePayment(paymentIntent: payment, charge: nil, invoice: "in_\(id)", amount: amount)
            ]
        }
    }
}

/// One paid line that is an invoice of its own.
func paidLine(
    _ id: String, _ product: String = "pro", from start: Double, to end: Double, item: String? = "si_1",
    proration: Bool = false, amount: Int64 = 999, at paidAt: Double? = nil, by payment: String? = nil
) -> WebTold {
    paid(
        id, line(id, product, from: start, to: end, item: item, proration: proration, amount: amount), at: paidAt,
        amount: amount, by: payment)
}

/// What a statement says of the subscription.
func says(
    _ status: String, at created: Double, until periodEnd: Double? = nil, items: [String] = ["si_1"],
    cancelAt: Double? = nil, cancelsAtEnd: Bool = false, ended: Double? = nil, pause: String? = nil,
    trial: (from: Double, to: Double)? = nil, of original: String = "sub_1"
) -> WebTold {
    WebTold(ended == nil ? "customer.subscription.updated" : "customer.subscription.deleted", at: created, of: original)
    { fact in
        fact.subscription = WebSubscription(
            status: Known(status),
            items: items.map {
                WebItem(item: $0, product: sold("pro"), periodStart: nil, periodEnd: periodEnd.map { day($0) })
            }, cancelAt: cancelAt.map { day($0) }, cancelsAtPeriodEnd: cancelsAtEnd, endedAt: ended.map { day($0) },
            collectionPause: pause, trialStart: trial.map { day($0.from) }, trialEnd: trial.map { day($0.to) })
    }
}

func refunded(
    _ id: String = "1", at created: Double, told: Double? = nil, _ amount: Int64 = 999,
    status: String? = "succeeded", payment: String = "pi_1", charge: String? = nil, of original: String = "sub_1"
) -> WebTold {
    WebTold("refund.updated", at: told ?? created, of: original) { fact in
        fact.refunds = [
            WebRefund(
                refundID: "re_\(id)", amount: amount, currency: "usd", status: status.map { Known($0) },
                created: day(created),
                paymentIntent: charge == nil ? payment : nil, charge: charge)
        ]
    }
}

func disputed(
    _ id: String = "1", at created: Double, told: Double? = nil, _ status: String = "needs_response",
    funds: WebDispute.Funds? = nil, payment: String = "pi_1", of original: String = "sub_1"
) -> WebTold {
    WebTold("charge.dispute.updated", at: told ?? created, of: original) { fact in
        fact.disputes = [
            WebDispute(
                disputeID: "dp_\(id)", status: Known(status), created: day(created), amount: 999,
                currency: "usd", funds: funds,
                paymentIntent: payment, charge: nil)
        ]
    }
}

func invoicePayment(_ payment: String?, charge: String? = nil, to invoice: String?, told: Double = 0) -> WebTold {
    WebTold(WebFact.readingLabel, at: told) { fact in
        fact.invoicePayments = [
            WebInvoicePayment(paymentIntent: payment, charge: charge, invoice: invoice, amount: nil)
        ]
    }
}

/// A one-time payment that an event said was paid.
func paidOnce(
    _ product: String? = "lifetime", at created: Double, amount: Int64 = 4999, products: [String] = [],
    byEvent: Bool = true, original: String = "pi_1"
) -> WebTold {
    WebTold("checkout.session.completed", at: created, of: original) { fact in
        fact.payment = WebPayment(
            paidAt: day(created), isPaidByEvent: byEvent, amount: amount, currency: "usd",
            catalogProductID: product,
            products: products.map(sold))
    }
}

/// What was bought, as it was looked up.
func bought(_ products: String..., at read: Double, original: String = "pi_1") -> WebTold {
    WebTold(WebFact.readingLabel, at: read, of: original) { fact in
        fact.payment = WebPayment(
            paidAt: nil, isPaidByEvent: false, amount: nil, catalogProductID: nil, products: products.map(sold))
    }
}

func owned(
    by customer: IdentityRef, _ place: WebOwner.Place = .purchase, at created: Double = 0, original: String = "sub_1"
) -> WebTold {
    WebTold("checkout.session.completed", at: created, of: original) { fact in
        fact.owners = [WebOwner(place: place, customer: customer)]
    }
}

/// The tests' catalog, sold on the web as well.
let webProducts = products.map { product in
    CatalogProduct(
        productID: product.productID, entitlements: product.entitlements, duration: product.duration,
        stripe: StripeProduct(
            price: "price_\(product.productID)", product: "prod_\(product.productID)",
            mode: ["lifetime", "season", "basic"].contains(product.productID) ? .payment : .subscription))
}

extension OriginalState {
    /// Joins what is told in the order given, at positions 1, 2, 3….
    init(web told: [WebTold], of original: String) {
        self.init()
        for (index, item) in told.enumerated() {
            join(.web(item.fact), originalTransactionID: original, source: .notification, position: Int64(index + 1))
        }
    }
}

/// What the log says about one customer who bought on the web, and how it reads; Alice, unless the test says otherwise.
struct WebGiven {
    var told: [WebTold]
    var policy: AccessPolicy
    var beside = Given()
    var ownership = OwnershipMap()
    var customer = alice

    init(_ told: WebTold..., policy: AccessPolicy = AccessPolicy()) {
        self.told = told
        self.policy = policy
    }

    func with(_ change: (inout WebGiven) -> Void) -> WebGiven {
        var given = self
        change(&given)
        return given
    }

    /// What is told of no owner is Alice's.
    private var owned: [WebTold] {
        let unowned = Set(told.compactMap(\.fact.originalTransactionID)).filter { original in
            !told.contains { $0.fact.originalTransactionID == original && !$0.fact.owners.isEmpty }
        }
        return told + unowned.sorted().map { EntitlementCoreTests.owned(by: alice, original: $0) }
    }

    var facts: CustomerFacts { facts(of: owned) }

    func facts(of told: [WebTold]) -> CustomerFacts {
        var originals = beside.facts.originals.filter { !$0.value.transactions.isEmpty }
        for id in Set(told.compactMap(\.fact.originalTransactionID)) {
            originals[id] = OriginalState(web: told, of: id)
        }
        return CustomerFacts(
            customer: customer, originals: originals, grants: beside.grants, ownership: ownership,
            catalog: Catalog(products: webProducts, policy: policy))
    }

    /// The readings of one entitlement with their reasons: `0..30 active paid_period`.
    func reasons(_ entitlementID: String = "premium") -> [String] {
        readings(entitlementID).map { "\(webSpan($0)) \($0.state.rawValue) \($0.reason.rawValue)" }
    }

    /// The intervals of one entitlement: `0..30 active pro`.
    func timeline(_ entitlementID: String = "premium") -> [String] {
        let timeline = facts.timelines().first { $0.entitlementID == entitlementID }
        return (timeline?.intervals ?? []).map { "\(webSpan($0)) \($0.state.rawValue) \($0.productID ?? "-")" }
    }

    func origins(_ entitlementID: String = "premium") -> [String] {
        let timeline = facts.timelines().first { $0.entitlementID == entitlementID }
        return (timeline?.intervals ?? []).map { "\(webSpan($0)) \($0.state.rawValue) \($0.source.rawValue)" }
    }

    func readings(_ entitlementID: String = "premium") -> [Reading] {
        facts.timelines().first { $0.entitlementID == entitlementID }?.readings ?? []
    }

    func answer(at instant: Double, _ entitlementID: String = "premium") -> EntitlementAnswer? {
        answer(at: day(instant), entitlementID)
    }

    func answer(at instant: Timestamp, _ entitlementID: String = "premium") -> EntitlementAnswer? {
        facts.answers(at: instant).first { $0.entitlementID == entitlementID }
    }
}

/// A stretch in days, with hours as `30+1h`.
func webSpan(_ reading: Reading) -> String {
    "\(webLabel(reading.start))..\(reading.end == .endless ? "" : webLabel(reading.end))"
}

private func webLabel(_ instant: Timestamp) -> String {
    let hours = (instant.milliseconds - day(0).milliseconds) / 3_600_000
    guard day(0).adding(milliseconds: hours * 3_600_000) == instant else { return instant.description }
    return hours % 24 == 0 ? "\(hours / 24)" : "\(hours / 24)+\(hours % 24)h"
}

/// Hours, in days.
func hours(_ hours: Double) -> Double { hours / 24 }
