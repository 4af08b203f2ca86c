// The canonical form of the statements themselves; kept apart from the primitives in FactCodec.swift. A view row
// holds statements in the same form, so that a view is as canonical as the log.

extension CanonicalWriter {
    mutating func notification(_ fact: NotificationFact) {
        text(fact.type)
        optional(fact.subtype) { $0.text($1) }
        text(fact.uuid)
        optional(fact.signedDate) { $0.timestamp($1) }
        digest(fact.payloadHash)
        text(fact.bundleID)
        optional(fact.transaction) { $0.transaction($1) }
        optional(fact.renewal) { $0.renewal($1) }
        count(fact.remarks.count)
        for remark in fact.remarks { text(remark) }
    }

    mutating func transaction(_ fact: TransactionFact) {
        digest(fact.payloadHash)
        optional(fact.signedDate) { $0.timestamp($1) }
        text(fact.transactionID)
        text(fact.originalTransactionID)
        optional(fact.webOrderLineItemID) { $0.text($1) }
        text(fact.productID)
        text(fact.bundleID)
        optional(fact.kind) { $0.text($1.raw) }
        timestamp(fact.purchaseDate)
        optional(fact.expiresDate) { $0.timestamp($1) }
        optional(fact.revocation) { writer, revocation in
            writer.timestamp(revocation.date)
            writer.optional(revocation.reason) { $0.integer($1) }
            writer.optional(revocation.kind) { $0.text($1.raw) }
            writer.optional(revocation.percentage) { $0.integer($1) }
        }
        flag(fact.isUpgraded)
        optional(fact.reason) { $0.text($1.raw) }
        optional(fact.ownership) { $0.text($1.raw) }
        optional(fact.accountToken) { $0.integer($1.number) }
        optional(fact.appTransaction) { $0.integer($1.number) }
        optional(fact.offer) { writer, offer in
            writer.integer(offer.type)
            writer.optional(offer.identifier) { $0.text($1) }
            writer.optional(offer.discount) { $0.text($1) }
            writer.optional(offer.period) { $0.text($1) }
        }
        optional(fact.price) { writer, price in
            writer.integer(price.thousandths)
            writer.text(price.currency)
        }
    }

    mutating func renewal(_ fact: RenewalFact) {
        digest(fact.payloadHash)
        optional(fact.signedDate) { $0.timestamp($1) }
        text(fact.originalTransactionID)
        optional(fact.autoRenewProductID) { $0.text($1) }
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
        text(fact.originalTransactionID)
        count(fact.transactions.count)
        for transaction in fact.transactions { self.transaction(transaction) }
        count(fact.renewals.count)
        for renewal in fact.renewals { self.renewal(renewal) }
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
        var texts = StatementTexts()
        return NotificationFact(
            type: try text(), subtype: try optionalText(), uuid: try text(), signedDate: try optionalTimestamp(),
            payloadHash: try digest(), bundleID: try text(),
            transaction: try flag() ? try transaction(&texts) : nil,
            renewal: try flag() ? try renewal(&texts) : nil,
            remarks: try list { reader throws(Failure) in try reader.text() })
    }

    mutating func transaction(_ texts: inout StatementTexts) throws(Failure) -> TransactionFact {
        TransactionFact(
            payloadHash: try digest(), signedDate: try optionalTimestamp(), transactionID: try text(),
            originalTransactionID: try text(&texts.originalTransactionID), webOrderLineItemID: try optionalText(),
            productID: try text(&texts.productID), bundleID: try text(&texts.bundleID),
            kind: try flag() ? Known(try text(&texts.kind)) : nil, purchaseDate: try timestamp(),
            expiresDate: try optionalTimestamp(), revocation: try flag() ? try revocation() : nil,
            isUpgraded: try flag(), reason: try optionalText().map { Known($0) },
            ownership: try optionalText().map { Known($0) },
            accountToken: try optionalInteger().map { IdentityRef($0) },
            appTransaction: try optionalInteger().map { IdentityRef($0) }, offer: try flag() ? try offer() : nil,
            price: try flag() ? try money() : nil)
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

    private mutating func money() throws(Failure) -> Money {
        let (thousandths, currency) = (try integer(), try text())
        guard let money = Money(thousandths: thousandths, currency: currency), money.currency == currency else {
            throw .invalid("a price of \(thousandths) thousandths of \(currency)")
        }
        return money
    }

    mutating func renewal(_ texts: inout StatementTexts) throws(Failure) -> RenewalFact {
        var fact = RenewalFact(
            payloadHash: try digest(), signedDate: try optionalTimestamp(),
            originalTransactionID: try text(&texts.originalTransactionID),
            autoRenewProductID: try flag() ? try text(&texts.renewsAs) : nil, autoRenews: try flag() ? try flag() : nil,
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
        var texts = StatementTexts()
        return StatementsFact(
            originalTransactionID: try text(&texts.originalTransactionID),
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
