#if canImport(StoreKit)
import Foundation
import StoreKit

// Three times the same, because StoreKit declares `jwsRepresentation` once for each type it signs.
extension SignedStatement {
    init(_ result: VerificationResult<Transaction>) {
        self.init(jws: result.jwsRepresentation, unverifiedReason: result.reason)
    }

    init(_ result: VerificationResult<AppTransaction>) {
        self.init(jws: result.jwsRepresentation, unverifiedReason: result.reason)
    }

    init(_ result: VerificationResult<Product.SubscriptionInfo.RenewalInfo>) {
        self.init(jws: result.jwsRepresentation, unverifiedReason: result.reason)
    }
}

extension SubscriptionStatement {
    init(_ status: Product.SubscriptionInfo.Status) {
        self.init(transaction: SignedStatement(status.transaction), renewal: SignedStatement(status.renewalInfo))
    }
}

extension StorePurchaseResult {
    /// What StoreKit says of a purchase, or throws, in this library's words.
    static func read(_ result: Result<Product.PurchaseResult, any Error>) -> Result<StorePurchaseResult, any Error> {
        switch result {
        case .success(.success(let transaction)): .success(.success(SignedStatement(transaction)))
        case .success(.userCancelled), .failure(StoreKitError.userCancelled): .success(.userCancelled)
        case .success(.pending): .success(.pending)
        case .success: .success(.unknown)
        case .failure(let error as StoreKitError): .failure(PurchaseError(error))
        case .failure(let error as Product.PurchaseError): .failure(PurchaseError(error))
        case .failure(let error): .failure(error)
        }
    }
}

extension PurchaseError {
    fileprivate init(_ error: StoreKitError) {
        switch error {
        case .networkError: self.init(.network, underlying: error)
        case .notAvailableInStorefront: self.init(.productNotFound, underlying: error)
        default: self.init(.unknown, underlying: error)
        }
    }

    fileprivate init(_ error: Product.PurchaseError) {
        switch error {
        case .productUnavailable: self.init(.productNotFound, underlying: error)
        case .purchaseNotAllowed: self.init(.notAllowed, underlying: error)
        case .ineligibleForOffer: self.init(.ineligibleForOffer, underlying: error)
        case .invalidOfferIdentifier, .invalidOfferPrice, .invalidOfferSignature, .missingOfferParameters,
            .invalidQuantity:
            self.init(.invalidOffer, underlying: error)
        default: self.init(.unknown, underlying: error)
        }
    }
}

extension StoreProduct {
    init(_ product: Product) async {
        self.init(
            id: product.id, displayName: product.displayName, displayPrice: product.displayPrice,
            description: product.description, kind: PurchaseKind(product.type), price: product.price,
            currencyCode: product.priceFormatStyle.currencyCode)
        guard let info = product.subscription else { return }
        subscription = Subscription(
            groupID: info.subscriptionGroupID, period: SubscriptionPeriod(info.subscriptionPeriod),
            introductoryOffer: info.introductoryOffer.map { SubscriptionOffer($0) },
            isEligibleForIntroductoryOffer: await info.isEligibleForIntroOffer,
            promotionalOffers: info.promotionalOffers.map { SubscriptionOffer($0) })
        if #available(iOS 18.0, macOS 15.0, tvOS 18.0, watchOS 11.0, visionOS 2.0, *) {
            subscription?.winBackOffers = info.winBackOffers.map { SubscriptionOffer($0) }
            guard !info.winBackOffers.isEmpty else { return }
            subscription?.eligibleWinBackOfferIDs = await Self.eligibleWinBackOfferIDs(info.subscriptionGroupID)
        }
    }

    /// Which win-back offers of a group this customer may have, the best first.
    @available(iOS 18.0, macOS 15.0, tvOS 18.0, watchOS 11.0, visionOS 2.0, *)
    private static func eligibleWinBackOfferIDs(_ groupID: String) async -> [String] {
        let statuses = (try? await Product.SubscriptionInfo.status(for: groupID)) ?? []
        return statuses.flatMap { status -> [String] in
            // Without a signature it is no word of the store's.
            guard case .verified(let renewal) = status.renewalInfo else { return [] }
            return renewal.eligibleWinBackOfferIDs
        }
    }
}

extension PurchaseKind {
    fileprivate init?(_ type: Product.ProductType) {
        switch type {
        case .consumable: self = .consumable
        case .nonConsumable: self = .nonConsumable
        case .autoRenewable: self = .autoRenewable
        case .nonRenewable: self = .nonRenewing
        default: return nil
        }
    }
}

extension SubscriptionPeriod {
    fileprivate init(_ period: Product.SubscriptionPeriod) {
        let unit: Unit =
            switch period.unit {
            case .day: .day
            case .week: .week
            case .month: .month
            case .year: .year
            @unknown default: .day
            }
        self.init(period.value, unit)
    }
}

extension SubscriptionOffer {
    fileprivate init(_ offer: Product.SubscriptionOffer) {
        let discount =
            switch offer.paymentMode {
            case .freeTrial: "free_trial"
            case .payAsYouGo: "pay_as_you_go"
            case .payUpFront: "pay_up_front"
            default: "unknown"
            }
        self.init(
            id: offer.id, discount: discount, price: offer.price, displayPrice: offer.displayPrice,
            period: SubscriptionPeriod(offer.period), periodCount: offer.periodCount)
    }
}

extension VerificationResult {
    /// Why StoreKit could not verify it; `nil`: it could.
    fileprivate var reason: String? {
        switch self {
        case .verified: nil
        case .unverified(_, let error): String(describing: error)
        }
    }
}
#endif
