// The canonical form of the statements themselves; kept apart from the primitives in FactCodec.swift. A view row
// holds statements in the same form, but that what the next statement repeats stands there once.

/// The texts that the statements of one life mostly have in common, as they were written or read last.
struct StatementTexts {
    /// Whether a text that repeats the last one in its place is written as `repetition`.
    ///
    /// States are written so: it makes two thirds of a long one. Facts are not: they are hashed, and each stands by itself.
    let areWrittenOnce: Bool
    fileprivate var originalTransactionID: String?
    fileprivate var productID: String?
    fileprivate var renewsAs: String?
    fileprivate var bundleID: String?
    fileprivate var kind: Known<ProductKind>?
    fileprivate var reason: Known<TransactionReason>?
    fileprivate var ownership: Known<AppleOwnership>?
    fileprivate var price: Money?

    /// Stands in the place of a text's length, which no text reaches.
    fileprivate static let repetition = UInt32.max

    init(areWrittenOnce: Bool) { self.areWrittenOnce = areWrittenOnce }
}

extension CanonicalWriter {
    /// Writes a text, or that it is the one before it.
    private mutating func text(_ value: String, after before: inout String?, once: Bool) {
        if once, value == before { return count(StatementTexts.repetition) }
        before = value
        text(value)
    }

    private mutating func known<Value>(_ value: Known<Value>, after before: inout Known<Value>?, once: Bool) {
        if once, value == before { return count(StatementTexts.repetition) }
        before = value
        text(value.raw)
    }

    private mutating func price(_ price: Money, after before: inout Money?, once: Bool) {
        integer(price.thousandths)
        if once, price.currency == before?.currency {
            count(StatementTexts.repetition)
        } else {
            text(price.currency)
        }
        before = price
    }

    mutating func notification(_ fact: NotificationFact) {
        text(fact.type)
        optional(fact.subtype) { $0.text($1) }
        text(fact.uuid)
        optional(fact.signedDate) { $0.timestamp($1) }
        digest(fact.payloadHash)
        text(fact.bundleID)
        var texts = StatementTexts(areWrittenOnce: false)
        optional(fact.transaction) { $0.transaction($1, &texts) }
        optional(fact.renewal) { $0.renewal($1, &texts) }
        count(fact.remarks.count)
        for remark in fact.remarks { text(remark) }
    }

    mutating func transaction(_ fact: TransactionFact, _ texts: inout StatementTexts) {
        let once = texts.areWrittenOnce
        digest(fact.payloadHash)
        optional(fact.signedDate) { $0.timestamp($1) }
        text(fact.transactionID)
        text(fact.originalTransactionID, after: &texts.originalTransactionID, once: once)
        optional(fact.webOrderLineItemID) { $0.text($1) }
        text(fact.productID, after: &texts.productID, once: once)
        text(fact.bundleID, after: &texts.bundleID, once: once)
        optional(fact.kind) { $0.known($1, after: &texts.kind, once: once) }
        timestamp(fact.purchaseDate)
        optional(fact.expiresDate) { $0.timestamp($1) }
        optional(fact.revocation) { writer, revocation in
            writer.timestamp(revocation.date)
            writer.optional(revocation.reason) { $0.integer($1) }
            writer.optional(revocation.kind) { $0.text($1.raw) }
            writer.optional(revocation.percentage) { $0.integer($1) }
        }
        flag(fact.isUpgraded)
        optional(fact.reason) { $0.known($1, after: &texts.reason, once: once) }
        optional(fact.ownership) { $0.known($1, after: &texts.ownership, once: once) }
        optional(fact.accountToken) { $0.integer($1.number) }
        optional(fact.appTransaction) { $0.integer($1.number) }
        optional(fact.offer) { writer, offer in
            writer.integer(offer.type)
            writer.optional(offer.identifier) { $0.text($1) }
            writer.optional(offer.discount) { $0.text($1) }
            writer.optional(offer.period) { $0.text($1) }
        }
        optional(fact.price) { $0.price($1, after: &texts.price, once: once) }
    }

    mutating func renewal(_ fact: RenewalFact, _ texts: inout StatementTexts) {
        let once = texts.areWrittenOnce
        digest(fact.payloadHash)
        optional(fact.signedDate) { $0.timestamp($1) }
        text(fact.originalTransactionID, after: &texts.originalTransactionID, once: once)
        optional(fact.autoRenewProductID) { $0.text($1, after: &texts.renewsAs, once: once) }
        optional(fact.autoRenews) { $0.flag($1) }
        flag(fact.isInBillingRetry)
        optional(fact.graceEnd) { $0.timestamp($1) }
        optional(fact.expirationIntent) { $0.integer($1) }
        // Most state no price increase, and take no byte for it.
        byte((fact.isGraceWithoutEnd ? 1 : 0) + (fact.priceIncreaseStatus == nil ? 0 : 2))
        if let status = fact.priceIncreaseStatus { integer(status) }
    }

