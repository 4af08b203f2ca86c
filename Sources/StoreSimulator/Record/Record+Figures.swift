/// What can be counted of a record: the figures of charts, told from the stories and from nothing else.
package struct RecordFigures: Sendable {
    /// What happened to some subscription or purchase at an instant.
    package struct Happening: Sendable, Hashable {
        /// Chart and figure, such as `trials.started`.
        package let name: String
        package let productID: String
        package let at: Int64
        /// A cohort, such as `2026-03`, or a currency; empty where a figure has neither.
        package var detail = ""
        /// How often it happened, or how much money it was, in thousandths of the currency.
        package var amount: Int64 = 1
    }

    /// How some subscription stood from one instant to before another; nil: as far as can be seen.
    package struct Standing: Sendable, Hashable {
        package let name: String
        package let productID: String
        package let from: Int64
        package let until: Int64?
        /// A cohort, such as `2026-03`; empty where a figure has none.
        package var detail = ""
    }

    /// In the order of nothing in particular.
    package private(set) var happenings: [Happening] = []
    package private(set) var standings: [Standing] = []

    /// How many happened in a stretch of time, by name, product and detail.
    package func count(from start: Int64, to end: Int64) -> [[String]: Int64] {
        happenings.reduce(into: [:]) { counts, happening in
            guard happening.amount != 0, start <= happening.at, happening.at < end else { return }
            counts[[happening.name, happening.productID, happening.detail], default: 0] += happening.amount
        }
    }

    /// How many there were at an instant, by name, product and detail.
    package func count(at instant: Int64) -> [[String]: Int64] {
        standings.reduce(into: [:]) { counts, standing in
            guard standing.from <= instant, instant < standing.until ?? .max else { return }
            counts[[standing.name, standing.productID, standing.detail], default: 0] += 1
        }
    }
}

extension RecordFigures {
    /// Counts what the App Store sold in one environment; a family member's share is nobody's purchase.
    package init(_ record: Record, in environment: SimulatedStoreEnvironment) {
        for (key, story) in record.stories where key.environment == environment && !story.isFamilyShared {
            for chapter in story.chapters {
                tellMoney(chapter)
                guard let withdrawal = chapter.withdrawal else { continue }
                tell(
                    withdrawal.isProrated ? "refunds.refunded_in_part" : "refunds.refunded", chapter.productID,
                    at: withdrawal.date)
            }
            guard !story.isOneTime else { continue }
            tellTrials(story)
            tellRenewals(story)
            tellStretches(story)
        }
    }

    private mutating func tell(_ name: String, _ productID: String, at instant: Int64) {
        happenings.append(Happening(name: name, productID: productID, at: instant))
    }

    private mutating func tellMoney(_ chapter: Record.Chapter) {
        let charge = chapter.charge
        guard let amount = charge.amount else {
            guard !chapter.isTrial else { return }
            tell("revenue.unpriced", chapter.productID, at: charge.at)
            if let withdrawal = chapter.withdrawal {
                tell("revenue.unpriced", chapter.productID, at: withdrawal.date)
            }
            return
        }
        func happening(_ name: String, _ amount: Int64, at instant: Int64) -> Happening {
            Happening(
                name: name, productID: chapter.productID, at: instant, detail: charge.currency, amount: amount)
        }
        happenings.append(happening("revenue.charged", amount, at: charge.at))
        if let withdrawal = chapter.withdrawal, let part = withdrawal.part {
            // To the nearest thousandth, as the store pays back.
            let back = Double(amount) * Double(part) / 100_000
            happenings.append(happening("revenue.refunded", Int64(back.rounded()), at: withdrawal.date))
        }
    }

    private mutating func tellTrials(_ story: Record.Story) {
        for trial in trials(story) { tell("trials.started", trial.productID, at: trial.begin) }
        let last = pairs(story).last { chapter, _ in trials(story).contains(chapter) }
        guard let (trial, next) = last,
            let paid = story.chapters.first(where: { !$0.isTrial && $0.charge.amount != 0 }),
            paid.begin <= end(of: trial, before: next) + 60 * Span.day
        else { return }
        tell("trials.converted", trial.productID, at: paid.begin)
        tell("trials.converted_of_started", trial.productID, at: trial.begin)
    }

    /// What was free to try it; what is free for somebody who has paid before is not.
    private func trials(_ story: Record.Story) -> [Record.Chapter] {
        if isTakenOver(story) { return [] }
        return story.chapters.prefix { $0.isTrial || $0.charge.amount == 0 }.filter(\.isTrial)
    }

