package import EntitlementCore

/// An event that a decision rests on.
package struct CitedEvent: Codable, Hashable, Sendable {
    package let position: Int64
    package let type: String
    /// The statement's signed date.
    @Nullable package private(set) var occurredAt: Timestamp?
    package let recordedAt: Timestamp
    package let source: String
    @Nullable package private(set) var evidenceSHA256: String?
    @Nullable package private(set) var notification: EventDocument.Notification?
    /// How the customer came by the purchase that a notification is about.
    @Nullable package private(set) var ownership: OwnershipWord?

    package init(_ event: HistoryEvent) {
        position = event.position
        type = event.type
        recordedAt = event.recordedAt
        source = event.source
        _occurredAt = Nullable(wrappedValue: event.occurredAt)
        _evidenceSHA256 = Nullable(wrappedValue: event.evidenceHash?.hex)
        let told: NotificationFact? = if case .notification(let fact) = event.fact { fact } else { nil }
        _notification = Nullable(wrappedValue: told.map { EventDocument.Notification($0) })
        let ownership = (told?.transaction?.ownership?.raw).flatMap { AppleOwnership(rawValue: $0) }
        _ownership = Nullable(wrappedValue: ownership.map { OwnershipWord($0) })
    }

    private enum CodingKeys: String, CodingKey {
        case position, type, source, notification, ownership
        case occurredAt = "occurred_at"
        case recordedAt = "recorded_at"
        case evidenceSHA256 = "evidence_sha256"
    }
}

/// Something else that was weighed, and why it did not decide.
package struct ConsideredDocument: Codable, Hashable, Sendable {
    package let code: Alternative.Loss
    package let sentence: String
    @Nullable package private(set) var state: EntitlementState?
    @Nullable package private(set) var productID: String?
    package let source: EntitlementOrigin
    @Nullable package private(set) var originalTransactionID: String?
    package let positions: [Int64]

    package init(_ alternative: Alternative) {
        code = alternative.loss
        sentence = alternative.sentence
        source = alternative.source
        positions = alternative.positions
        _state = Nullable(wrappedValue: alternative.state)
        _productID = Nullable(wrappedValue: alternative.productID)
        _originalTransactionID = Nullable(wrappedValue: alternative.originalTransactionID)
    }

    private enum CodingKeys: String, CodingKey {
        case code, sentence, state, source, positions
        case productID = "product_id"
        case originalTransactionID = "original_transaction_id"
    }
}

/// Something that would change the decision.
package struct OutlookDocument: Codable, Hashable, Sendable {
    package let code: Outlook.Code
    @Nullable package private(set) var at: Timestamp?
    package let sentence: String

    package init(_ outlook: Outlook) {
        code = outlook.code
        sentence = outlook.sentence
        _at = Nullable(wrappedValue: outlook.at)
    }
}

/// A change of the catalog that made a difference.
package struct CatalogChangeDocument: Codable, Hashable, Sendable {
    package let position: Int64
    package let recordedAt: Timestamp
    package let source: String
    package let gaveAccess: Bool
    @Nullable package private(set) var stateBefore: EntitlementState?
    package let sentence: String

    package init(_ change: CatalogChange) {
        position = change.event.position
        recordedAt = change.event.recordedAt
        source = change.event.source
        gaveAccess = change.gaveAccess
        sentence = change.sentence
        _stateBefore = Nullable(wrappedValue: change.stateBefore)
    }

    private enum CodingKeys: String, CodingKey {
        case position, source, sentence
        case recordedAt = "recorded_at"
        case gaveAccess = "gave_access"
        case stateBefore = "state_before"
    }
}

/// A purchase that the customer claimed and that is another's, or one on the web that names the customer and another.
package struct RefusedClaimDocument: Codable, Hashable, Sendable {
    /// Of the event that reported the conflict.
    package let position: Int64
    package let originalTransactionID: String
    package let recordedAt: Timestamp
    package let sentence: String

    package init(_ claim: RefusedClaim) {
        position = claim.event.position
        originalTransactionID = claim.originalTransactionID
        recordedAt = claim.event.recordedAt
        sentence = claim.sentence
    }

    private enum CodingKeys: String, CodingKey {
        case position, sentence
        case originalTransactionID = "original_transaction_id"
        case recordedAt = "recorded_at"
    }
}
