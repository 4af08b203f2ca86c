import EntitlementCore

/// What RevenueCat calls the product behind a grant: `rc_promo_<entitlement>_<duration>`.
///
/// A grant has no product. Without one the SDK drops its entitlement, for it shows only what a product of `subscriptions` or
/// `non_subscriptions` stands behind.
enum PromotionalProduct {
    /// The durations of `POST …/entitlements/{id}/promotional`, by their names there.
    private static let durations = [
        ("daily", "P1D"), ("three_day", "P3D"), ("weekly", "P7D"), ("two_week", "P14D"), ("monthly", "P1M"),
        ("two_month", "P2M"), ("three_month", "P3M"), ("six_month", "P6M"), ("yearly", "P1Y"),
    ]
    /// How far apart an end that a client reckoned and the same end by the ledger's clock may be, in milliseconds.
    private static let tolerance: Int64 = 60_000
    private static let lifetime = CalendarDuration(iso8601: "P200Y")

    static func identifier(of grant: GrantState) -> String {
        "rc_promo_\(grant.entitlementID)_\(durationName(of: grant))"
    }

    /// A grant without an end is a lifetime, one of none of the durations `custom`.
    private static func durationName(of grant: GrantState) -> String {
        guard let until = grant.until else { return "lifetime" }
        let named = durations.first { _, length in
            guard let duration = CalendarDuration(iso8601: length) else { return false }
            return abs(grant.from.adding(duration).milliseconds - until.milliseconds) <= tolerance
        }
        return named?.0 ?? "custom"
    }

    /// When a grant ends as RevenueCat shows it: one without an end two hundred years after it was made, and none before that.
    static func end(of grant: GrantState) -> Timestamp {
        guard grant.end == .endless, let lifetime else { return max(grant.end, grant.from) }
        return grant.from.adding(lifetime)
    }
}