    /// Whether nobody ever told of the first payment, so that what is told begins with a renewal.
    private func isTakenOver(_ story: Record.Story) -> Bool { story.chapters.first?.isRenewal ?? false }

    private mutating func tellRenewals(_ story: Record.Story) {
        let trials = trials(story)
        for (chapter, next) in pairs(story) where !trials.contains(chapter) {
            guard case .until(let paidEnd) = chapter.paid, end(of: chapter, before: next) == paidEnd,
                // Somebody bought something else instead, at the very end or before.
                next.map({ paidEnd <= $0.begin }) ?? true
            else { continue }
            let isDue = story.renewalNotes.last { $0.signedDate <= paidEnd }?.willRenew ?? true
            tell(isDue ? "renewals.due" : "renewals.cancelled", chapter.productID, at: paidEnd)
            guard let next, next.isRenewal else { continue }
            tell("renewals.made", chapter.productID, at: next.begin)
            if isDue { tell("renewals.made_of_due", chapter.productID, at: paidEnd) }
        }
    }

    /// Where the paid time of a chapter ended: with it, with money that went back, with another chapter, or by an upgrade that
    /// nobody told of.
    private func end(of chapter: Record.Chapter, before next: Record.Chapter?) -> Int64 {
        var ends = [next?.begin, chapter.withdrawal?.date].compactMap(\.self)
        if case .until(let end) = chapter.paid { ends.append(end) }
        if let over = chapter.stages.first(where: { $0.condition != .active }) { ends.append(over.from) }
        return max(ends.min() ?? .max, chapter.begin)
    }

    private func pairs(_ story: Record.Story) -> [(Record.Chapter, Record.Chapter?)] {
        story.chapters.enumerated().map { index, chapter in
            (chapter, index + 1 < story.chapters.count ? story.chapters[index + 1] : nil)
        }
    }

    private struct Stretch {
        let state: String
        let productID: String
        let isTrial: Bool
        /// Which of the chapters it is of.
        let chapter: Int
        let from: Int64
        let until: Int64
    }

    /// How a subscription stood, stretch by stretch, and what follows from that.
    private mutating func tellStretches(_ story: Record.Story) {
        var stretches: [Stretch] = []
        for (number, (chapter, next)) in pairs(story).enumerated() {
            let limit = min(next?.begin ?? .max, max(chapter.withdrawal?.date ?? .max, chapter.begin))
            for (index, stage) in chapter.stages.enumerated() {
                let until = min(index + 1 < chapter.stages.count ? chapter.stages[index + 1].from : .max, limit)
                guard stage.from < until, let state = stage.condition.stateName else { continue }
                stretches.append(
                    Stretch(
                        state: state, productID: chapter.productID, isTrial: chapter.isTrial, chapter: number,
                        from: stage.from, until: until))
            }
        }
        for stretch in stretches {
            standings.append(
                Standing(
                    name: "active.\(stretch.state)", productID: stretch.productID, from: stretch.from,
                    until: stretch.until))
        }
        tellRetries(stretches, story)
        tellSubscribers(stretches, story)
    }

    private mutating func tellRetries(_ stretches: [Stretch], _ story: Record.Story) {
        for (index, stretch) in stretches.enumerated() where stretch.state != "active" {
            let before = index > 0 ? stretches[index - 1] : nil
            let isFirst = before.map { $0.state == "active" || $0.until < stretch.from } ?? true
            if isFirst { tell("billing_retry.entered", stretch.productID, at: stretch.from) }
            let next = index + 1 < stretches.count ? stretches[index + 1] : nil
            if let next, next.from == stretch.until, next.state != "active" { continue }
            // Who bought something else instead never paid for what had failed.
            let isRecovered = next.map { $0.from == stretch.until && story.chapters[$0.chapter].isRenewal } ?? false
            tell(
                isRecovered ? "billing_retry.recovered" : "billing_retry.lost", stretch.productID, at: stretch.until)
        }
    }

    private mutating func tellSubscribers(_ stretches: [Stretch], _ story: Record.Story) {
        guard let first = stretches.firstIndex(where: { $0.state == "active" && !$0.isTrial }) else { return }
        let begun = stretches[first]
        let cohort = SimulatedCalendar.month(of: begun.from)
        let isTakenOver = isTakenOver(story)
        tell(isTakenOver ? "churn.taken_over" : "churn.begun", begun.productID, at: begun.from)
        if !isTakenOver {
            happenings.append(
                Happening(name: "retention.begun", productID: begun.productID, at: begun.from, detail: cohort))
        }
        for index in stretches.indices[first...] {
            let stretch = stretches[index]
            let next = index + 1 < stretches.count ? stretches[index + 1] : nil
            // Between a payment and its late renewal nobody has left.
            let late = next.flatMap { isLateRenewal(of: stretch.chapter, by: $0.chapter, story) ? $0.from : nil }
            let until = late ?? stretch.until
            standings.append(
                Standing(name: "churn.subscribed", productID: stretch.productID, from: stretch.from, until: until))
            if !isTakenOver {
                standings.append(
                    Standing(
                        name: "retention.retained", productID: begun.productID, from: stretch.from, until: until,
                        detail: cohort))
            }
            guard until < .max, next?.from != until else { continue }
            tell("churn.churned", stretch.productID, at: until)
            if let next { tell("churn.resumed", next.productID, at: next.from) }
        }
    }

