/// Stripe's `status` of a subscription.
package enum WebSubscriptionStatus: String, Hashable, Sendable, CaseIterable {
    case incomplete
    case incompleteExpired = "incomplete_expired"
    case trialing
    case active
    case pastDue = "past_due"
    case canceled
    case unpaid
    case paused
}

/// Stripe's `status` of a refund.
package enum WebRefundStatus: String, Hashable, Sendable, CaseIterable {
    case pending
    case requiresAction = "requires_action"
    case succeeded
    case failed
    case canceled
}

/// Stripe's `status` of a dispute.
package enum WebDisputeStatus: String, Hashable, Sendable, CaseIterable {
    case warningNeedsResponse = "warning_needs_response"
    case warningUnderReview = "warning_under_review"
    case warningClosed = "warning_closed"
    case needsResponse = "needs_response"
    case underReview = "under_review"
    case won
    case lost
    case prevented
}

/// What was sold, in Stripe's ids; the catalog says which product of ours that is.
package struct WebProduct: Hashable, Sendable {
    /// `price_…`.
    package var price: String?
    /// `prod_…`.
    package var product: String?

    package init(price: String?, product: String?) {
        self.price = price
        self.product = product
    }
}

/// A line of a paid invoice.
package struct WebLine: Hashable, Sendable {
    /// `il_…`: the line's identity.
    package var lineID: String
    /// `si_…`; `nil` where the line names none.
    package var item: String?
    package var product: WebProduct
    package var start: Timestamp
    package var end: Timestamp
    package var isProration: Bool
    /// In the currency's smallest unit; negative for what is credited, and 0 while a trial runs.
    package var amount: Int64

    package init(
        lineID: String, item: String?, product: WebProduct, start: Timestamp, end: Timestamp, isProration: Bool,
        amount: Int64
    ) {
        self.lineID = lineID
        self.item = item
        self.product = product
        self.start = start
        self.end = end
        self.isProration = isProration
        self.amount = amount
    }
}

/// An invoice that was paid, with as many of its lines as were seen.
package struct WebInvoice: Hashable, Sendable {
    /// `in_…`.
    package var invoiceID: String
    /// `nil` where it was not said; then its lines count from their own start.
    package var paidAt: Timestamp?
    /// In the currency's smallest unit.
    package var amountPaid: Int64?
    /// Stripe's code of the currency, in lower case; also that of the lines.
    package var currency: String?
    package var lines: [WebLine]

    package init(
        invoiceID: String, paidAt: Timestamp?, amountPaid: Int64?, currency: String? = nil, lines: [WebLine]
    ) {
        self.invoiceID = invoiceID
        self.paidAt = paidAt
        self.amountPaid = amountPaid
        self.currency = currency
        self.lines = lines
    }
}

/// An item of a subscription, as a statement about the subscription has it.
package struct WebItem: Hashable, Sendable {
    /// `si_…`.
    package var item: String
    package var product: WebProduct
    package var periodStart: Timestamp?
    /// Not paid time: it moves on before the money comes.
    package var periodEnd: Timestamp?

    package init(item: String, product: WebProduct, periodStart: Timestamp?, periodEnd: Timestamp?) {
        self.item = item
        self.product = product
        self.periodStart = periodStart
        self.periodEnd = periodEnd
    }
}

/// What one event, or one reading, states about a subscription.
package struct WebSubscription: Hashable, Sendable {
    package var status: Known<WebSubscriptionStatus>
    package var items: [WebItem]
    /// There are more items than those listed.
    package var hasMoreItems: Bool
    package var cancelAt: Timestamp?
    package var cancelsAtPeriodEnd: Bool
    package var endedAt: Timestamp?
    /// The `behavior` of a `pause_collection`; `nil` where collection is not paused.
    package var collectionPause: String?
    package var trialStart: Timestamp?
    package var trialEnd: Timestamp?

    package init(
        status: Known<WebSubscriptionStatus>, items: [WebItem], hasMoreItems: Bool = false,
        cancelAt: Timestamp? = nil, cancelsAtPeriodEnd: Bool = false, endedAt: Timestamp? = nil,
        collectionPause: String? = nil, trialStart: Timestamp? = nil, trialEnd: Timestamp? = nil
    ) {
        self.status = status
        self.items = items
        self.hasMoreItems = hasMoreItems
        self.cancelAt = cancelAt
        self.cancelsAtPeriodEnd = cancelsAtPeriodEnd
        self.endedAt = endedAt
        self.collectionPause = collectionPause
        self.trialStart = trialStart
        self.trialEnd = trialEnd
    }

    /// When the latest of its items' periods ends.
    var latestPeriodEnd: Timestamp? { items.compactMap(\.periodEnd).max() }
}

