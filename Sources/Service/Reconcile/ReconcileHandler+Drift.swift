import EntitlementAPI
import EntitlementCore
import Ledger

extension ReconcileHandler {
    /// The most drifts recorded of one customer in one app within 24 hours; further ones are counted only.
    private static let driftLimit = 20
    /// The most products of one customer in one app about which differences are recorded, until devices come to agree.
    private static let productLimit = 50

    /// Records drift that is proven and new, within limits, and where it has ended; all of it is counted.
    ///
    /// Of somebody who speaks for one app, only what is about a product that the customer bought there. What is recorded is
    /// the app's own: it takes nothing of what other apps may have recorded of the same customer.
    ///
    /// - Parameter claims: all that was compared.
    func record(
        _ drift: [Drift], of claims: [DeviceClaim], _ decision: ReconcileDecision, at instant: Timestamp
    ) async throws {
        guard !claims.isEmpty else { return }
        guard decision.proof != .none else {
            for _ in drift { context.metrics.count(.drift, ["unproven"]) }
            return
        }
        let own = decision.ownProducts
        let app = decision.posting.app
        let past = try await context.reader.drifts(
            of: decision.customer, decision.posting.environment, limit: Self.driftLimit * 10
        ).filter { $0.fact.bundleID.utf8.elementsEqual(app.utf8) }
        guard !drift.isEmpty || !past.isEmpty else { return }
        let dayAgo = context.now().adding(milliseconds: -Timestamp.millisecondsPerDay)
        // Moves on with what is recorded here, so that only what others append is in conflict with it.
        var decidedAt = decision.snapshot.position
        var left = Self.driftLimit - past.count { $0.recordedAt > dayAgo }
        let known = decision.knownProducts
        var disputed = Set(past.map(\.fact.productID))
        // A device that says two things of one product would have news at every launch.
        var products: Set<String> = []
        for item in drift {
            guard own?.contains(item.claim.productID) ?? true else {
                context.metrics.count(.drift, ["foreign"])
                continue
            }
            // What nobody sells nobody could explain.
            guard known.contains(item.claim.productID) else {
                context.metrics.count(.drift, ["unknown_product"])
                continue
            }
            guard products.insert(item.claim.productID).inserted else {
                context.metrics.count(.drift, ["known"])
                continue
            }
            let fact = DriftFact(
                customer: IdentityRef(0), bundleID: app, productID: item.claim.productID, claimed: item.claim.state,
                claimedUntil: item.claim.until, actual: item.actual, actualUntil: item.actualUntil)
            let last = past.first { $0.fact.productID == fact.productID }?.fact
            guard last.map({ !$0.saysTheSame(as: fact) }) ?? true else {
                context.metrics.count(.drift, ["known"])
                continue
            }
            guard left > 0, disputed.contains(fact.productID) || disputed.count < Self.productLimit else {
                context.metrics.count(.drift, ["limited"])
                continue
            }
            left -= 1
            disputed.insert(fact.productID)
            try await append(fact, "recorded", decision, &decidedAt)
        }
        for claim in claims where products.insert(claim.productID).inserted {
            let about = past.filter { $0.fact.productID == claim.productID }
            // Where one of two devices goes on saying otherwise, that is told once a day, and not at each launch.
            guard let last = about.first, !last.fact.isAgreement,
                !about.contains(where: { $0.fact.isAgreement && $0.recordedAt > dayAgo })
            else { continue }
            let answer = decision.facts.answer(to: claim, at: instant)
            let fact = DriftFact(
                customer: IdentityRef(0), bundleID: app, productID: claim.productID, claimed: claim.state,
                claimedUntil: answer?.until, actual: answer?.state, actualUntil: answer?.until)
            try await append(fact, "agreed", decision, &decidedAt)
        }
    }

    /// - Parameter decidedAt: the position that the comparison rests on.
    private func append(
        _ fact: DriftFact, _ outcome: String, _ decision: ReconcileDecision, _ decidedAt: inout Int64
    ) async throws {
        var condition = UnchangedSince(decision.snapshot.mark, customers: [decision.customer.value])
        condition.position = decidedAt
        do {
            decidedAt = try await writer.append(
                EventDraft(
                    environment: decision.posting.environment, source: .device, occurredAt: nil, fact: .drift(fact),
                    identities: [decision.customer.value], deduplication: .unique,
                    unchangedSince: condition)
            ).position
            context.metrics.count(.drift, [outcome])
        } catch AppendRefusal.conflict {
            // Another device of the customer has just reported, or a command changed what was compared.
            context.metrics.count(.drift, ["overtaken"])
        }
    }
}

extension ReconcileDecision {
    /// The products that the catalog names, or that the customer is known to have bought.
    fileprivate var knownProducts: Set<String> {
        Set(facts.catalog.products.map(\.productID)).union(
            facts.originals.values.flatMap(\.transactions).map(\.fact.productID))
    }

    /// The products that the customer bought in the only app that is spoken for; `nil` where that is not held to one.
    fileprivate var ownProducts: Set<String>? {
        ownFacts.map { Set($0.originals.values.flatMap(\.transactions).map(\.fact.productID)) }
    }
}

extension DriftFact {
    fileprivate func saysTheSame(as other: DriftFact) -> Bool {
        claimed == other.claimed && claimedUntil == other.claimedUntil && actual == other.actual
            && actualUntil == other.actualUntil
    }
}
