import EntitlementCore
import Foundation
import StoreSimulator
import Testing

extension Catalog {
    /// What the simulated world's products mean.
    init(_ world: StoreWorld) throws {
        let products = try world.mappings.map { mapping in
            CatalogProduct(
                productID: mapping.productID, entitlements: mapping.entitlements,
                duration: try mapping.duration.map { try #require(CalendarDuration(iso8601: $0)) },
                stripe: mapping.web.map { web in
                    StripeProduct(
                        price: web.price, product: web.product,
                        mode: web.mode == .subscription ? .subscription : .payment)
                })
        }
        self.init(
            products: products,
            policy: AccessPolicy(
                graceGivesAccess: world.policy.graceGivesAccess,
                billingRetryGivesAccess: world.policy.billingRetryGivesAccess,
                leewaySeconds: world.policy.leewaySeconds,
                proratedRefund: world.policy.proratedRefund == .keepsAccess ? .keepsAccess : .endsAccess,
                webGraceDays: world.policy.webGraceDays,
                webDispute: world.policy.webDispute == .keepsAccess ? .keepsAccess : .suspendsAccess))
    }
}

extension RecordInterval {
    init(_ reading: Reading, policy: AccessPolicy) {
        self.init(
            from: reading.start.milliseconds, until: reading.end == .endless ? nil : reading.end.milliseconds,
            state: RecordState(reading.state), givesAccess: policy.givesAccess(reading.state),
            productID: reading.productID ?? "", originalTransactionID: reading.originalTransactionID ?? "",
            source: RecordSource(reading.source))
    }
}

extension RecordAnswer {
    init(_ answer: EntitlementAnswer) {
        self.init(
            entitlement: answer.entitlementID, givesAccess: answer.givesAccess, state: RecordState(answer.state),
            since: answer.since.milliseconds, until: answer.until?.milliseconds,
            productID: answer.reading.productID ?? "",
            originalTransactionID: answer.reading.originalTransactionID ?? "", willRenew: answer.willRenew,
            source: RecordSource(answer.reading.source))
    }
}

extension RecordState {
    init(_ state: EntitlementState) {
        switch state {
        case .active: self = .active
        case .inGracePeriod: self = .inGracePeriod
        case .inBillingRetry: self = .inBillingRetry
        case .revoked: self = .revoked
        case .expired: self = .expired
        }
    }
}

extension RecordSource {
    init(_ origin: EntitlementOrigin) {
        switch origin {
        case .appStore: self = .appStore
        case .grant: self = .grant
        case .webCheckout: self = .webCheckout
        }
    }
}
