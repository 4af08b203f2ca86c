/// How messages to an endpoint are written, and so what it is told of.
package enum EndpointFormat: String, CaseIterable, Hashable, Sendable {
    /// As Standard Webhooks has them: answers that changed, and what came into the log.
    case standard
    /// As RevenueCat's receivers know them: what became of purchases.
    case revenueCat = "revenuecat"

    /// What an endpoint of this format may choose to hear of.
    package var types: [MessageType] { MessageType.allCases.filter { $0.format == self } }
}

extension MessageType {
    /// The format in which it is told; `nil` for what is sent in each.
    package var format: EndpointFormat? {
        switch self {
        case .entitlementsChanged, .eventRecorded, .ownershipConflict, .driftFound, .streamSilent, .streamRecovered:
            .standard
        case .initialPurchase, .renewal, .productChange, .cancellation, .uncancellation, .billingIssue, .expiration,
            .nonRenewingPurchase, .subscriptionExtended, .refundReversed, .transfer:
            .revenueCat
        case .test: nil
        }
    }

    /// Whether messages of it are counted for each customer, so that a receiver sees where one is missing.
    package var isCounted: Bool { self == .entitlementsChanged || format == .revenueCat }
}

extension EndpointTerms {
    /// The format of its messages; endpoints that were made before there was a choice have the standard one.
    package var knownFormat: EndpointFormat { EndpointFormat(rawValue: format) ?? .standard }
}
