import SeededRandom

/// Where a random subscription stands.
struct Plot {
    let key: SimulatedOriginalKey
    /// The products it may change between.
    let group: [String]
    /// Whether a renewal may bear another login.
    let mayChangeHands: Bool
    var willRenew = true
    /// Whether the running period was refunded for good.
    var isRefunded = false
    var isOver = false
}

// What may happen in a period, and how it may end.
extension Storyteller {
    /// Things that happen while a period runs, well before the store tries to charge the next.
    mutating func liveThroughPeriod(_ plot: inout Plot) {
        let key = plot.key
        var instant = book(key).last.begin + random.number(in: Span.hour...2 * Span.day)
        for _ in 0..<random.number(in: 0...3) {
            guard let end = expiry(key), instant < end - 30 * Span.hour, !plot.isRefunded else { return }
            switch random.number(in: 0...99) {
            case 0..<20:
                plot.willRenew.toggle()
                setAutoRenew(key, plot.willRenew, at: instant)
            case 20..<35:
                makeNoise(key, at: instant)
            case 35..<45:
                change(
                    key, to: random.pick(plot.group.filter { $0 != book(key).last.product.id }), at: instant,
                    offer: random.chance(20) ? .promotional : nil)
                plot.willRenew = true
                if random.chance(60) {
                    restate(key, payment: book(key).last.number - 1, at: instant + random.number(in: 1...Span.hour))
                }
            case 45..<55 where plot.willRenew:
                planRenewal(key, as: random.pick(plot.group), at: instant)
            case 55..<65:
                refundInPeriod(&plot, at: instant)
            case 65..<75 where paymentCount(key) > 1:
                refundOldPayment(key, at: instant)
            case 75..<82:
                extend(key, byDays: random.number(in: 1...90), at: instant)
            default:
                restate(key, as: "CONSUMPTION_REQUEST", underNewID: random.chance(50), at: instant)
            }
            instant = max(instant, book(key).last.begin) + random.number(in: Span.hour...6 * Span.day)
        }
    }

    /// How a period ends: renewed, failed, or simply over.
    mutating func endPeriod(_ plot: inout Plot) {
        guard let end = expiry(plot.key) else { return }
        if !plot.willRenew {
            leave(&plot, after: end)
        } else if plot.isRefunded || random.chance(65) {
            renewSomehow(&plot, end: end)
        } else if random.chance(85) {
            haveBillingProblem(&plot, end: end)
        } else {
            expire(plot.key, random.pick(["PRICE_INCREASE", "PRODUCT_NOT_FOR_SALE", nil]), at: end)
            comeBackOrNot(&plot, after: end + Span.hour)
        }
        plot.isRefunded = false
    }

    private mutating func makeNoise(_ key: SimulatedOriginalKey, at instant: Int64) {
        switch random.number(in: 0...3) {
        case 0: requestConsumption(key, at: instant)
        case 1: announcePrice(key, accepted: random.chance(50), at: instant)
        case 2: sayTheUnheardOf(key, at: instant)
        default: restate(key, as: "METADATA_UPDATE", at: instant)
        }
    }

    private mutating func refundInPeriod(_ plot: inout Plot, at instant: Int64) {
        refund(plot.key, at: instant, prorated: random.chance(25) ? 40_000 : nil, reason: 1)
        if random.chance(40) {
            reverseRefund(plot.key, at: instant + random.number(in: Span.hour...Span.day))
        } else {
            plot.isRefunded = true
            plot.willRenew = random.chance(30)
            if !plot.willRenew { setAutoRenew(plot.key, false, at: instant + Span.minute) }
        }
    }

    private mutating func refundOldPayment(_ key: SimulatedOriginalKey, at instant: Int64) {
        let number = Int(random.number(in: 0...Int64(book(key).last.number - 1)))
        guard book(key).payments[number].revocation == nil else { return }
        refund(key, payment: number, at: instant, prorated: random.chance(20) ? 25_000 : nil)
    }

