package import EntitlementCore

/// What a service has to do with Stripe.
package struct StripeConnections: Sendable {
    /// What verifies webhooks; without a secret each is refused.
    let webhooks: StripeWebhooks
    /// Reads what an event does not say by itself; `nil`: nobody does here.
    let lookups: StripeLookups?
    /// Where it is sold on the web, by environment.
    let shops: [StoreEnvironment: StripeShop]

    package init(
        webhooks: StripeWebhooks = StripeWebhooks([]), lookups: StripeLookups? = nil,
        shops: [StoreEnvironment: StripeShop] = [:]
    ) {
        self.webhooks = webhooks
        self.lookups = lookups
        self.shops = shops
    }
}
