import EntitlementAPI
import EntitlementCore
import RevenueCatAPI
import SeededRandom
import StoreSimulator
import StripePayloads
import TestSupport
import Testing

/// What RevenueCat's SDK takes for active in the document is what `GET …/entitlements` says gives access: over simulated lives
/// in both stores, with grants, links and transfers, under any policy, at any instant.
@Suite("RevenueCat's document against the entitlements", .timeLimit(.minutes(10)))
struct SubscriberOracleTests {
    @Test("over random lives an entitlement is active just when it gives access, at boundaries and between")
    func agreement() throws {
        var found = Found()
        for seed in 1...UInt64(Campaign.factor * 24) {
            let world = WebOracleFoldTests.world(seed)
            let bought = StoreLife.random(seed: seed, world: world, customers: 2)
            let key: (StoreEnvironment) -> SimulatedStoreEnvironment = {
                $0 == .sandbox ? .sandbox : .production
            }
            let environment: StoreEnvironment = seed % 7 == 0 ? .sandbox : .production
            let names = bought.record.customers.filter { $0.environment == key(environment) }.map(\.customerID)
            let web = WebLife.random(
                seed: seed, world: world, environment: key(environment),
                customers: names.isEmpty ? WebOracleFoldTests.customers(seed) : names)
            let last = bought.record.customers.flatMap(bought.record.boundaryInstants).max() ?? world.start
            var folded = FoldedWeb(catalog: try Catalog(world))
            for arrival in Delivery.plan(bought.notifications, .shuffled, seed: seed) {
                try folded.receive(bought.notifications[arrival.index])
            }
            try folded.receive(web, seed % 2 == 0 ? .shuffled : .inOrder, seed: seed)
            let people = Set(names + WebOracleFoldTests.customers(seed) + web.record.customers.map(\.customerID))
                .sorted()
            var log = SimulatedLog(folded, environment, from: world.start, to: max(last, web.end), seed: seed)
            log.act(among: people)
            for person in people {
                try expectAgreement(of: log.history(of: person), log, "seed \(seed) \(person)", &found)
            }
        }
        // Else much of what differs from RevenueCat would not have been met.
        #expect(found.active > 1000 && found.lapsed > 1000, "\(found)")
        #expect(found.inGrace > 20 && found.grants > 50 && found.oneTime > 50 && found.stripe > 50, "\(found)")
        #expect(found.unsubscribed > 20 && found.billing > 20 && found.refunded > 5, "\(found)")
    }

    /// How often something was met, so that agreement is about something.
    private struct Found {
        var active = 0
        var lapsed = 0
        var inGrace = 0
        var grants = 0
        var oneTime = 0
        var stripe = 0
        var unsubscribed = 0
        var billing = 0
        var refunded = 0

        mutating func count(_ subscriber: SubscriberBody) {
            func count(_ condition: (SubscriptionEntry) -> Bool) -> Int {
                subscriber.subscriptions.values.count(where: condition)
            }
            inGrace += count { $0.gracePeriodExpiresDate != nil }
            grants += count { $0.store == .promotional }
            stripe += count { $0.store == .stripe }
            unsubscribed += count { $0.unsubscribeDetectedAt != nil }
            billing += count { $0.billingIssuesDetectedAt != nil }
            refunded += count { $0.refundedAt != nil }
            oneTime += subscriber.nonSubscriptions.count
        }
    }

    private func expectAgreement(
        of history: CustomerHistory, _ log: SimulatedLog, _ context: String, _ found: inout Found
    ) throws {
        let subscriber = Subscriber(history)
        let facts = history.facts()
        let timelines = facts.timelines()
        for instant in log.instants(of: timelines) {
            let document = subscriber.document(of: "somebody", at: instant)
            let sdk = try SDKCustomerInfo(WireJSON.encode(document))
            let answers = timelines.compactMap { facts.answer(from: $0, at: instant) }
            let held = Set(answers.filter(\.givesAccess).map(\.entitlementID))
            let place = "\(context) at \(instant)"
            try #require(sdk.active == held, "\(place): \(document)")
            // Nothing that is listed is dropped, and nothing is listed that never was.
            let shown = document.subscriber.entitlements
            try #require(Set(sdk.kept.keys) == Set(shown.keys), "\(place): \(document)")
            try #require(Set(shown.keys).isSubset(of: answers.map(\.entitlementID)), "\(place): \(document)")
            try expectEntries(behind: document.subscriber, place)
            for answer in answers where answer.givesAccess && answer.reading.isSubscription {
                let product = answer.reading.productID ?? ""
                guard shown[answer.entitlementID]?.productIdentifier == product, let renews = answer.willRenew,
                    let entry = document.subscriber.subscriptions[product]
                else { continue }
                // Where two of one product run, the entry may be of the other.
                guard facts.runs(of: product) == 1 else { continue }
                // What was just bought again renews until somebody says otherwise; what is unpaid has a billing issue, until it
                // is paid. By the entitlements' word neither renews.
                let state = facts.originals[answer.reading.originalTransactionID ?? ""]
                let spokenAt = state?.renewals.compactMap(\.fact.signedDate).last { $0 <= instant }
                let newest = state?.web?.statement(at: instant)
                if let spokenAt, spokenAt < entry.purchaseDate.instant { continue }
                // An end after more periods, and a pause of the collection, are nobody's wish to end it.
                let charge = state?.web?.charging(of: answer.reading, at: instant)?.renewal
                let isMeantTo =
                    renews || charge == .charged || charge == .paused
                    || charge == .awaitsPayment && newest?.status == .known(.unpaid)
                    // That it ends with the period which is being charged for is not about the one that was paid for.
                    || answer.reading.reason == .renewalPending
                let isFailing = entry.billingIssuesDetectedAt != nil
                let isSame = sdk.willRenew(answer.entitlementID) == (isMeantTo && !isFailing)
                try #require(isSame, "\(place): \(answer) \(document)")
            }
            found.active += held.count
            found.lapsed += shown.count - held.count
            found.count(document.subscriber)
        }
    }

