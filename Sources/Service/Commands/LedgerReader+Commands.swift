import EntitlementCore
import Ledger

extension LedgerReader {
    /// The event at a position that the log is known to have.
    func recordedEvent(at position: Int64) async throws -> ShownEvent {
        if let event = try await event(at: position)?.event { return event }
        // Another server than the one that took the event, or one that has lost it since.
        guard try await headPosition() >= position else {
            throw LedgerError(
                .unavailable, "the database that was read ends before position \(position), which was committed")
        }
        throw LedgerError(.corrupt, "the log has no event at position \(position)")
    }

    /// The customer ids that numbers stand for, in their order.
    ///
    /// - Throws: `not_found` where one of them was forgotten.
    func names(of identities: [IdentityRef]) async throws -> [String] {
        let names = try await customerIDs(of: identities)
        return try identities.map { identity throws(Problem) in
            guard let name = names[identity] else { throw Problem.forgotten }
            return name
        }
    }

    /// Refuses to let a credential of one app name an Apple account of which that app knows no purchase.
    ///
    /// The account may be another app's customer, who would then share in whatever is granted to it or linked with it.
    func checkMayName(_ customer: CustomerID, _ scope: LogScope, param: String?) async throws {
        guard scope.app != nil, let id = customer.appTransactionID,
            try await customers(.appTransactionID(id), only: scope).matches.isEmpty
        else { return }
        throw Problem(
            .forbidden,
            "This key is for one app, in which no purchase of that Apple account is known. Name the customer by an id of "
                + "your own, or use a key of every app.", param: param)
    }

    /// The names of those who are still known.
    func knownNames(of identities: Set<IdentityRef>) async throws -> [String] {
        try await customerIDs(of: Array(identities)).values.sorted()
    }
}

extension Problem {
    static var forgotten: Problem {
        Problem(.notFound, "Somebody whom the answer would name was forgotten since.")
    }
}
