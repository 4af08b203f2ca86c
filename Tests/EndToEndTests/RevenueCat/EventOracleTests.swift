import EntitlementAPI
import EntitlementCore
import RevenueCatAPI
import SeededRandom
import StoreSimulator
import TestSupport
import Testing

/// RevenueCat's events over simulated lives in both stores, with grants, links and transfers, under any policy.
///
/// A receiver that knows nothing but the events lets in whom `GET …/entitlements` lets in, after each of them: what begins, is
/// extended or comes back opens a purchase with its entitlements, EXPIRATION closes it.
@Suite("RevenueCat's events against the entitlements", .timeLimit(.minutes(10)))
struct EventOracleTests {
    @Test("over random lives who reads the events alone lets in whoever has access, and GET agrees with each event")
    func agreement() throws {
        var found: [MessageType: Int] = [:]
        for seed in 1...UInt64(Campaign.factor * 8) {
            let log = try EventWorld(seed)
            for person in log.people {
                for (type, count) in try follow(person, log, "seed \(seed)") { found[type, default: 0] += count }
            }
        }
        // Else much of what there is would not have been met.
        for type in EndpointFormat.revenueCat.types where type != .transfer {
            #expect(found[type, default: 0] > 1, "\(type): \(found)")
        }
    }

    // MARK: - The receiver

