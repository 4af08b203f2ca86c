import SeededRandom

// What customers do with subscriptions, and what time does.
extension WebStoryteller {
    /// How a subscription begins.
    package struct Beginning: Sendable {
        /// A link made by somebody's hand has a session, and so has a checkout; else it is made by a program.
        package var hasSession = true
        package var trialDays: Int64?
        /// When the first payment arrives, in milliseconds after; nil where it never does.
        package var firstPayment: Int64? = 0
        /// How many lines stand before those of the subscription on its first invoice.
        package var handLines = 0
        /// The session in which it is bought, where one was made before.
        var session: String?

        package init() {}
    }

    /// Somebody subscribes.
    ///
    /// - Returns: the subscription's id.
    @discardableResult
    package mutating func subscribe(
        _ buyer: WebBuyer, to prices: [SimulatedWebPrice], at instant: Int64, names: WebNames,
        _ beginning: Beginning = Beginning(), metadata: [String: String] = [:]
    ) -> String {
        let id = newID("sub")
        record.stories[key(id)] = WebStory(isOneTime: false)
        let trialEnd = beginning.trialDays.map { instant + $0 * Span.day }
        let begun = prices.map { price in
            StripeItem(id: newID("si"), price: price, start: instant, end: trialEnd ?? price.end(from: instant))
        }
        let isPaidAtOnce = trialEnd != nil || beginning.firstPayment == 0
        let goodStatus = trialEnd == nil ? "active" : "trialing"
        subscriptions[id] = StripeSubscription(
            id: id, customer: buyer.stripeID ?? newID("cus"), created: instant, status: goodStatus, items: begun,
            trialStart: trialEnd.map { _ in instant }, trialEnd: trialEnd,
            metadata: names.purchase.map { metadata.merging(["rightful_customer_id": $0]) { $1 } } ?? metadata)
        let session =
            beginning.session ?? (beginning.hasSession ? open(prices, names, at: instant - 3 * Span.minute) : nil)
        let isIncomplete = !isPaidAtOnce || random.chance(40)
        say(id, as: ["customer.subscription.created"], at: instant) {
            $0.status = isIncomplete ? "incomplete" : goodStatus
        }
        let lines = begun.map { item in
            line(
                item.price, of: item.id, from: item.start, to: item.end,
                amount: trialEnd == nil ? item.price.amount : 0)
        }
        let invoice = bill(id, lines, reason: "subscription_create", handLines: beginning.handLines, at: instant)
        guard let delay = isPaidAtOnce ? 0 : beginning.firstPayment else {
            refuse(invoice, nextAttempt: nil, at: instant + Span.second)
            say(id, at: instant + 23 * Span.hour) { subscription in
                subscription.status = "incomplete_expired"
                subscription.endedAt = instant + 23 * Span.hour
            }
            giveUp(invoice, as: "void", at: instant + 23 * Span.hour)
            return id
        }
        if delay > 0 { refuse(invoice, nextAttempt: nil, at: instant + Span.second) }
        let paidAt = instant + max(delay, Span.second)
        pay(invoice, at: paidAt)
        if isIncomplete { say(id, at: paidAt + Span.second) { $0.status = goodStatus } }
        if let session {
            let payer = subscription(id).customer
            complete(session, at: paidAt + 2 * Span.second) { session in
                session.subscription = id
                session.customer = payer
                session.invoice = invoice
                session.paymentStatus = trialEnd == nil ? "paid" : "no_payment_required"
            }
            name(key(id), session)
        }
        return id
    }

    /// The session in which something was bought says whose it is.
    mutating func name(_ key: SimulatedOriginalKey, _ session: String) {
        guard let session = sessions[session] else { return }
        if let named = session.metadata["rightful_customer_id"], named.utf8.count <= 255 {
            record.stories[key]?.name(named, in: .session)
        }
        if let named = session.clientReference { record.stories[key]?.name(named, in: .clientReference) }
    }

    /// A period is over, and those items that it is of begin the next; nothing is paid yet.
    ///
    /// - Parameter replacing: an item in whose place another comes with the new period, and the price of that.
    /// - Returns: the invoice of the next period.
    package mutating func beginPeriod(
        _ id: String, handLines: Int = 0, late: Int64 = 0, replacing: (index: Int, price: SimulatedWebPrice)? = nil
    ) -> String {
        let end = subscription(id).periodEnd
        var items = subscription(id).items
        if let replacing {
            let old = items[replacing.index]
            items[replacing.index] = StripeItem(
                id: newID("si"), price: replacing.price, start: old.start, end: old.end)
            record.stories[key(id)]?.succeed(old.id, by: items[replacing.index].id)
        }
        var lines: [PendingLine] = []
        for item in items where item.end == end {
            lines.append(
                line(
                    item.price, of: item.id, from: end, to: item.price.end(from: end),
                    amount: item.price.amount * item.quantity))
        }
        say(id, at: end + late) { subscription in
            subscription.items = items
            for index in subscription.items.indices where subscription.items[index].end == end {
                subscription.items[index].start = end
                subscription.items[index].end = subscription.items[index].price.end(from: end)
            }
            if subscription.status == "trialing" { subscription.status = "active" }
        }
        return bill(id, lines, reason: "subscription_cycle", handLines: handLines, at: end + late)
    }

