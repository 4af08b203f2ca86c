package import EntitlementCore

/// One event of the log.
package struct EventDocument: Codable, Hashable, Sendable {
    /// The label of the notification it came in.
    package struct Notification: Codable, Hashable, Sendable {
        package let type: String
        @Nullable package private(set) var subtype: String?
        package let uuid: String

        package init(_ fact: NotificationFact) {
            type = fact.type
            uuid = fact.uuid
            _subtype = Nullable(wrappedValue: fact.subtype)
        }
    }

    /// The signed bytes, and what they say.
    package struct Evidence: Codable, Hashable, Sendable {
        package let signedPayload: String
        /// Of a webhook of Stripe's: the header `Stripe-Signature` that came with it.
        package let signature: String?
        @Nullable package private(set) var payload: WireValue?

        package init(signedPayload: String, signature: String? = nil, payload: WireValue?) {
            self.signedPayload = signedPayload
            self.signature = signature
            _payload = Nullable(wrappedValue: payload)
        }

        private enum CodingKeys: String, CodingKey {
            case payload, signature
            case signedPayload = "signed_payload"
        }
    }

    package let position: Int64
    package let id: String
    package let type: String
    @Nullable package var environment: StoreEnvironment?
    package let source: String
    @Nullable package var customerID: String?
    @Nullable package var originalTransactionID: String?
    @Nullable package var transactionID: String?
    @Nullable package var productID: String?
    /// The statement's signed date.
    @Nullable package var occurredAt: Timestamp?
    package let recordedAt: Timestamp
    @Nullable package private(set) var notification: Notification?
    /// What it states; which members these are depends on its type.
    @Written<[String: WireValue]> package var facts: WireValue
    @Nullable package var evidenceSHA256: String?
    package let previousHash: String
    package let hash: String
    /// Only where one event is asked for; left out in lists.
    package var evidence: Nullable<Evidence>?

    package init(
        position: Int64, id: String, type: String, source: String, recordedAt: Timestamp, fact: LedgerFact,
        previousHash: String, hash: String
    ) {
        self.position = position
        self.id = id
        self.type = type
        self.source = source
        self.recordedAt = recordedAt
        self.previousHash = previousHash
        self.hash = hash
        _facts = Written(wrappedValue: WireValue(fact))
        if case .notification(let stated) = fact {
            _notification = Nullable(wrappedValue: Notification(stated))
        } else {
            _notification = Nullable(wrappedValue: nil)
        }
    }

    private enum CodingKeys: String, CodingKey {
        case position, id, type, environment, source, notification, facts, hash, evidence
        case customerID = "customer_id"
        case originalTransactionID = "original_transaction_id"
        case transactionID = "transaction_id"
        case productID = "product_id"
        case occurredAt = "occurred_at"
        case recordedAt = "recorded_at"
        case evidenceSHA256 = "evidence_sha256"
        case previousHash = "previous_hash"
    }
}
