import EntitlementCore

/// What was known of a customer at a position, and what was found of it so far; for as long as a page is worked off.
///
/// Many names of one customer may ask the same: it is found for the first of them.
final class KnownCustomer: ShownAnswers {
    let facts: CustomerFacts
    private lazy var folded = FoldedCustomer(facts)
    private var found: [Timestamp: (answers: [UInt8], until: Timestamp)] = [:]
    private let show: @Sendable ([EntitlementAnswer]) throws -> [UInt8]

    /// The most instants at which an answer is kept.
    private static let foundLimit = 16

    init(_ facts: CustomerFacts, show: @escaping @Sendable ([EntitlementAnswer]) throws -> [UInt8]) {
        (self.facts, self.show) = (facts, show)
    }

    func shown(at instant: Timestamp) throws -> (answers: [UInt8], until: Timestamp) {
        if let known = found[instant] { return known }
        let (answers, until) = folded.answersHolding(at: instant)
        let shown = (answers: try show(answers), until: until)
        if found.count >= Self.foundLimit { found.removeAll(keepingCapacity: true) }
        found[instant] = shown
        return shown
    }
}

/// Finds what is to be told of one customer, from one moment to the next; see ``AnswerWalk``.
protocol CustomerWalk {
    /// Up to where the log is believed.
    var position: Int64 { get }
    var instant: Timestamp { get }
    /// The first instant after this moment at which time alone may make something to tell.
    var until: Timestamp { get }
    /// What there was to tell so far, in its order.
    var messages: [OutboxMessage] { get }

    /// Lets time pass up to and including an instant, while no event about the customer comes.
    mutating func pass(until end: Timestamp, _ known: KnownCustomer, knownAt position: Int64) throws

    /// Goes back to an earlier instant, where a clock that was ahead had passed it, and corrects what was told.
    mutating func goBack(to earlier: Timestamp, _ known: KnownCustomer, knownAt position: Int64) throws

    /// Goes on to a later position at the same instant.
    mutating func learn(
        _ known: KnownCustomer, knownAt position: Int64, _ cause: AnswerCause, _ moves: inout PurchaseMoves) throws
}

/// A walk through a customer's answers, with what it found.
struct ToldAnswers: CustomerWalk {
    private var walk: AnswerWalk
    private let key: WatchKey
    private(set) var messages: [OutboxMessage] = []

    init(_ walk: AnswerWalk, _ key: WatchKey) { (self.walk, self.key) = (walk, key) }

    var position: Int64 { walk.position }
    var instant: Timestamp { walk.instant }
    var until: Timestamp { walk.until }

    mutating func pass(until end: Timestamp, _ known: KnownCustomer, knownAt position: Int64) throws {
        tell(try walk.pass(until: end, known, knownAt: position))
    }

    mutating func goBack(to earlier: Timestamp, _ known: KnownCustomer, knownAt position: Int64) throws {
        tell(try [walk.goBack(to: earlier, known, knownAt: position)].compactMap(\.self))
    }

    mutating func learn(
        _ known: KnownCustomer, knownAt position: Int64, _ cause: AnswerCause, _ moves: inout PurchaseMoves
    ) throws {
        tell(try [walk.learn(known, knownAt: position, cause)].compactMap(\.self))
    }

    private mutating func tell(_ changes: [AnswerChange]) {
        messages += changes.map { change in
            OutboxMessage(
                content: .answer(change), app: key.app, environment: key.environment, identity: key.identity,
                position: change.position, at: change.instant)
        }
    }
}

/// A walk through a customer's purchases, with the messages about them.
///
/// An alias is not a customer of its own, and nothing is told of it: it would be told twice.
struct PurchaseWalk: CustomerWalk {
    private(set) var position: Int64
    private(set) var instant: Timestamp
    private(set) var until: Timestamp
    private(set) var messages: [OutboxMessage] = []
    /// `nil` where the name is no customer.
    private var moment: CustomerMoment?
    private let key: WatchKey
    /// Everybody whom links, ever made, connect with the name.
    private let names: Set<IdentityRef>
    private let hearings: PurchaseHearings
    private let teller: any PurchaseTeller

    /// - Parameter hearings: of all events that bear on the customer.
    init(
        _ facts: CustomerFacts, knownAt position: Int64, at instant: Timestamp, _ key: WatchKey,
        _ names: Set<IdentityRef>, _ hearings: PurchaseHearings, _ teller: any PurchaseTeller
    ) {
        (self.position, self.instant, self.key, self.names, self.teller) = (position, instant, key, names, teller)
        self.hearings = hearings
        until = .endless
        enter(facts, position, at: instant)
    }

    private mutating func enter(_ facts: CustomerFacts, _ position: Int64, at instant: Timestamp) {
        (self.position, self.instant) = (position, instant)
        guard facts.customer == key.identity else {
            (moment, until) = (nil, .endless)
            return
        }
        let names = names.filter { facts.ownership.customer(of: $0) == key.identity }.sorted()
        moment = CustomerMoment(
            facts, knownAt: position, in: key.environment, names: names, at: instant, hearings: hearings)
        until = facts.nextPurchaseChange(after: instant)
    }

