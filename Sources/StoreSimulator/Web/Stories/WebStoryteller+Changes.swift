import SeededRandom

// Other products, intervals and quantities in the middle of a period.
extension WebStoryteller {
    /// How a change is billed.
    package enum Settlement: Sendable, CaseIterable {
        /// The difference is charged at once.
        case atOnce
        /// It is charged with the next invoice.
        case later
        /// Nothing is credited or charged; the next period costs what is new.
        case none
    }

    /// An item is to be of another price or quantity.
    ///
    /// Another interval begins a period of its own, which is billed at once.
    ///
    /// - Parameter wait: until what is billed at once is paid.
    package mutating func change(
        _ id: String, item index: Int = 0, to price: SimulatedWebPrice, quantity: Int64 = 1, _ settlement: Settlement,
        paidAfter wait: Int64 = Span.second, at instant: Int64
    ) {
        let item = subscription(id).items[index]
        let isFree = subscription(id).status == "trialing"
        let isNewInterval = price.interval != item.price.interval && !isFree
        var lines: [PendingLine] = []
        if settlement != .none {
            let rest = isFree ? 0 : Self.share(item.price.amount * item.quantity, of: item, from: instant)
            lines.append(credit(item.price, of: item.id, from: instant, to: item.end, amount: -rest))
        }
        let end = isNewInterval ? price.end(from: instant) : item.end
        if isNewInterval {
            lines.append(
                line(
                    price, of: item.id, from: instant, to: end, amount: price.amount * quantity,
                    replaces: settlement != .none))
        } else if settlement != .none {
            let rest = isFree ? 0 : Self.share(price.amount * quantity, of: item, from: instant)
            lines.append(
                line(
                    price, of: item.id, from: instant, to: item.end, amount: rest, isProration: true, replaces: true))
        }
        if settlement == .none { unbilled.insert(item.id) }
        let told = say(id, at: instant) { subscription in
            subscription.items[index].price = price
            subscription.items[index].quantity = quantity
            subscription.items[index].end = end
            if isNewInterval { subscription.items[index].start = instant }
        }
        settle(id, lines, isNewInterval || settlement == .atOnce, paidAfter: wait, at: told)
    }

    private mutating func settle(
        _ id: String, _ lines: [PendingLine], _ isAtOnce: Bool, paidAfter wait: Int64, at instant: Int64
    ) {
        if isAtOnce {
            pay(bill(id, lines, reason: "subscription_update", at: instant), at: instant + wait)
        } else {
            pending[id, default: []] += lines
        }
    }

    /// Another price comes with another item: the old one is deleted and the new one added in the same update.
    ///
    /// Another interval begins a period of its own, which is billed at once.
    ///
    /// - Parameter wait: until what is billed at once is paid.
    package mutating func replaceItem(
        _ id: String, _ index: Int, with price: SimulatedWebPrice, _ settlement: Settlement,
        paidAfter wait: Int64 = Span.second, at instant: Int64
    ) {
        let old = subscription(id).items[index]
        let isFree = subscription(id).status == "trialing"
        let isNewInterval = price.interval != old.price.interval && !isFree
        let new = StripeItem(
            id: newID("si"), price: price, start: isNewInterval ? instant : old.start,
            end: isNewInterval ? price.end(from: instant) : old.end)
        var lines: [PendingLine] = []
        if settlement != .none {
            let rest = isFree ? 0 : Self.share(old.price.amount * old.quantity, of: old, from: instant)
            lines.append(
                credit(old.price, of: old.id, from: instant, to: old.end, amount: -rest, endsItem: rest > 0))
        }
        if isNewInterval {
            lines.append(
                line(price, of: new.id, from: instant, to: new.end, amount: price.amount))
        } else if settlement != .none {
            lines.append(
                line(
                    price, of: new.id, from: instant, to: old.end,
                    amount: isFree ? 0 : Self.share(price.amount, of: old, from: instant), isProration: true,
                    replaces: true))
        }
        let told = say(id, at: instant) { $0.items[index] = new }
        if settlement == .none { unbilled.insert(new.id) }
        record.stories[key(id)]?.succeed(old.id, by: new.id)
        settle(id, lines, isNewInterval || settlement == .atOnce, paidAfter: wait, at: told)
    }

    /// One thing more is sold in the same subscription, for the rest of the period.
    package mutating func addItem(_ id: String, _ price: SimulatedWebPrice, at instant: Int64) {
        let period = subscription(id).items[0]
        let item = StripeItem(id: newID("si"), price: price, start: period.start, end: period.end)
        let rest = Self.share(price.amount, of: subscription(id).items[0], from: instant)
        let lines = [
            line(price, of: item.id, from: instant, to: item.end, amount: rest, isProration: true, replaces: true)
        ]
        let told = say(id, at: instant) { $0.items.append(item) }
        pay(bill(id, lines, reason: "subscription_update", at: told), at: told + Span.second)
    }

    /// Something is no longer sold, and the rest of what was paid for it is credited with the next invoice.
    package mutating func removeItem(_ id: String, _ index: Int, at instant: Int64) {
        let item = subscription(id).items[index]
        let rest = Self.share(item.price.amount, of: item, from: instant)
        pending[id, default: []].append(
            credit(item.price, of: item.id, from: instant, to: item.end, amount: -rest, endsItem: rest > 0))
        say(id, at: instant) { $0.items.remove(at: index) }
    }

    /// What is given back of what ran before.
    private mutating func credit(
        _ price: SimulatedWebPrice, of item: String, from start: Int64, to end: Int64, amount: Int64,
        endsItem: Bool = false
    ) -> PendingLine {
        PendingLine(
            line: StripeLine(
                id: newLineID(), amount: amount, price: price, start: start, end: end,
                item: namesItemsOfProrations ? item : nil, isProration: true, isPeriod: false, replaces: false),
            item: item, order: lineOrder, endsItem: endsItem)
    }

    /// What the rest of an item's period costs; at least something, if it costs anything.
    private static func share(_ amount: Int64, of item: StripeItem, from instant: Int64) -> Int64 {
        guard amount > 0 else { return 0 }
        let length = max(1, (item.end - item.start) / 1000)
        return max(1, amount * ((item.end - instant) / 1000) / length)
    }
}
