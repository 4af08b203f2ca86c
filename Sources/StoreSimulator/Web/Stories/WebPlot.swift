import SeededRandom

/// Where a random subscription stands.
private struct WebPlot {
    let id: String
    /// What was said of it last, so that what follows comes later.
    var now: Int64
    var isOver = false
    /// Invoices that nobody has paid so far.
    var owed: [String] = []
}

extension WebStoryteller {
    private static let prices = [
        SimulatedShop.proMonthly, SimulatedShop.proMonthly, SimulatedShop.proYearly, SimulatedShop.proEarly,
        SimulatedShop.studioMonthly, SimulatedShop.plusMonthly, SimulatedShop.teamMonthly, SimulatedShop.freeMonthly,
    ]
    private static let sidePrices = [
        SimulatedShop.newsMonthly, SimulatedShop.strangeMonthly, SimulatedShop.plusMonthly,
    ]

    /// A subscription from its first payment to wherever its story leads.
    mutating func inventSubscription(_ buyer: WebBuyer, others: [String], at instant: Int64) {
        var beginning = Beginning()
        beginning.hasSession = !random.chance(15)
        if random.chance(30) { beginning.trialDays = random.pick([3, 7, 14, 30]) }
        if random.chance(10) {
            beginning.hasSession = false
            beginning.firstPayment = random.pick([nil, 5 * Span.hour, 20 * Span.hour])
        }
        if random.chance(10) { beginning.handLines = random.pick([9, 12, 25, 130]) }
        var names = inventNames(buyer.customerID, others: others)
        if !beginning.hasSession, random.chance(80) { names.purchase = buyer.customerID }
        let first = random.chance(15) ? SimulatedShop.newsBundleYearly : random.pick(Self.prices)
        // Prorations that name no item are told apart only where there is one.
        let mayHaveMore = namesItemsOfProrations && first.interval == "P1M"
        let prices = [first] + (mayHaveMore && random.chance(20) ? [random.pick(Self.sidePrices)] : [])
        let id = subscribe(buyer, to: prices, at: instant, names: names, beginning)
        var plot = WebPlot(id: id, now: instant + Span.day)
        if subscription(id).endedAt != nil { return }
        for _ in 0..<random.number(in: 1...7) where !plot.isOver {
            liveThroughPeriod(&plot, mayHaveMore: mayHaveMore, others: others)
            if !plot.isOver { endPeriod(&plot) }
        }
    }

    /// Things that happen while a period runs, well before the next is charged.
    private mutating func liveThroughPeriod(_ plot: inout WebPlot, mayHaveMore: Bool, others: [String]) {
        let id = plot.id
        for _ in 0..<random.number(in: 0...3) {
            plot.now += random.seconds(in: Span.hour...9 * Span.day)
            guard plot.now < subscription(id).periodEnd - 30 * Span.hour else { return }
            let subscription = subscription(id)
            let isRunning = ["active", "trialing"].contains(subscription.status)
            switch random.number(in: 0...99) {
            case 0..<18:
                let isSet = subscription.cancelsAtPeriodEnd || subscription.cancelAt != nil
                cancel(id, isSet ? nil : inventCancellation(isActive: subscription.status == "active"), at: plot.now)
            case 18..<42 where isRunning && subscription.pause == nil && subscription.cancelAt == nil:
                let index = Int(random.number(in: 0...Int64(subscription.items.count - 1)))
                changeSomehow(id, index, at: plot.now)
            // Before periods were of items, all items of a subscription had one.
            case 42..<47
            where mayHaveMore && subscription.status == "active" && subscription.items.count < 3
                && subscription.items.allSatisfy { $0.price.interval == "P1M" }:
                addItem(id, random.pick(Self.sidePrices), at: plot.now)
            case 47..<52 where subscription.status == "active" && subscription.items.count > 1:
                removeItem(id, Int(random.number(in: 0...Int64(subscription.items.count - 1))), at: plot.now)
            case 52..<68:
                giveBackSomething(id, at: plot.now)
            case 68..<74:
                rename(id, to: random.chance(60) ? random.pick(others) : nil, at: plot.now)
            case 74..<82:
                let pause = subscription.pause == nil
                pauseCollection(
                    id, pause ? random.pick(["void", "keep_as_draft", "mark_uncollectible"]) : nil, at: plot.now)
            case 82..<86:
                end(id, at: plot.now, told: random.chance(50) ? nil : plot.now + 2 * Span.second)
                plot.isOver = true
                giveBackSomething(id, at: plot.now + Span.day)
                return
            case 86..<90:
                sayTheUnheardOf(id, at: plot.now)
                say(id, at: plot.now + random.seconds(in: Span.second...Span.hour))
            case 90..<95 where !plot.owed.isEmpty:
                recover(id, plot.owed.removeFirst(), at: plot.now)
            case 95..<98 where subscription.status == "active": payTwice(id, at: plot.now)
            default:
                say(id, at: plot.now)
            }
            plot.now += Span.hour
        }
    }

