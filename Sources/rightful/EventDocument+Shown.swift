import EntitlementAPI
import EntitlementCore
import Ledger

extension EventDocument {
    /// An event as the HTTP API lists it.
    init(_ event: ShownEvent) {
        let record = event.record
        self.init(
            position: record.position, id: record.eventID, type: record.type, source: record.source.rawValue,
            recordedAt: record.recordedAt, fact: event.fact, previousHash: record.previousHash.hex,
            hash: record.hash.hex)
        environment = record.environment
        customerID = event.customerID
        originalTransactionID = record.originalTransactionID
        transactionID = record.transactionID
        productID = record.productID
        occurredAt = record.occurredAt
        evidenceSHA256 = record.evidenceHash?.hex
    }
}
