import EntitlementAPI
import EntitlementCore
import RevenueCatAPI
import SeededRandom
import StoreSimulator
import TestSupport
import Testing

@testable import Ledger

extension EventOracleTests {
    @Test(
        "over random lives no receiver locks out somebody who has access, whether it goes by the events or by the ends that they tell, and whatever it makes of a TRANSFER"
    )
    func receivers() throws {
        var found = EventStage.Found()
        for seed in 1...UInt64(Campaign.factor * 12) {
            var stage = try EventStage(EventWorld(seed, transfers: 6), seed: seed)
            try stage.play()
            found += stage.found
        }
        // Else little of what they are told would have been met.
        #expect(found.transfers > 5 && found.partial > 1 && found.extended > 20, "\(found)")
        #expect(found.graces > 10 && found.held > 1000, "\(found)")
        #expect(found.late > 1 && found.refunds > 10 && found.failures > 20, "\(found)")
    }

    @Test(
        "over random lives whose purchases are claimed late or never, sums by transaction are the ledger's, and whoever derives the events again finds the same"
    )
    func accounts() throws {
        var found = EventStage.Found()
        for seed in 1...UInt64(Campaign.factor * 12) {
            let world = try EventWorld(seed ^ 0xACC, transfers: 2, hasClaims: true)
            // Changed at random, two items of a subscription come to be of one product, which Stripe allows nobody and the rows
            // of receivers cannot tell apart.
            var stage = try EventStage(world, seed: seed, hasReceivers: false)
            try stage.play()
            found += stage.found
            var again = try EventStage(world, seed: seed ^ 0xA6A, hasReceivers: false)
            try again.play(again: true)
            #expect(again.sent == stage.sent, "seed \(world.seed)")
        }
        #expect(found.claims > 5 && found.refunds > 10 && found.reversals > 2 && found.sums > 50, "\(found)")
    }
}

/// All customers of a world as the ledger goes through them, and what receivers make of what they are sent.
struct EventStage {
    /// How often something was met.
    struct Found {
        /// Of all that somebody had.
        var transfers = 0
        /// Purchases that went to another customer while something else stayed.
        var partial = 0
        var extended = 0
        var graces = 0
        var held = 0
        /// Payments for what was over when they were told.
        var late = 0
        var refunds = 0
        var failures = 0
        var reversals = 0
        var claims = 0
        /// Payments whose sums were compared with the ledger's own.
        var sums = 0

        static func += (left: inout Found, right: Found) {
            left.transfers += right.transfers
            left.partial += right.partial
            left.extended += right.extended
            left.graces += right.graces
            left.held += right.held
            left.late += right.late
            left.refunds += right.refunds
            left.failures += right.failures
            left.reversals += right.reversals
            left.claims += right.claims
            left.sums += right.sums
        }
    }

    private let world: EventWorld
    private var walks: [IdentityRef: PurchaseWalk] = [:]
    private var facts: [IdentityRef: CustomerFacts] = [:]
    private var receivers: [EventReceiver]
    private var instant: Timestamp
    private var position: Int64 = 1
    private var random: SplitMix64
    private var story: [String] = []
    private var isAgain = false
    private var accounts = EventAccounts()
    /// What was sent to each, in its order.
    private(set) var sent: [IdentityRef: [String]] = [:]
    private(set) var found = Found()

    /// - Parameter hasReceivers: whether to look at what receivers take to be given.
    init(_ world: EventWorld, seed: UInt64, hasReceivers: Bool = true) throws {
        self.world = world
        random = SplitMix64(seed: seed ^ 0x9EC)
        instant = world.events[0].recordedAt
        let rules = hasReceivers ? EventReceiver.Rule.allCases : []
        receivers = rules.flatMap { rule in
            EventReceiver.Transfers.allCases.map { EventReceiver(rule, $0) }
        }
        for person in world.people {
            let known = world.history(of: person, knownAt: 1).facts()
            facts[person] = known
            walks[person] = PurchaseWalk(
                known, knownAt: 1, at: instant,
                WatchKey(app: "", identity: person, environment: world.environment), Set(world.people),
                PurchaseHearings(world.events), EventTeller())
        }
    }

    /// - Parameter again: whether it goes on from what is written down, as the ledger does from page to page.
    mutating func play(again: Bool = false) throws {
        isAgain = again
        for event in world.events.dropFirst() {
            var concerned: [IdentityRef: CustomerFacts] = [:]
            for person in world.people {
                let history = world.history(of: person, knownAt: event.position)
                guard history.events.contains(where: { $0.position == event.position }) else { continue }
                concerned[person] = history.facts()
            }
            try pass(until: event.recordedAt)
            position = event.position
            try learn(event, concerned)
        }
        try pass(until: instant.adding(milliseconds: 500 * Span.day))
        for (person, known) in facts where known.customer == person {
            let (sums, faults) = accounts.compare(with: known, at: instant)
            found.sums += sums
            for fault in faults { Issue.record("\(place): \(person): \(fault)") }
        }
    }

    private func walk(_ person: IdentityRef) -> PurchaseWalk? {
        guard isAgain, let walk = walks[person], let known = facts[person] else { return walks[person] }
        return PurchaseWalk(
            known, knownAt: walk.position, at: walk.instant,
            WatchKey(app: "", identity: person, environment: world.environment), Set(world.people),
            PurchaseHearings(world.events), EventTeller())
    }

    /// Purchases are told from facts alone, so no answer is shown.
    private static func known(_ facts: CustomerFacts) -> KnownCustomer { KnownCustomer(facts) { _ in [] } }

