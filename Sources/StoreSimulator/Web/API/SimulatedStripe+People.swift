import Synchronization

// What customers do on the pages, and what time does with what they bought.

/// What is still to happen to a subscription by itself.
struct StripeDue: Sendable {
    /// The invoice of the period that runs, until it is paid.
    var invoice: String?
    /// When its charge is tried next, in milliseconds since 1970.
    var nextAttempt: Int64?
    var attempts = 0
}

extension SimulatedStripe {
    /// How a customer goes through a checkout.
    package enum Payment: String, Sendable, CaseIterable {
        /// The card is good.
        case card
        /// It is good once, and refused from the first renewal on.
        case cardOnce = "card_once"
        /// The bank says later that the money arrived; for one-time payments only.
        case bank
    }

    /// How long a bank takes, in milliseconds.
    static let bankDelay = 20 * Span.second
    /// How often a refused charge is tried again before the subscription is cancelled.
    static let retries = 3

    /// A session by its id, as it stands.
    package func session(_ id: String) -> StripeSession? { state.withLock { $0.teller.sessions[id] } }

    /// The customer pays what a session sells.
    ///
    /// - Returns: where the browser goes then; nil where the session is not open.
    package func pay(_ id: String, by payment: Payment) -> String? {
        let instant = now() / 1000 * 1000
        return state.withLock { state in
            guard let session = state.teller.sessions[id], session.status == "open", instant < session.expiresAt else {
                return nil
            }
            var names = WebNames(nil)
            names.purchase = session.saleMetadata["rightful_customer_id"]
            let buyer = buyer(of: session, &state, at: instant)
            if session.mode == "subscription" {
                var beginning = WebStoryteller.Beginning()
                beginning.session = id
                beginning.trialDays = session.trialDays
                let subscription = state.teller.subscribe(
                    buyer, to: session.prices, at: instant, names: names, beginning,
                    metadata: session.saleMetadata)
                state.due[subscription] = StripeDue()
                if payment == .cardOnce { state.badCards.insert(subscription) }
            } else {
                names.namesProduct = false
                state.teller.buy(
                    buyer, session.prices[0], payment == .bank ? .after(Self.bankDelay) : .atOnce, at: instant,
                    names: names, in: id, metadata: session.saleMetadata)
            }
            return session.successURL?.replacing("{CHECKOUT_SESSION_ID}", with: id) ?? "\(pages())/"
        }
    }

    /// A checkout makes a customer, where none was named; of one who pays once it keeps nothing unless it is to.
    private func buyer(of session: StripeSession, _ state: inout State, at instant: Int64) -> WebBuyer {
        if let customer = session.customer { return WebBuyer(customerID: "", stripeID: customer) }
        guard session.mode == "subscription" || session.makesCustomer else {
            return WebBuyer(customerID: "", stripeID: nil)
        }
        let customer = StripeCustomer(id: state.teller.newID("cus"), created: instant)
        state.teller.keep(.customer(customer), at: instant, as: "customer.created")
        return WebBuyer(customerID: "", stripeID: customer.id)
    }

    /// What a customer does with a subscription, or the account's owner for them.
    package enum Deed: String, Sendable, CaseIterable {
        case cancelAtPeriodEnd = "cancel_at_period_end"
        case keep
        case cancelNow = "cancel_now"
        case breakCard = "break_card"
        case mendCard = "mend_card"
        case refund
        case dispute
        case winDispute = "win_dispute"
        case pause
        case resume
    }

    /// Does it; what makes no sense is not done.
    package func act(_ deed: Deed, on id: String) {
        let instant = now() / 1000 * 1000
        state.withLock { state in
            let charge = state.teller.newestCharge(of: id)
            guard let subscription = state.teller.subscriptions[id] else {
                if let charge { Self.giveBack(deed, charge, &state, at: instant) }
                return
            }
            let isOver = subscription.endedAt != nil
            switch deed {
            case .refund, .dispute, .winDispute:
                if let charge { Self.giveBack(deed, charge, &state, at: instant) }
            case .cancelAtPeriodEnd where !isOver && !subscription.cancelsAtPeriodEnd:
                state.teller.cancelAtPeriodEnd(id, true, at: instant)
            case .keep where !isOver && subscription.cancelsAtPeriodEnd:
                state.teller.cancelAtPeriodEnd(id, false, at: instant)
            case .cancelNow where !isOver: state.teller.end(id, at: instant)
            case .breakCard: state.badCards.insert(id)
            case .mendCard:
                state.badCards.remove(id)
                // Who brings another card pays what is owed at once.
                if state.due[id]?.attempts ?? 0 > 0 { state.due[id]?.nextAttempt = instant }
            case .pause where !isOver && subscription.pause == nil:
                state.teller.pauseCollection(id, "void", at: instant)
            case .resume where !isOver && subscription.pause != nil:
                state.teller.pauseCollection(id, nil, at: instant)
            case .cancelAtPeriodEnd, .keep, .cancelNow, .pause, .resume: break
            }
        }
    }

    private static func giveBack(_ deed: Deed, _ charge: String, _ state: inout State, at instant: Int64) {
        switch deed {
        case .refund: state.teller.refund(charge, at: instant)
        case .dispute: state.teller.openDispute(charge, at: instant)
        case .winDispute: state.teller.winDisputes(of: charge, at: instant)
        case .cancelAtPeriodEnd, .keep, .cancelNow, .breakCard, .mendCard, .pause, .resume: break
        }
    }

