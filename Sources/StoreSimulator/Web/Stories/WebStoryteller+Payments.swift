import SeededRandom

// Sessions and one-time payments, and what goes back of any payment.
extension WebStoryteller {
    /// A session is made, to be paid some time.
    mutating func open(_ prices: [SimulatedWebPrice], _ names: WebNames, amount: Int64? = nil, at instant: Int64)
        -> String
    {
        var session = StripeSession(
            id: newID("cs"), mode: prices.contains { $0.interval != nil } ? "subscription" : "payment", status: "open",
            paymentStatus: "unpaid", created: instant, expiresAt: instant + Span.day, prices: prices,
            amount: amount ?? prices.reduce(0) { $0 + $1.amount })
        session.clientReference = names.clientReference
        session.metadata["rightful_customer_id"] = names.session
        session.url = "https://checkout.example/c/\(session.id)"
        return open(session)
    }

    mutating func open(_ session: StripeSession) -> String {
        sessions[session.id] = session
        books.keep(.session(session), at: session.created)
        return session.id
    }

    /// The customer has gone through it.
    mutating func complete(
        _ id: String, as type: String = "checkout.session.completed", at instant: Int64,
        _ change: (inout StripeSession) -> Void
    ) {
        guard var session = sessions[id] else { return }
        session.status = "complete"
        session.url = nil
        change(&session)
        sessions[id] = session
        keep(.session(session), at: instant, as: type)
    }

    /// Nobody went through it in time.
    package mutating func expire(_ id: String, at instant: Int64) {
        guard var session = sessions[id], session.status == "open" else { return }
        session.status = "expired"
        session.url = nil
        sessions[id] = session
        keep(.session(session), at: instant, as: "checkout.session.expired")
    }

    /// How something is paid once.
    package enum Settling: Sendable, Equatable {
        case atOnce
        /// The bank says so later, in milliseconds after.
        case after(Int64)
        /// The bank says later that there is no money.
        case neverAfter(Int64)
        /// Nothing was due.
        case free
    }

    /// Somebody buys something once.
    ///
    /// - Returns: the payment's id, or the session's where nothing was due.
    @discardableResult
    package mutating func buy(
        _ buyer: WebBuyer, _ price: SimulatedWebPrice, _ settling: Settling = .atOnce, at instant: Int64,
        names: WebNames,
        in session: String? = nil, metadata: [String: String] = [:]
    ) -> String {
        var sale = metadata
        sale["rightful_customer_id"] = names.purchase
        // Our product stands with the session or with the payment, if anywhere.
        let product = names.namesProduct ? price.catalogProductID : nil
        let isInSession = settling == .free || random.chance(50)
        if !isInSession, let product { sale["rightful_product_id"] = product }
        let session =
            session ?? open([price], names, amount: settling == .free ? 0 : nil, at: instant - 2 * Span.minute)
        if isInSession, let product { sessions[session]?.metadata["rightful_product_id"] = product }
        guard settling != .free else {
            record.stories[key(session)] = WebStory(isOneTime: true)
            complete(session, at: instant) { $0.paymentStatus = "no_payment_required" }
            record.stories[key(session)]?.buy(
                [price.catalogProductID], payment: session,
                WebStory.Payment(amount: 0, currency: price.currency, paidAt: instant))
            name(key(session), session)
            return session
        }
        let paidAt: Int64? =
            switch settling {
            case .atOnce, .free: instant
            case .after(let delay): instant + delay
            case .neverAfter: nil
            }
        var intentID = ""
        var story = WebStory(isOneTime: true)
        if let named = sale["rightful_customer_id"], named.utf8.count <= 255 { story.name(named, in: .purchase) }
        if let paidAt {
            intentID =
                charge(
                    price.amount, price.currency, of: buyer.stripeID, invoice: nil, metadata: sale, begun: instant,
                    at: paidAt
                ).intent
            story.buy(
                [price.catalogProductID], payment: intentID,
                WebStory.Payment(amount: price.amount, currency: price.currency, paidAt: paidAt))
            payees[intentID] = (key(intentID), intentID)
        } else {
            intentID = newID("pi")
        }
        process(
            StripePaymentIntent(
                id: intentID, amount: price.amount, currency: price.currency, status: "processing", created: instant,
                customer: buyer.stripeID, metadata: sale), settling)
        record.stories[key(intentID)] = story
        complete(session, at: instant) { session in
            session.paymentIntent = intentID
            session.customer = buyer.stripeID
            session.paymentStatus = settling == .atOnce ? "paid" : "unpaid"
        }
        switch settling {
        case .atOnce, .free: break
        case .after(let delay):
            complete(session, as: "checkout.session.async_payment_succeeded", at: instant + delay) {
                $0.paymentStatus = "paid"
            }
        case .neverAfter(let delay):
            complete(session, as: "checkout.session.async_payment_failed", at: instant + delay) { _ in }
        }
        name(key(intentID), session)
        return intentID
    }

