import EntitlementCore
import PostgresClient

/// Looks at customers' answers, and gathers what changed.
///
/// Whatever makes it look at somebody (an event, the time, a walk over everybody), it goes on from the moment of the last look
/// and takes what bears on them in its order: catalogs, the time that passed, the event. So each change begins with what the
/// one before it ended with.
struct AnswerChangePage {
    private let scopes: [AnswerScope]
    private let catalogs: [AppliedCatalog]
    private let catalogCache: CatalogCache
    private let teller: any PurchaseTeller
    /// `nil` where the clock is not believed.
    private let present: Timestamp?
    private let show: @Sendable ([EntitlementAnswer]) throws -> [UInt8]
    private var histories = LinkedCustomerHistories()
    private var watched: [WatchKey: WatchedAnswer] = [:]
    /// Those among the names who were not forgotten.
    private var known: Set<IdentityRef> = []
    private var touched: Set<WatchKey> = []
    private var forgotten: Set<IdentityRef> = []
    /// What there is to tell.
    private(set) var messages: [OutboxMessage] = []
    /// What was folded last: an event begins where the one before ended, and all names of a customer share it.
    private var folded: [FoldKey: LinkedFacts] = [:]
    private var customers: [CustomerKey: KnownCustomer] = [:]

    private struct FoldKey: Hashable {
        /// The least of the names.
        let firstName: IdentityRef?
        let environment: StoreEnvironment
        /// `nil`: of every app.
        let app: String?
        let position: Int64
    }

    private struct CustomerKey: Hashable {
        let fold: FoldKey
        let group: Int
        let customer: IdentityRef
        let catalog: EventMark
    }

    /// The most that is kept of what was folded, and of customers by a catalog: there may be many catalogs to go through.
    private static let foldedLimit = 16
    private static let customersLimit = 32
    /// How many events' people are read together.
    private static let eventsRead = 20

    init(
        _ scopes: [AnswerScope], _ catalogs: [AppliedCatalog], _ catalogCache: CatalogCache,
        _ teller: any PurchaseTeller, present: Timestamp?,
        show: @escaping @Sendable ([EntitlementAnswer]) throws -> [UInt8]
    ) {
        (self.scopes, self.catalogs, self.catalogCache) = (scopes, catalogs, catalogCache)
        (self.teller, self.present, self.show) = (teller, present, show)
    }

    // MARK: - What makes it look

    /// Looks at everybody on whom events bear, after each of them: at the first at least, and then until the time is up.
    ///
    /// - Returns: the position of the last event gone through; `nil` where that is all of them.
    mutating func follow(
        _ events: [BearingEvent], until end: ContinuousClock.Instant, on connection: isolated PostgresConnection
    ) throws -> Int64? {
        for start in stride(from: 0, to: events.count, by: Self.eventsRead) {
            let part = events[start..<min(start + Self.eventsRead, events.count)]
            try read(part.reduce(into: Set<LinkedCustomerKey>()) { $0.formUnion($1.people) }, on: connection)
            for event in part {
                try follow(event, on: connection)
                if ContinuousClock.now >= end, event.position != events.last?.position { return event.position }
            }
        }
        return nil
    }

    private mutating func follow(_ event: BearingEvent, on connection: isolated PostgresConnection) throws {
        var moves = PurchaseMoves()
        for (history, names) in self.names(of: event.people) {
            for identity in names {
                for scope in scopes where event.position > scope.sincePosition {
                    try look(
                        identity, history, scope, after: event, knownBefore: event.position - 1,
                        until: event.recordedAt,
                        &moves, on: connection)
                }
            }
        }
        messages += try moves.messages(teller)
    }

    /// Looks at those whose answers time alone may have changed by an instant: at the first at least, and then until the time is
    /// up.
    ///
    /// Whoever has more in the log than was gone through is left to that: what is to come may be their renewal.
    mutating func pass(
        _ due: [WatchedAnswer], at instant: Timestamp, knownAt position: Int64, until end: ContinuousClock.Instant,
        on connection: isolated PostgresConnection
    ) throws {
        try read(
            Set(due.map { LinkedCustomerKey(identity: $0.key.identity, environment: $0.key.environment) }),
            on: connection)
        for row in due {
            let key = LinkedCustomerKey(identity: row.key.identity, environment: row.key.environment)
            guard known.contains(key.identity), let history = histories[key] else {
                forgotten.insert(key.identity)
                continue
            }
            guard let scope = scopes.first(where: { $0.name == row.key.app }),
                history.firstEvent(after: position) == nil, (catalogs.last?.position ?? 0) <= position
            else { continue }
            var moves = PurchaseMoves()
            try look(
                key.identity, history, scope, after: nil, knownBefore: position, until: instant, &moves, on: connection)
            if ContinuousClock.now >= end { return }
        }
    }