    /// Goes through a customer's events and time, as the ledger does.
    private func follow(_ person: IdentityRef, _ log: EventWorld, _ context: String) throws -> [MessageType: Int] {
        var found: [MessageType: Int] = [:]
        var receiver = EventReceiver(.events, .move)
        var ids: Set<String> = []
        var story: [String] = []
        var random = SplitMix64(seed: log.seed ^ UInt64(bitPattern: person.number))
        func history(_ count: Int) -> CustomerHistory {
            CustomerHistory(of: person, environment: log.environment, position: Int64(count), events: log.events)
        }
        var (facts, count) = (history(1).facts(), 1)
        var instant = log.events[0].recordedAt
        func moment(_ facts: CustomerFacts, _ instant: Timestamp) -> CustomerMoment? {
            facts.customer == person
                ? CustomerMoment(
                    facts, knownAt: Int64(count), in: log.environment, names: [person], at: instant,
                    hearings: PurchaseHearings(log.events))
                : nil
        }
        var last = moment(facts, instant)
        func step(_ next: Timestamp) throws {
            let now = moment(facts, next)
            let changes = try EventTeller().changes(from: last, to: now)
            let place = "\(context) \(person) known at \(count), at \(next)"
            try #require(
                try EventTeller().changes(from: now, to: now).isEmpty, "\(place): something came of nothing")
            let subscriber = now.map { Subscriber($0.facts, in: log.environment, hearings: Hearings([], own: [])) }
            let document = subscriber?.document(of: "somebody", at: next)
            let gone = changes.departed.sorted { $0.key < $1.key }.flatMap(\.value.news)
            let come = changes.arrived.sorted { $0.key < $1.key }.flatMap(\.value.news)
            for one in changes.news + gone + come { try receiver.take(one.body, one.type, about: person) }
            // Of what is gone the document has nothing.
            let news = changes.news + come
            for one in news {
                found[one.type, default: 0] += 1
                let event = try WireJSON.decode(WireValue.self, from: one.body)
                let members = try #require(event.members)
                let subject = try EventMessage.subject(of: one.body)
                try #require(
                    ids.insert("\(count) \(next) \(one.type) \(subject)").inserted, "\(place): \(subject) twice")
                let key = subject.split(separator: " ").dropFirst().dropLast().joined(separator: " ")
                story.append("\(next) \(one.type) \(key) \(members.text("product_id"))")
                if let document, let state = facts.originals[members.text("original_transaction_id")],
                    state.chains(facts.catalog).count == 1
                {
                    try expect(members, one.type, in: document, facts, place)
                }
            }
            if let now {
                let answers = now.facts.answers(at: next)
                let held = Set(answers.filter(\.givesAccess).map(\.entitlementID))
                let believed = receiver.held(by: person, at: next)
                try #require(believed == held, "\(place): \(receiver) \(story.suffix(12).joined(separator: "\n"))")
                // Access is never shown to last longer than it does.
                for answer in answers where answer.givesAccess {
                    guard let until = answer.until, let entry = document?.subscriber.entitlements[answer.entitlementID]
                    else { continue }
                    try #require(
                        entry.expiresDate.map { $0 <= WholeSecond(until) } ?? false, "\(place): \(answer) \(entry)")
                }
                if !changes.isEmpty {
                    let after = try WireJSON.decode([String: EntitlementEntry].self, from: changes.after)
                    try #require(after == document?.subscriber.entitlements, "\(place)")
                }
            }
            (last, instant) = (now, next)
        }
        func pass(until end: Timestamp) throws {
            while let next = last.map({ $0.facts.nextPurchaseChange(after: instant) }), next <= end {
                // At whatever other instant one looks, there is nothing to tell.
                let between = random.number(in: instant.milliseconds...next.milliseconds)
                if between < next.milliseconds, last != nil {
                    let early = moment(facts, Timestamp(milliseconds: between))
                    let nothing = try EventTeller().changes(from: last, to: early)
                    try #require(nothing.isEmpty, "\(context) \(person): between \(instant) and \(next)")
                }
                try step(next)
            }
            instant = max(instant, end)
            last = moment(facts, instant)
        }
        for event in log.events.dropFirst() {
            let next = history(Int(event.position))
            guard next.events.contains(where: { $0.position == event.position }) else { continue }
            try pass(until: event.recordedAt)
            (facts, count) = (next.facts(), Int(event.position))
            try step(instant)
        }
        try pass(until: instant.adding(milliseconds: 500 * Span.day))
        return found
    }

    /// An event's dates are the document's.
    private func expect(
        _ event: [String: WireValue], _ type: MessageType, in document: SubscriberDocument, _ facts: CustomerFacts,
        _ place: String
    ) throws {
        let product = event.text("product_id")
        guard let entry = document.subscriber.subscriptions[product], facts.runs(of: product) == 1 else { return }
        // The document may show the same product of another subscription, which goes on.
        guard entry.store != .stripe || entry.storeTransactionID == event.text("original_transaction_id") else {
            return
        }
        var expiry: WholeSecond?
        if case .int(let milliseconds)? = event["expiration_at_ms"] {
            expiry = WholeSecond(Timestamp(milliseconds: milliseconds))
        }
        // What ends within the second of the request is shown as ended the second before.
        let isSame =
            entry.expiresDate == expiry
            || (expiry == document.requestDate && (entry.expiresDate.map { $0 < document.requestDate } ?? false))
        try #require(isSame, "\(place): \(type) \(event) \(entry)")
        let isActive = entry.expiresDate.map { $0 >= document.requestDate } ?? true
        if type == .expiration { try #require(!isActive, "\(place): \(entry)") }
        let period = event.text("period_type").lowercased()
        try #require(period == entry.periodType.rawValue, "\(place): \(type) \(entry)")
        try #require(event.text("store").lowercased() == entry.store.rawValue, "\(place)")
        if entry.store == .appStore {
            try #require(event.text("transaction_id") == entry.storeTransactionID, "\(place): \(type) \(entry)")
        }
    }
}

extension WireValue {
    var members: [String: WireValue]? { if case .object(let members) = self { members } else { nil } }
}

extension [String: WireValue] {
    func text(_ name: String) -> String {
        if case .string(let text)? = self[name] { text } else { "" }
    }

    var entitlementIDs: Set<String> {
        guard case .array(let ids)? = self["entitlement_ids"] else { return [] }
        return Set(ids.compactMap { if case .string(let id) = $0 { id } else { nil } })
    }
}