    /// Lets time pass: periods end and begin, charges are tried, sessions expire.
    package func tick() {
        let instant = now() / 1000 * 1000
        state.withLock { state in
            for session in state.teller.sessions.values.sorted(by: { $0.id < $1.id })
            where session.status == "open" && session.expiresAt <= instant {
                state.teller.expire(session.id, at: session.expiresAt)
            }
            for id in state.due.keys.sorted() {
                // Whoever was asleep for long catches up, period by period.
                for _ in 0..<1000 where Self.pass(id, &state, at: instant) {}
            }
        }
    }

    /// Takes the next step of one subscription; returns whether there was one.
    private static func pass(_ id: String, _ state: inout State, at instant: Int64) -> Bool {
        let subscription = state.teller.subscription(id)
        guard subscription.endedAt == nil, var due = state.due[id] else {
            state.due[id] = nil
            return false
        }
        let length = max(Span.second, subscription.items.map { $0.end - $0.start }.min() ?? Span.day)
        if let invoice = due.invoice, let attempt = due.nextAttempt, attempt <= min(instant, subscription.periodEnd - 1)
        {
            if state.badCards.contains(id) {
                due.attempts += 1
                due.nextAttempt = attempt + min(3 * Span.day, max(Span.second, length / 6 / 1000 * 1000))
                if due.attempts > retries {
                    state.teller.stopTrying(id, invoice, unpaid: false, at: attempt)
                } else {
                    state.teller.fallBehind(id, invoice, nextAttempt: due.nextAttempt, at: attempt)
                }
            } else {
                state.teller.recover(id, invoice, at: attempt)
                due = StripeDue()
            }
            state.due[id] = due
            return true
        }
        guard subscription.periodEnd <= instant else { return false }
        let end = subscription.periodEnd
        if subscription.cancelsAtPeriodEnd {
            state.teller.end(id, at: end)
        } else {
            let invoice = state.teller.beginPeriod(id)
            if subscription.pause != nil {
                state.teller.giveUp(invoice, as: "void", at: end)
            } else {
                due = StripeDue(
                    invoice: invoice, nextAttempt: end + min(Span.hour, max(Span.second, length / 10 / 1000 * 1000)))
            }
            state.due[id] = due
        }
        return true
    }

    // MARK: - What the pages show

    /// All subscriptions and one-time payments, the newest first; of one customer of Stripe's, where one is given.
    package func purchases(of customer: String? = nil) -> [StripeObject] {
        let instant = now()
        return state.withLock { state in
            let subscriptions = state.teller.books.objects(of: "subscriptions", at: instant)
            let payments = state.teller.books.objects(of: "checkout/sessions", at: instant).filter { object in
                if case .session(let session) = object {
                    session.mode == "payment" && session.status == "complete"
                } else {
                    false
                }
            }
            return (subscriptions + payments).filter { object in
                guard let customer else { return true }
                switch object {
                case .subscription(let subscription): return subscription.customer == customer
                case .session(let session): return session.customer == customer
                case .customer, .invoice, .paymentIntent, .charge, .refund, .dispute, .other: return false
                }
            }
        }
    }

    /// The sessions that wait to be paid, the newest first.
    package var openSessions: [String] {
        let instant = now()
        return state.withLock { state in
            state.teller.sessions.values.filter { $0.status == "open" && instant < $0.expiresAt }
                .sorted { ($0.created, $0.id) > ($1.created, $1.id) }.map(\.id)
        }
    }

    /// What the API reads from, as it is now.
    package var library: StripeLibrary {
        let instant = now()
        return state.withLock {
            StripeLibrary(
                $0.teller.books, isLive: environment == .production, now: instant, shape: .recent,
                pageLimit: $0.pageLimit, shop: shop)
        }
    }

    /// Whose portal a session of it is, and where it leads back to.
    package func portal(_ id: String) -> (customer: String, returnURL: String?)? { state.withLock { $0.portals[id] } }
}

extension WebStoryteller {
    /// The charge that was made last for a subscription or a one-time payment.
    func newestCharge(of id: String) -> String? {
        let invoices = invoices.values.filter { $0.subscription == id && $0.charge != nil }
        return invoices.max { ($0.paidAt ?? 0, $0.id) < ($1.paidAt ?? 0, $1.id) }?.charge ?? charge(ofIntent: id)
    }

    /// A dispute that waits for somebody to decide it.
    mutating func openDispute(_ chargeID: String, at instant: Int64) {
        guard let charge = charges[chargeID], let payee = payees[charge.paymentIntent],
            !disputes.values.contains(where: { $0.charge == chargeID && $0.status == "needs_response" })
        else { return }
        let dispute = StripeDispute(
            id: newID("dp"), amount: charge.amount, currency: charge.currency, status: "needs_response",
            created: instant, charge: chargeID, paymentIntent: charge.paymentIntent)
        disputes[dispute.id] = dispute
        keep(.dispute(dispute), at: instant, as: "charge.dispute.created", "charge.dispute.funds_withdrawn")
        markDisputed(chargeID, at: instant)
        record.stories[payee.key]?.dispute(payee.payment, id: dispute.id, created: instant, stands: true)
    }

    /// A charge says for good that it was disputed; no event tells of that.
    mutating func markDisputed(_ chargeID: String, at instant: Int64) {
        guard var charge = charges[chargeID] else { return }
        charge.isDisputed = true
        charges[chargeID] = charge
        books.keep(.charge(charge), at: instant)
    }

    mutating func winDisputes(of chargeID: String, at instant: Int64) {
        for var dispute in disputes.values where dispute.charge == chargeID && dispute.status == "needs_response" {
            dispute.status = "won"
            disputes[dispute.id] = dispute
            keep(.dispute(dispute), at: instant, as: "charge.dispute.closed", "charge.dispute.funds_reinstated")
            guard let payee = payees[dispute.paymentIntent] else { continue }
            record.stories[payee.key]?.dispute(
                payee.payment, id: dispute.id, created: dispute.created, stands: false)
        }
    }
}
