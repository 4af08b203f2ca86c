extension Scenario {
    /// Purchases that never renew.
    static let oneTime: [Scenario] = [
        Scenario("lifetime_purchase") { $0.buy(ann, StoreWorld.ProductID.lifetime, at: on(1, 1)) },
        Scenario("consumable_without_duration") { $0.buy(ann, StoreWorld.ProductID.coins, at: on(1, 1)) },
        Scenario("consumable_with_duration") { $0.buy(ann, StoreWorld.ProductID.dayPass, at: on(1, 1, 9, 30)) },
        Scenario("season_without_duration") { $0.buy(ann, StoreWorld.ProductID.openSeason, at: on(1, 1)) },
        Scenario("season_repeats_overlap") {
            $0.buy(ann, StoreWorld.ProductID.season, at: on(1, 1))
            $0.buy(ann, StoreWorld.ProductID.season, at: on(2, 1))
        },
        Scenario("season_of_a_calendar_month") {
            $0.buy(ann, StoreWorld.ProductID.term, at: on(1, 31, 15, 30))
        },
        Scenario("season_with_leeway", policy: { $0.leewaySeconds = 3_600 }) {
            $0.buy(ann, StoreWorld.ProductID.term, at: on(1, 1))
        },
        Scenario("product_nobody_mapped") { $0.buy(ann, StoreWorld.ProductID.mystery, at: on(1, 1)) },
    ]
}
