/// What this installation told the store, or asked it to change, about one original transaction, and what came of it.
///
/// It changes no access by itself: what the store makes of it is for the store to state. It names no customer, so that it
/// says nothing of a person who was forgotten.
package struct StoreRequestFact: Hashable, Sendable {
    package var bundleID: String
    package var originalTransactionID: String
    package var content: Content
    package var outcome: Outcome
    /// The event that this brings to its one end: a consumption request of the store's, or an extension that was about to
    /// be asked for.
    package var settles: Int64?
    /// Who ordered it, and why; `nil` where the service did it by itself.
    package var order: StoreRequestOrder?

    package enum Content: Hashable, Sendable {
        case renewalExtension(RenewalExtension)
        /// How much of a transaction was used; `nil` where nothing was told.
        case consumption(transactionID: String, ConsumptionInformation?)
    }

    package enum Outcome: Hashable, Sendable {
        /// It is about to be sent; where no event says what came of it, nobody knows whether it was.
        case pending
        /// The store took it.
        case accepted
        /// The store did not, under Apple's number, where it gave one.
        case refused(code: Int64?)
        /// Nothing was sent within the time that the store gives, though the question had come in time.
        case tooLate
        /// Nothing was sent, because there was nothing to say.
        case withheld(ConsumptionWithholding)
    }

    package init(
        bundleID: String, originalTransactionID: String, content: Content, outcome: Outcome, settles: Int64? = nil,
        order: StoreRequestOrder? = nil
    ) {
        self.bundleID = bundleID
        self.originalTransactionID = originalTransactionID
        self.content = content
        self.outcome = outcome
        self.settles = settles
        self.order = order
    }

    /// All that events of such facts may be called.
    package static let eventTypes: Set<String> = [
        "extension_requested", "extension_settled", "consumption_ordered", "consumption_settled",
    ]

    package var eventType: String {
        switch (content, outcome) {
        case (.renewalExtension, .pending): "extension_requested"
        case (.renewalExtension, _): "extension_settled"
        case (.consumption, .pending): "consumption_ordered"
        case (.consumption, _): "consumption_settled"
        }
    }
}

/// The order of a person, to ask something of the store or to tell it something.
package struct StoreRequestOrder: Hashable, Sendable {
    /// Whoever gave it: the operator's account, or the name of an API key.
    package var actor: String
    /// Why, in their own words.
    package var reason: String

    package init(actor: String, reason: String) {
        self.actor = actor
        self.reason = reason
    }
}

/// Some days that are given to a subscriber.
package struct RenewalExtension: Hashable, Sendable {
    package var days: Int64
    package var reason: ExtensionReason
    /// Under this name the store carries it out once, however often it is sent.
    package var requestIdentifier: String
    /// When the subscription runs out by then, as the store said; `nil` before it has.
    package var until: Timestamp?

    package init(days: Int64, reason: ExtensionReason, requestIdentifier: String, until: Timestamp? = nil) {
        self.days = days
        self.reason = reason
        self.requestIdentifier = requestIdentifier
        self.until = until
    }

    /// How many days may be given at once, and how often within how many days.
    ///
    /// Source: Apple, "Extending the renewal date for auto-renewable subscriptions".
    package static let dayRange: ClosedRange<Int64> = 1...90
    package static let mostWithinYear = 2
    package static let year: Int64 = 365 * Timestamp.millisecondsPerDay
}

/// Why a renewal date is moved, as the store has it, in the words that people write.
package enum ExtensionReason: String, Hashable, Sendable, Codable, CaseIterable {
    case undeclared
    case customerSatisfaction = "customer_satisfaction"
    case other
    case serviceIssue = "service_issue"

    /// Apple's `extendReasonCode`.
    package var code: UInt8 {
        switch self {
        case .undeclared: 0
        case .customerSatisfaction: 1
        case .other: 2
        case .serviceIssue: 3
        }
    }

    /// `nil` for what is none of Apple's codes.
    init?(code: UInt8) {
        guard let reason = Self.allCases.first(where: { $0.code == code }) else { return nil }
        self = reason
    }
}

/// What the decision about a refund may rest on; it is told with the customer's consent alone.
///
/// Source: Apple, "ConsumptionRequest".
package struct ConsumptionInformation: Hashable, Sendable {
    package enum DeliveryStatus: String, Hashable, Sendable, CaseIterable {
        case delivered = "DELIVERED"
        case undeliveredQualityIssue = "UNDELIVERED_QUALITY_ISSUE"
        case undeliveredWrongItem = "UNDELIVERED_WRONG_ITEM"
        case undeliveredServerOutage = "UNDELIVERED_SERVER_OUTAGE"
        case undeliveredOther = "UNDELIVERED_OTHER"
    }

    package enum RefundPreference: String, Hashable, Sendable, CaseIterable {
        case decline = "DECLINE"
        case grantFull = "GRANT_FULL"
        case grantProrated = "GRANT_PRORATED"
    }

    /// Whether the customer could try it, or was told how it works, before the purchase.
    package var sampleContentProvided: Bool
    package var deliveryStatus: DeliveryStatus
    /// In thousandths of a percent: 100,000 is all of it.
    package var consumptionPercentage: Int64?
    package var refundPreference: RefundPreference?

    package init(
        sampleContentProvided: Bool, deliveryStatus: DeliveryStatus, consumptionPercentage: Int64? = nil,
        refundPreference: RefundPreference? = nil
    ) {
        self.sampleContentProvided = sampleContentProvided
        self.deliveryStatus = deliveryStatus
        self.consumptionPercentage = consumptionPercentage
        self.refundPreference = refundPreference
    }
}

/// Why the store is told nothing of how much was used.
package enum ConsumptionWithholding: String, Hashable, Sendable, CaseIterable {
    /// The ledger does not know the transaction.
    case unknownTransaction = "unknown_transaction"
    /// It is refunded already.
    case refunded
    /// It came through Family Sharing; the store takes nothing of these.
    case familyShared = "family_shared"
    /// It is of a kind, or owned in a way, that this version does not know.
    case unsupported
    /// The ledger cannot tell whether the customer was ever given what was bought.
    case deliveryUnknown = "delivery_unknown"
    /// Whoever is named in it, or whose it is or was, was forgotten.
    case forgotten
    /// The ledger heard of the question when its time was over: from the store's history, or after a backup was restored,
    /// which may not hold what was answered.
    case heardTooLate = "heard_too_late"
}