    private mutating func renewSomehow(_ plot: inout Plot, end: Int64) {
        let hands = plot.mayChangeHands && !plot.isRefunded && random.chance(6) ? token() : nil
        switch random.number(in: 0...9) {
        case 0...2 where !plot.isRefunded:
            renew(plot.key, purchasedAt: end - random.number(in: Span.minute...Span.day), token: hands)
        case 3...4:
            renew(plot.key, purchasedAt: end + random.number(in: 1...3 * Span.day), token: hands)
        default:
            renew(plot.key, token: hands)
        }
    }

    private mutating func leave(_ plot: inout Plot, after end: Int64) {
        if random.chance(80) { expire(plot.key, "VOLUNTARY", at: end + random.number(in: 0...Span.hour)) }
        if !plot.isRefunded, random.chance(15) {
            let date = end + random.number(in: Span.hour...20 * Span.day)
            refund(plot.key, at: date)
            if random.chance(30) { reverseRefund(plot.key, at: date + Span.hour) }
        }
        comeBackOrNot(&plot, after: end + 21 * Span.day)
    }

    /// Grace or not, stated before or after the period's end, and one of the ways out.
    private mutating func haveBillingProblem(_ plot: inout Plot, end: Int64) {
        let key = plot.key
        let stated = end + random.number(in: -20 * Span.hour...6 * Span.hour)
        let graceEnd: Int64? = random.chance(60) ? end + random.pick([3, 16]) * Span.day : nil
        let isUnsaid = graceEnd == nil && random.chance(15)
        failToRenew(
            key, at: stated, graceEnd: graceEnd, retryFlag: graceEnd == nil || random.chance(50),
            isCalledGrace: isUnsaid ? true : nil)
        var instant = end + random.number(in: 7 * Span.hour...2 * Span.day)
        if random.chance(30) { makeNoise(key, at: instant) }
        instant += random.number(in: Span.hour...12 * Span.hour)
        if random.chance(25) { return getOverProblem(&plot, at: instant, end: end) }
        if let graceEnd {
            instant = max(graceEnd, instant) + random.number(in: Span.second...Span.hour)
            if random.chance(75) { endGrace(key, at: instant) }
        }
        if random.chance(15) {
            refund(key, at: instant + Span.hour)
            plot.isOver = true
            return
        }
        instant += random.number(in: Span.day...30 * Span.day)
        if random.chance(60) { return getOverProblem(&plot, at: instant, end: end) }
        if random.chance(60) { expire(key, "BILLING_RETRY", at: end + Self.longestRetry) }
        comeBackOrNot(&plot, after: end + Self.longestRetry + Span.day)
    }

    /// Somewhere inside grace or retry: paid after all, given up, or bought anew.
    private mutating func getOverProblem(_ plot: inout Plot, at instant: Int64, end: Int64) {
        switch random.number(in: 0...5) {
        case 0...2:
            renew(plot.key, purchasedAt: instant)
        case 3:
            setAutoRenew(plot.key, false, at: instant)
            expire(plot.key, random.pick(["VOLUNTARY", "BILLING_RETRY"]), at: instant + Span.minute)
            comeBackOrNot(&plot, after: instant + Span.day)
        case 4:
            resubscribe(plot.key, to: random.pick(plot.group), at: instant)
        default:
            expire(plot.key, "BILLING_RETRY", at: instant)
            comeBackOrNot(&plot, after: instant + Span.day)
        }
    }

    private mutating func comeBackOrNot(_ plot: inout Plot, after instant: Int64) {
        guard random.chance(50) else {
            plot.isOver = true
            return
        }
        plot.willRenew = true
        resubscribe(
            plot.key, to: random.pick(plot.group), at: instant + random.number(in: Span.hour...40 * Span.day),
            offer: random.chance(30) ? .winBack : nil)
    }
}