    private mutating func inventCancellation(isActive: Bool) -> Cancellation {
        switch random.number(in: 0...99) {
        case 0..<25: .onDate(periods: 0)
        case 25..<50 where isActive: .onDate(periods: Int(random.number(in: 1...2)))
        default: .withPeriod
        }
    }

    private mutating func changeSomehow(_ id: String, _ index: Int, at instant: Int64) {
        // What was never billed is credited all the same, and sold again in that instant it could be what was paid for.
        let item = subscription(id).items[index]
        let isChangedTwice = random.chance(20) && item.price.amount > 0 && !unbilled.contains(item.id)
        let wait =
            !isChangedTwice && random.chance(20) ? random.seconds(in: Span.minute...50 * Span.minute) : Span.second
        changeOnce(id, index, paidAfter: wait, at: instant)
        // Two changes for one instant, as of one `proration_date`: the second holds.
        if isChangedTwice, subscription(id).items[index].price.amount > 0 {
            changeOnce(id, index, isSecond: true, at: instant)
        }
    }

    /// A change while the renewal is not paid yet, to a price of the same interval: another would begin a period of its own
    /// within one that is paid later.
    private mutating func changeUnpaid(_ id: String, at instant: Int64) {
        let subscription = subscription(id)
        // Of what costs nothing, the credit could be taken for a sale.
        let costly = subscription.items.indices.filter { subscription.items[$0].price.amount > 0 }
        guard subscription.cancelAt == nil, !costly.isEmpty else { return }
        changeOnce(id, random.pick(costly), mayBeginPeriod: false, at: instant)
    }

    private mutating func changeOnce(
        _ id: String, _ index: Int, isSecond: Bool = false, mayBeginPeriod: Bool = true,
        paidAfter wait: Int64 = Span.second, at instant: Int64
    ) {
        let item = subscription(id).items[index]
        let isAlone = subscription(id).items.count == 1
        let choices = Self.prices.filter {
            $0 != item.price && (isAlone || $0.interval == "P1M") && (!isSecond || $0.amount > 0)
                && (mayBeginPeriod || $0.interval == item.price.interval)
        }
        if choices.isEmpty { return }
        let isTrial = subscription(id).status == "trialing"
        if random.chance(20), !isTrial {
            change(
                id, item: index, to: item.price, quantity: item.quantity + 1, .atOnce, paidAfter: wait, at: instant)
            return
        }
        var settlement = random.pick(Settlement.allCases)
        var price = random.pick(choices)
        // A credit for something that was never sold would look like the sale of it while nothing costs anything.
        if isTrial || item.price.amount == 0 { settlement = .atOnce }
        if price.amount == 0 { settlement = .atOnce }
        // What is sold without a credit while credits wait for their invoice could be taken for their successor.
        if settlement == .none, pending[id] != nil {
            price = choices.first { $0.interval == item.price.interval } ?? price
        }
        // While nothing costs anything, the credit of an item and the sale of one look alike.
        let isReplaced =
            namesItemsOfProrations && !isTrial && item.price.amount > 0
            && (price.interval == item.price.interval || settlement != .none)
            && random.chance(25)
        if isReplaced {
            return replaceItem(id, index, with: price, settlement, paidAfter: wait, at: instant)
        }
        if settlement == .none, pending[id] != nil, price.interval != item.price.interval { settlement = .atOnce }
        let before = paid(id, before: instant).last
        change(id, item: index, to: price, quantity: item.quantity, settlement, paidAfter: wait, at: instant)
        // Both intervals are paid from now on, so support gives the old one back.
        if settlement == .none, price.interval != item.price.interval, let charge = before?.charge, random.chance(50) {
            giveBack(charge, at: instant + random.seconds(in: Span.hour...9 * Span.day))
        }
    }

