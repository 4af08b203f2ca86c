/// Something that would change a decision: known to come, or still to be heard.
package struct Outlook: Hashable, Sendable {
    package enum Code: String, Hashable, Sendable, Codable, CaseIterable {
        /// What gives it begins.
        case begins
        /// The paid period ends.
        case expiry
        /// The store states a renewal.
        case renewal
        /// What is known already to follow.
        case knownNext = "known_next"
        /// The grace period ends.
        case graceEnd = "grace_end"
        /// The store gives up collecting.
        case retryLimit = "retry_limit"
        case leewayEnd = "leeway_end"
        case grantEnd = "grant_end"
        case grantRevocation = "grant_revocation"
        case refund
        case refundReversal = "refund_reversal"
        /// A purchase of a product that gives it.
        case purchase
        case grant
        /// What a product was upgraded to is heard of.
        case upgrade
        case familySharing = "family_sharing"
        /// It becomes this customer's.
        case transfer
        case catalogMapping = "catalog_mapping"
        case policy
        /// The payment of a renewal that is due is heard of.
        case payment
        /// The dispute is won or withdrawn.
        case disputeWon = "dispute_won"
        /// A paused subscription goes on.
        case resumption
    }

    package let code: Code
    /// When, where that is known.
    package let at: Timestamp?
    package let sentence: String
}

/// Finds what would change a decision.
struct OutlookFinder {
    let facts: CustomerFacts
    let instant: Timestamp
    let verdict: Verdict
    let answer: EntitlementAnswer?
    let timeline: EntitlementTimeline?
    let considered: [Alternative]
    /// What was begun to be bought, where nothing gives access.
    let unpaid: [UnpaidPurchase]

    var entitlementID: String { verdict.decision.entitlementID }
    var policy: AccessPolicy { facts.catalog.policy }

    func all() -> [Outlook] {
        // What was bought already comes before anything else that could be.
        var outlook = unpaid.compactMap(\.outlook)
        if let shown = verdict.shown {
            outlook += ofReadings(shown)
            if let known = knownNext(shown) { outlook.append(known) }
        } else if let start = timeline?.readings.first?.start {
            outlook.append(Outlook(code: .begins, at: start, sentence: "It begins on \(start.inWords)."))
        } else {
            outlook += purchases() + [grant()]
        }
        let unmapped = considered.filter { alternative in
            alternative.loss == .productNotMapped && alternative.state.map { policy.givesAccess($0) } ?? false
        }
        let openers = Set(unmapped.compactMap(\.productID)).sorted()
        // The specific outlooks make the general one superfluous.
        if !openers.isEmpty { outlook.removeAll { $0.code == .catalogMapping } }
        for product in openers {
            outlook.append(
                Outlook(
                    code: .catalogMapping, at: nil,
                    sentence: "A catalog that says \(product) gives \(entitlementID) would open it, also for the past.")
            )
        }
        return outlook
    }

    /// What would change what is shown, and before that what would change what gave access last.
    private func ofReadings(_ shown: ShownReading) -> [Outlook] {
        let own = ofReading(shown, shown.reading.productID ?? "it")
        guard let last = verdict.ending.flatMap({ ShownReading($0.source, at: instant) }) else { return own }
        var outlook: [Outlook] = []
        for item in ofReading(last, last.reading.productID ?? "it") + own where !outlook.contains(item) {
            outlook.append(item)
        }
        let general: Set<Outlook.Code> = [.purchase, .grant]
        return outlook.filter { !general.contains($0.code) } + outlook.filter { general.contains($0.code) }
    }

