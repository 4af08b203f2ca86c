/// Why one entitlement reads as it does at an instant, what else was weighed, and what would change it.
package struct Explanation: Hashable, Sendable {
    package let decision: Decision
    /// `nil` where nothing gives, or gave, the entitlement by then.
    package let answer: EntitlementAnswer?
    /// The events it rests on, none of which can be left out.
    package let events: [HistoryEvent]
    package let considered: [Alternative]
    package let outlook: [Outlook]
    /// The last change of the catalog that made a difference here; `nil` where none of those that the history keeps did.
    package let catalogChange: CatalogChange?
    /// `nil` for an entitlement that nothing ever gave.
    package let timeline: EntitlementTimeline?
}

/// A change of the catalog after which the same facts read differently.
package struct CatalogChange: Hashable, Sendable {
    /// The event that wrote the new catalog.
    package let event: HistoryEvent
    package let gaveAccess: Bool
    /// `nil` where nothing gave the entitlement before.
    package let stateBefore: EntitlementState?
    package let sentence: String
}

/// A purchase that the customer claimed, and that is somebody else's: it gives them nothing.
package struct RefusedClaim: Hashable, Sendable {
    package let event: HistoryEvent
    package let originalTransactionID: String
    /// For people; it names nobody.
    package let sentence: String
}