    /// Looks at some of everybody for what bears on all: at the first at least, and then until the time is up.
    ///
    /// - Returns: the last one looked at.
    mutating func walk(
        _ identities: [IdentityRef], for scope: AnswerScope, upTo position: Int64, until end: ContinuousClock.Instant,
        on connection: isolated PostgresConnection
    ) throws -> IdentityRef? {
        func keys(_ identity: IdentityRef) -> [LinkedCustomerKey] {
            StoreEnvironment.allCases.map { LinkedCustomerKey(identity: identity, environment: $0) }
        }
        try read(Set(identities.flatMap(keys)), on: connection)
        let begun = catalogs.last { $0.position <= position }.map { max($0.recordedAt, scope.since) } ?? scope.since
        for identity in identities {
            for key in keys(identity) {
                guard let history = histories[key] else { continue }
                var moves = PurchaseMoves()
                try look(
                    identity, history, scope, after: nil, knownBefore: position, until: begun, &moves, on: connection)
            }
            if ContinuousClock.now >= end { return identity }
        }
        return identities.last
    }

    // MARK: - Looking

    private mutating func read(_ keys: Set<LinkedCustomerKey>, on connection: isolated PostgresConnection) throws {
        // Lives read later may have been linked since, beyond what this page goes through: then one name stands for more.
        folded.removeAll(keepingCapacity: true)
        customers.removeAll(keepingCapacity: true)
        try histories.read(keys, on: connection)
        let people = keys.reduce(into: Set<IdentityRef>()) { people, key in
            people.formUnion(histories[key]?.names ?? [key.identity])
        }
        // What was looked at here already is further than its row.
        watched.merge(try WatchedAnswer.of(people, on: connection)) { looked, _ in looked }
        known.formUnion(try Statements.customerIDs(of: Array(people), on: connection).keys)
    }

    /// What was known of one of a customer's names at a position, but for the catalog; and what it was folded as.
    private mutating func fold(
        _ identity: IdentityRef, _ history: LinkedCustomerHistory, knownAt position: Int64, app: AppScope?
    ) -> (facts: CustomerFacts, group: Int, key: FoldKey) {
        let key = FoldKey(
            firstName: history.names.min(), environment: history.environment, app: app?.bundleID,
            position: history.lastPosition(at: position))
        if folded[key] == nil, folded.count >= Self.foldedLimit {
            folded.removeAll(keepingCapacity: true)
            customers.removeAll(keepingCapacity: true)
        }
        var linked = folded[key] ?? history.facts(knownAt: key.position, app: app)
        let known = linked.facts(of: identity)
        folded[key] = linked
        return (known.facts, known.group, key)
    }

    /// What was known of one of a customer's names at a position, with the catalog of then.
    private mutating func customer(
        _ identity: IdentityRef, _ history: LinkedCustomerHistory, knownAt position: Int64, _ scope: AnswerScope,
        on connection: isolated PostgresConnection
    ) throws -> KnownCustomer {
        let catalog = catalogs.last { $0.position <= position }?.mark ?? .none
        var (facts, group, folded) = fold(identity, history, knownAt: position, app: scope.app)
        let key = CustomerKey(
            fold: folded, group: group, customer: facts.customer, catalog: catalog)
        if let known = customers[key] { return known }
        facts.catalog = try catalogCache.catalog(catalog, on: connection)
        let known = KnownCustomer(facts, show: show)
        if customers.count >= Self.customersLimit { customers.removeAll(keepingCapacity: true) }
        customers[key] = known
        return known
    }

    /// The histories of some people, each once, and all their names.
    private mutating func names(of people: Set<LinkedCustomerKey>) -> [(LinkedCustomerHistory, [IdentityRef])] {
        var found: [(LinkedCustomerHistory, [IdentityRef])] = []
        var seen: Set<LinkedCustomerKey> = []
        for key in people.sorted() where !seen.contains(key) {
            guard let history = histories[key] else { continue }
            for name in history.names { seen.insert(LinkedCustomerKey(identity: name, environment: key.environment)) }
            forgotten.formUnion(history.names.subtracting(known))
            found.append((history, history.names.intersection(known).sorted()))
        }
        return found
    }