    /// A payment can be read while the bank takes its time, and where it has failed in the end.
    private mutating func process(_ intent: StripePaymentIntent, _ settling: Settling) {
        switch settling {
        case .atOnce, .free: return
        case .after: books.keep(.paymentIntent(intent), at: intent.created)
        case .neverAfter(let delay):
            books.keep(.paymentIntent(intent), at: intent.created)
            var failed = intent
            failed.status = "requires_payment_method"
            books.keep(.paymentIntent(failed), at: intent.created + delay)
        }
    }

    /// A server takes money by itself, without a session.
    mutating func pay(
        _ amount: Int64, _ currency: String, of customer: String?, metadata: [String: String], isPaid: Bool,
        at instant: Int64
    ) -> StripePaymentIntent {
        guard isPaid else {
            let intent = StripePaymentIntent(
                id: newID("pi"), amount: amount, currency: currency, status: "requires_payment_method",
                created: instant, customer: customer, metadata: metadata)
            books.keep(.paymentIntent(intent), at: instant)
            return intent
        }
        let made = charge(amount, currency, of: customer, invoice: nil, metadata: metadata, at: instant)
        payees[made.intent] = (key(made.intent), made.intent)
        return StripePaymentIntent(
            id: made.intent, amount: amount, currency: currency, status: "succeeded", created: instant,
            customer: customer, latestCharge: made.charge, metadata: metadata)
    }

    // MARK: - What goes back

    /// How a refund goes.
    package enum RefundCourse: Sendable, CaseIterable {
        case succeeds
        case pends
        case fails
        /// It had succeeded, and the bank sent the money back.
        case bounces
        case isCancelled
    }

    /// The charge of an invoice or of a one-time payment; nil where nothing was charged.
    package func charge(of id: String) -> String? {
        invoices[id].map { $0.charge } ?? charges.values.first { $0.paymentIntent == id }?.id
    }

    /// What of a charge was not given back yet.
    package func left(of charge: String) -> Int64 { charges[charge].map { $0.amount - $0.amountRefunded } ?? 0 }

