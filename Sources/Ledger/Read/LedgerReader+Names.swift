package import EntitlementCore

extension LedgerReader {
    /// The customer ids that numbers stand for; those of people who were forgotten are left out.
    package func customerIDs(of identities: [IdentityRef]) async throws -> [IdentityRef: String] {
        guard !identities.isEmpty else { return [:] }
        return try await read { try Statements.customerIDs(of: identities, on: $0) }
    }

    /// Whether somebody whom a purchase names, or whose it is or was, was forgotten: then nothing more is told of it, and the
    /// store is not asked about it, because the answer would name them again.
    package func isForgotten(_ subscription: SubscriptionFacts) async throws -> Bool {
        let people = subscription.people
        return try await customerIDs(of: Array(people)).count < people.count
    }
}
