import EntitlementCore

/// How much of a payment went back.
struct MoneyBack: Hashable, Sendable {
    static let nothing = MoneyBack(isRefunded: false, amount: nil)

    /// Whether it counts as refunded.
    let isRefunded: Bool
    /// Of Stripe's payments parts may go back, whatever that means for access; `nil` where nothing did, or nobody stated how
    /// much.
    let amount: Money?

    /// What went back since an earlier moment; `nil` where nothing did.
    func part(since earlier: MoneyBack) -> Part? {
        let isNews = isRefunded && !earlier.isRefunded
        guard let amount else { return isNews ? Part(amount: nil) : nil }
        guard let known = earlier.amount else {
            return isNews || !earlier.isRefunded && amount.thousandths > 0 ? Part(amount: amount) : nil
        }
        guard known.currency == amount.currency, known.thousandths < amount.thousandths else { return nil }
        return Part(amount: Money(thousandths: amount.thousandths - known.thousandths, currency: amount.currency))
    }

    struct Part {
        /// `nil` where nobody stated it.
        let amount: Money?
    }
}
