import EntitlementCore

/// How an event names an identity; stored in `event_name.kind`.
enum NameKind: Int16, Sendable {
    /// The owner that a statement states: its account token's customer, else its app transaction's.
    case owner = 0
    /// An app transaction beside an account token.
    case besideToken = 1
    /// Links, grants and their revocations, claims and transfers.
    case ownership = 2
    /// Conflicts, drift, forgetting and consent withdrawn, and whoever is named behind those who stand in the event's row, such
    /// as the second owner that Stripe names; also events with evidence that name nobody and are about nothing.
    case report = 3
    /// What Stripe calls a part of a purchase, such as a payment or an invoice, and each transaction of an event that states
    /// several; the number is then ``EventName/nobody``, and that id stands in place of the original transaction's.
    case part = 4

    /// Only the first event about an original transaction has a row; else every event has one.
    var isFirstOnly: Bool {
        switch self {
        case .owner, .besideToken: true
        case .ownership, .report, .part: false
        }
    }

    /// Kinds as SQL has them in a list.
    static func list(_ kinds: NameKind...) -> String { kinds.map { String($0.rawValue) }.joined(separator: ", ") }
}

/// One row of `event_name`, its position aside.
struct EventName: Hashable, Sendable {
    let identity: IdentityRef
    /// As `StoreEnvironment.nameNumber` gives it.
    let environment: Int16
    let kind: NameKind
    /// Empty where the event is about no original transaction; of kind `part` the part's id.
    let originalTransactionID: String

    /// Stands for nobody: so that events which may name a person only in their evidence are found, and parts of purchases.
    static let nobody = IdentityRef(0)
}

extension LedgerFact {
    /// Whom an event of this fact names: the rows of `event_name` that it may have.
    func names(in environment: StoreEnvironment?, hasEvidence: Bool) -> [EventName] {
        let number = StoreEnvironment.nameNumber(environment)
        func name(_ identity: IdentityRef, _ kind: NameKind) -> EventName {
            EventName(
                identity: identity, environment: number, kind: kind, originalTransactionID: originalTransactionID ?? "")
        }
        func parts(_ ids: Set<String>) -> [EventName] {
            ids.sorted().map {
                EventName(identity: EventName.nobody, environment: number, kind: .part, originalTransactionID: $0)
            }
        }
        switch self {
        case .notification, .statements:
            var names: [EventName] = []
            func add(_ identity: IdentityRef, _ kind: NameKind) {
                let name = name(identity, kind)
                if !names.contains(name) { names.append(name) }
            }
            for transaction in transactions {
                if let token = transaction.accountToken {
                    add(token, .owner)
                    if let appTransaction = transaction.appTransaction { add(appTransaction, .besideToken) }
                } else if let appTransaction = transaction.appTransaction {
                    add(appTransaction, .owner)
                }
            }
            // Whom the event's row does not bear.
            let (first, second) = indexedIdentities
            for identity in identities where identity != first && identity != second { add(identity, .report) }
            if let appTransaction { add(appTransaction, .report) }
            if names.isEmpty, originalTransactionID == nil, hasEvidence { add(EventName.nobody, .report) }
            return names + parts(statedTransactionIDs)
        case .web(let fact):
            let owners = Set(fact.owners.map(\.customer)).sorted()
            let others = owners.filter { $0 != fact.owners.first?.customer }
            let named = owners.map { name($0, .owner) } + others.map { name($0, .report) }
            if named.isEmpty, fact.originalTransactionID == nil, hasEvidence {
                return [name(EventName.nobody, .report)]
            }
            return named + parts(fact.partIDs)
        case .link(let fact):
            let ends = fact.identity == fact.customer ? [fact.identity] : [fact.identity, fact.customer]
            return ends.map { name($0, .ownership) }
        case .claim(let fact): return [name(fact.customer, .ownership)]
        case .transfer(let fact): return [name(fact.customer, .ownership)]
        case .grant(let fact): return [name(fact.customer, .ownership)]
        case .grantRevocation(let fact): return [name(fact.customer, .ownership)]
        case .conflict(let fact): return [name(fact.claimant, .report)]
        case .drift(let fact): return [name(fact.customer, .report)]
        case .forgetting(let fact): return Set(fact.identities).sorted().map { name($0, .report) }
        case .catalog, .transferUndo, .access, .storeRequest: return []
        }
    }

    /// The transactions that it states beside others.
    ///
    /// The event's row bears the id of one that is stated alone. A purchase that is its own original is found by that.
    private var statedTransactionIDs: Set<String> {
        let stated = transactions
        guard stated.count > 1 else { return [] }
        return Set(stated.map(\.transactionID)).subtracting([originalTransactionID].compactMap(\.self))
    }
}
