import EntitlementCore
import Foundation
import SeededRandom
import StoreSimulator
import StripePayloads
import TestSupport
import Testing

/// Decoder and fold against the record of a simulated Stripe, without signatures or a database: fast enough for many lives.
@Suite("Web checkout: decoder and fold against the simulator's record", .timeLimit(.minutes(10)))
struct WebOracleFoldTests {
    private static let lives = UInt64(Campaign.factor * 60)

    /// The world under a policy drawn at random.
    static func world(_ seed: UInt64) -> StoreWorld {
        var random = SplitMix64(seed: seed)
        return StoreWorld.standardOnWeb.with { policy in
            policy.graceGivesAccess = random.next() % 4 != 0
            policy.billingRetryGivesAccess = random.next() % 4 == 0
            policy.leewaySeconds = random.next() % 3 == 0 ? 86_400 : 0
            policy.proratedRefund = random.next() % 2 == 0 ? .endsAccess : .keepsAccess
            policy.webGraceDays = random.pick([0, 3, 7, 7, 20])
            policy.webDispute = random.next() % 3 == 0 ? .keepsAccess : .suspendsAccess
        }
    }

    static func customers(_ seed: UInt64) -> [String] {
        var random = SplitMix64(seed: seed ^ 0xC0)
        return [random.uuid(), "customer-\(seed)"]
    }

    @Test("random lives read as they were, however events are delivered and in whichever shape")
    func delivered() throws {
        let styles = [DeliveryStyle.inOrder, .shuffled, .duplicated, .delayed, .chaotic]
        for seed in 1...Self.lives {
            let life = WebLife.random(
                seed: seed, world: Self.world(seed), environment: seed % 9 == 0 ? .sandbox : .production,
                customers: Self.customers(seed))
            let style = styles[Int(seed) % styles.count]
            var folded = FoldedWeb(catalog: try Catalog(life.world))
            try folded.receive(life, style, seed: seed, soon: seed % 2 == 0)
            for (event, hashes) in folded.hashes where hashes.count > 1 {
                Issue.record("seed \(seed): \(event) states \(hashes.count) things")
            }
            try folded.expect(life.record, seed: seed, "\(style)")
        }
    }

    @Test("only the types that are asked for are needed")
    func wantedAlone() throws {
        for seed in 1...Self.lives / 2 {
            let life = WebLife.random(
                seed: seed, world: Self.world(seed), customers: Self.customers(seed), isReadable: true)
            var folded = FoldedWeb(catalog: try Catalog(life.world))
            try folded.receive(life, .shuffled, seed: seed) { StripeEventType.wanted.contains($0.type) }
            try folded.expect(life.record, seed: seed, "wanted")
        }
    }

    @Test("what comes without its object is looked up")
    func thin() throws {
        for seed in 1...Self.lives / 4 {
            let world = Self.world(seed).with { $0.webDispute = .suspendsAccess }
            let life = WebLife.random(seed: seed, world: world, customers: Self.customers(seed), isReadable: true)
            var habits = WebDelivery.Habits()
            // Of what is still to change only the event's own word is as old as the event.
            habits.mayBeThin = { event in
                ["invoice.paid", "refund", "charge.dispute"].contains { event.type.hasPrefix($0) }
            }
            var folded = FoldedWeb(catalog: try Catalog(life.world))
            try folded.receive(life, .chaotic, seed: seed, habits: habits)
            try folded.expect(life.record, seed: seed, "thin")
        }
    }

    @Test("one customer in both stores has what either gives")
    func bothStores() throws {
        for seed in 1...Self.lives / 2 {
            let world = Self.world(seed)
            let bought = StoreLife.random(seed: seed, world: world, customers: 2)
            let customers = bought.record.customers.filter { $0.environment == .production }.map(\.customerID)
            let web = WebLife.random(
                seed: seed, world: world, customers: customers.isEmpty ? Self.customers(seed) : customers)
            var record = bought.record
            record.web = web.record.web
            var folded = FoldedWeb(catalog: try Catalog(world))
            let events = web.events
            let arrivals =
                Delivery.plan(bought.notifications, .shuffled, seed: seed).map { ($0.instant, $0.index, nil) }
                + WebDelivery.plan(events, .chaotic, seed: seed).map { ($0.instant, $0.index, $0.shape) }
            for (instant, index, shape) in arrivals.sorted(by: { $0.0 < $1.0 }) {
                if let shape {
                    try folded.receive(events[index].json(shape).json, web.library(at: instant), at: instant)
                } else {
                    try folded.receive(bought.notifications[index])
                }
            }
            try folded.expect(record, seed: seed, "both stores")
        }
    }

