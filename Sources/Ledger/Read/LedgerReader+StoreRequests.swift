package import EntitlementCore
import PostgresClient

/// What was asked about one original transaction: by the store of this installation, and by this installation of the store.
package struct StoreDialogue: Sendable {
    /// The store's questions about refund requests, oldest first.
    package var questions: [ConsumptionRequest] = []
    /// What the store was told or asked, oldest first.
    package var requests: [(position: Int64, recordedAt: Timestamp, fact: StoreRequestFact)] = []
    /// When the store said that it had moved a renewal date, oldest first.
    package var extended: [Timestamp] = []

    /// The events that came to their end.
    package var settled: Set<Int64> { Set(requests.compactMap(\.fact.settles)) }

    /// The newest question about a transaction that has not come to its end.
    package func openQuestion(about transactionID: String) -> ConsumptionRequest? {
        questions.last { $0.transactionID == transactionID && !settled.contains($0.position) }
    }

    /// An order to tell the store how much of a transaction was used.
    package struct ConsumptionOrder: Sendable {
        package let position: Int64
        package let recordedAt: Timestamp
        package let information: ConsumptionInformation?
        package let order: StoreRequestOrder?
    }

    /// The newest order about a transaction, where no event says what came of it or of a later one.
    package func unsettledOrder(about transactionID: String) -> ConsumptionOrder? {
        for request in requests.reversed() {
            guard case .consumption(transactionID, let information) = request.fact.content else { continue }
            guard request.fact.outcome == .pending else { return nil }
            return ConsumptionOrder(
                position: request.position, recordedAt: request.recordedAt, information: information,
                order: request.fact.order)
        }
        return nil
    }

    /// The newest extension of which nobody knows whether the store was asked for it.
    package var openExtension: (position: Int64, recordedAt: Timestamp, wish: RenewalExtension)? {
        let settled = settled
        for request in requests.reversed() {
            if case .renewalExtension(let wish) = request.fact.content, request.fact.outcome == .pending,
                !settled.contains(request.position)
            {
                return (request.position, request.recordedAt, wish)
            }
        }
        return nil
    }

    /// The newest extension that the store answered it had made.
    package var lastExtension: (position: Int64, recordedAt: Timestamp, wish: RenewalExtension)? {
        for request in requests.reversed() where request.fact.outcome == .accepted {
            if case .renewalExtension(let wish) = request.fact.content {
                return (request.position, request.recordedAt, wish)
            }
        }
        return nil
    }

    /// How often its renewal date was moved since an instant: as the store has said, or answered.
    package func extensions(since instant: Timestamp) -> Int {
        let answered = requests.count { request in
            guard case .renewalExtension = request.fact.content else { return false }
            return request.fact.outcome == .accepted && request.recordedAt >= instant
        }
        return max(answered, extended.count { $0 >= instant })
    }
}

extension LedgerReader {
    /// What was asked about an original transaction.
    ///
    /// - Parameter event: leaves out this event and what came after it.
    package func storeDialogue(about key: OriginalKey, before event: Int64? = nil) async throws -> StoreDialogue {
        try await read { connection in
            let rows = try connection.query(
                """
                SELECT position, recorded_at, type, facts FROM event
                WHERE ledger_id = $1 AND environment = $2 AND original_transaction_id = $3
                    AND type IN ('consumption_requested', 'renewal_extended', 'extension_requested',
                        'extension_settled', 'consumption_ordered', 'consumption_settled')
                    AND position < $4
                ORDER BY position
                """,
                [
                    .int(ledgerID), .int2(key.environment.number), .text(key.originalTransactionID),
                    .int(event ?? .max),
                ]
            ).rows
            var dialogue = StoreDialogue()
            for row in rows {
                let (position, recordedAt) = (try row.int(0), try row.instant(1))
                let fact = try FactCodec.decode(row.bytes(3))
                if case .storeRequest(let request) = fact {
                    dialogue.requests.append((position, recordedAt, request))
                } else if let question = ConsumptionRequest(
                    fact, position: position, environment: key.environment, recordedAt: recordedAt)
                {
                    dialogue.questions.append(question)
                } else if case .notification(let notification) = fact {
                    dialogue.extended.append(notification.signedDate ?? recordedAt)
                }
            }
            return dialogue
        }
    }
}
