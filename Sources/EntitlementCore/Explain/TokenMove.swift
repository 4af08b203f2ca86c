/// A purchase that was this customer's, and bears another customer's account token since.
struct TokenMove: Hashable, Sendable {
    let productID: String
    /// When the statement was signed that brought the other's token.
    let statedAt: Timestamp
    /// The events by which it was this customer's, and the one that brought the other's token.
    let positions: [Int64]

    /// What there is of it where nothing gives an entitlement, in the middle of a sentence.
    var clause: String {
        "\(productID), which was this customer's, bears another customer's account token since the statement of "
            + "\(statedAt.inWords), and so is that customer's from its beginning"
    }

    /// Why it is another's, where that is said already.
    var cause: String { "it bears another customer's account token since the statement of \(statedAt.inWords)" }
}

extension RuleWords {
    /// The account token by which what is shown became another customer's; `nil` where something else made it so.
    func tokenMove(of shown: ShownReading) -> TokenMove? {
        guard shown.reading.reason == .ownedByAnother, let period = shown.period(at: shown.reading.start) else {
            return nil
        }
        return facts.tokenMove(of: period, at: shown.reading.start, told: told)
    }
}

extension CustomerFacts {
    /// How a period became another customer's by an account token that was set later; `nil` where it did not.
    ///
    /// Only the events tell, for of the statements about a period the fold keeps the one that counts.
    ///
    /// - Parameters:
    ///   - instant: a transfer that holds then decides, whatever token the period bears.
    ///   - events: those that the facts were folded from.
    func tokenMove(of period: Period, at instant: Timestamp, told events: [HistoryEvent]) -> TokenMove? {
        let winner = period.fact
        let originalID = winner.originalTransactionID
        let transfer = ownership.transfers(of: originalID).last { $0.at <= instant }
        guard period.web == nil, bearsAnothersToken(winner), transfer?.customer == nil else { return nil }
        let statements = Self.statements(about: originalID, in: events).filter { stated in
            period.transactionIDs.contains(stated.fact.transactionID) && !winner.precedes(stated.fact)
        }.sorted { left, right in
            if left.fact.precedes(right.fact) { return true }
            return !right.fact.precedes(left.fact) && left.position < right.position
        }
        guard let last = statements.lastIndex(where: { isOwn($0.fact) }),
            let turn = statements[(last + 1)...].first(where: { bearsAnothersToken($0.fact) }),
            let statedAt = turn.fact.signedDate
        else { return nil }
        let own = statements[last]
        let claim = own.fact.statedOwner == nil ? ownership.claim(of: originalID) : nil
        let bearer = own.fact.statedOwner ?? claim?.customer
        return TokenMove(
            productID: winner.productID, statedAt: statedAt,
            positions: [own.position, turn.position] + [claim?.position].compactMap(\.self)
                + (bearer.map(ownership.linkPositions(of:)) ?? []))
    }

    /// The latest purchase begun by an instant that would give an entitlement, had no other's account token been set.
    ///
    /// - Parameter events: those that the facts were folded from.
    func tokenMove(
        giving entitlementID: String, at instant: Timestamp, told events: [HistoryEvent]
    ) -> TokenMove? {
        var latest: (opening: Timestamp, move: TokenMove)?
        for (originalID, state) in originals.sorted(by: { $0.key < $1.key }) {
            guard state.transactions.contains(where: { bearsAnothersToken($0.fact) }) else { continue }
            let stated = Self.statements(about: originalID, in: events)
            let own = Set(stated.filter { isOwn($0.fact) }.map(\.fact.transactionID))
            for chain in state.chains(catalog) {
                let period = chain.periods.last { period in
                    period.opening <= instant && !own.isDisjoint(with: period.transactionIDs)
                        && catalog.product(period.fact.productID)?.entitlements.contains(entitlementID) ?? false
                }
                guard let period, let move = tokenMove(of: period, at: instant, told: events) else { continue }
                if latest.map({ $0.opening < period.opening }) ?? true { latest = (period.opening, move) }
            }
        }
        return latest?.move
    }

    private struct ToldTransaction {
        let fact: TransactionFact
        let position: Int64
    }

    private static func statements(about originalID: String, in events: [HistoryEvent]) -> [ToldTransaction] {
        events.filter { $0.fact.originalTransactionID == originalID }.flatMap { event in
            event.fact.transactions.filter { $0.originalTransactionID == originalID }.map { fact in
                ToldTransaction(fact: fact, position: event.position)
            }
        }
    }

    private func isOwn(_ fact: TransactionFact) -> Bool { ownership.owner(of: fact) == customer }

    private func bearsAnothersToken(_ fact: TransactionFact) -> Bool {
        guard let token = fact.accountToken else { return false }
        return ownership.customer(of: token) != customer
    }
}
