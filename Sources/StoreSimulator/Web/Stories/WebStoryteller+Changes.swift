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
    package mutating func change(
        _ id: String, item index: Int = 0, to price: WebPrice, quantity: Int64 = 1, _ settlement: Settlement,
        at instant: Int64
    ) {
        let item = subscription(id).items[index]
        let isFree = subscription(id).status == "trialing"
        let isNewInterval = price.interval != item.price.interval && !isFree
        var lines: [PendingLine] = []
        if settlement != .none {
            let rest = isFree ? 0 : Self.share(item.price.amount * item.quantity, of: item, from: instant)
            lines.append(
                credit(item.price, of: item.id, from: instant, to: item.end, amount: -rest))
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
        let told = say(id, at: instant) { subscription in
            subscription.items[index].price = price
            subscription.items[index].quantity = quantity
            subscription.items[index].end = end
            if isNewInterval { subscription.items[index].start = instant }
        }
        if isNewInterval || settlement == .atOnce {
            pay(bill(id, lines, reason: "subscription_update", at: told), at: told + Span.second)
        } else {
            pending[id, default: []] += lines
        }
    }

    /// One thing more is sold in the same subscription, for the rest of the period.
    package mutating func addItem(_ id: String, _ price: WebPrice, at instant: Int64) {
        let period = subscription(id).items[0]
        let item = StripeItem(id: newID("si"), price: price, start: period.start, end: period.end)
        let rest = Self.share(price.amount, of: subscription(id).items[0], from: instant)
        let lines = [
            line(price, of: item.id, from: instant, to: item.end, amount: rest, isProration: true, replaces: true)
        ]
        let told = say(id, at: instant) { $0.items.append(item) }
        pay(bill(id, lines, reason: "subscription_update", at: told), at: told + Span.second)
    }

    /// Something is no longer sold; what was paid for it stays.
    package mutating func removeItem(_ id: String, _ index: Int, at instant: Int64) {
        let item = subscription(id).items[index]
        let rest = Self.share(item.price.amount, of: item, from: instant)
        pending[id, default: []].append(
            credit(item.price, of: item.id, from: instant, to: item.end, amount: -rest))
        say(id, at: instant) { $0.items.remove(at: index) }
    }

    /// What is given back of what ran before.
    private mutating func credit(
        _ price: WebPrice, of item: String, from start: Int64, to end: Int64, amount: Int64
    ) -> PendingLine {
        PendingLine(
            line: StripeLine(
                id: newID("il"), amount: amount, price: price, start: start, end: end,
                item: namesItemsOfProrations ? item : nil, isProration: true, isPeriod: false, replaces: false),
            item: item)
    }

    /// What the rest of an item's period costs; at least something.
    private static func share(_ amount: Int64, of item: StripeItem, from instant: Int64) -> Int64 {
        let length = max(1, (item.end - item.start) / 1000)
        return max(1, amount * ((item.end - instant) / 1000) / length)
    }
}
