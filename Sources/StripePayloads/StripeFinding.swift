import AppStorePayloads
import EntitlementCore

/// An invoice, as much of it as was seen.
struct FoundInvoice: Hashable {
    let id: String
    var subscription: String?
    /// `nil` where it is not paid.
    var paid: WebInvoice?
    var hasMoreLines: Bool
    /// What it is for, where that is no subscription.
    var sold: [WebProduct] = []
}

/// A session of a checkout.
struct FoundSession: Hashable {
    enum Mode: Hashable {
        case subscription
        case payment
        /// `setup`, or one that is not known.
        case other
    }

    let id: String
    let mode: Mode
    let subscription: String?
    let paymentIntent: String?
    let isPaid: Bool
    let amount: Int64?
    let currency: String?
    let created: Timestamp?
    let productID: String?

    /// What it sold; `nil` where nothing was, or it is not known yet what.
    var original: String? {
        switch mode {
        case .subscription: subscription
        case .payment: paymentIntent ?? (isPaid ? id : nil)
        case .other: nil
        }
    }
}

/// A payment intent.
struct FoundIntent: Hashable {
    let id: String
    let isPaid: Bool
    let amount: Int64?
    let currency: String?
    /// When it was charged; where that is not said, when it was made.
    let paidAt: Timestamp?
    let metadata: Bool
    let productID: String?
}

/// All that some objects of Stripe's state, whichever shape they have: from it the fact of an event or of a reading is made.
struct StripeFinding {
    /// The event that carries them; `nil` for what was looked up.
    let event: (type: String, created: Timestamp)?
    let environment: StoreEnvironment
    /// Another key of metadata under which somebody else wrote whose a purchase is; `nil` where nobody did.
    var ownerMetadata: String?
    /// What a team's own records say of what this is about; `nil` where they were not asked, or say nothing.
    var ownerEntry: StripeOwnerEntry?
    /// A payment intent by which something was sold, as the ledger knows already.
    var knownSale: String?
    /// What a refund or a dispute is about, as the log knows already.
    var knownOriginal: String?
    /// Who paid, as Stripe knows them, and whatever else a team's records may know it by.
    var names: [String] = []
    /// The event that a reading is about, while that is taken in.
    var subject: (type: String, created: Timestamp?)?

    var subscriptions: [String: WebSubscription] = [:]
    /// Subscriptions of which not all items were seen, and the last that was.
    var cutItems: [String: String?] = [:]
    var invoices: [FoundInvoice] = []
    /// The last line that was read of a long invoice.
    var lastLines: [String: String] = [:]
    var sessions: [FoundSession] = []
    /// What was sold in a session, by its id, and whether there is more.
    var sold: [String: (products: [WebProduct], last: String?, hasMore: Bool)] = [:]
    var intents: [FoundIntent] = []
    var charges: [String] = []
    /// Charges of which all refunds were seen.
    var refundsSeen: Set<String> = []
    var refunds: [WebRefund] = []
    var disputes: [WebDispute] = []
    var invoicePayments: [WebInvoicePayment] = []
    /// Whose something is: original, place, customer.
    var owners: [(original: String, place: WebOwner.Place, customer: CustomerID)] = []
    var remarks = RemarkList()

    init(event: (type: String, created: Timestamp)?, environment: StoreEnvironment) {
        self.event = event
        self.environment = environment
    }

    /// How deep objects are looked for in each other; expanded references may lead back.
    static let depthLimit = 4

    /// Takes in one object, and those that it was expanded with.
    mutating func add(_ object: JSONObject, depth: Int = 0) throws(PayloadError) {
        guard depth < Self.depthLimit, !object.flag("deleted") else { return }
        if let isLive = object["livemode"]?.bool, isLive != (environment == .production) {
            throw .inconsistent("an object is of another environment than \(environment.rawValue)")
        }
        switch object["object"]?.identifier {
        case "subscription": try addSubscription(object, depth)
        case "invoice": try addInvoice(object, depth)
        case "checkout.session": try addSession(object, depth)
        case "payment_intent": try addIntent(object, depth)
        case "charge": try addCharge(object, depth)
        case "refund": try addRefund(object, depth)
        case "dispute": try addDispute(object, depth)
        case "invoice_payment": try addInvoicePayment(object, depth)
        default: return
        }
    }

    /// Takes in what references were expanded to.
    mutating func addExpanded(_ names: [String], of object: JSONObject, _ depth: Int) throws(PayloadError) {
        for name in names {
            if let expanded = object.expanded(name) { try add(expanded, depth: depth + 1) }
        }
    }

    mutating func own(_ original: String?, _ place: WebOwner.Place, _ metadata: OwnMetadata) {
        if metadata.isUnusable { remarks.insert(.unexpectedValue(path: "metadata.\(StripeMetadata.customerID)")) }
        own(original, place, metadata.customerID)
    }

    /// Whose it is by what is written at the customer of Stripe's who paid, where that was read beside it.
    mutating func own(_ original: String?, payerOf object: JSONObject) {
        guard let ownerMetadata, let payer = object.expanded("customer")?["metadata"]?.object else { return }
        own(original, .payer, payer[ownerMetadata]?.string.flatMap { CustomerID($0) })
    }

    mutating func own(_ original: String?, _ place: WebOwner.Place, _ customer: CustomerID?) {
        guard let original, let customer else { return }
        guard !owners.contains(where: { $0 == (original, place, customer) }) else { return }
        owners.append((original, place, customer))
    }

    mutating func noteInvoicePayment(_ paymentIntent: String?, _ charge: String?, _ invoice: String?, amount: Int64?) {
        let paid = WebInvoicePayment(paymentIntent: paymentIntent, charge: charge, invoice: invoice, amount: amount)
        let names = [paymentIntent, charge, invoice].compactMap(\.self)
        guard names.count > 1 || (charge != nil && amount != nil), !invoicePayments.contains(paid) else { return }
        invoicePayments.append(paid)
    }

    /// The payment intents by which something was sold once, beside sessions: they bear our metadata, a team's own records name
    /// them, or the ledger knows it, and they pay for no subscription.
    var intentsOfSales: [FoundIntent] {
        intents.filter { intent in
            (intent.metadata || intent.id == ownerEntry?.id || intent.id == knownSale)
                && !invoices(paidBy: intent.id).contains { $0.subscription != nil }
        }
    }

    func invoices(paidBy intent: String) -> [FoundInvoice] {
        let tied = Set(invoicePayments.filter { $0.paymentIntent == intent }.compactMap(\.invoice))
        return invoices.filter { tied.contains($0.id) }
    }

    mutating func note(name: String?) {
        if let name, !names.contains(name) { names.append(name) }
    }

    /// What is found to be the original: a subscription before a payment; `nil` where nothing is.
    ///
    /// - Throws: where it is found to be several, which no fact can be about.
    func original() throws(PayloadError) -> String? {
        var found = Set(subscriptions.keys)
        found.formUnion(invoices.compactMap(\.subscription))
        found.formUnion(sessions.compactMap(\.original))
        found.formUnion(intentsOfSales.map(\.id))
        found.formUnion([knownOriginal].compactMap(\.self))
        guard found.count <= 1 else {
            throw .inconsistent("what was stated is about several originals: \(found.sorted().joined(separator: ", "))")
        }
        return found.first
    }
}