    /// Whether a chapter goes on with the one before at most sixty days after its end; not with one that was taken back.
    private func isLateRenewal(of earlier: Int, by later: Int, _ story: Record.Story) -> Bool {
        guard later == earlier + 1, story.chapters[later].isRenewal else { return false }
        let (before, after) = (story.chapters[earlier], story.chapters[later])
        let end = end(of: before, before: after)
        let isTakenBack = before.withdrawal.map { $0.date <= end && before.paid != .until($0.date) } ?? false
        return !isTakenBack && after.begin <= end + 60 * Span.day
    }
}

extension RecordFigures {
    /// How many subscriptions on the web stood how at an instant, by the figure of chart `active` and product; empty texts stand
    /// for products that the world does not know.
    package static func webSubscriptions(
        _ record: Record, in environment: SimulatedStoreEnvironment, at instant: Int64
    ) -> [[String]: Int64] {
        var counts: [[String]: Int64] = [:]
        for (key, story) in record.web.stories where key.environment == environment && !story.isOneTime {
            let standings = story.strands(under: record.world.policy).compactMap {
                WebHolding(key, story, $0, record.world).standing(at: instant)
            }
            // A subscription with several items counts once: by that which reads best, and of these the first.
            let best = ["active", "in_grace_period", "in_billing_retry"].lazy.compactMap { name in
                standings.first { $0.state.rawValue == name }.map { [name, $0.productID ?? ""] }
            }.first
            if let best { counts[best, default: 0] += 1 }
        }
        return counts
    }
}

extension Record.Condition {
    /// The figure that counts it; nil for what is over.
    fileprivate var stateName: String? {
        switch self {
        case .active: "active"
        case .inGracePeriod: "in_grace_period"
        case .inBillingRetry: "in_billing_retry"
        case .ranOut, .expired: nil
        }
    }
}

extension RecordFigures {
    /// How much money came and went on the web in a stretch of time, by figure of chart `revenue` and currency, in thousandths.
    package static func webMoney(
        _ record: Record, in environment: SimulatedStoreEnvironment, from start: Int64, to end: Int64
    ) -> [[String]: Int64] {
        var sums: [[String]: Int64] = [:]
        for (key, story) in record.web.stories where key.environment == environment {
            for payment in story.payments.values {
                func add(_ figure: String, _ amount: Int64, at instant: Int64) {
                    guard amount > 0, start <= instant, instant < end else { return }
                    // The shop sells in currencies that have hundredths.
                    sums[[figure, payment.currency.uppercased()], default: 0] += 10 * amount
                }
                add("charged", payment.amount, at: payment.paidAt)
                for refund in payment.refunds { add("refunded", refund.amount, at: refund.created) }
                for dispute in payment.disputes where dispute.stands {
                    add("disputed", payment.amount, at: dispute.created)
                }
            }
        }
        return sums
    }

    /// How many payments on the web were refunded or disputed in a stretch of time, by figure of chart `refunds`.
    ///
    /// One is refunded when nothing of it is left, else in part since the first time.
    package static func webReturns(
        _ record: Record, in environment: SimulatedStoreEnvironment, from start: Int64, to end: Int64
    ) -> [String: Int64] {
        var counts: [String: Int64] = [:]
        for (key, story) in record.web.stories where key.environment == environment {
            for payment in story.payments.values {
                func add(_ figure: String, at instant: Int64?) {
                    if let instant, start <= instant, instant < end { counts[figure, default: 0] += 1 }
                }
                let refunds = payment.refunds.sorted { ($0.created, $0.id) < ($1.created, $1.id) }
                var left = payment.amount
                let last = refunds.first { refund in
                    left -= refund.amount
                    return left <= 0
                }
                add(last == nil ? "refunded_in_part" : "refunded", at: last?.created ?? refunds.first?.created)
                add("disputed", at: payment.disputes.filter(\.stands).map(\.created).min())
            }
        }
        return counts
    }
}