/// What is stated about a one-time payment, or about a session in which nothing was due.
package struct WebPayment: Hashable, Sendable {
    /// Since when it is paid; `nil` where it is not, or is not said.
    package var paidAt: Timestamp?
    /// An event said so; else it was read from the object, whose dates only come near.
    package var isPaidByEvent: Bool
    /// What was paid in all, in the currency's smallest unit.
    package var amount: Int64?
    /// Stripe's code, in lower case.
    package var currency: String?
    /// Our own product, from metadata.
    package var catalogProductID: String?
    /// What was bought, where it was looked up.
    package var products: [WebProduct]

    package init(
        paidAt: Timestamp?, isPaidByEvent: Bool, amount: Int64?, currency: String? = nil, catalogProductID: String?,
        products: [WebProduct]
    ) {
        self.paidAt = paidAt
        self.isPaidByEvent = isPaidByEvent
        self.amount = amount
        self.currency = currency
        self.catalogProductID = catalogProductID
        self.products = products
    }
}

/// What is stated about a refund.
package struct WebRefund: Hashable, Sendable {
    /// `re_…`: the refund's identity.
    package var refundID: String
    /// In the currency's smallest unit.
    package var amount: Int64
    /// Stripe's code, in lower case.
    package var currency: String?
    package var status: Known<WebRefundStatus>?
    package var created: Timestamp
    /// `pi_…`.
    package var paymentIntent: String?
    /// `ch_…`.
    package var charge: String?

    package init(
        refundID: String, amount: Int64, currency: String? = nil, status: Known<WebRefundStatus>?, created: Timestamp,
        paymentIntent: String?, charge: String?
    ) {
        self.refundID = refundID
        self.amount = amount
        self.currency = currency
        self.status = status
        self.created = created
        self.paymentIntent = paymentIntent
        self.charge = charge
    }
}

/// What is stated about a dispute.
package struct WebDispute: Hashable, Sendable {
    /// Which way the disputed money went, where an event said so.
    package enum Funds: UInt8, Hashable, Sendable, CaseIterable {
        case withdrawn = 1
        case reinstated = 2
    }

    /// `dp_…` or `du_…`: the dispute's identity.
    package var disputeID: String
    package var status: Known<WebDisputeStatus>
    package var created: Timestamp
    /// What is disputed, in the currency's smallest unit.
    package var amount: Int64?
    /// Stripe's code, in lower case.
    package var currency: String?
    package var funds: Funds?
    /// `pi_…`.
    package var paymentIntent: String?
    /// `ch_…`.
    package var charge: String?

    package init(
        disputeID: String, status: Known<WebDisputeStatus>, created: Timestamp, amount: Int64? = nil,
        currency: String? = nil, funds: Funds?, paymentIntent: String?, charge: String?
    ) {
        self.disputeID = disputeID
        self.status = status
        self.created = created
        self.amount = amount
        self.currency = currency
        self.funds = funds
        self.paymentIntent = paymentIntent
        self.charge = charge
    }
}

/// Says of a payment by which charge it was made, and for which invoice: refunds and disputes name no invoice.
package struct WebInvoicePayment: Hashable, Sendable {
    /// `pi_…`.
    package var paymentIntent: String?
    /// `ch_…`.
    package var charge: String?
    /// `in_…`.
    package var invoice: String?
    /// What was paid, in the currency's smallest unit.
    package var amount: Int64?

    package init(paymentIntent: String?, charge: String?, invoice: String?, amount: Int64?) {
        self.paymentIntent = paymentIntent
        self.charge = charge
        self.invoice = invoice
        self.amount = amount
    }
}