    /// Money goes back.
    ///
    /// - Returns: when the refund is settled.
    @discardableResult
    package mutating func refund(
        _ chargeID: String, _ amount: Int64? = nil, _ course: RefundCourse = .succeeds, at instant: Int64
    ) -> Int64 {
        guard var charge = charges[chargeID], let payee = payees[charge.paymentIntent] else { return instant }
        let amount = min(amount ?? left(of: chargeID), left(of: chargeID))
        guard amount > 0 else { return instant }
        var refund = StripeRefund(
            id: newID("re"), amount: amount, currency: charge.currency,
            status: course == .succeeds || course == .bounces ? "succeeded" : "pending", created: instant,
            charge: chargeID, paymentIntent: charge.paymentIntent)
        charge.amountRefunded += amount
        charges[chargeID] = charge
        refunds[refund.id] = refund
        keep(.refund(refund), at: instant, as: "refund.created")
        keep(.charge(charge), at: instant, as: "charge.refunded")
        let stays = course == .succeeds || course == .pends
        if stays {
            record.stories[payee.key]?.refund(
                payee.payment, WebStory.Refund(id: refund.id, created: instant, amount: amount))
        }
        guard course != .succeeds else { return instant }
        let settled = instant + random.number(in: 1...72) * Span.hour
        refund.status = stays ? "succeeded" : course == .isCancelled ? "canceled" : "failed"
        refunds[refund.id] = refund
        keep(.refund(refund), at: settled, as: "refund.updated", "charge.refund.updated")
        if refund.status == "failed" { emit("refund.failed", .refund(refund), at: settled) }
        if !stays {
            charge.amountRefunded -= amount
            charges[chargeID] = charge
            books.keep(.charge(charge), at: settled)
        }
        return settled
    }

    /// How a dispute goes.
    package enum DisputeCourse: Sendable, CaseIterable {
        case won, lost, open, prevented
        /// It is only a question, and stays one.
        case warning
        /// It begins as a question.
        case escalates
        /// It is lost, and the bank gives the money back after all.
        case reinstated
    }

    /// The customer's bank disputes a charge.
    ///
    /// - Returns: when it is decided.
    @discardableResult
    package mutating func dispute(_ chargeID: String, _ course: DisputeCourse, at instant: Int64) -> Int64 {
        guard let charge = charges[chargeID], let payee = payees[charge.paymentIntent] else { return instant }
        let isQuestion = course == .warning || course == .escalates
        var dispute = StripeDispute(
            id: newID("dp"), amount: charge.amount, currency: charge.currency,
            status: isQuestion ? "warning_needs_response" : "needs_response", created: instant, charge: chargeID,
            paymentIntent: charge.paymentIntent)
        var now = instant
        func note(_ story: inout WebStory?, stands: Bool, lostAt: Int64? = nil) {
            story?.dispute(payee.payment, id: dispute.id, created: instant, stands: stands, lostAt: lostAt)
        }
        func turn(_ teller: inout WebStoryteller, _ status: String, _ types: String..., after delay: Int64) {
            now += delay
            dispute.status = status
            teller.disputes[dispute.id] = dispute
            teller.books.keep(.dispute(dispute), at: now)
            for type in types { teller.emit("charge.dispute.\(type)", .dispute(dispute), at: now) }
        }
        note(&record.stories[payee.key], stands: !isQuestion)
        disputes[dispute.id] = dispute
        keep(.dispute(dispute), at: now, as: "charge.dispute.created")
        if !isQuestion {
            emit("charge.dispute.funds_withdrawn", .dispute(dispute), at: now)
            markDisputed(chargeID, at: now)
        }
        let days = random.number(in: 1...40) * Span.day
        switch course {
        case .open: turn(&self, "under_review", "updated", after: days)
        case .warning:
            turn(&self, "warning_under_review", "updated", after: Span.day)
            turn(&self, "warning_closed", "closed", after: days)
        case .escalates:
            turn(&self, "needs_response", "updated", "funds_withdrawn", after: days)
            markDisputed(chargeID, at: now)
            note(&record.stories[payee.key], stands: true)
        case .won, .prevented:
            turn(&self, "under_review", "updated", after: Span.day)
            turn(&self, course == .won ? "won" : "prevented", "closed", "funds_reinstated", after: days)
            note(&record.stories[payee.key], stands: false)
        case .lost, .reinstated:
            turn(&self, "under_review", "updated", after: Span.day)
            turn(&self, "lost", "closed", after: days)
            note(&record.stories[payee.key], stands: true, lostAt: now)
            guard course == .reinstated else { return now }
            turn(&self, "lost", "funds_reinstated", after: days)
            note(&record.stories[payee.key], stands: false)
        }
        return now
    }
}
