/// What an event states, in the ledger's own terms.
///
/// Indirect, because a fact is handed on many times, and one of a notification holds dozens of texts, each of which a copy
/// would count once more.
package indirect enum LedgerFact: Hashable, Sendable {
    case notification(NotificationFact)
    case statements(StatementsFact)
    case catalog(Catalog)
    case link(LinkFact)
    case claim(ClaimFact)
    case transfer(TransferFact)
    case transferUndo(TransferUndoFact)
    case conflict(ConflictFact)
    case grant(GrantFact)
    case grantRevocation(GrantRevocationFact)
    case drift(DriftFact)
    case forgetting(ForgettingFact)
    case access(AccessFact)
    case storeRequest(StoreRequestFact)
    case web(WebFact)
}

extension LedgerFact {
    /// Every `eventType` there is.
    package static let eventTypes = AccessFact.eventTypes.union(StoreRequestFact.eventTypes).union([
        "catalog_applied", "linked", "claimed", "transferred", "transfer_undone", "ownership_conflict", "granted",
        "grant_revoked", "drift", "forgotten",
    ])

    /// The type of an event with this fact, for searches; `nil` for signed statements, whose label is their type.
    package var eventType: String? {
        switch self {
        case .notification, .statements, .web: nil
        case .catalog: "catalog_applied"
        case .link: "linked"
        case .claim: "claimed"
        case .transfer: "transferred"
        case .transferUndo: "transfer_undone"
        case .conflict: "ownership_conflict"
        case .grant: "granted"
        case .grantRevocation: "grant_revoked"
        case .drift: "drift"
        case .forgetting: "forgotten"
        case .access(let fact): fact.eventType
        case .storeRequest(let fact): fact.eventType
        }
    }

    /// The original transaction the fact is about.
    package var originalTransactionID: String? {
        switch self {
        case .notification(let fact): fact.transaction?.originalTransactionID ?? fact.renewal?.originalTransactionID
        case .statements(let fact): fact.originalTransactionID
        case .claim(let fact): fact.originalTransactionID
        case .transfer(let fact): fact.originalTransactionID
        case .transferUndo(let fact): fact.originalTransactionID
        case .conflict(let fact): fact.originalTransactionID
        case .storeRequest(let fact): fact.originalTransactionID
        case .web(let fact): fact.originalTransactionID
        case .forgetting(let fact): fact.originalTransactionID
        case .catalog, .link, .grant, .grantRevocation, .drift, .access: nil
        }
    }

    /// The transactions it states.
    package var transactions: [TransactionFact] {
        switch self {
        case .notification(let fact): fact.transaction.map { [$0] } ?? []
        case .statements(let fact): fact.transactions
        case .catalog, .link, .claim, .transfer, .transferUndo, .conflict, .grant, .grantRevocation, .drift,
            .forgetting, .access, .storeRequest, .web:
            []
        }
    }

    /// Whose copy of the app it is about, where it carries an app transaction.
    package var appTransaction: IdentityRef? {
        if case .notification(let fact) = self { fact.appTransaction } else { nil }
    }

    /// The renewal information it states.
    package var renewals: [RenewalFact] {
        switch self {
        case .notification(let fact): fact.renewal.map { [$0] } ?? []
        case .statements(let fact): fact.renewals
        case .catalog, .link, .claim, .transfer, .transferUndo, .conflict, .grant, .grantRevocation, .drift,
            .forgetting, .access, .storeRequest, .web:
            []
        }
    }

    /// Things about its statements that an operator should look at.
    package var remarks: [String] {
        switch self {
        case .notification(let fact): fact.remarks
        case .statements(let fact): fact.remarks
        case .web(let fact): fact.remarks
        case .catalog, .link, .claim, .transfer, .transferUndo, .conflict, .grant, .grantRevocation, .drift,
            .forgetting, .access, .storeRequest:
            []
        }
    }

    /// The same fact with every identity replaced; how a draft's local references become the ledger's.
    package func replacingIdentities(_ replace: (IdentityRef) -> IdentityRef) -> LedgerFact {
        switch self {
        case .notification(var fact):
            fact.transaction = fact.transaction?.replacingIdentities(replace)
            fact.appTransaction = fact.appTransaction.map(replace)
            return .notification(fact)
        case .statements(var fact):
            fact.transactions = fact.transactions.map { $0.replacingIdentities(replace) }
            return .statements(fact)
        case .catalog, .transferUndo, .access, .storeRequest:
            return self
        case .link(var fact):
            fact.identity = replace(fact.identity)
            fact.customer = replace(fact.customer)
            return .link(fact)
        case .claim(var fact):
            fact.customer = replace(fact.customer)
            return .claim(fact)
        case .transfer(var fact):
            fact.customer = replace(fact.customer)
            return .transfer(fact)
        case .conflict(var fact):
            fact.claimant = replace(fact.claimant)
            return .conflict(fact)
        case .grant(var fact):
            fact.customer = replace(fact.customer)
            return .grant(fact)
        case .grantRevocation(var fact):
            fact.customer = replace(fact.customer)
            return .grantRevocation(fact)
        case .drift(var fact):
            fact.customer = replace(fact.customer)
            return .drift(fact)
        case .forgetting(var fact):
            fact.identities = fact.identities.map(replace)
            return .forgetting(fact)
        case .web(let fact):
            return .web(fact.replacingIdentities(replace))
        }
    }
}

extension TransactionFact {
    package func replacingIdentities(_ replace: (IdentityRef) -> IdentityRef) -> TransactionFact {
        var fact = self
        fact.accountToken = accountToken.map(replace)
        fact.appTransaction = appTransaction.map(replace)
        return fact
    }

    /// Who the statement itself says it belongs to: an account token before an app transaction id.
    package var statedOwner: IdentityRef? { accountToken ?? appTransaction }
}
