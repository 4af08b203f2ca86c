package import EntitlementCore

extension LedgerReader {
    /// The customer ids that numbers stand for; those of people who were forgotten are left out.
    package func customerIDs(of identities: [IdentityRef]) async throws -> [IdentityRef: String] {
        guard !identities.isEmpty else { return [:] }
        return try await read { try Statements.customerIDs(of: identities, on: $0) }
    }
}
