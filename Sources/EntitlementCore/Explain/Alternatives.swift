/// Something else that was weighed for an entitlement, and why it did not decide.
package struct Alternative: Hashable, Sendable {
    package enum Loss: String, Hashable, Sendable, Codable, CaseIterable {
        /// It gives no access, and what was shown does.
        case givesNoAccess = "gives_no_access"
        /// Its state comes after the one shown.
        case weakerState = "weaker_state"
        /// It reads alike and ends earlier.
        case endsEarlier = "ends_earlier"
        /// It reads alike in all, and its source comes later in the order of sources.
        case laterInOrder = "later_in_order"
        /// It begins after the instant.
        case notBegun = "not_begun"
        /// The catalog does not map its product to the entitlement.
        case productNotMapped = "product_not_mapped"
        /// The catalog maps its product and has no duration for it.
        case noDuration = "no_duration"
        /// The catalog maps its product, and the store names no end of it.
        case noEnd = "no_end"
        /// It is another customer's.
        case belongsToAnother = "belongs_to_another"
        /// Nobody has claimed it.
        case unclaimed
        /// It was bought on the web, and its payment has not arrived.
        case unpaid
        /// It was bought on the web, and its payment failed.
        case paymentFailed = "payment_failed"
        /// A subscription on the web was changed to it, and no invoice of it was paid yet.
        case notBilledYet = "not_billed_yet"
    }

    package let loss: Loss
    /// `nil` where it has not begun.
    package let state: EntitlementState?
    package let productID: String?
    package let source: EntitlementOrigin
    package let originalTransactionID: String?
    package let positions: [Int64]
    package let sentence: String
}

/// Gathers what else was weighed.
struct Alternatives {
    let facts: CustomerFacts
    let instant: Timestamp
    let entitlementID: String
    /// Those of this entitlement.
    let sources: [SourceTimeline]
    let verdict: Verdict
    /// Who was asked about, links not followed.
    let asked: IdentityRef?
    /// The events that the facts were folded from.
    let told: [HistoryEvent]
    /// What was begun to be bought, where nothing gives access.
    let unpaid: [UnpaidPurchase]

    func all() -> [Alternative] {
        var isShownSeen = false
        var alternatives: [Alternative] = []
        for source in sources {
            guard let candidate = ShownReading(source, at: instant) else {
                if !source.readings.isEmpty { alternatives.append(notBegun(ShownReading(source: source, index: 0))) }
                continue
            }
            if let shown = verdict.shown?.reading, candidate.reading == shown, !isShownSeen {
                isShownSeen = true
            } else if let shown = verdict.shown?.reading {
                alternatives.append(lost(candidate, to: shown))
            }
        }
        if !verdict.decision.givesAccess { alternatives += elsewhere() }
        let idle = verdict.decision.givesAccess ? [] : facts.idlePurchases(giving: entitlementID, at: instant)
        alternatives += idle.map { purchase in
            Alternative(
                loss: purchase.lack.loss, state: nil, productID: purchase.productID, source: purchase.source,
                originalTransactionID: purchase.originalTransactionID, positions: [purchase.position],
                sentence: "\(purchase.clause).")
        }
        alternatives += unpaid.map { purchase in
            Alternative(
                loss: purchase.loss, state: nil, productID: purchase.productID, source: .webCheckout,
                originalTransactionID: purchase.originalTransactionID, positions: purchase.positions,
                sentence: "\(Self.capitalized(purchase.clause)).")
        }
        return alternatives
    }

    private var words: RuleWords {
        RuleWords(entitlementID: entitlementID, instant: instant, facts: facts, told: told, asked: asked)
    }

    private func notBegun(_ first: ShownReading) -> Alternative {
        alternative(
            .notBegun, first.reading, state: nil, "\(Self.capitalized(words.notBegun(first))).")
    }

