import EntitlementCore

/// Tells nothing of purchases.
struct NoTeller: PurchaseTeller {
    func changes(from before: CustomerMoment?, to after: CustomerMoment?) -> PurchaseChanges {
        PurchaseChanges(before: [], after: [])
    }

    func transfer(
        of purchases: [[String: String]], from giver: IdentityRef, to taker: IdentityRef, told teller: IdentityRef,
        in environment: StoreEnvironment
    ) -> [PurchaseNews] {
        []
    }
}