    /// The present period is paid a second time, and mostly one of the two payments goes back.
    private mutating func payTwice(_ id: String, at instant: Int64) {
        // What waits to be billed would be on the second invoice, too.
        guard pending[id] == nil, let first = paid(id, before: instant).last,
            let lines = billed[first.id], lines.allSatisfy({ $0.line.isPeriod && !$0.line.replaces }),
            lines.contains(where: { instant < $0.line.end })
        else { return }
        let second = payAgain(first.id, at: instant)
        guard random.chance(80), let charge = random.pick([first, invoice(second)]).charge else { return }
        giveBack(charge, at: instant + random.seconds(in: Span.hour...9 * Span.day))
    }

    private func paid(_ id: String, before instant: Int64) -> [StripeInvoice] {
        invoices.values.filter { $0.subscription == id && $0.charge != nil && $0.paidAt ?? .max < instant }
            .sorted { $0.id < $1.id }
    }

    private mutating func giveBackSomething(_ id: String, at instant: Int64) {
        let paid = paid(id, before: instant)
        guard let charge = (random.chance(70) ? paid.last : paid.isEmpty ? nil : random.pick(paid))?.charge else {
            return
        }
        giveBack(charge, at: instant)
    }

    // MARK: - The end of a period

    /// How a period ends: paid for again, refused, or simply over.
    private mutating func endPeriod(_ plot: inout WebPlot) {
        let id = plot.id
        let subscription = subscription(id)
        let end = subscription.periodEnd
        plot.now = max(plot.now, end)
        let isLast = subscription.cancelsAtPeriodEnd || subscription.cancelAt.map { $0 <= end } ?? false
        if isLast {
            // Stripe says so within seconds, sometimes in the second in which it says something else.
            if random.chance(20) { say(id, at: end) }
            let told = end + random.seconds(in: 0...3 * Span.second)
            self.end(id, at: random.chance(30) ? told : end, told: told, mayTie: true)
            plot.isOver = true
            if random.chance(30) { giveBackSomething(id, at: end + random.seconds(in: Span.hour...9 * Span.day)) }
            return
        }
        if subscription.status == "trialing", random.chance(15) { return haveNoCard(&plot, at: end) }
        if subscription.pause != nil { return restThroughPeriod(&plot) }
        if subscription.status == "unpaid" {
            let draft = beginPeriod(id)
            plot.owed.append(draft)
            plot.now = end + Span.hour
            if random.chance(60) {
                plot.now += random.seconds(in: Span.hour...9 * Span.day)
                plot.owed.removeLast()
                recover(id, draft, at: plot.now)
            }
            return
        }
        if random.chance(5) {
            plot.isOver = true
            return
        }
        let late = random.chance(30) ? random.seconds(in: 0...5 * Span.minute) : Span.second
        let invoice = beginPeriod(
            id, handLines: random.chance(5) ? 12 : 0, late: late, replacing: inventReplacement(id, at: end))
        plot.now = end + late + Span.hour + random.seconds(in: 0...Span.hour)
        // Stripe charges a renewal an hour after it has begun, and customers do not wait for that.
        let isChanged = random.chance(25)
        if isChanged { changeUnpaid(id, at: end + late + random.seconds(in: Span.minute...30 * Span.minute)) }
        if subscription.status == "past_due" || random.chance(35) {
            failToPay(&plot, invoice, isChanged: isChanged)
        } else {
            if random.chance(5) { plot.now += random.seconds(in: Span.hour...90 * Span.hour) }
            pay(invoice, at: plot.now)
        }
    }