    private func ofReading(_ shown: ShownReading, _ product: String) -> [Outlook] {
        let reading = shown.reading
        if let outlook = ofWeb(shown, product) { return outlook }
        switch reading.reason {
        case .paidPeriod:
            return ofPaidPeriod(shown, product)
        case .oneTimePurchase:
            return refund(product, shown)
        case .leeway:
            return [
                Outlook(code: .leewayEnd, at: reading.end, sentence: "The leeway ends on \(reading.end.inWords)."),
                renewal(of: product, shown, by: nil),
            ]
        case .gracePeriod:
            return grace(shown, product)
        case .billingRetry:
            return retry(shown, product)
        case .expired:
            // Neither a grant nor what was bought for a time renews.
            let renews = shown.period(at: instant)?.isSubscription ?? false
            return renews ? [renewal(of: product, shown, by: nil), grant()] : purchases() + [grant()]
        case .billingGivenUp, .replaced:
            return purchases() + [grant()]
        case .refunded:
            let reversal = Outlook(
                code: .refundReversal, at: nil,
                sentence: "If the store reverses the refund, the period reads as if it had never been refunded.")
            return (wouldStillRun(shown) ? [reversal] : []) + partialRefundPolicy(shown) + purchases()
        case .familyRevoked:
            let sharing = Outlook(
                code: .familySharing, at: nil, sentence: "It opens again when \(product) is shared again.")
            return (wouldStillRun(shown) ? [sharing] : []) + purchases()
        case .upgradedElsewhere:
            return [
                Outlook(
                    code: .upgrade, at: nil,
                    sentence: "The store's word about the purchase that \(product) was upgraded to is still to come.")
            ]
        case .ownedByAnother:
            // What has lapsed meanwhile would open nothing.
            let isOpenElsewhere = considered.contains {
                ($0.loss == .belongsToAnother || $0.loss == .unclaimed)
                    && $0.originalTransactionID == reading.originalTransactionID
                    && $0.state.map { policy.givesAccess($0) } ?? false
            }
            let claim = facts.isUnclaimed(shown) ? "The first claim of it by this customer's device, or a" : "A"
            let transfer = Outlook(
                code: .transfer, at: nil,
                sentence: "\(claim) transfer of \(product) to this customer would open it from then on.")
            return (isOpenElsewhere ? [transfer] : []) + purchases() + [grant()]
        case .grant:
            return ofGrant(shown)
        case .grantRevoked:
            return [grant()] + purchases()
        case .renewalPending, .pastDue, .dispute, .cancelled, .paused:
            // Of the web alone, and answered above.
            return []
        }
    }

    /// Whether a period that was taken back would be running, had it not been: to give it back opens nothing that is over.
    func wouldStillRun(_ shown: ShownReading) -> Bool { shown.period(at: instant).map { instant < $0.expiry } ?? false }

    private func ofPaidPeriod(_ shown: ShownReading, _ product: String) -> [Outlook] {
        guard let period = shown.period(at: instant), period.end != .endless else { return refund(product, shown) }
        let end = shown.reading.end
        var outlook: [Outlook] = []
        // Where anything but plain expiry follows, `knownNext` says so.
        if shown.next.map({ [.expired, .leeway, .renewalPending].contains($0.reason) }) ?? true {
            switch (period.isSubscription, period.web) {
            case (false, _):
                outlook.append(expiry(at: end, "It"))
            case (true, nil):
                let willRenew = answer?.willRenew
                if willRenew == true { outlook.append(renewal(of: product, shown, by: period.expiry)) }
                let paid = period.isFreeTrial ? "the free trial" : "the paid period"
                let subject =
                    if willRenew == false {
                        "It is set not to renew, and \(paid)"
                    } else if planned(shown)?.gives == false {
                        "Without another purchase it"
                    } else {
                        "Without a renewal \(paid)"
                    }
                outlook.append(expiry(at: end, subject))
            case (true, _?):
                outlook += ofPaidTime(product, period, shown, until: end)
            }
        }
        return outlook + announcedEnd(product, period, before: end) + refund(product, shown)
    }

    func expiry(at end: Timestamp, _ subject: String) -> Outlook {
        Outlook(code: .expiry, at: end, sentence: "\(subject) ends on \(end.inWords).")
    }

    private func grace(_ shown: ShownReading, _ product: String) -> [Outlook] {
        var outlook = [renewal(of: product, shown, by: nil)]
        if let period = shown.period(at: instant),
            let end = words.graceEnd(of: shown.reading, period)
        {
            outlook.insert(
                Outlook(code: .graceEnd, at: end, sentence: "The grace period ends on \(end.inWords)."), at: 0)
        }
        if !policy.graceGivesAccess { outlook.append(policyChange("a grace period")) }
        return outlook
    }

