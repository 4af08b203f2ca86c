import EntitlementCore
import Foundation
import StoreSimulator
import Testing

/// How much longer the long campaigns run than the everyday tests.
enum LongTests {
    static let factor = Int(ProcessInfo.processInfo.environment["RIGHTFUL_TEST_FACTOR"] ?? "") ?? 1
}

extension Catalog {
    /// What the simulated world's products mean.
    init(_ world: StoreWorld) throws {
        let products = try world.mappings.map { mapping in
            CatalogProduct(
                productID: mapping.productID, entitlements: mapping.entitlements,
                duration: try mapping.duration.map { try #require(CalendarDuration(iso8601: $0)) })
        }
        self.init(
            products: products,
            policy: EntitlementCore.AccessPolicy(
                graceGivesAccess: world.policy.graceGivesAccess,
                billingRetryGivesAccess: world.policy.billingRetryGivesAccess,
                leewaySeconds: world.policy.leewaySeconds,
                proratedRefund: world.policy.proratedRefund == .keepsAccess ? .keepsAccess : .endsAccess))
    }
}

extension RecordInterval {
    init(_ reading: Reading, policy: EntitlementCore.AccessPolicy) {
        self.init(
            from: reading.start.milliseconds, until: reading.end == .endless ? nil : reading.end.milliseconds,
            state: RecordState(reading.state), givesAccess: policy.givesAccess(reading.state),
            productID: reading.productID ?? "", originalTransactionID: reading.originalTransactionID ?? "")
    }
}

extension RecordAnswer {
    init(_ answer: EntitlementAnswer) {
        self.init(
            entitlement: answer.entitlementID, givesAccess: answer.givesAccess, state: RecordState(answer.state),
            since: answer.since.milliseconds, until: answer.until?.milliseconds,
            productID: answer.reading.productID ?? "",
            originalTransactionID: answer.reading.originalTransactionID ?? "", willRenew: answer.willRenew)
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