    private mutating func learn(_ event: HistoryEvent, _ concerned: [IdentityRef: CustomerFacts]) throws {
        var moves = PurchaseMoves()
        var messages: [OutboxMessage] = []
        for person in world.people {
            guard var walk = walk(person), let before = facts[person], let known = concerned[person] else { continue }
            let told = walk.messages.count
            try walk.pass(until: instant, Self.known(before), knownAt: walk.position)
            facts[person] = known
            try walk.learn(Self.known(known), knownAt: position, .event, &moves)
            messages += walk.messages[told...]
            walks[person] = walk
        }
        let moved = try moves.messages(EventTeller())
        switch event.fact {
        case .link, .transfer, .transferUndo: accounts.ownershipMoved()
        case .claim:
            found.claims += 1
            accounts.ownershipMoved()
        case .notification, .statements, .catalog, .conflict, .grant, .grantRevocation, .drift, .forgetting, .access,
            .storeRequest, .web:
            break
        }
        let isTransfer = if case .transfer = event.fact { true } else { false }
        if moved.contains(where: { $0.type == .transfer }) {
            found.transfers += 1
        } else if isTransfer, Set(moved.map(\.identity)).count == 2 {
            found.partial += 1
        }
        try deliver(messages + moved)
    }

    /// Lets time pass, from one instant at which there may be something to tell to the next.
    private mutating func pass(until end: Timestamp) throws {
        while let next = walks.values.map(\.until).min(), next <= end {
            try look(between: next)
            instant = next
            var messages: [OutboxMessage] = []
            for person in world.people {
                guard var walk = walk(person), let known = facts[person] else { continue }
                let told = walk.messages.count
                try walk.pass(until: next, Self.known(known), knownAt: walk.position)
                messages += walk.messages[told...]
                walks[person] = walk
            }
            try deliver(messages)
        }
        try look(between: end)
        instant = max(instant, end)
    }

    /// Between two instants nothing is told; the clocks go on.
    private mutating func look(between next: Timestamp) throws {
        guard instant.adding(milliseconds: 1) < next else { return }
        let between = random.number(in: instant.milliseconds + 1...next.milliseconds - 1)
        for milliseconds in [between, next.milliseconds - 1] {
            try expectNobodyLockedOut(at: Timestamp(milliseconds: milliseconds))
        }
    }

    /// What is sent to several customers comes in any order, what is sent to one in its own.
    private mutating func deliver(_ messages: [OutboxMessage]) throws {
        var queues = Dictionary(grouping: messages, by: \.identity).mapValues { Array($0) }
        while !queues.isEmpty {
            let person = random.pick(queues.keys.sorted())
            guard let message = queues[person]?.first, let body = message.body else { break }
            let event = try WireJSON.decode(WireValue.self, from: body).members ?? [:]
            if let fault = accounts.take(event, message.type, about: person, at: instant) {
                let what = ["subject", "product_id", "transaction_id"].map(event.text)
                Issue.record("\(place): \(person) \(message.type) \(what): \(fault)")
            }
            sent[person, default: []].append("\(position) \(instant) \(String(decoding: body, as: UTF8.self))")
            queues[person]?.removeFirst()
            if queues[person]?.isEmpty ?? true { queues[person] = nil }
            for index in receivers.indices { try receivers[index].take(body, message.type, about: person) }
            try note(message, body, person)
        }
        try expectNobodyLockedOut(at: instant)
    }

    private mutating func note(_ message: OutboxMessage, _ body: [UInt8], _ person: IdentityRef) throws {
        let members = try WireJSON.decode(WireValue.self, from: body).members ?? [:]
        let end = members.instant("expiration_at_ms")
        let subject = try EventMessage.subject(of: body)
        let until = end.map { "\($0)" } ?? "ever"
        let what = "\(members.text("product_id")) \(members.text("transaction_id"))"
        story.append("\(instant) \(person) \(message.type) \(subject) \(what) until \(until)")
        if message.type == .subscriptionExtended { found.extended += 1 }
        if let graceEnd = members.instant("grace_period_expiration_at_ms") {
            found.graces += 1
            try #require(graceEnd == end, "\(place)")
        }
        if message.type == .expiration { try #require(end.map { $0 <= instant } ?? false, "\(place)") }
        if let end, let bought = members.instant("purchased_at_ms") { try #require(bought <= end, "\(place)") }
        try noteMoney(message.type, members, end)
    }

    /// Money goes back, and a charge fails, of nothing but what was told to be paid for.
    private mutating func noteMoney(_ type: MessageType, _ event: [String: WireValue], _ end: Timestamp?) throws {
        if type.pays, let end, end <= instant { found.late += 1 }
        if type == .billingIssue { found.failures += 1 }
        let reason = event.text("cancel_reason")
        if type == .cancellation, reason == EndReason.customerSupport.rawValue { found.refunds += 1 }
        if type == .refundReversed { found.reversals += 1 }
    }

    private mutating func expectNobodyLockedOut(at instant: Timestamp) throws {
        for person in world.people {
            guard let known = facts[person], known.customer == person else { continue }
            let held = Set(known.answers(at: instant).filter(\.givesAccess).map(\.entitlementID))
            found.held += held.count
            for receiver in receivers {
                let believed = receiver.held(by: person, at: instant)
                let isRight = receiver.rule == .events ? believed == held : held.isSubset(of: believed)
                try #require(
                    isRight, "\(place), looked at \(instant): \(person) has \(held), not \(believed): \(receiver)")
            }
        }
    }

    private var place: String {
        "seed \(world.seed) known at \(position), at \(instant):\n\(story.suffix(25).joined(separator: "\n"))\n"
    }
}