    @Test("what never arrived is found in the list of events, page by page")
    func swept() throws {
        for seed in 1...Self.lives / 4 {
            var random = SplitMix64(seed: seed)
            let life = WebLife.random(
                seed: seed, world: Self.world(seed), customers: Self.customers(seed), isReadable: true)
            let events = life.events.filter { StripeEventType.wanted.contains($0.type) }
            let kept = events.filter { _ in !random.chance(35) }
            var folded = FoldedWeb(catalog: try Catalog(life.world))
            for arrival in WebDelivery.plan(kept, .shuffled, seed: seed) {
                let body = kept[arrival.index].json(arrival.shape, pending: arrival.pending).json
                try folded.receive(body, life.library(at: arrival.instant), at: arrival.instant)
            }
            var instant = life.world.start
            while instant < life.end + 20 * Span.day {
                instant += random.number(in: 1...29) * Span.day
                // Stripe gives as much as is asked for; of less than three the longest invoice has more pages than are read.
                try folded.sweep(life, at: instant, pageLimit: Int(random.number(in: 3...100)))
            }
            try folded.expect(life.record, seed: seed, "swept")
        }
    }

    @Test("what objects say at an instant is what holds then, without any event")
    func imported() throws {
        for seed in 1...Self.lives / 4 {
            var random = SplitMix64(seed: seed)
            let life = WebLife.random(
                seed: seed, world: Self.world(seed), customers: Self.customers(seed), isReadable: true)
            // Nothing of the life is still to come, so that nothing is told in hindsight.
            let now = life.end + random.number(in: 0...100) * Span.day + 500
            var folded = FoldedWeb(catalog: try Catalog(life.world))
            try folded.importLists(of: life, at: now)
            try folded.expect(life.record, now: now, seed: seed)
        }
    }
}

extension FoldedWeb {
    /// Takes in what of a life is delivered.
    mutating func receive(
        _ life: WebLife, _ style: DeliveryStyle, seed: UInt64, soon: Bool = false,
        habits: WebDelivery.Habits = WebDelivery.Habits(),
        where isSent: (StripeEventEntry) -> Bool = { _ in true }
    ) throws {
        let events = life.events.filter(isSent)
        for arrival in WebDelivery.plan(events, style, habits: habits, seed: seed) {
            let event = events[arrival.index]
            let body = arrival.isThin ? event.thin : event.json(arrival.shape, pending: arrival.pending)
            try receive(
                body.json, life.library(at: arrival.instant, arrival.shape), at: arrival.instant, soon: soon)
        }
    }

    /// Reads the events of the last thirty days, two lists of types, from the newest page on.
    mutating func sweep(_ life: WebLife, at instant: Int64, pageLimit: Int) throws {
        let library = life.library(at: instant, pageLimit: pageLimit)
        for first in stride(from: 0, to: StripeEventType.wanted.count, by: StripeEventType.perList) {
            let types = StripeEventType.wanted[first...].prefix(StripeEventType.perList).map { ("types[]", $0) }
            for element in try library.all(["events"], types) { try receive(element, library, at: instant) }
        }
    }

    /// Reads what there is of everything, and traces it.
    mutating func importLists(of life: WebLife, at instant: Int64) throws {
        let library = life.library(at: instant)
        let environment: StoreEnvironment = life.environment == .production ? .production : .sandbox
        for path in ["subscriptions", "invoices", "checkout/sessions", "refunds", "disputes"] {
            let query = path == "subscriptions" ? [("status", "all")] : []
            for element in try library.all(path.split(separator: "/").map(String.init), query) {
                try read(element, [], library, environment, at: instant)
            }
        }
    }