    private mutating func move(
        to facts: CustomerFacts, _ position: Int64, at instant: Timestamp
    ) throws -> PurchaseChanges {
        let before = moment
        enter(facts, position, at: instant)
        return try teller.changes(from: before, to: moment)
    }

    mutating func pass(until end: Timestamp, _ known: KnownCustomer, knownAt position: Int64) throws {
        while until <= end {
            tellAll(try move(to: known.facts, position, at: until), .time)
        }
        enter(known.facts, position, at: max(instant, end))
    }

    mutating func goBack(to earlier: Timestamp, _ known: KnownCustomer, knownAt position: Int64) throws {
        guard earlier < instant else { return }
        tellAll(try move(to: known.facts, position, at: earlier), .time)
    }

    mutating func learn(
        _ known: KnownCustomer, knownAt position: Int64, _ cause: AnswerCause, _ moves: inout PurchaseMoves
    ) throws {
        let changes = try move(to: known.facts, position, at: instant)
        guard cause == .event else { return tellAll(changes, cause) }
        tell(changes.news, cause, changes)
        moves.note(changes, key, position, at: instant)
    }

    /// By time or a catalog nothing changes hands.
    private mutating func tellAll(_ changes: PurchaseChanges, _ cause: AnswerCause) {
        let departed = changes.departed.sorted { $0.key < $1.key }.flatMap(\.value.news)
        let arrived = changes.arrived.sorted { $0.key < $1.key }.flatMap(\.value.news)
        tell(changes.news + departed + arrived, cause, changes)
    }

    private mutating func tell(_ news: [PurchaseNews], _ cause: AnswerCause, _ changes: PurchaseChanges) {
        messages += news.map { news in
            OutboxMessage(
                content: .purchase(news, cause, before: changes.before, after: changes.after), app: key.app,
                environment: key.environment, identity: key.identity, position: position, at: instant)
        }
    }
}

/// Purchases that went from somebody, or came to somebody, by one event.
///
/// Where everything that gave one customer access went to one other customer, both are told of a transfer. Otherwise
/// the one is told that the purchases ended and the other that they were bought, because RevenueCat's receivers take a
/// transfer to be about everything that a customer has.
struct PurchaseMoves {
    private struct Side {
        let key: WatchKey
        let position: Int64
        let instant: Timestamp
        let changes: PurchaseChanges

        func message(_ news: PurchaseNews) -> OutboxMessage {
            OutboxMessage(
                content: .purchase(news, .event, before: changes.before, after: changes.after), app: key.app,
                environment: key.environment, identity: key.identity, position: position, at: instant)
        }

        /// Whether nothing gives them access any more but what some purchases gave.
        func hasGiven(all moved: [String]) -> Bool {
            !changes.holdsSomething && changes.departed.allSatisfy { $0.value.news.isEmpty || moved.contains($0.key) }
        }

        func names(_ purchase: String) -> [String] { [key.app, "\(key.identity)", purchase] }
    }

    private var sides: [Side] = []

    mutating func note(
        _ changes: PurchaseChanges, _ key: WatchKey, _ position: Int64, at instant: Timestamp
    ) {
        guard !changes.departed.isEmpty || !changes.arrived.isEmpty else { return }
        sides.append(Side(key: key, position: position, instant: instant, changes: changes))
    }

    /// Whether there is something of somebody's.
    func names(_ key: WatchKey) -> Bool { sides.contains { $0.key == key } }

    /// What there is to tell, to either side.
    func messages(_ teller: any PurchaseTeller) throws -> [OutboxMessage] {
        var messages: [OutboxMessage] = []
        var taken: Set<[String]> = []
        for giver in sides {
            for taker in sides
            where taker.key.app == giver.key.app && taker.key.environment == giver.key.environment
                && taker.key != giver.key
            {
                let moved = giver.changes.departed.keys.filter { taker.changes.arrived[$0] != nil }.sorted()
                guard !moved.isEmpty else { continue }
                guard giver.hasGiven(all: moved) else {
                    // What gives no access is not bought a second time.
                    for name in moved where taker.changes.arrived[name]?.transferred.isEmpty ?? true {
                        taken.insert(taker.names(name))
                    }
                    continue
                }
                for side in [giver, taker] {
                    taken.formUnion(moved.map(side.names))
                    messages += try teller.transfer(
                        of: moved.compactMap { giver.changes.departed[$0]?.purchase }, from: giver.key.identity,
                        to: taker.key.identity, told: side.key.identity, in: side.key.environment
                    ).map(side.message)
                }
                messages += moved.flatMap { taker.changes.arrived[$0]?.transferred ?? [] }.map(taker.message)
            }
        }
        for side in sides {
            func isLeft(_ name: String) -> Bool { !taken.contains(side.names(name)) }
            let departed = side.changes.departed.filter { isLeft($0.key) }.sorted { $0.key < $1.key }.flatMap(
                \.value.news)
            let arrived = side.changes.arrived.filter { isLeft($0.key) }.sorted { $0.key < $1.key }.flatMap(
                \.value.news)
            messages += (departed + arrived).map(side.message)
        }
        return messages
    }
}
