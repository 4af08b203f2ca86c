import EntitlementCore
import SeededRandom
import StoreSimulator
import TestSupport

/// What a ledger is told of random lives in both stores, in the order of time and now and then late, with grants, links and
/// transfers, under any policy.
struct EventWorld {
    let events: [HistoryEvent]
    let environment = StoreEnvironment.production
    let people: [IdentityRef]
    let seed: UInt64

    /// - Parameters:
    ///   - transfers: how many more purchases than now and then are transferred to somebody.
    ///   - hasClaims: whether some of the App Store's purchases bear nobody's name, and are claimed, sooner or later.
    init(_ seed: UInt64, transfers: Int = 0, hasClaims: Bool = false) throws {
        let world = WebOracleFoldTests.world(seed)
        let bought = StoreLife.random(seed: seed, world: world, customers: 1)
        let web = WebLife.random(
            seed: seed, world: world, environment: .production, customers: WebOracleFoldTests.customers(seed))
        let sellers = bought.record.customers.filter { $0.environment == .production }.map(\.customerID)
        let last = bought.record.customers.flatMap(bought.record.boundaryInstants).max() ?? world.start
        var folded = FoldedWeb(catalog: try Catalog(world))
        for notification in bought.notifications { try folded.receive(notification) }
        try folded.receive(web, .inOrder, seed: seed)
        let names = Set(sellers + WebOracleFoldTests.customers(seed)).sorted()
        var log = SimulatedLog(folded, .production, from: world.start, to: max(last, web.end), seed: seed)
        log.act(among: names)
        log.transfer(transfers, among: names)
        var random = SplitMix64(seed: seed ^ 0xE7)
        let told = log.events.filter { $0.environment != .sandbox }
        let people = names.map { log.reference($0) }
        let claims = hasClaims ? Self.claims(of: told, among: people, seed) : []
        let claimed = Set(claims.compactMap(\.0.fact.originalTransactionID))
        let timed = told.map { event in
            let late: Int64 =
                switch random.number(in: 0...9) {
                case 0...6: random.number(in: 0...2_000)
                case 7...8: random.number(in: 0...Span.day)
                default: random.number(in: 0...(40 * Span.day))
                }
            let isCatalog = if case .catalog = event.fact { true } else { false }
            return (event.ofNobody(claimed), isCatalog ? world.start - Span.day : event.stated + late)
        }
        let inOrder = (timed + claims).sorted { ($0.1, $0.0.position) < ($1.1, $1.0.position) }
        events = inOrder.enumerated().map { index, timed in timed.0.told(Int64(index + 1), at: timed.1) }
        self.people = people
        self.seed = seed
    }

    /// Claims of some purchases, each by one or two people, some of them long after it ended.
    private static func claims(
        of events: [HistoryEvent], among people: [IdentityRef], _ seed: UInt64
    ) -> [(HistoryEvent, Int64)] {
        var random = SplitMix64(seed: seed ^ 0xC1A)
        let sold = events.filter { !$0.fact.transactions.isEmpty }
        let begun = Dictionary(grouping: sold) { $0.fact.originalTransactionID ?? "" }.mapValues { events in
            events.map(\.stated).min() ?? 0
        }
        return begun.sorted { $0.key < $1.key }.flatMap { original, start -> [(HistoryEvent, Int64)] in
            guard random.number(in: 0...1) == 0 else { return [] }
            return (0...random.number(in: 0...1)).map { _ in
                let at = start + random.number(in: 0...(random.pick([3, 60, 400]) * Span.day))
                let fact = ClaimFact(originalTransactionID: original, customer: random.pick(people))
                let event = HistoryEvent(
                    position: .max, recordedAt: Timestamp(milliseconds: at), environment: .production, source: "test",
                    statementSource: .notification, type: "claimed", occurredAt: nil, fact: .claim(fact))
                return (event, at)
            }
        }
    }

    /// What is known of somebody at a position.
    func history(of person: IdentityRef, knownAt position: Int64) -> CustomerHistory {
        CustomerHistory(of: person, environment: environment, position: position, events: events)
    }
}

extension HistoryEvent {
    /// When somebody said so.
    fileprivate var stated: Int64 {
        switch fact {
        case .notification(let fact): fact.signedDate?.milliseconds ?? recordedAt.milliseconds
        case .web(let fact): fact.statedAt.milliseconds
        case .statements, .catalog, .link, .claim, .transfer, .transferUndo, .conflict, .grant, .grantRevocation,
            .drift, .forgetting, .access, .storeRequest:
            recordedAt.milliseconds
        }
    }

    /// The same without a name on what is among some original transactions.
    fileprivate func ofNobody(_ originals: Set<String>) -> HistoryEvent {
        guard let original = fact.originalTransactionID, originals.contains(original) else { return self }
        func ofNobody(_ transaction: TransactionFact) -> TransactionFact {
            var transaction = transaction
            (transaction.accountToken, transaction.appTransaction) = (nil, nil)
            return transaction
        }
        var stated = fact
        if case .notification(var notification) = fact {
            notification.transaction = notification.transaction.map(ofNobody)
            notification.appTransaction = nil
            stated = .notification(notification)
        } else if case .statements(var statements) = fact {
            statements.transactions = statements.transactions.map(ofNobody)
            stated = .statements(statements)
        }
        return HistoryEvent(
            position: position, recordedAt: recordedAt, environment: environment, source: source,
            statementSource: statementSource, type: type, occurredAt: occurredAt, fact: stated)
    }

    fileprivate func told(_ position: Int64, at instant: Int64) -> HistoryEvent {
        HistoryEvent(
            position: position, recordedAt: Timestamp(milliseconds: instant), environment: environment, source: source,
            statementSource: statementSource, type: type, occurredAt: occurredAt, fact: fact)
    }
}
