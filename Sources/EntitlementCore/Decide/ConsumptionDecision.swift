/// What an app's owner says once and for all about refund requests, beside what the ledger knows of each.
package struct ConsumptionPolicy: Hashable, Sendable {
    package var sampleContentProvided: Bool
    package var refundPreference: ConsumptionInformation.RefundPreference?
    /// Whether the app hands out what is used up, such as coins, as soon as it is bought; the ledger sees nothing of that.
    package var deliversConsumables: Bool

    package init(
        sampleContentProvided: Bool, refundPreference: ConsumptionInformation.RefundPreference? = nil,
        deliversConsumables: Bool = false
    ) {
        self.sampleContentProvided = sampleContentProvided
        self.refundPreference = refundPreference
        self.deliversConsumables = deliversConsumables
    }
}

/// Whether the store is told how much of a purchase was used, and what.
package enum ConsumptionDecision: Hashable, Sendable {
    case tell(ConsumptionInformation)
    case withhold(ConsumptionWithholding)
}

extension OriginalState {
    /// What is to be told of a transaction, from the facts alone.
    ///
    /// It does not depend on when it is told, only on what was known and when the store asked: told twice it is the same.
    ///
    /// - Parameters:
    ///   - askedAt: when the store asked.
    ///   - hasOwner: whether the ledger knows somebody whose purchase it is, to whom access was given.
    package func consumption(
        of transactionID: String, askedAt: Timestamp, catalog: Catalog, hasOwner: Bool, policy: ConsumptionPolicy
    ) -> ConsumptionDecision {
        guard let fact = winningStatements().first(where: { $0.transactionIDs.contains(transactionID) })?.fact else {
            return .withhold(.unknownTransaction)
        }
        if fact.revocation != nil { return .withhold(.refunded) }
        switch fact.ownership {
        case .known(.purchased), nil: break
        case .known(.familyShared): return .withhold(.familyShared)
        case .unknown: return .withhold(.unsupported)
        }
        guard case .known(let kind) = fact.kind else { return .withhold(.unsupported) }
        // Delivered is what the ledger itself let the customer use; of coins the app's owner alone can say it.
        let period = chains(catalog).flatMap(\.periods).first { $0.transactionIDs.contains(transactionID) }
        let wasUsable =
            period.map { $0.start <= askedAt && $0.start < $0.end } ?? false
            && catalog.product(fact.productID)?.entitlements.isEmpty == false
        guard hasOwner, wasUsable || kind == .consumable && policy.deliversConsumables else {
            return .withhold(.deliveryUnknown)
        }
        var information = ConsumptionInformation(
            sampleContentProvided: policy.sampleContentProvided, deliveryStatus: .delivered,
            consumptionPercentage: period?.shareGone(at: askedAt, kind))
        if let preference = policy.refundPreference, information.allows(preference, kind) {
            information.refundPreference = preference
        }
        return .tell(information)
    }
}

extension ConsumptionInformation {
    package static let percentageRange: ClosedRange<Int64> = 0...100_000

    /// Whether the store takes a preference beside the rest: of a part it gives back a part.
    ///
    /// Source: Apple, "consumptionPercentage".
    package func allows(_ preference: RefundPreference, _ kind: ProductKind) -> Bool {
        switch (preference, kind) {
        case (.decline, _), (.grantFull, _), (.grantProrated, .autoRenewable): true
        case (.grantProrated, _): consumptionPercentage.map { 0 < $0 && $0 < 100_000 } ?? false
        }
    }
}

extension Period {
    /// Which part of its time was over at an instant, in thousandths of a percent, rounded down; `nil` for what time does not
    /// use up, and for subscriptions, of which the store reckons it itself and refuses a number.
    fileprivate func shareGone(at instant: Timestamp, _ kind: ProductKind) -> Int64? {
        switch kind {
        case .autoRenewable, .nonConsumable: return nil
        case .consumable, .nonRenewing: break
        }
        guard expiry != .endless else { return nil }
        let whole = expiry.milliseconds - start.milliseconds
        let gone = min(max(instant.milliseconds - start.milliseconds, 0), whole)
        guard whole > 0 else { return ConsumptionInformation.percentageRange.upperBound }
        return whole.dividingFullWidth(gone.multipliedFullWidth(by: 100_000)).quotient
    }
}
