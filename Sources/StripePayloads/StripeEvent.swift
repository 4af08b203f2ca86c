package import AppStorePayloads
package import EntitlementCore

/// What one event of Stripe states, decoded from the body of a webhook or from a list of events.
///
/// Its identity is `eventID` with the fact's `payloadHash`: one event comes with several bodies, in the API version of each
/// endpoint and with another `pending_webhooks` each time, and states the same in all of them.
package struct StripeEvent: Hashable, Sendable {
    /// `evt_…`.
    package let eventID: String
    /// Stripe's own word, such as `invoice.paid`; ``StripeEventType`` has the ones that are known.
    package let type: String
    /// What the ledger calls it: Stripe's own word, where it was known.
    package let label: String
    package let created: Timestamp
    package let environment: StoreEnvironment
    package let fact: WebFact
    /// The customer ids that the fact refers to.
    package let identities: IdentityList
    /// It carries no object, only which one it is about: without a look-up it states nothing.
    package let isThin: Bool
    /// What is to be read beside it, in this order.
    package let followUps: [StripeFollowUp]

    /// What an event is called whose type was not known when it came.
    ///
    /// It stays so: when a later version knows the type, the event still states what it was taken to state, and its evidence
    /// is read as it was then.
    package static let unknownLabel = "unknown"

    /// Whether it states anything that bears on what somebody holds, or whose it is.
    package var states: Bool { fact.statesAnything }

    /// How many bytes a body may have: twice what twenty items take with as much metadata as Stripe allows in each and in
    /// its price and plan.
    package static let byteLimit = 4 << 20

    /// Decodes an event's body; total: it is either read or refused, whatever the bytes are.
    ///
    /// - Parameters:
    ///   - sha256: the hash of some bytes.
    ///   - isKnown: which types are read; of any other the event states nothing but that it was.
    /// - Throws: `malformed` for what is no JSON object within the limits; `inconsistent` where something is missing without
    ///   which it is not what it says it is.
    package init(
        parsing bytes: [UInt8], sha256: ([UInt8]) -> Digest,
        knowing isKnown: (String) -> Bool = StripeEventType.isKnown
    ) throws(PayloadError) {
        try self.init(JSONObject(parsing: bytes, limit: Self.byteLimit), sha256: sha256, knowing: isKnown)
    }

    init(
        _ json: JSONObject, sha256: ([UInt8]) -> Digest, knowing isKnown: (String) -> Bool
    ) throws(PayloadError) {
        let kind = json["object"]?.identifier
        guard kind == "event" || kind == "v2.core.event" else {
            throw .inconsistent("the payload's object is \(kind ?? "missing"), not event")
        }
        let id = try json.mandatory("id", of: "the event") { $0["id"]?.identifier }
        let name = "the event \(id)"
        eventID = id
        type = try json.mandatory("type", of: name) { $0["type"]?.identifier }
        guard let isLive = json["livemode"]?.bool else { throw .inconsistent("\(name) has no usable livemode") }
        environment = isLive ? .production : .sandbox
        isThin = kind == "v2.core.event"
        label = isKnown(type) ? type : Self.unknownLabel
        if isThin {
            created = try json.mandatory("created", of: name) {
                $0["created"]?.string.flatMap { Timestamp(rfc3339: $0) }
            }
            // Some are about nothing in particular.
            let related = json["related_object"]?.object?["id"]?.identifier
            var fact = WebFact(type: type, eventID: id, statedAt: created, originalTransactionID: nil)
            fact.remarks = [Remark.thinEvent.text]
            identities = IdentityList()
            self.fact = fact.hashed(sha256)
            followUps = related.flatMap { StripeLookup(id: $0) }.map { [StripeFollowUp($0, .now)] } ?? []
            return
        }
        created = try json.mandatory("created", of: name) { $0.instant("created") }
        let object = try json.mandatory("data.object", of: name) { $0["data"]?.object?["object"]?.object }
        var finding = StripeFinding(event: (type, created), environment: environment)
        if json["account"]?.identifier != nil {
            // Of an account that is connected to ours. It sells for itself, and says itself whose that is.
            finding.remarks.insert(.connectedAccount)
        } else if isKnown(type), let expected = StripeEventType.object(of: type) {
            guard object["object"]?.identifier == expected else {
                throw .inconsistent("\(name) of type \(type) is about no \(expected)")
            }
            try finding.add(object)
        } else {
            finding.remarks.insert(.unknownType(type))
        }
        var identities = IdentityList()
        let fact = finding.fact(
            type: type, eventID: id, statedAt: created, original: try finding.original(), identities: &identities)
        self.identities = identities
        self.fact = fact.hashed(sha256)
        followUps = finding.followUps(of: type)
    }
}