/// Explains a customer's entitlements at one instant.
package struct Explainer: Sendable {
    package let history: CustomerHistory
    package let instant: Timestamp
    package let facts: CustomerFacts

    package init(_ history: CustomerHistory, at instant: Timestamp) {
        self.history = history
        self.instant = instant
        facts = history.facts()
    }

    /// The catalog's word on every product that the customer's purchases name.
    package var products: [CatalogProduct] {
        let named = facts.originals.values.flatMap { state in
            state.transactions.map(\.fact.productID) + state.renewals.compactMap(\.fact.autoRenewProductID)
                + (state.web?.chains(facts.catalog).flatMap(\.periods).map(\.fact.productID) ?? [])
        }
        return Set(named).sorted().map {
            facts.catalog.product($0) ?? CatalogProduct(productID: $0, entitlements: [])
        }
    }

    /// Where the catalog in force was written; 0 before any.
    package var catalogPosition: Int64 { history.catalogs.last?.event.position ?? 0 }

    /// How many entitlements are explained to somebody who holds none of them and asks for none by name.
    package static let unheldLimit = 50

    /// Every entitlement that something gives, or gave, or will give the customer, as far as known; where there is
    /// none, those that the catalog knows.
    ///
    /// - Parameter check: called before each step that takes long; what it throws ends the work.
    package func explanations(check: () throws -> Void) rethrows -> [Explanation] {
        let sources = facts.sources()
        let held = Set(sources.map(\.entitlementID)).sorted()
        let known = Set(facts.catalog.products.flatMap(\.entitlements)).sorted().prefix(Self.unheldLimit)
        return try (held.isEmpty ? Array(known) : held).map { try explain($0, sources: sources, check) }
    }

    /// Every entitlement, as above, however long that takes.
    package func explanations() -> [Explanation] { explanations(check: {}) }

    /// One entitlement, also one that nothing ever gave, however long that takes.
    package func explanation(of entitlementID: String) -> Explanation { explanation(of: entitlementID, check: {}) }

    /// One entitlement, also one that nothing ever gave.
    ///
    /// - Parameter check: called before each step that takes long; what it throws ends the work.
    package func explanation(of entitlementID: String, check: () throws -> Void) rethrows -> Explanation {
        try explain(entitlementID, sources: facts.sources(), check)
    }

    /// What the customer claimed in vain, and what was bought on the web and names the customer and another.
    ///
    /// Of each original transaction the last claim, if the customer does not own it since; in the order of their positions.
    package var refusedClaims: [RefusedClaim] {
        var last: [String: HistoryEvent] = [:]
        for event in history.events {
            guard case .conflict(let conflict) = event.fact,
                facts.ownership.customer(of: conflict.claimant) == facts.customer,
                !facts.ownsPeriod(of: conflict.originalTransactionID)
            else { continue }
            last[conflict.originalTransactionID] = event
        }
        let claims = last.map { originalID, event in
            RefusedClaim(
                event: event, originalTransactionID: originalID,
                sentence: "On \(event.recordedAt.inWords) this customer claimed the original transaction "
                    + "\(originalID), \(remedy(for: originalID)).")
        }
        return (claims + namedBesideOthers).sorted {
            ($0.event.position, $0.originalTransactionID) < ($1.event.position, $1.originalTransactionID)
        }
    }

    /// Whose a purchase is that the customer claimed in vain, and what would make it theirs.
    ///
    /// A history shows nothing of what is somebody else's, so often it is not known what the purchase bears.
    private func remedy(for originalID: String) -> String {
        let others = "which was another's, and nobody's access changed; a transfer would make it this "
        let purchases = facts.originals[originalID]?.winningFacts() ?? []
        let links = history.events.compactMap { event -> RecordedLink? in
            guard case .link(let fact) = event.fact else { return nil }
            return RecordedLink(position: event.position, fact: fact)
        }
        let reasons = purchases.map { purchase in
            facts.ownership.conflictReason(of: purchase, for: facts.customer, app: nil, links: links)
        }
        guard reasons.allSatisfy({ $0 == .notLinked || $0 == .linkUndone }) else { return others + "customer's" }
        let accounts = Set(purchases.compactMap(\.appTransaction))
        // Of an Apple account that no link ever connected with the customer it is not known whom else links tie to it.
        guard accounts.count == 1, accounts.isSubset(of: history.identities) else {
            return others + "customer's, or, where it bears an Apple account with which nobody is linked, a link of "
                + "that account"
        }
        return "which bears an Apple account that is not linked to this customer, and nobody's access changed; a link "
            + "of that account would make it this customer's"
    }

    private func explain(
        _ entitlementID: String, sources: [SourceTimeline], _ check: () throws -> Void
    ) rethrows -> Explanation {
        try check()
        let verdict = verdict(on: entitlementID, facts, sources)
        let own = sources.filter { $0.entitlementID == entitlementID }
        let timeline =
            own.isEmpty
            ? nil
            : EntitlementTimeline(
                entitlementID: entitlementID, sources: own.map(\.readings), policy: facts.catalog.policy)
        let answer = timeline.flatMap { facts.answer(from: $0, at: instant) }
        let finder = BasisFinder(
            history: history, instant: instant, wanted: verdict.decision,
            speaksOfPurchase: verdict.begun != nil || verdict.moved != nil || verdict.undone != nil
                || verdict.idle != nil)
        let unpaid =
            verdict.decision.givesAccess
            ? [] : facts.unpaidPurchases(giving: entitlementID, at: instant, told: history.events)
        let begun = unpaid.first { $0.originalTransactionID == verdict.begun }
        let words = RuleWords(
            entitlementID: entitlementID, instant: instant, facts: facts, told: history.events, asked: history.customer)
        let spoken =
            begun?.positions ?? verdict.moved?.positions ?? verdict.undone?.positions
            ?? verdict.idle.map { [$0.position] }
        let read = verdict.shown?.reading.positions ?? spoken ?? own.compactMap(\.readings.first).flatMap(\.positions)
        let named = read + (verdict.shown.map { words.positionsBeside($0) } ?? [])
        // What the sentence names beside what is shown: what it followed, and what gave access last.
        let others = [verdict.shown?.previous, verdict.ending?.previous, verdict.ending?.reading]
        let besideLoss = verdict.ending.map { words.positionsBeside($0) } ?? []
        let before = others.flatMap { $0?.positions ?? [] } + besideLoss
        let likely = [named, named + before].map { Set($0 + [catalogPosition]) }
        let positions = Set(try finder.positions(likely: likely, check: check))
        let considered = Alternatives(
            facts: facts, instant: instant, entitlementID: entitlementID, sources: own, verdict: verdict,
            asked: history.customer, told: history.events, unpaid: unpaid
        ).all()
        return try Explanation(
            decision: verdict.decision, answer: answer,
            events: history.events.filter { positions.contains($0.position) }, considered: considered,
            outlook: OutlookFinder(
                facts: facts, instant: instant, verdict: verdict, answer: answer, timeline: timeline,
                considered: considered, unpaid: unpaid
            ).all(),
            catalogChange: catalogChange(for: verdict.decision, check), timeline: timeline)
    }

    private func verdict(on entitlementID: String, _ facts: CustomerFacts, _ sources: [SourceTimeline]) -> Verdict {
        facts.verdict(
            on: entitlementID, at: instant, sources: sources, asked: history.customer, told: history.events,
            knowsCustomer: history.knowsCustomer, environment: history.environment)
    }

    private func catalogChange(
        for decision: Decision, _ check: () throws -> Void
    ) rethrows -> CatalogChange? {
        let catalogs = history.catalogs
        var after = decision
        for (older, newer) in zip(catalogs, catalogs.dropFirst()).reversed() {
            try check()
            var facts = facts
            facts.catalog = older.catalog
            let before = verdict(on: decision.entitlementID, facts, facts.sources()).decision
            if before.givesAccess != after.givesAccess || before.state != after.state {
                let id = decision.entitlementID
                let word = before.givesAccess ? "open" : "closed"
                let state = before.state.map { " (\($0.rawValue))" } ?? " (not held)"
                return CatalogChange(
                    event: newer.event, gaveAccess: before.givesAccess, stateBefore: before.state,
                    sentence: "Under the catalog that was in force until \(newer.event.recordedAt.inWords), "
                        + "\(id) was \(word)\(state) at this instant.")
            }
            after = before
        }
        return nil
    }
}

extension CustomerFacts {
    /// Whether a period of the original transaction is this customer's now.
    func ownsPeriod(of originalTransactionID: String) -> Bool {
        originals[originalTransactionID]?.winningStatements().contains {
            ownership.currentOwner(of: $0.fact) == customer
        } ?? false
    }
}