/// Says whose an original is.
package struct WebOwner: Hashable, Sendable {
    /// Where it is written.
    package enum Place: UInt8, Hashable, Sendable, CaseIterable {
        /// Metadata of the subscription or payment intent.
        case purchase = 1
        /// Metadata of the session in which it was bought.
        case session = 2
        /// The session's `client_reference_id`.
        case clientReference = 3
        /// Metadata of the customer of Stripe's who paid, under the name that a team's own records have for it.
        case payer = 4
        /// A team's own list, where Stripe names nobody.
        case list = 5

        /// Of several names the one of the lowest rank counts.
        var rank: Int {
            switch self {
            case .purchase: 1
            case .session: 2
            case .clientReference, .list: 3
            case .payer: 4
            }
        }

        /// Whether it is our own metadata, which a reference beside it does not contradict.
        var isOwnMetadata: Bool {
            switch self {
            case .purchase, .session: true
            case .clientReference, .list, .payer: false
            }
        }

        /// Whether the seller wrote it, so that whoever is named may be taken for whoever paid.
        ///
        /// A reference is written by whoever has the address of a Payment Link: strangers pay under a name that is not
        /// theirs, or let others pay under their own.
        var isWrittenBySeller: Bool {
            switch self {
            case .purchase, .session, .list, .payer: true
            case .clientReference: false
            }
        }
    }

    package var place: Place
    package var customer: IdentityRef

    package init(place: Place, customer: IdentityRef) {
        self.place = place
        self.customer = customer
    }
}

/// What one event of Stripe, or one reading of its API, states about one original: a subscription or a one-time payment.
///
/// The environment is the event's.
package struct WebFact: Hashable, Sendable {
    /// Stripe's own type, such as `invoice.paid`, or `readingLabel`.
    package var type: String
    /// `evt_…`; `nil` for a reading.
    package var eventID: String?
    /// The event's `created`, in whole seconds, or when it was read.
    package var statedAt: Timestamp
    /// SHA-256 of what is stated, whatever the API's version; it does not tell whom it names.
    package var payloadHash: Digest
    /// `sub_…`, `pi_…`, or `cs_…` where nothing was due; `nil` where it is still to be found out.
    package var originalTransactionID: String?
    package var subscription: WebSubscription?
    package var invoices: [WebInvoice]
    package var payment: WebPayment?
    package var refunds: [WebRefund]
    package var disputes: [WebDispute]
    package var invoicePayments: [WebInvoicePayment]
    package var owners: [WebOwner]
    /// Ids of what belongs to the original and states nothing: sessions, `cs_…`, and invoices that were not paid, `in_…`.
    package var mentioned: [String]
    /// Things an operator should look at, such as `unknown_type:x`; they change nothing by themselves.
    package var remarks: [String]

    package init(
        type: String, eventID: String?, statedAt: Timestamp, payloadHash: Digest = .zero,
        originalTransactionID: String?, subscription: WebSubscription? = nil, invoices: [WebInvoice] = [],
        payment: WebPayment? = nil, refunds: [WebRefund] = [], disputes: [WebDispute] = [],
        invoicePayments: [WebInvoicePayment] = [], owners: [WebOwner] = [], mentioned: [String] = [],
        remarks: [String] = []
    ) {
        self.type = type
        self.eventID = eventID
        self.statedAt = statedAt
        self.payloadHash = payloadHash
        self.originalTransactionID = originalTransactionID
        self.subscription = subscription
        self.invoices = invoices
        self.payment = payment
        self.refunds = refunds
        self.disputes = disputes
        self.invoicePayments = invoicePayments
        self.owners = owners
        self.mentioned = mentioned
        self.remarks = remarks
    }

    /// What an event is called whose objects were looked up.
    package static let readingLabel = "web_reading"

    /// The product that is looked at first, for who lists events; `nil` where none is named.
    package var product: WebProduct? {
        invoices.first?.lines.first?.product ?? subscription?.items.first?.product ?? payment?.products.first
    }

    /// What Stripe calls all that belongs to the original, as far as this says: sessions, invoices and their lines, payment
    /// intents, charges, refunds and disputes; the original itself left out.
    package var partIDs: Set<String> {
        guard let originalTransactionID else { return [] }
        var ids = Set(mentioned)
        for invoice in invoices {
            ids.insert(invoice.invoiceID)
            ids.formUnion(invoice.lines.map(\.lineID))
        }
        for paid in invoicePayments {
            ids.formUnion([paid.paymentIntent, paid.charge, paid.invoice].compactMap(\.self))
        }
        for refund in refunds {
            ids.formUnion([refund.refundID, refund.paymentIntent, refund.charge].compactMap(\.self))
        }
        for dispute in disputes {
            ids.formUnion([dispute.disputeID, dispute.paymentIntent, dispute.charge].compactMap(\.self))
        }
        return ids.subtracting([originalTransactionID])
    }

    func replacingIdentities(_ replace: (IdentityRef) -> IdentityRef) -> WebFact {
        var fact = self
        fact.owners = owners.map { WebOwner(place: $0.place, customer: replace($0.customer)) }
        return fact
    }
}