extension StripeFinding {
    /// The fact that an event or a reading states.
    func fact(
        type: String, eventID: String?, statedAt: Timestamp, original: String?, identities: inout IdentityList
    ) -> WebFact {
        var fact = WebFact(type: type, eventID: eventID, statedAt: statedAt, originalTransactionID: original)
        fact.subscription = original.flatMap { subscriptions[$0] }
        fact.invoices = invoices.filter { original != nil && $0.subscription == original }.compactMap(\.paid)
        fact.payment = payment(of: original)
        fact.refunds = refunds
        fact.disputes = disputes
        fact.invoicePayments = invoicePayments
        for owner in owners where owner.original == original {
            fact.owners.append(
                WebOwner(
                    place: owner.place, customer: identities.reference(customerID: owner.customer.value)))
        }
        // Whatever Stripe says itself counts before it.
        if let customer = ownerEntry?.customer, original != nil, fact.owners.isEmpty {
            fact.owners.append(
                WebOwner(place: .list, customer: identities.reference(customerID: customer.value)))
        }
        fact.mentioned = mentioned(beside: original)
        fact.remarks = remarks.texts
        return fact
    }

    /// What belongs to an original and is stated nowhere else: whoever has its id in hand is to find the customer.
    private func mentioned(beside original: String?) -> [String] {
        guard let original else { return [] }
        let sessions = sessions.filter { $0.original == original && $0.id != original }.map(\.id)
        let invoices = invoices.filter { $0.subscription == original && $0.paid == nil }.map(\.id)
        return Set(sessions + invoices).sorted()
    }

    /// What is stated of a one-time payment: by its session, and by its payment intent.
    private func payment(of original: String?) -> WebPayment? {
        guard let original, subscriptions[original] == nil else { return nil }
        let sessions = sessions.filter { $0.mode == .payment && $0.original == original }
        // Whoever made it, its own date is nearer than the session's, which may have been open for a day.
        let own = self.intents.filter { $0.id == original }
        let intents = intentsOfSales.filter { $0.id == original }
        guard !sessions.isEmpty || !intents.isEmpty else { return nil }
        let isPaid = sessions.contains(where: \.isPaid) || intents.contains(where: \.isPaid)
        let read = own.compactMap(\.paidAt).min() ?? sessions.compactMap(\.created).min()
        let amount = sessions.compactMap(\.amount).first ?? intents.compactMap(\.amount).first
        let currency = sessions.compactMap(\.currency).first ?? intents.compactMap(\.currency).first
        var products = sessions.compactMap { sold[$0.id]?.products }.flatMap(\.self)
        if sessions.isEmpty { products = invoices(paidBy: original).flatMap(\.sold) }
        let entry = ownerEntry.flatMap { $0.id == original || sessions.map(\.id).contains($0.id) ? $0 : nil }
        return WebPayment(
            paidAt: isPaid ? event?.created ?? read : nil, isPaidByEvent: isPaid && event != nil, amount: amount,
            currency: currency,
            catalogProductID: intents.compactMap(\.productID).first ?? sessions.compactMap(\.productID).first
                ?? entry?.productID,
            products: products)
    }
}

extension WebFact {
    /// Whether it says anything but that there was an event.
    var statesAnything: Bool {
        subscription != nil || !invoices.isEmpty || payment != nil || !refunds.isEmpty || !disputes.isEmpty
            || !invoicePayments.isEmpty || !owners.isEmpty
    }

    /// Gives the fact the hash of what it states.
    ///
    /// Left out is what only some versions of the API tell: how payments, charges and invoices belong together, and by which
    /// refunds a charge was refunded; so are remarks. And left out is who is meant, beside that somebody is: the log keeps the
    /// hash for ever, and beside facts that it keeps as well a forgotten id could be found out by trying. Stripe never changes
    /// an event, so nothing is lost by that.
    func hashed(_ sha256: ([UInt8]) -> Digest) -> WebFact {
        var stated = self
        stated.payloadHash = .zero
        stated.remarks = []
        if eventID != nil { stated.invoicePayments = [] }
        if type == "charge.refunded" { stated.refunds = [] }
        var fact = self
        fact.payloadHash = sha256(FactCodec.encode(.web(stated)))
        return fact
    }
}
