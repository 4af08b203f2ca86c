import SeededRandom

// Invoices: how they are written, paid, refused and given up.
extension WebStoryteller {
    /// Writes an invoice over lines and over what is still to be billed.
    ///
    /// - Parameter handLines: how many lines that nobody's subscription is about come before them.
    /// - Returns: its id.
    mutating func bill(
        _ subscriptionID: String, _ lines: [PendingLine], reason: String, handLines: Int = 0, at instant: Int64
    ) -> String {
        let subscription = subscription(subscriptionID)
        let all = (pending.removeValue(forKey: subscriptionID) ?? []) + lines
        let byHand = (0..<handLines).map { _ in
            StripeLine(
                id: newLineID(), amount: 5, price: nil, start: instant, end: instant, item: nil, isProration: false,
                isPeriod: false, replaces: false)
        }
        let invoice = StripeInvoice(
            id: newID("in"), customer: subscription.customer, subscription: subscriptionID, created: instant,
            reason: reason, status: "draft", lines: byHand + all.map(\.line), metadata: subscription.metadata,
            isLive: isLive)
        billed[invoice.id] = all
        invoices[invoice.id] = invoice
        subscriptions[subscriptionID]?.latestInvoice = invoice.id
        keep(.invoice(invoice), at: instant, as: "invoice.created")
        return invoice.id
    }

    /// The customer's money arrives, or nothing was due.
    package mutating func pay(_ id: String, at instant: Int64) {
        var invoice = invoice(id)
        guard let subscriptionID = invoice.subscription, invoice.status == "draft" || invoice.status == "open" else {
            return
        }
        invoice.status = "paid"
        invoice.paidAt = instant
        invoice.amountPaid = invoice.due
        invoice.nextAttempt = nil
        if invoice.due > 0 {
            invoice.attempts += 1
            let (intent, charge) = charge(
                invoice.due, invoice.currency, of: invoice.customer, invoice: id, metadata: [:], at: instant)
            (invoice.paymentIntent, invoice.charge) = (intent, charge)
            payees[intent] = (key(subscriptionID), id)
        }
        invoices[id] = invoice
        books.keep(.invoice(invoice), at: instant)
        let types = ["invoice.paid", "invoice.payment_succeeded"]
        for type in random.chance(50) ? types : types.reversed() { emit(type, .invoice(invoice), at: instant) }
        if let named = invoice.metadata["rightful_customer_id"], named.utf8.count <= 255 {
            record.stories[key(subscriptionID)]?.name(named, in: .purchase)
        }
        let pending = billed[id] ?? []
        record.stories[key(subscriptionID)]?.pay(
            id, WebStory.Payment(amount: invoice.due, currency: invoice.currency, paidAt: instant),
            for: pending.filter(\.line.isPeriod).compactMap { pending in
                guard let price = pending.line.price else { return nil }
                return WebStory.Stretch(
                    item: pending.item, payment: id, productID: price.catalogProductID, start: pending.line.start,
                    end: pending.line.end, paidAt: instant, replaces: pending.line.replaces, order: pending.order)
            })
        for pending in pending where pending.endsItem {
            record.stories[key(subscriptionID)]?.stopSelling(pending.item, at: pending.line.start)
        }
    }

    /// What an invoice was for is billed and paid once more, by somebody's mistake.
    ///
    /// - Returns: the second invoice.
    @discardableResult
    package mutating func payAgain(_ id: String, at instant: Int64) -> String {
        guard let subscription = invoice(id).subscription else { preconditionFailure("\(id) is of no subscription") }
        var lines: [PendingLine] = []
        for pending in billed[id] ?? [] {
            guard let price = pending.line.price else { continue }
            lines.append(
                line(
                    price, of: pending.item, from: pending.line.start, to: pending.line.end, amount: pending.line.amount
                ))
        }
        let second = bill(subscription, lines, reason: "manual", at: instant)
        pay(second, at: instant)
        return second
    }

    /// The card is refused.
    mutating func refuse(_ id: String, nextAttempt: Int64?, at instant: Int64) {
        var invoice = invoice(id)
        invoice.status = "open"
        invoice.attempts += 1
        invoice.nextAttempt = nextAttempt
        invoices[id] = invoice
        keep(.invoice(invoice), at: instant, as: "invoice.payment_failed")
        if random.chance(20) { emit("invoice.payment_action_required", .invoice(invoice), at: instant) }
    }

    /// Nobody tries to collect it any more.
    mutating func giveUp(_ id: String, as status: String, at instant: Int64) {
        var invoice = invoice(id)
        guard invoice.status != "paid" else { return }
        invoice.status = status
        invoice.nextAttempt = nil
        invoices[id] = invoice
        keep(
            .invoice(invoice), at: instant,
            as: status == "void" ? "invoice.voided" : "invoice.marked_uncollectible")
    }

    /// A charge that succeeds.
    ///
    /// - Parameter begun: when the payment was begun, where the money took time.
    mutating func charge(
        _ amount: Int64, _ currency: String, of customer: String?, invoice: String?, metadata: [String: String],
        begun: Int64? = nil, at instant: Int64
    ) -> (intent: String, charge: String) {
        let (intentID, chargeID) = (newID("pi"), newID("ch"))
        let charge = StripeCharge(
            id: chargeID, amount: amount, currency: currency, created: instant, customer: customer,
            paymentIntent: intentID, invoice: invoice)
        let intent = StripePaymentIntent(
            id: intentID, amount: amount, currency: currency, status: "succeeded", created: begun ?? instant,
            customer: customer, latestCharge: chargeID, invoice: invoice, metadata: metadata)
        charges[chargeID] = charge
        keep(.charge(charge), at: instant, as: "charge.succeeded")
        keep(.paymentIntent(intent), at: instant, as: "payment_intent.succeeded")
        return (intentID, chargeID)
    }
}
