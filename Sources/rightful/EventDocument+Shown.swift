import EntitlementAPI
import EntitlementCore
import Ledger

extension EventDocument {
    init(_ event: ShownEvent) {
        let record = event.record
        self.init(
            position: record.position, id: "evt_\(record.position)", type: record.type,
            source: record.source.rawValue, recordedAt: record.recordedAt, fact: event.fact,
            previousHash: record.previousHash.hex, hash: record.hash.hex)
    }
}
