package import EntitlementCore
import PostgresClient

extension LedgerReader {
    /// The customer ids that numbers stand for; those of people who were forgotten are left out.
    package func customerIDs(of identities: [IdentityRef]) async throws -> [IdentityRef: String] {
        guard !identities.isEmpty else { return [:] }
        return try await read { try Statements.customerIDs(of: identities, on: $0) }
    }

    /// Whether somebody whom a purchase names, or whose it is or was, was forgotten: then nothing more is told of it, and the
    /// store is not asked about it, because the answer would name them again.
    ///
    /// Somebody who was forgotten and buys again is a customer like any other: what counts is the purchase that is asked
    /// about.
    ///
    /// - Parameter transactionID: of the purchase, about which a later statement changes nothing, such as the store's question
    ///   itself; `nil`: the latest of the original transaction, as it is stated last.
    package func isForgotten(
        _ subscription: SubscriptionFacts, purchase transactionID: String? = nil
    ) async throws -> Bool {
        var people = subscription.people(ofPurchase: transactionID)
        if let transactionID { people.formUnion(try await everNamed(in: transactionID, of: subscription)) }
        return try await customerIDs(of: Array(people)).count < people.count
    }

    /// Everybody whom an event about a purchase ever named.
    private func everNamed(
        in transactionID: String, of subscription: SubscriptionFacts
    ) async throws -> Set<IdentityRef> {
        let ids =
            subscription.state.winningStatements().first { $0.transactionIDs.contains(transactionID) }?
            .transactionIDs ?? [transactionID]
        let key = subscription.key
        return try await read { connection in
            let rows = try connection.query(
                """
                SELECT DISTINCT identity, other_identity FROM event
                WHERE ledger_id = $1 AND environment = $2 AND original_transaction_id = $3
                    AND transaction_id = ANY ($4::text[])
                """,
                [
                    .int(ledgerID), .int2(key.environment.number), .text(key.originalTransactionID),
                    .textArray(ids.sorted()),
                ]
            ).rows
            return Set(
                try rows.flatMap { [try $0.optionalInt(0), try $0.optionalInt(1)].compactMap(\.self) }
                    .map { IdentityRef($0) })
        }
    }
}