    /// A catalog that says nothing of the web: the only form there was before it could.
    mutating func catalog(_ catalog: Catalog) {
        count(catalog.products.count)
        for product in catalog.products {
            text(product.productID)
            count(product.entitlements.count)
            for entitlement in product.entitlements { text(entitlement) }
            optional(product.duration) { $0.text($1.text) }
        }
        flag(catalog.policy.graceGivesAccess)
        flag(catalog.policy.billingRetryGivesAccess)
        integer(catalog.policy.leewaySeconds)
        text(catalog.policy.proratedRefund.rawValue)
    }

    /// A catalog that speaks of the web, too: after the form above what each product adds, and the policy.
    mutating func webCatalog(_ catalog: Catalog) {
        self.catalog(catalog)
        for product in catalog.products {
            flag(product.isInAppStore)
            optional(product.stripe) { writer, stripe in
                writer.text(stripe.price)
                writer.optional(stripe.product) { $0.text($1) }
                writer.text(stripe.mode.rawValue)
                writer.optional(stripe.sandboxPrice) { $0.text($1) }
                writer.optional(stripe.sandboxProduct) { $0.text($1) }
            }
        }
        integer(catalog.policy.webGraceDays)
        text(catalog.policy.webDispute.rawValue)
    }

    mutating func statements(_ fact: StatementsFact) {
        var texts = StatementTexts(areWrittenOnce: false)
        text(fact.originalTransactionID)
        count(fact.transactions.count)
        for transaction in fact.transactions { self.transaction(transaction, &texts) }
        count(fact.renewals.count)
        for renewal in fact.renewals { self.renewal(renewal, &texts) }
        count(fact.remarks.count)
        for remark in fact.remarks { text(remark) }
    }

    mutating func drift(_ fact: DriftFact) {
        integer(fact.customer.number)
        text(fact.bundleID)
        text(fact.productID)
        text(fact.claimed.rawValue)
        optional(fact.claimedUntil) { $0.timestamp($1) }
        optional(fact.actual) { $0.text($1.rawValue) }
        optional(fact.actualUntil) { $0.timestamp($1) }
    }

    mutating func forgetting(_ fact: ForgettingFact) {
        count(fact.identities.count)
        for identity in fact.identities { integer(identity.number) }
        count(fact.evidencePositions.count)
        for position in fact.evidencePositions { integer(position) }
    }
}

extension CanonicalReader {
    /// A text, or the one before it where it says so.
    private mutating func text(after before: inout String?, once: Bool) throws(Failure) -> String {
        if once, let before, skip(count: StatementTexts.repetition) { return before }
        let text = try text(likely: before)
        before = text
        return text
    }

    private mutating func known<Value>(after before: inout Known<Value>?, once: Bool) throws(Failure) -> Known<Value> {
        if once, let before, skip(count: StatementTexts.repetition) { return before }
        let value = Known<Value>(try text())
        before = value
        return value
    }

    private mutating func price(after before: inout Money?, once: Bool) throws(Failure) -> Money {
        let thousandths = try integer()
        let price: Money?
        if once, let before, skip(count: StatementTexts.repetition) {
            price = before.with(thousandths: thousandths)
        } else {
            let currency = try text()
            price = Money(thousandths: thousandths, currency: currency)
            guard price?.currency == currency else { throw .invalid("a price in \(currency)") }
        }
        guard let price else { throw .invalid("a price of \(thousandths) thousandths") }
        before = price
        return price
    }

    // Closures do not infer typed throws, so the optional readers below are written once and named.
    mutating func optionalText() throws(Failure) -> String? {
        try flag() ? try text() : nil
    }

    mutating func optionalInteger() throws(Failure) -> Int64? {
        try flag() ? try integer() : nil
    }

    mutating func optionalTimestamp() throws(Failure) -> Timestamp? {
        try flag() ? try timestamp() : nil
    }

    mutating func notification() throws(Failure) -> NotificationFact {
        var texts = StatementTexts(areWrittenOnce: false)
        return NotificationFact(
            type: try text(), subtype: try optionalText(), uuid: try text(), signedDate: try optionalTimestamp(),
            payloadHash: try digest(), bundleID: try text(),
            transaction: try flag() ? try transaction(&texts) : nil,
            renewal: try flag() ? try renewal(&texts) : nil,
            remarks: try list { reader throws(Failure) in try reader.text() })
    }

    mutating func transaction(_ texts: inout StatementTexts) throws(Failure) -> TransactionFact {
        let once = texts.areWrittenOnce
        return TransactionFact(
            payloadHash: try digest(), signedDate: try optionalTimestamp(), transactionID: try text(),
            originalTransactionID: try text(after: &texts.originalTransactionID, once: once),
            webOrderLineItemID: try optionalText(), productID: try text(after: &texts.productID, once: once),
            bundleID: try text(after: &texts.bundleID, once: once),
            kind: try flag() ? try known(after: &texts.kind, once: once) : nil, purchaseDate: try timestamp(),
            expiresDate: try optionalTimestamp(), revocation: try flag() ? try revocation() : nil,
            isUpgraded: try flag(), reason: try flag() ? try known(after: &texts.reason, once: once) : nil,
            ownership: try flag() ? try known(after: &texts.ownership, once: once) : nil,
            accountToken: try optionalInteger().map { IdentityRef($0) },
            appTransaction: try optionalInteger().map { IdentityRef($0) }, offer: try flag() ? try offer() : nil,
            price: try flag() ? try price(after: &texts.price, once: once) : nil)
    }