    /// Holds what every customer has at one instant against a record, apart from since when.
    mutating func expect(_ record: Record, now: Int64, seed: UInt64) throws {
        struct Held: Equatable {
            let entitlement: String
            let state: RecordState
            let product: String
            let original: String
            let willRenew: Bool?

            init(_ answer: RecordAnswer) {
                (entitlement, state, willRenew) = (answer.entitlement, answer.state, answer.willRenew)
                (product, original) = (answer.productID, answer.originalTransactionID)
            }
        }
        // Of two names that were written one after the other, one reading does not tell which was first.
        let disputed = Set(
            record.web.stories.filter { !$0.value.rivals.isEmpty }.flatMap { key, story in
                story.rivals.union([story.owner].compactMap(\.self)).map { CustomerKey(key.environment, $0) }
            })
        for customer in record.customers where !disputed.contains(customer) {
            let truth = record.customer(customer).answer(at: now).filter(\.givesAccess).map(Held.init)
            let read = facts(of: customer).answers(at: Timestamp(milliseconds: now)).map { RecordAnswer($0) }
            let held = read.filter(\.givesAccess).map(Held.init)
            let isSame = held == truth
            try #require(
                isSame, "seed \(seed) \(customer) at \(Timestamp(milliseconds: now)): \(held) instead of \(truth)")
        }
    }

    /// Holds everything that every customer of a record has against it.
    mutating func expect(_ record: Record, seed: UInt64, _ context: String) throws {
        var random = SplitMix64(seed: seed ^ 0xA11)
        let rivals = rivals
        for (key, story) in record.web.stories {
            func customers(_ names: Set<String>) -> Set<String> {
                let owner = story.owner.map { CustomerKey(key.environment, $0).customerID }
                return Set(names.map { CustomerKey(key.environment, $0).customerID }).subtracting(
                    [owner].compactMap(\.self))
            }
            let (told, certain) = (rivals[key] ?? [], customers(story.rivals))
            let isTold = certain.isSubset(of: told) && told.isSubset(of: certain.union(customers(story.possibleRivals)))
            try #require(isTold, "\(context) seed \(seed) \(key): \(told) beside the owner instead of \(certain)")
        }
        for customer in record.customers {
            let expected = record.customer(customer)
            let facts = facts(of: customer)
            let folded = facts.timelines()
            let timelines = Dictionary(
                uniqueKeysWithValues: folded.map { timeline in
                    (
                        timeline.entitlementID,
                        timeline.intervals.map { RecordInterval($0, policy: facts.catalog.policy) }
                    )
                })
            let isSame = timelines == expected.timelines
            try #require(
                isSame, "\(context) seed \(seed) \(customer): \(differences(timelines, expected.timelines))")
            let boundaries = expected.boundaryInstants
            guard let first = boundaries.first, let last = boundaries.last else { continue }
            let others = (0..<20).map { _ in random.number(in: first...last + 90 * Span.day) }
            for instant in boundaries + others {
                let answers = folded.compactMap { timeline in
                    facts.answer(from: timeline, at: Timestamp(milliseconds: instant)).map { RecordAnswer($0) }
                }
                let truth = expected.answer(at: instant)
                let isTrue = answers == truth
                try #require(
                    isTrue,
                    "\(context) seed \(seed) \(customer) at \(Timestamp(milliseconds: instant)): \(answers) instead of \(truth)"
                )
            }
        }
    }
}

extension StripeLibrary {
    /// The elements of all pages of a list, each as it came.
    fileprivate func all(_ path: [String], _ query: [(String, String)]) throws -> [[UInt8]] {
        var elements: [[UInt8]] = []
        var after: String?
        while true {
            let paging = [("limit", "100")] + (after.map { [("starting_after", $0)] } ?? [])
            let answer = get(path, (query + paging).map { (name: $0.0, value: $0.1) })
            try #require(answer.status == 200, "\(path) was answered \(answer.document)")
            let page = try StripeList(parsing: answer.document.json)
            elements += page.elements
            guard page.hasMore, let last = page.lastID else { return elements }
            after = last
        }
    }
}

/// What two timelines differ in, for people.
private func differences(
    _ timelines: [String: [RecordInterval]], _ expected: [String: [RecordInterval]]
) -> String {
    func lines(_ intervals: [RecordInterval]) -> Set<String> {
        Set(
            intervals.map { interval in
                let until = interval.until.map { "\(Timestamp(milliseconds: $0))" } ?? "∞"
                return "\(Timestamp(milliseconds: interval.from))…\(until) \(interval.state.rawValue) "
                    + "\(interval.source.rawValue) \(interval.productID) \(interval.originalTransactionID)"
            })
    }
    return Set(timelines.keys).union(expected.keys).sorted().map { entitlement in
        let (read, told) = (lines(timelines[entitlement] ?? []), lines(expected[entitlement] ?? []))
        return read == told
            ? ""
            : "\n  \(entitlement)\n    reads "
                + read.subtracting(told).sorted().joined(separator: "\n          ") + "\n    is    "
                + told.subtracting(read).sorted().joined(separator: "\n          ")
    }.joined()
}
