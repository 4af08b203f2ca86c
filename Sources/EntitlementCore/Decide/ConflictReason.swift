/// Why a purchase that a customer claims is somebody else's, in words that programs can rely on.
package enum ConflictReason: String, Hashable, Sendable, CaseIterable {
    /// It was handed over to another customer.
    case transferred
    /// It bears the account token of another customer.
    case anotherAccountToken = "another_account_token"
    /// It bears an Apple account with which another customer is linked.
    case linkedToAnother = "linked_to_another"
    /// It bears an Apple account whose link to the customer was taken back.
    case linkUndone = "link_undone"
    /// It bears an Apple account which nobody has linked to the customer.
    case notLinked = "not_linked"
    /// It bears another Apple account than that of this device.
    case anotherAppleAccount = "another_apple_account"
    /// It bears nobody's identity, and another customer claimed it first.
    case claimedByAnother = "claimed_by_another"
}

extension OwnershipMap {
    /// Why a period is not a customer's who claims it.
    ///
    /// - Parameters:
    ///   - app: the app transaction of the device it was posted from; `nil` where that is not known.
    ///   - links: every link that was ever made about those the posting names.
    package func conflictReason(
        of period: TransactionFact, for customer: IdentityRef, app: IdentityRef?, links: [RecordedLink]
    ) -> ConflictReason {
        if transferInForce(of: period.originalTransactionID) != nil { return .transferred }
        if period.accountToken != nil { return .anotherAccountToken }
        guard let bearer = period.appTransaction else { return .claimedByAnother }
        guard app == nil || bearer == app else { return .anotherAppleAccount }
        if isTaken(appTransaction: bearer, links: links) { return .linkedToAnother }
        return wereLinked(bearer, customer, links: links) ? .linkUndone : .notLinked
    }
}