    private func lost(_ candidate: ShownReading, to shown: Reading) -> Alternative {
        let reading = candidate.reading
        let policy = facts.catalog.policy
        let clause = words.clause(for: candidate)
        let loss: Alternative.Loss
        var why: String
        if policy.givesAccess(reading.state) != policy.givesAccess(shown.state) {
            loss = .givesNoAccess
            why = "it gives no access"
        } else if reading.state != shown.state {
            loss = .weakerState
            let what = policy.givesAccess(shown.state) ? "access" : "no access"
            why = "of what gives \(what), \(shown.state.inWords) is shown before \(reading.state.inWords)"
        } else if reading.periodEnd != shown.periodEnd {
            loss = .endsEarlier
            let end = reading.periodEnd == .endless ? "never" : "on \(reading.periodEnd.inWords)"
            why = "as far as is known it ends \(end), earlier than what decided"
        } else {
            loss = .laterInOrder
            why = "it reads the same, and comes later in the order of sources"
        }
        if renews(reading), renews(shown) { why += "; both are to be charged for again, so both are paid for" }
        return alternative(loss, reading, state: reading.state, "\(Self.capitalized(clause)); \(why).")
    }

    /// Whether something that gives access is to be charged for again.
    private func renews(_ reading: Reading) -> Bool {
        facts.catalog.policy.givesAccess(reading.state) && facts.isCharged(reading, at: instant)
    }

    /// For a no: what would read as something here, were it mapped or the customer's.
    private func elsewhere() -> [Alternative] {
        var alternatives: [Alternative] = []
        for (originalID, state) in facts.originals.sorted(by: { $0.key < $1.key }) {
            for chain in state.chains(facts.catalog) {
                let segments = facts.ownedSegments(of: chain, state: state, originalID: originalID)
                guard let item = segments.last(where: { $0.segment.start <= instant }) else { continue }
                if let alternative = elsewhere(item, originalID) { alternatives.append(alternative) }
            }
        }
        return alternatives
    }

    private func elsewhere(_ item: OwnedSegment, _ originalID: String) -> Alternative? {
        let product = item.period.fact.productID
        let isMapped = facts.catalog.product(product)?.entitlements.contains(entitlementID) ?? false
        let reads = "is \(item.segment.state.inWords)"
        let loss: Alternative.Loss
        let sentence: String
        switch (item.isOwned, isMapped) {
        case (true, true):
            return nil
        case (true, false):
            loss = .productNotMapped
            sentence = "\(product) \(reads), and the catalog does not say that it gives \(entitlementID)."
        case (false, true):
            let isClaimed =
                facts.ownership.owner(of: item.period.fact) != nil
                || !facts.ownership.transfers(of: originalID).isEmpty
            loss = isClaimed ? .belongsToAnother : .unclaimed
            let why =
                facts.tokenMove(of: item.period, at: instant, told: told)?.cause
                ?? LinkTrail(asked: asked, told: told).undoneLink(
                    of: item.period, positions: item.segment.positions, at: instant)?.cause
            let cause = why.map { ": \($0)" } ?? ""
            sentence =
                isClaimed
                ? "\(product) \(reads), and is another customer's\(cause)."
                : "\(product) \(reads), and nobody has claimed it."
        case (false, false):
            return nil
        }
        return Alternative(
            loss: loss, state: item.segment.state, productID: product, source: item.period.origin,
            originalTransactionID: originalID, positions: item.segment.positions, sentence: sentence)
    }

    private func alternative(
        _ loss: Alternative.Loss, _ reading: Reading, state: EntitlementState?, _ sentence: String
    ) -> Alternative {
        Alternative(
            loss: loss, state: state, productID: reading.productID, source: reading.source,
            originalTransactionID: reading.originalTransactionID, positions: reading.positions, sentence: sentence)
    }

    /// A product's name keeps its spelling; a clause that begins with a word begins the sentence.
    private static func capitalized(_ clause: String) -> String {
        let first = clause.prefix { $0 != " " }
        guard ["the", "it", "what", "a"].contains(first) else { return clause }
        return clause.prefix(1).uppercased() + clause.dropFirst()
    }
}
