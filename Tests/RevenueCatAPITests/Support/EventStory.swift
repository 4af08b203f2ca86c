import EntitlementAPI
import EntitlementCore
import Testing

@testable import RevenueCatAPI

/// An event as it would be sent.
struct SentEvent: CustomStringConvertible {
    let type: MessageType
    let at: Timestamp
    let members: [String: WireValue]
    /// Of the customer's document at that moment.
    let document: SubscriberDocument

    /// The type, with its reason, and when it was sent: days after the beginning.
    var description: String {
        let reasons = ["cancel_reason", "expiration_reason", "new_product_id"].compactMap { name in
            if case .string(let text)? = members[name] { text } else { nil }
        }
        let days = Double(at.milliseconds - day(0).milliseconds) / 86_400_000
        let number = days == days.rounded() ? String(Int(days)) : String(days)
        return ([type.rawValue] + reasons + ["@\(number)"]).joined(separator: " ")
    }

    subscript(_ name: String) -> WireValue? { members[name] }
}

extension TestLog {
    /// What an endpoint is told of a customer that was made right behind a position, by an instant: the time passes, and one
    /// event comes after the other, as the ledger goes through them.
    func told(of customer: IdentityRef = alice, after position: Int = 1, by end: Double) throws -> [SentEvent] {
        func moment(_ count: Int, _ instant: Timestamp) -> CustomerMoment? {
            let history = CustomerHistory(
                of: customer, environment: environment, position: Int64(count), events: events)
            let facts = history.facts()
            guard facts.customer == customer else { return nil }
            return CustomerMoment(
                facts, knownAt: Int64(count), in: environment, names: [customer], at: instant,
                hearings: PurchaseHearings(events))
        }
        var sent: [SentEvent] = []
        var instant = events[position - 1].recordedAt
        var last = moment(position, instant)
        func step(_ count: Int, _ next: Timestamp) throws {
            let now = moment(count, next)
            let changes = try EventTeller().changes(from: last, to: now)
            let news =
                changes.news + changes.departed.sorted { $0.key < $1.key }.flatMap(\.value.news)
                + changes.arrived.sorted { $0.key < $1.key }.flatMap(\.value.news)
            for one in news {
                guard case .object(let members) = try WireJSON.decode(WireValue.self, from: one.body) else { continue }
                sent.append(
                    SentEvent(
                        type: one.type, at: next, members: members,
                        document: document(knownAt: count, at: next, of: customer)))
            }
            (last, instant) = (now, next)
        }
        func pass(until end: Timestamp, _ count: Int) throws {
            while let next = last?.facts.nextPurchaseChange(after: instant), next <= end { try step(count, next) }
            try step(count, max(instant, end))
        }
        for event in events.dropFirst(position) where event.recordedAt <= day(end) {
            let count = Int(event.position)
            try pass(until: event.recordedAt, count - 1)
            try step(count, instant)
        }
        try pass(until: day(end), events.count(where: { $0.recordedAt <= day(end) }))
        return sent
    }

    /// The same in a few words each.
    func story(of customer: IdentityRef = alice, after position: Int = 1, by end: Double) throws -> [String] {
        try told(of: customer, after: position, by: end).map(\.description)
    }

    private func document(knownAt count: Int, at instant: Timestamp, of customer: IdentityRef) -> SubscriberDocument {
        let history = CustomerHistory(of: customer, environment: environment, position: Int64(count), events: events)
        return Subscriber(history).document(of: "alice", at: instant)
    }
}

extension WireValue {
    subscript(_ name: String) -> WireValue? {
        if case .object(let members) = self { members[name] } else { nil }
    }
}