    /// With a period another item may come in the place of one, of the same price or another.
    private mutating func inventReplacement(_ id: String, at end: Int64) -> (index: Int, price: SimulatedWebPrice)? {
        let items = subscription(id).items
        let due = items.indices.filter { items[$0].end == end }
        guard namesItemsOfProrations, !due.isEmpty, random.chance(20) else { return nil }
        let index = random.pick(due)
        let others = Self.prices.filter { $0.interval == items[index].price.interval }
        return (index, random.chance(30) ? items[index].price : random.pick(others + [items[index].price]))
    }

    private mutating func haveNoCard(_ plot: inout WebPlot, at end: Int64) {
        pause(plot.id, at: end)
        plot.now = end + random.seconds(in: Span.hour...20 * Span.day)
        if random.chance(60) {
            resume(plot.id, at: plot.now)
        } else {
            self.end(plot.id, at: plot.now)
            plot.isOver = true
        }
    }

    /// Collection is paused: the period goes on, and its invoice is not collected.
    private mutating func restThroughPeriod(_ plot: inout WebPlot) {
        let id = plot.id
        let end = subscription(id).periodEnd
        let behavior = subscription(id).pause
        let invoice = beginPeriod(id, late: Span.second)
        switch behavior {
        case "void": giveUp(invoice, as: "void", at: end + Span.hour)
        case "mark_uncollectible": giveUp(invoice, as: "uncollectible", at: end + Span.hour)
        default: plot.owed.append(invoice)
        }
        plot.now = end + 2 * Span.hour
        guard random.chance(60) else { return }
        plot.now += random.seconds(in: Span.hour...9 * Span.day)
        pauseCollection(id, nil, at: plot.now)
        if let draft = plot.owed.popLast() { recover(id, draft, at: plot.now + Span.hour) }
        plot.now += 2 * Span.hour
    }

    /// The charge is refused, tried again, and paid or given up.
    private mutating func failToPay(_ plot: inout WebPlot, _ invoice: String, isChanged: Bool) {
        let id = plot.id
        var isChanged = isChanged
        for attempt in 0..<random.number(in: 1...4) {
            let next = plot.now + random.seconds(in: Span.day...4 * Span.day)
            fallBehind(id, invoice, nextAttempt: next, at: plot.now)
            if attempt == 1, random.chance(10) {
                end(id, at: plot.now + Span.hour)
                plot.isOver = true
                return
            }
            if random.chance(20) {
                changeUnpaid(id, at: plot.now + random.seconds(in: Span.minute...9 * Span.hour))
                isChanged = true
            }
            plot.now = next
        }
        // A change that was paid for ends some time, and a story that is left in debt does not go on until then.
        switch isChanged ? random.pick([0, 0, 7]) : random.number(in: 0...9) {
        case 0..<5: recover(id, invoice, at: plot.now)
        case 5..<7:
            stopTrying(id, invoice, unpaid: true, at: plot.now)
            plot.owed.append(invoice)
            plot.now += random.seconds(in: Span.hour...50 * Span.day)
            if random.chance(50) {
                plot.owed.removeLast()
                recover(id, invoice, at: plot.now)
            }
        case 7..<9:
            stopTrying(id, invoice, unpaid: false, at: plot.now)
            plot.isOver = true
        default: plot.owed.append(invoice)
        }
    }
}
