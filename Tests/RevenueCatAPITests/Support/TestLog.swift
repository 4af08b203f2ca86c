import EntitlementAPI
import EntitlementCore
import RevenueCatAPI
import TestSupport

let alice = IdentityRef(1)
let bob = IdentityRef(2)

/// The instant `days` after 2026-01-01T00:00:00Z.
func day(_ days: Double) -> Timestamp {
    Timestamp(milliseconds: 1_767_225_600_000 + Int64(days * 86_400_000))
}

/// The same as it is shown.
func shown(_ days: Double) -> WholeSecond { WholeSecond(day(days)) }

func purchase(
    _ id: String, _ product: String = "pro", from start: Double, to end: Double? = nil,
    _ kind: ProductKind = .autoRenewable, signed: Double? = nil, revoked: Double? = nil,
    _ revocation: RevocationKind = .refundFull, reason: TransactionReason = .purchase, offer: Offer? = nil,
    ownership: AppleOwnership = .purchased, of owner: IdentityRef? = alice, original: String = "1000",
    price: Money? = nil
) -> TransactionFact {
    TransactionFact(
        payloadHash: .zero, signedDate: day(signed ?? start), transactionID: id, originalTransactionID: original,
        webOrderLineItemID: "item-\(id)", productID: product, bundleID: "com.example", kind: .known(kind),
        purchaseDate: day(start), expiresDate: end.map { day($0) },
        revocation: revoked.map { Revocation(date: day($0), kind: .known(revocation)) }, reason: .known(reason),
        ownership: .known(ownership), accountToken: owner, offer: offer, price: price)
}

func lifetime(
    _ id: String, _ product: String = "lifetime", at bought: Double, signed: Double? = nil, revoked: Double? = nil,
    original: String? = nil
) -> TransactionFact {
    purchase(id, product, from: bought, .nonConsumable, signed: signed, revoked: revoked, original: original ?? id)
}

func renewal(
    signed: Double, renews: Bool? = nil, graceEnd: Double? = nil, retry: Bool = false, original: String = "1000",
    as product: String? = nil, intent: Int64? = nil
) -> RenewalFact {
    RenewalFact(
        payloadHash: .zero, signedDate: day(signed), originalTransactionID: original, autoRenewProductID: product,
        autoRenews: renews, isInBillingRetry: retry, graceEnd: graceEnd.map { day($0) }, expirationIntent: intent)
}

/// What a log holds, and how RevenueCat would show Alice.
struct TestLog {
    private(set) var events: [HistoryEvent] = []
    let environment: StoreEnvironment

    init(policy: AccessPolicy = AccessPolicy(), in environment: StoreEnvironment = .production) {
        self.environment = environment
        applied(policy, recorded: -1000)
    }

    static let products = [
        CatalogProduct(
            productID: "pro", entitlements: ["premium"], stripe: StripeProduct(price: "price_pro", mode: .subscription)),
        CatalogProduct(
            productID: "pro.yearly", entitlements: ["premium"],
            stripe: StripeProduct(price: "price_yearly", mode: .subscription)),
        CatalogProduct(productID: "basic", entitlements: ["basic"]),
        CatalogProduct(
            productID: "lifetime", entitlements: ["premium"],
            stripe: StripeProduct(price: "price_lifetime", mode: .payment)),
        CatalogProduct(productID: "season", entitlements: ["premium"], duration: CalendarDuration(iso8601: "P90D")),
    ]

    /// A catalog of the same products, unless the test says otherwise.
    mutating func applied(
        _ policy: AccessPolicy = AccessPolicy(), _ products: [CatalogProduct] = Self.products, recorded: Double
    ) {
        add(.catalog(Catalog(products: products, policy: policy)), recorded: recorded)
    }

    private mutating func add(_ fact: LedgerFact, recorded: Double) {
        events.append(
            HistoryEvent(
                position: Int64(events.count + 1), recordedAt: day(recorded), environment: environment, source: "test",
                statementSource: .notification, type: "told", occurredAt: nil, fact: fact))
    }

    /// A payload of its own for each statement, as each signature makes one.
    private var nextHash: Digest {
        Digest((0..<32).map { UInt8(truncatingIfNeeded: (events.count + 1) >> (8 * ($0 % 8))) }) ?? .zero
    }

