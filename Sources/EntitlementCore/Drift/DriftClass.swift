/// Which two were compared.
package enum DriftComparison: String, Hashable, Sendable, CaseIterable, Codable {
    /// A device believed otherwise than the ledger.
    case deviceLedger = "device_ledger"
    /// The store had said something that the ledger did not hear.
    case storeLedger = "store_ledger"
}

/// What kind of difference it is: what an operator looks for.
package enum DriftClass: String, Hashable, Sendable, CaseIterable, Codable {
    /// The store's own notification arrived after the difference was found.
    case lateNotification = "late_notification"
    /// The device has not heard yet what the ledger knows.
    case staleDevice = "stale_device"
    /// The store's own notification never arrived; the ledger was told in another way.
    case missedEvent = "missed_event"
    /// It is a question of whose the purchase is.
    case ownership
    /// The device speaks of what is held in the store's other environment.
    case environment
    /// Nothing that is known explains it.
    case unexplained
}

/// Why there is a difference: each of these is one rule.
package enum DriftCause: Hashable, Sendable, CaseIterable {
    /// The device was right: the store's notification came later.
    case notifiedLater
    /// The device was right: the store said so only when it was asked.
    case toldWhenAsked
    /// The device was right: a device posted the statements later.
    case postedLater
    /// The device was right as soon as a link, a claim or a transfer was made.
    case ownedLater
    /// It was the customer's, and is somebody else's now.
    case heldByAnother
    /// A purchase of the product bears another customer's identity, and this one claims it.
    case inConflict
    /// The store's other environment gives exactly what the device says.
    case heldElsewhere
    /// A device brought a newer statement that knows nothing of a revocation which the store stated.
    case disputed
    /// By earlier facts, or at an earlier instant, it was as the device says.
    case trueBefore
    /// The device knows of nothing that gives the product.
    case notHeardOf
    /// The store was asked, and says the same as the ledger.
    case confirmedByStore
    /// The device came to agree, and nothing new had come to the ledger.
    case learned
    /// A notification was found in the store's history that never arrived.
    case foundInHistory
    /// A question to the store about one customer brought something new.
    case foundWhenAsked
    /// The same; but then the notification about it arrived.
    case deliveredAfterAsking
    /// No rule holds.
    case none
    /// More is known of the customer, about purchases of the product, than is compared.
    case tooMuchKnown

    package var driftClass: DriftClass {
        switch self {
        case .notifiedLater, .deliveredAfterAsking: .lateNotification
        case .toldWhenAsked, .postedLater, .foundInHistory, .foundWhenAsked: .missedEvent
        case .ownedLater, .heldByAnother, .inConflict: .ownership
        case .heldElsewhere: .environment
        case .trueBefore, .notHeardOf, .confirmedByStore, .learned: .staleDevice
        case .disputed, .none, .tooMuchKnown: .unexplained
        }
    }

    /// For people; it names no identity.
    package var sentence: String {
        switch self {
        case .notifiedLater: "The device was right: the store's notification arrived later."
        case .toldWhenAsked: "The device was right: the store's notification never arrived, and the store was asked."
        case .postedLater: "The device was right: the ledger was told by a device, not by the store."
        case .ownedLater:
            "The device was right once a link, a claim or a transfer had made the purchase this customer's."
        case .heldByAnother: "The purchase was this customer's, and is somebody else's now."
        case .inConflict: "There is a purchase of this product that is somebody else's, and this customer claims it."
        case .heldElsewhere: "The customer has it in the store's other environment."
        case .disputed:
            "A newer statement of the store's, which a device brought, knows nothing of the revocation: ask the store."
        case .trueBefore: "It was so before; the device has not heard of what came since."
        case .notHeardOf: "The device does not know of the purchase, or of its last renewal."
        case .confirmedByStore: "The store was asked and says what the ledger says; the device has not heard of it."
        case .learned: "The device agrees by now, and nothing new had come to the ledger."
        case .foundInHistory: "The store's notification did not arrive; it was found in the store's history."
        case .foundWhenAsked: "The store's notification had not arrived; the store was asked about the customer."
        case .deliveredAfterAsking:
            "The store's notification arrived only after the store had been asked about the customer."
        case .none: "Nothing that is known explains it."
        case .tooMuchKnown: "More is known of this customer's purchases of the product than is compared."
        }
    }
}

/// What resolved a difference.
package enum DriftEnd: String, Hashable, Sendable, CaseIterable, Codable {
    /// The store's notification.
    case notification
    /// What the store said when it was asked.
    case storeAnswer = "store_answer"
    /// Statements that a device posted.
    case device
    /// A link, a claim or a transfer.
    case ownership
    /// The device reported that it agrees.
    case agreement
    /// A newer report about the same product, which stands for it.
    case newerReport = "newer_report"
    /// The customer was forgotten.
    case forgotten
}