    /// An entitlement ends with what stands behind it, and no two entries contradict each other.
    private func expectEntries(behind subscriber: SubscriberBody, _ place: String) throws {
        for (id, entitlement) in subscriber.entitlements {
            guard let entry = subscriber.subscriptions[entitlement.productIdentifier] else { continue }
            let isSame =
                entry.expiresDate == entitlement.expiresDate
                && entry.gracePeriodExpiresDate == entitlement.gracePeriodExpiresDate
                && entry.purchaseDate == entitlement.purchaseDate
            try #require(isSame, "\(place): \(id) \(entitlement) \(entry)")
        }
        for (product, bought) in subscriber.nonSubscriptions {
            let dates = bought.map(\.purchaseDate)
            try #require(!bought.isEmpty && dates == dates.sorted(), "\(place): \(product)")
            try #require(subscriber.otherPurchases[product]?.purchaseDate == dates.last, "\(place): \(product)")
        }
        for (product, entry) in subscriber.subscriptions {
            try #require(entry.originalPurchaseDate <= entry.purchaseDate, "\(place): \(product)")
            try #require(entry.expiresDate.map { entry.purchaseDate <= $0 } ?? true, "\(place): \(entry)")
        }
        for (id, entry) in subscriber.entitlements {
            try #require(entry.expiresDate.map { entry.purchaseDate <= $0 } ?? true, "\(place): \(id) \(entry)")
        }
    }
}

extension CustomerFacts {
    /// How many chains there are with a period of a product.
    func runs(of product: String) -> Int {
        originals.values.flatMap { $0.chains(catalog) }.count { chain in
            chain.periods.contains { $0.fact.productID == product }
        }
    }
}

/// What was told of simulated lives in one environment, and what an operator did besides.
struct SimulatedLog {
    private(set) var events: [HistoryEvent]
    private var folded: FoldedWeb
    let environment: StoreEnvironment
    private let (start, end): (Int64, Int64)
    private var random: SplitMix64

    init(
        _ folded: FoldedWeb, _ environment: StoreEnvironment, from start: Int64, to end: Int64,
        seed: UInt64
    ) {
        self.folded = folded
        self.environment = environment
        (self.start, self.end) = (start, end)
        random = SplitMix64(seed: seed ^ 0x5C)
        events = folded.events
        note(.catalog(folded.catalog), at: start)
    }

    private mutating func note(_ fact: LedgerFact, at instant: Int64) {
        events.append(
            HistoryEvent(
                position: (events.last?.position ?? 0) + 1, recordedAt: Timestamp(milliseconds: instant),
                environment: environment,
                source: "told", statementSource: .notification, type: "told", occurredAt: nil, fact: fact))
    }

    /// Grants, takes back, links and transfers, in the order of time.
    mutating func act(among people: [String]) {
        let originals = Set(events.compactMap(\.fact.originalTransactionID)).sorted()
        let instants = (0..<6).map { _ in random.number(in: start...end) }.sorted()
        var grants: [String] = []
        for (number, instant) in instants.enumerated() {
            let customer = folded.reference(random.pick(people))
            switch random.number(in: 0...9) {
            case 0...5:
                let lengths: [Int64?] = [nil, 0, Span.day, 7 * Span.day, 30 * Span.day, 365 * Span.day]
                let until = random.pick(lengths).map { Timestamp(milliseconds: instant + $0) }
                grants.append("grant_\(number)")
                note(
                    .grant(
                        GrantFact(
                            grantID: "grant_\(number)", customer: customer,
                            entitlementID: random.pick(["premium", "gift"]), until: until, reason: "goodwill")),
                    at: instant)
            case 6:
                guard let grant = grants.last else { continue }
                note(
                    .grantRevocation(GrantRevocationFact(grantID: grant, customer: customer, reason: "over")),
                    at: instant)
            case 7...8:
                guard !originals.isEmpty else { continue }
                note(
                    .transfer(TransferFact(originalTransactionID: random.pick(originals), customer: customer)),
                    at: instant)
            default:
                note(.link(LinkFact(identity: folded.reference(random.pick(people)), customer: customer)), at: instant)
            }
        }
    }

    /// Transfers purchases, whosesoever they are.
    mutating func transfer(_ count: Int, among people: [String]) {
        let originals = Set(events.compactMap(\.fact.originalTransactionID)).sorted()
        guard !originals.isEmpty else { return }
        for instant in (0..<count).map({ _ in random.number(in: start...end) }).sorted() {
            let customer = folded.reference(random.pick(people))
            note(
                .transfer(TransferFact(originalTransactionID: random.pick(originals), customer: customer)), at: instant)
        }
    }

    mutating func reference(_ customer: String) -> IdentityRef { folded.reference(customer) }

    mutating func history(of customer: String) -> CustomerHistory {
        CustomerHistory(
            of: folded.reference(customer), environment: environment, position: events.last?.position ?? 0,
            events: events)
    }

    /// Every boundary, what lies a second and a millisecond beside it, and others.
    func instants(of timelines: [EntitlementTimeline]) -> [Timestamp] {
        var random = random
        let boundaries = Set(timelines.flatMap(\.readings).map(\.start)).filter { $0 != .earliest }
        let beside = boundaries.flatMap { boundary in
            [-1000, -1, 0, 1, 999].map { boundary.adding(milliseconds: $0) }
        }
        let others = (0..<10).map { _ in Timestamp(milliseconds: random.number(in: start...end + 90 * Span.day)) }
        return beside + others
    }
}
