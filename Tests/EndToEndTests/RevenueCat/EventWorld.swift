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

    /// - Parameter transfers: how many more purchases than now and then are transferred to somebody.
    init(_ seed: UInt64, transfers: Int = 0) throws {
        let world = WebOracleFoldTests.world(seed)
        let bought = StoreLife.random(seed: seed, world: world, customers: 1)
        let web = WebLife.random(
            seed: seed, world: world, environment: .production, customers: WebOracleFoldTests.customers(seed))
        let names = bought.record.customers.filter { $0.environment == .production }.map(\.customerID)
        let last = bought.record.customers.flatMap(bought.record.boundaryInstants).max() ?? world.start
        var folded = FoldedWeb(catalog: try Catalog(world))
        for notification in bought.notifications { try folded.receive(notification) }
        try folded.receive(web, .inOrder, seed: seed)
        let people = Set(names + WebOracleFoldTests.customers(seed)).sorted()
        var log = SimulatedLog(folded, .production, from: world.start, to: max(last, web.end), seed: seed)
        log.act(among: people)
        log.transfer(transfers, among: people)
        var random = SplitMix64(seed: seed ^ 0xE7)
        let timed = log.events.filter { $0.environment != .sandbox }.map { event in
            let late: Int64 =
                switch random.number(in: 0...9) {
                case 0...6: random.number(in: 0...2_000)
                case 7...8: random.number(in: 0...Span.day)
                default: random.number(in: 0...(40 * Span.day))
                }
            let isCatalog = if case .catalog = event.fact { true } else { false }
            return (event, isCatalog ? world.start - Span.day : event.stated + late)
        }.sorted { ($0.1, $0.0.position) < ($1.1, $1.0.position) }
        events = timed.enumerated().map { index, timed in timed.0.told(Int64(index + 1), at: timed.1) }
        self.people = people.map { log.reference($0) }
        self.seed = seed
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

    fileprivate func told(_ position: Int64, at instant: Int64) -> HistoryEvent {
        HistoryEvent(
            position: position, recordedAt: Timestamp(milliseconds: instant), environment: environment, source: source,
            statementSource: statementSource, type: type, occurredAt: occurredAt, fact: fact)
    }
}