    private func retry(_ shown: ShownReading, _ product: String) -> [Outlook] {
        var outlook = [renewal(of: product, shown, by: nil)]
        if let period = shown.period(at: instant), period.expiry != .endless {
            let limit = period.expiry.adding(milliseconds: 60 * Timestamp.millisecondsPerDay)
            outlook.append(
                Outlook(
                    code: .retryLimit, at: limit,
                    sentence: "The store retries for 60 days at most, until \(limit.inWords)."))
        }
        if !policy.billingRetryGivesAccess { outlook.append(policyChange("billing retry")) }
        return outlook
    }

    private func ofGrant(_ shown: ShownReading) -> [Outlook] {
        var outlook: [Outlook] = []
        if let until = shown.grant?.until {
            outlook.append(Outlook(code: .grantEnd, at: until, sentence: "The grant ends on \(until.inWords)."))
        }
        outlook.append(
            Outlook(
                code: .grantRevocation, at: nil,
                sentence: backing.map { "If the grant is taken back, \($0) keeps it open for now." }
                    ?? "It closes when the grant is taken back."))
        return outlook
    }

    var words: RuleWords { RuleWords(entitlementID: entitlementID, instant: instant, facts: facts) }

    // MARK: - What may be heard

    /// Another product as which the store is to renew what is shown, and whether that gives the entitlement, too; `nil` where
    /// it is to stay the same.
    private func planned(_ shown: ShownReading) -> (productID: String, gives: Bool)? {
        guard let original = shown.reading.originalTransactionID.flatMap({ facts.originals[$0] }), original.web == nil,
            let productID = original.renewsAs(at: instant), productID != shown.reading.productID
        else { return nil }
        let sold = facts.catalog.products.first { $0.productID == productID }
        return (productID, sold?.entitlements.contains(entitlementID) ?? false)
    }

    /// Whether the App Store renews what is shown only once the customer agrees to a higher price.
    private func awaitsConsent(_ shown: ShownReading) -> Bool {
        guard let original = shown.reading.originalTransactionID.flatMap({ facts.originals[$0] }), original.web == nil,
            let period = shown.period(at: instant)
        else { return false }
        return original.awaitsConsent(at: instant, since: period.start)
    }

    /// The renewal by a date, or by any, as the product as which the store is to make it.
    private func renewal(of product: String, _ shown: ShownReading, by date: Timestamp?) -> Outlook {
        if let known = knownRenewal(of: product, shown) { return known }
        let time = date.map { " by \($0.inWords)" } ?? ""
        let awaitsConsent = date != nil && self.awaitsConsent(shown)
        guard let planned = planned(shown) else {
            guard awaitsConsent else { return renewal(product, by: date) }
            return Outlook(
                code: .renewal, at: date,
                sentence:
                    "\(product) will not renew\(time) unless the customer agrees to the new, higher price; that they "
                    + "do has not been heard of yet.")
        }
        let change = "\(product) is to renew as \(planned.productID)"
        let consent =
            awaitsConsent
            ? " It will not unless the customer agrees to the new, higher price; that they do has not been heard of yet."
            : ""
        let effect = verdict.decision.givesAccess ? "keep it open" : "open it"
        return Outlook(
            code: .renewal, at: date,
            sentence: planned.gives
                ? "\(change)\(time), which gives \(entitlementID) too; that renewal would \(effect), and has not been "
                    + "heard of yet.\(consent)"
                : "\(change)\(time), which gives no \(entitlementID); that renewal would not \(effect).\(consent)")
    }

    /// That a later period is known; `nil` where none is.
    func knownRenewal(of product: String, _ shown: ShownReading) -> Outlook? {
        guard let next = shown.period(after: instant) else { return nil }
        return Outlook(
            code: .renewal, at: next.opening,
            sentence: "It is known already that \(product) "
                + "\(words.renewal(of: product, by: next, "is renewed", "goes on")).")
    }

