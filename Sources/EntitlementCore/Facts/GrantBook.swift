/// The grants of one environment and what ended them, applied in the order of their positions.
package struct GrantBook: Hashable, Sendable {
    package private(set) var grants: [String: GrantState] = [:]

    package init() {}

    /// Applies an event's fact; events must come in the order of their positions.
    ///
    /// Facts that say nothing about grants are passed over.
    package mutating func apply(_ fact: LedgerFact, position: Int64, recordedAt: Timestamp) {
        switch fact {
        case .grant(let grant):
            grants[grant.grantID] = GrantState(fact: grant, position: position, recordedAt: recordedAt)
        case .grantRevocation(let revocation):
            // Only the first revocation counts.
            guard grants[revocation.grantID]?.revokedAt == nil else { return }
            grants[revocation.grantID]?.revokedAt = recordedAt
            grants[revocation.grantID]?.revokedPosition = position
        case .notification, .statements, .catalog, .link, .claim, .transfer, .transferUndo, .conflict, .drift,
            .forgetting, .access, .storeRequest, .web:
            break
        }
    }
}

/// A grant as the log knows it.
package struct GrantState: Hashable, Sendable {
    package let grantID: String
    package let entitlementID: String
    package internal(set) var customer: IdentityRef
    package let from: Timestamp
    package let until: Timestamp?
    package let position: Int64
    package var revokedAt: Timestamp?
    package var revokedPosition: Int64?

    package init(fact: GrantFact, position: Int64, recordedAt: Timestamp) {
        grantID = fact.grantID
        entitlementID = fact.entitlementID
        customer = fact.customer
        from = recordedAt
        until = fact.until
        self.position = position
    }

    /// When it ends, or was taken back; `endless` for one that does neither.
    package var end: Timestamp { min(max(until ?? .endless, from), max(revokedAt ?? .endless, from)) }

    /// How the grant reads from its beginning on.
    var readings: [Reading] {
        let naturalEnd = max(until ?? .endless, from)
        let end = self.end
        let wasRevoked = end < naturalEnd
        let positions = [position] + (wasRevoked ? [revokedPosition].compactMap { $0 } : [])
        func reading(_ state: EntitlementState, _ reason: ReasonCode, _ start: Timestamp, _ end: Timestamp) -> Reading {
            Reading(
                start: start, end: end, state: state, reason: reason, giver: .grant(id: grantID), positions: positions,
                periodEnd: self.end)
        }
        return [
            reading(.active, .grant, from, end),
            wasRevoked ? reading(.revoked, .grantRevoked, end, .endless) : reading(.expired, .expired, end, .endless),
        ].filter { $0.start < $0.end }
    }
}