    /// At which instant something is looked at: now, where a clock that was ahead has dated it.
    private func believed(_ instant: Timestamp) -> Timestamp {
        guard let present, ClockAheadDetector.isAhead(instant, of: present) else { return instant }
        return present
    }

    /// Goes on from the last look at one name, up to an instant; and tells what changed.
    ///
    /// Where a clock that was ahead had led the last look beyond the present, it goes on from the present, and what was told is
    /// set right: else nothing that is learned until then would be read at its time.
    ///
    /// A name that links lead from to another is that customer's, under whose name changes are told; it is looked at only where
    /// somebody may have heard of it before. When it becomes a customer of its own, nothing was told of it.
    private mutating func look(
        _ identity: IdentityRef, _ history: LinkedCustomerHistory, _ scope: AnswerScope, after event: BearingEvent?,
        knownBefore last: Int64, until instant: Timestamp, _ moves: inout PurchaseMoves,
        on connection: isolated PostgresConnection
    ) throws {
        let key = WatchKey(app: scope.name, identity: identity, environment: history.environment)
        let row = watched[key]
        let instant = believed(instant)
        func isCustomer(at position: Int64) -> Bool {
            history.names.count == 1
                || fold(identity, history, knownAt: position, app: nil).facts.customer == identity
        }
        let wasCustomer = row != nil || isCustomer(at: last)
        guard wasCustomer || event.map({ isCustomer(at: $0.position) }) ?? false else { return }
        func known(_ position: Int64, on connection: isolated PostgresConnection) throws -> KnownCustomer {
            try customer(identity, history, knownAt: position, scope, on: connection)
        }
        let settled = row?.position ?? scope.settledPosition(of: identity)
        let pending = catalogs.filter { $0.position > settled && $0.position <= last }
        let begun = row?.lookedAt ?? (scope.isNew(identity) ? believed(scope.since) : instant)
        let first = pending.first.map { $0.position - 1 } ?? last
        var walk: any CustomerWalk =
            switch scope.audience.format {
            case .standard:
                try ToldAnswers(
                    AnswerWalk(
                        known(first, on: connection), knownAt: first, at: begun, told: wasCustomer ? nil : show([])),
                    key)
            case .revenueCat:
                try PurchaseWalk(
                    known(first, on: connection).facts, knownAt: first, at: begun, key, history.names,
                    PurchaseHearings(history.events), teller)
            }
        if let present, ClockAheadDetector.isAhead(begun, of: present) {
            try walk.goBack(to: present, known(first, on: connection), knownAt: first)
        }
        for catalog in pending {
            let before = catalog.position - 1
            try walk.pass(until: believed(catalog.recordedAt), known(before, on: connection), knownAt: before)
            try walk.learn(known(catalog.position, on: connection), knownAt: catalog.position, .catalog, &moves)
        }
        try walk.pass(until: instant, known(last, on: connection), knownAt: last)
        if let event {
            try walk.learn(known(event.position, on: connection), knownAt: event.position, .event, &moves)
        }
        let nextAt = walk.until == .endless ? nil : walk.until
        guard row != nil || !walk.messages.isEmpty || nextAt != nil || moves.names(key) else { return }
        watched[key] = WatchedAnswer(key: key, position: walk.position, lookedAt: walk.instant, nextAt: nextAt)
        touched.insert(key)
        messages += walk.messages
    }

    // MARK: - What came of it

    /// Withdraws what is left of people who were forgotten; before the messages of this page are added, which stay.
    func withdraw(on connection: isolated PostgresConnection) throws {
        guard !forgotten.isEmpty else { return }
        // Whoever sends to one of them locks that first.
        try Outbox.lockAll(on: connection)
        try Outbox.forget(forgotten, on: connection)
    }

    /// Writes when everybody was looked at; after the messages are added, whose endpoints whoever forgets somebody locks
    /// first as well.
    func write(on connection: isolated PostgresConnection) throws {
        try WatchedAnswer.write(touched.compactMap { watched[$0] }, on: connection)
    }
}

extension AnswerCause {
    /// What column `cause` holds.
    var number: Int16 {
        switch self {
        case .event: 1
        case .catalog: 2
        case .time: 3
        }
    }

    init(stored number: Int64) throws {
        switch number {
        case 1: self = .event
        case 2: self = .catalog
        case 3: self = .time
        default: throw LedgerError(.corrupt, "a row names cause \(number); there are 1 to 3")
        }
    }
}