    private func renewal(_ product: String, by date: Timestamp?) -> Outlook {
        guard let date else {
            return Outlook(
                code: .renewal, at: nil,
                sentence: verdict.decision.givesAccess
                    ? "A renewal of \(product) would keep it open; none has been heard of."
                    : "A renewal of \(product), or a new purchase of it, would open it from its purchase date on; "
                        + "none has been heard of.")
        }
        return Outlook(
            code: .renewal, at: date,
            sentence: "The store is to renew \(product) by \(date.inWords); that renewal has not been heard of yet.")
    }

    /// What a refund would do; nothing where nothing was charged.
    private func refund(_ product: String, _ shown: ShownReading) -> [Outlook] {
        if let period = shown.period(at: instant) {
            if period.isFreeTrial || period.web?.isFree == true { return [] }
            // One that is known to come is told as what follows.
            if period.revokedAt != nil { return [] }
        }
        return [
            Outlook(
                code: .refund, at: nil,
                sentence: backing.map { "If \(product) is refunded, \($0) keeps it open for now." }
                    ?? "A refund of \(product) would close it from the refund's date on.")
        ]
    }

    /// That another policy would open what a refund of a part has closed.
    func partialRefundPolicy(_ shown: ShownReading) -> [Outlook] {
        guard shown.period(at: instant)?.isRefundedInPart == true else { return [] }
        var (lenient, policy) = (facts, policy)
        policy.proratedRefund = .keepsAccess
        lenient.catalog = Catalog(products: facts.catalog.products, policy: policy)
        guard lenient.answers(at: instant).contains(where: { $0.entitlementID == entitlementID && $0.givesAccess })
        else { return [] }
        return [
            Outlook(
                code: .policy, at: nil,
                sentence:
                    "A catalog whose policy keeps access when a part is refunded would open it, also for the past.")
        ]
    }

    /// What else gives access at the instant: its product and number, where it has them; `nil` where nothing does.
    private var backing: String? {
        let other = considered.first { alternative in
            [.weakerState, .endsEarlier, .laterInOrder].contains(alternative.loss)
                && alternative.state.map { policy.givesAccess($0) } ?? false
        }
        guard let other else { return nil }
        guard let product = other.productID, let id = other.originalTransactionID else { return "a grant" }
        return "\(product) (\(other.source == .webCheckout ? "web" : "App Store"), \(id))"
    }

    func grant() -> Outlook {
        Outlook(code: .grant, at: nil, sentence: "A grant of \(entitlementID) would open it from then on.")
    }

    func policyChange(_ word: String) -> Outlook {
        Outlook(
            code: .policy, at: nil,
            sentence: "A catalog whose policy gives access in \(word) would open it, also for the past.")
    }

    private static let productsNamed = 5

    /// That a purchase would open it, of what the customer may buy; nothing where all that gives it is theirs already.
    func purchases() -> [Outlook] {
        let giving = facts.catalog.products.filter { $0.entitlements.contains(entitlementID) }
        guard !giving.isEmpty else {
            return [
                Outlook(
                    code: .catalogMapping, at: nil,
                    sentence: "A catalog must first say which products give \(entitlementID).")
            ]
        }
        var sold: [String] = []
        // What was bought and gave nothing would give nothing again.
        let idle = facts.untimedProducts(giving: entitlementID, at: instant)
        let begun = idle.union(unpaid.filter(\.isPayable).map(\.productID))
        for product in giving where !begun.contains(product.productID) {
            if facts.obstacle(toSelling: product, at: instant) != nil { continue }
            sold.append(product.productID)
            if sold.count > Self.productsNamed { break }
        }
        if sold.isEmpty { return [] }
        let more = sold.count > Self.productsNamed ? ", …" : ""
        return [
            Outlook(
                code: .purchase, at: nil,
                sentence: "A purchase of a product that gives \(entitlementID) would open it: "
                    + sold.prefix(Self.productsNamed).joined(separator: ", ") + more + ".")
        ]
    }
}