    private mutating func revocation() throws(Failure) -> Revocation {
        Revocation(
            date: try timestamp(), reason: try optionalInteger(), kind: try optionalText().map { Known($0) },
            percentage: try optionalInteger())
    }

    private mutating func offer() throws(Failure) -> Offer {
        Offer(
            type: try integer(), identifier: try optionalText(), discount: try optionalText(),
            period: try optionalText())
    }

    mutating func renewal(_ texts: inout StatementTexts) throws(Failure) -> RenewalFact {
        let once = texts.areWrittenOnce
        var fact = RenewalFact(
            payloadHash: try digest(), signedDate: try optionalTimestamp(),
            originalTransactionID: try text(after: &texts.originalTransactionID, once: once),
            autoRenewProductID: try flag() ? try text(after: &texts.renewsAs, once: once) : nil,
            autoRenews: try flag() ? try flag() : nil,
            isInBillingRetry: try flag(), graceEnd: try optionalTimestamp(), expirationIntent: try optionalInteger())
        let marks = try byte()
        guard marks < 4 else { throw .invalid("a renewal's marks of \(marks)") }
        fact.isGraceWithoutEnd = marks & 1 == 1
        if marks & 2 == 2 { fact.priceIncreaseStatus = try integer() }
        return fact
    }

    mutating func catalog() throws(Failure) -> Catalog {
        let products = try list { reader throws(Failure) in try reader.catalogProduct() }
        let grace = try flag()
        let retry = try flag()
        let leeway = try integer()
        let refundText = try text()
        guard let refund = ProratedRefundPolicy(rawValue: refundText) else {
            throw .invalid("a policy of \(refundText)")
        }
        let catalog = Catalog(
            products: products,
            policy: AccessPolicy(
                graceGivesAccess: grace, billingRetryGivesAccess: retry, leewaySeconds: leeway,
                proratedRefund: refund))
        guard catalog.products == products else { throw .invalid("a catalog out of order") }
        return catalog
    }

    mutating func webCatalog() throws(Failure) -> Catalog {
        let plain = try catalog()
        var products: [CatalogProduct] = []
        for product in plain.products {
            let isInAppStore = try flag()
            products.append(
                CatalogProduct(
                    productID: product.productID, entitlements: product.entitlements, duration: product.duration,
                    stripe: try flag() ? try stripeProduct() : nil, isInAppStore: isInAppStore))
        }
        var policy = plain.policy
        policy.webGraceDays = try integer()
        let word = try text()
        guard let dispute = WebDisputePolicy(rawValue: word) else { throw .invalid("a policy of \(word)") }
        policy.webDispute = dispute
        let catalog = Catalog(products: products, policy: policy)
        guard catalog.speaksOfWeb else { throw .invalid("a catalog of the web that says nothing of it") }
        return catalog
    }

    private mutating func stripeProduct() throws(Failure) -> StripeProduct {
        let price = try text()
        let product = try optionalText()
        let word = try text()
        guard let mode = StripeProduct.Mode(rawValue: word) else { throw .invalid("a mode of \(word)") }
        return StripeProduct(
            price: price, product: product, mode: mode, sandboxPrice: try optionalText(),
            sandboxProduct: try optionalText())
    }

    mutating func statements() throws(Failure) -> StatementsFact {
        var texts = StatementTexts(areWrittenOnce: false)
        return StatementsFact(
            originalTransactionID: try text(after: &texts.originalTransactionID, once: false),
            transactions: try list { reader throws(Failure) in try reader.transaction(&texts) },
            renewals: try list { reader throws(Failure) in try reader.renewal(&texts) },
            remarks: try list { reader throws(Failure) in try reader.text() })
    }

    mutating func drift() throws(Failure) -> DriftFact {
        DriftFact(
            customer: IdentityRef(try integer()), bundleID: try text(), productID: try text(), claimed: try state(),
            claimedUntil: try optionalTimestamp(), actual: try flag() ? try state() : nil,
            actualUntil: try optionalTimestamp())
    }

    private mutating func state() throws(Failure) -> EntitlementState {
        let word = try text()
        guard let state = EntitlementState(rawValue: word) else { throw .invalid("a state of \(word)") }
        return state
    }

    mutating func forgetting() throws(Failure) -> ForgettingFact {
        ForgettingFact(
            identities: try list { reader throws(Failure) in IdentityRef(try reader.integer()) },
            evidencePositions: try list { reader throws(Failure) in try reader.integer() })
    }

    private mutating func catalogProduct() throws(Failure) -> CatalogProduct {
        let id = try text()
        let entitlements = try list { reader throws(Failure) in try reader.text() }
        let durationText = try optionalText()
        let duration = durationText.flatMap { CalendarDuration(iso8601: $0) }
        guard (duration == nil) == (durationText == nil) else {
            throw .invalid("a duration of \(durationText ?? "")")
        }
        return CatalogProduct(productID: id, entitlements: entitlements, duration: duration)
    }
}