    /// A charge is refused while a period runs that was not paid for.
    package mutating func fallBehind(_ id: String, _ invoice: String, nextAttempt: Int64?, at instant: Int64) {
        refuse(invoice, nextAttempt: nextAttempt, at: instant)
        if subscription(id).status == "active" || subscription(id).status == "trialing" {
            say(id, at: instant) { $0.status = "past_due" }
        }
    }

    /// What was owed is paid.
    package mutating func recover(_ id: String, _ invoice: String, at instant: Int64) {
        pay(invoice, at: instant)
        if subscription(id).status != "active", subscription(id).endedAt == nil {
            say(id, at: instant + Span.second) { $0.status = "active" }
        }
    }

    /// The retries are over, and the account's setting says what follows.
    package mutating func stopTrying(_ id: String, _ invoice: String, unpaid: Bool, at instant: Int64) {
        if unpaid {
            say(id, at: instant) { $0.status = "unpaid" }
        } else {
            end(id, at: instant, because: "payment_failed")
            giveUp(invoice, as: "uncollectible", at: instant)
        }
    }

    /// It is to end with the period, or is not any more.
    package mutating func cancelAtPeriodEnd(_ id: String, _ isSo: Bool, byDate: Bool = false, at instant: Int64) {
        cancel(id, isSo ? byDate ? .onDate(periods: 0) : .withPeriod : nil, at: instant)
    }

    /// How it is set to end.
    package enum Cancellation: Sendable {
        case withPeriod
        /// The same by a date, or by one so many periods later: until then it is charged.
        case onDate(periods: Int)
    }

    /// It is to end some time, or is not any more.
    package mutating func cancel(_ id: String, _ cancellation: Cancellation?, at instant: Int64) {
        say(id, at: instant) { subscription in
            (subscription.cancelsAtPeriodEnd, subscription.cancelAt) = (false, nil)
            switch cancellation {
            case nil: break
            case .withPeriod: subscription.cancelsAtPeriodEnd = true
            case .onDate(let periods):
                let last = subscription.items.max { $0.end < $1.end }
                subscription.cancelAt = last.map { item in
                    (0..<periods).reduce(item.end) { end, _ in item.price.end(from: end) }
                }
            }
            subscription.canceledAt = cancellation == nil ? nil : instant
            subscription.reason = cancellation == nil ? nil : "cancellation_requested"
        }
    }

    /// It is over.
    ///
    /// - Parameter told: when that is said, where it is later.
    package mutating func end(
        _ id: String, at instant: Int64, because reason: String = "cancellation_requested", told: Int64? = nil,
        mayTie: Bool = false
    ) {
        say(id, as: ["customer.subscription.deleted"], at: told ?? instant, mayTie: mayTie) { subscription in
            subscription.status = "canceled"
            subscription.endedAt = instant
            subscription.canceledAt = subscription.canceledAt ?? instant
            subscription.reason = reason
        }
    }

    /// A trial is over, and there is no card.
    package mutating func pause(_ id: String, at instant: Int64) {
        say(id, as: ["customer.subscription.paused", "customer.subscription.updated"], at: instant) {
            $0.status = "paused"
        }
    }

    /// A paused subscription goes on, with a period of its own.
    package mutating func resume(_ id: String, at instant: Int64) {
        var lines: [PendingLine] = []
        for item in subscription(id).items {
            lines.append(
                line(
                    item.price, of: item.id, from: instant, to: item.price.end(from: instant), amount: item.price.amount
                ))
        }
        let invoice = bill(id, lines, reason: "subscription_cycle", at: instant)
        pay(invoice, at: instant)
        say(id, as: ["customer.subscription.resumed", "customer.subscription.updated"], at: instant) { subscription in
            subscription.status = "active"
            for index in subscription.items.indices {
                subscription.items[index].start = instant
                subscription.items[index].end = subscription.items[index].price.end(from: instant)
            }
        }
    }

    /// Collection is paused, or goes on.
    package mutating func pauseCollection(_ id: String, _ behavior: String?, at instant: Int64) {
        say(id, at: instant) { $0.pause = behavior }
    }

    /// Somebody writes into the metadata of the subscription.
    package mutating func rename(_ id: String, to customer: String?, at instant: Int64) {
        say(id, at: instant) { $0.metadata["rightful_customer_id"] = customer }
    }

    /// Something is said of it that nobody has heard of.
    package mutating func sayTheUnheardOf(_ id: String, at instant: Int64) {
        let status = subscription(id).status
        say(id, at: instant) { $0.status = "hibernating" }
        subscriptions[id]?.status = status
        emit("customer.subscription.hibernated", .subscription(subscription(id)), at: instant)
    }
}