    /// A notification, recorded when it was signed unless the test says otherwise.
    mutating func notified(
        _ transaction: TransactionFact? = nil, _ renewal: RenewalFact? = nil, recorded: Double? = nil
    ) {
        var (transaction, renewal) = (transaction, renewal)
        transaction?.payloadHash = nextHash
        renewal?.payloadHash = nextHash
        let signed = [transaction?.signedDate, renewal?.signedDate].compactMap(\.self).max() ?? day(0)
        let days = Double(signed.milliseconds - day(0).milliseconds) / 86_400_000
        add(
            .notification(
                NotificationFact(
                    type: "TEST", subtype: nil, uuid: "uuid-\(events.count)", signedDate: signed, payloadHash: .zero,
                    bundleID: "com.example", transaction: transaction, renewal: renewal, remarks: [])),
            recorded: recorded ?? days)
    }

    /// Several statements of the store's at once, as whoever reads its history has them.
    mutating func stated(_ transactions: [TransactionFact], recorded: Double) {
        let transactions = transactions.map { transaction in
            var transaction = transaction
            transaction.payloadHash = nextHash
            return transaction
        }
        add(
            .statements(
                StatementsFact(
                    originalTransactionID: transactions[0].originalTransactionID, transactions: transactions,
                    renewals: [], remarks: [])), recorded: recorded)
    }

    mutating func granted(
        _ id: String = "grant_1", _ entitlement: String = "premium", at recorded: Double, until: Double? = nil
    ) {
        granted(id, entitlement, at: recorded, endingAt: until.map { day($0) })
    }

    mutating func granted(
        _ id: String = "grant_1", _ entitlement: String = "premium", at recorded: Double, endingAt end: Timestamp?
    ) {
        add(
            .grant(
                GrantFact(grantID: id, customer: alice, entitlementID: entitlement, until: end, reason: "goodwill")),
            recorded: recorded)
    }

    mutating func tookBack(_ id: String = "grant_1", at recorded: Double) {
        add(
            .grantRevocation(GrantRevocationFact(grantID: id, customer: alice, reason: "a mistake")), recorded: recorded
        )
    }

    mutating func linked(_ identity: IdentityRef, to customer: IdentityRef, at recorded: Double) {
        add(.link(LinkFact(identity: identity, customer: customer)), recorded: recorded)
    }

    mutating func transferred(to customer: IdentityRef, at recorded: Double, original: String = "1000") {
        add(.transfer(TransferFact(originalTransactionID: original, customer: customer)), recorded: recorded)
    }

    mutating func claimed(by customer: IdentityRef = alice, at recorded: Double, original: String = "1000") {
        add(.claim(ClaimFact(originalTransactionID: original, customer: customer)), recorded: recorded)
    }

    /// An event of Stripe's about an original of Alice's.
    mutating func stripe(
        at created: Double, of original: String = "sub_1", recorded: Double? = nil,
        _ change: (inout WebFact) -> Void
    ) {
        var fact = WebFact(
            type: "test", eventID: "evt_\(events.count)", statedAt: day(created), payloadHash: nextHash,
            originalTransactionID: original)
        fact.owners = [WebOwner(place: .purchase, customer: alice)]
        change(&fact)
        add(.web(fact), recorded: recorded ?? created)
    }

    func document(at days: Double, as id: String = "alice") -> SubscriberDocument { document(at: day(days), as: id) }

    func document(at instant: Timestamp, as id: String = "alice") -> SubscriberDocument {
        let history = CustomerHistory(
            of: alice, environment: environment, position: Int64(events.count), events: events)
        return Subscriber(history).document(of: id, at: instant)
    }

    func subscriber(at days: Double) -> SubscriberBody { document(at: days).subscriber }

    /// What the SDK makes of it.
    func sdk(at days: Double) throws -> SDKCustomerInfo { try sdk(at: day(days)) }

    func sdk(at instant: Timestamp) throws -> SDKCustomerInfo {
        try SDKCustomerInfo(WireJSON.encode(document(at: instant)))
    }
}

/// A paid invoice with one line of `pro`.
func paidLine(
    _ id: String, from start: Double, to end: Double, currency: String? = nil, price: String = "price_pro",
    isProration: Bool = false
) -> [WebInvoice] {
    [
        WebInvoice(
            invoiceID: "in_\(id)", paidAt: day(start), amountPaid: 999, currency: currency,
            lines: [
                WebLine(
                    lineID: "il_\(id)", item: "si_1", product: WebProduct(price: price, product: nil),
                    start: day(start), end: day(end), isProration: isProration, amount: 999)
            ])
    ]
}

func stripeSubscription(
    _ status: WebSubscriptionStatus, until periodEnd: Double, cancels: Bool = false, items: [String] = ["si_1"],
    price: String = "price_pro"
) -> WebSubscription {
    WebSubscription(
        status: .known(status),
        items: items.map {
            WebItem(
                item: $0, product: WebProduct(price: price, product: nil), periodStart: nil,
                periodEnd: day(periodEnd))
        }, cancelsAtPeriodEnd: cancels)
}
