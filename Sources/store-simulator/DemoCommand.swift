import Foundation
import StoreSimulator

/// Plays the demonstration once, and shows what it led to.
struct DemoCommand {
    let directory: DemoDirectory
    let store: StoreClient

    func run(now: Int64) async throws {
        let authority = try directory.authority()
        if directory.isPlayed {
            say("The demo was played before; nothing is sent again.")
        } else {
            try await play(authority, now: now)
        }
        guard store.canAsk else { return }
        say("\nWhat they are entitled to now, and why:")
        for person in DemoStory.people {
            for line in Self.lines(try await store.entitlements(of: person.customerID)) {
                say("  \(person.name.padded(to: 5)) \(person.customerID)  \(line)")
            }
        }
    }

    private func play(_ authority: SimulatedAuthority, now: Int64) async throws {
        say("The simulated App Store reports:")
        for (step, payload) in try directory.story(authority, now: now) {
            let receipt = try await store.deliver(payload)
            let label = [step.notification.type, step.notification.subtype].compactMap(\.self).joined(separator: "/")
            let day = Date(timeIntervalSince1970: Double(step.notification.signedDate) / 1000)
                .formatted(.iso8601.year().month().day())
            say("  \(day)  \(step.line.padded(to: 66)) \(label.padded(to: 32)) event \(receipt.position)")
        }
        try directory.markPlayed()
    }

    /// One line for all entitlements that read the same.
    private static func lines(_ answer: CustomerAnswer) -> [String] {
        if answer.entitlements.isEmpty { return ["nothing"] }
        var order: [String] = []
        var names: [String: [String]] = [:]
        for entitlement in answer.entitlements {
            let text = text(entitlement)
            if names[text] == nil { order.append(text) }
            names[text, default: []].append(entitlement.id)
        }
        return order.map { "\((names[$0] ?? []).joined(separator: ", ").padded(to: 14)) \($0)" }
    }

    private static func text(_ entitlement: CustomerAnswer.Entitlement) -> String {
        let access = entitlement.givesAccess ? "access" : "no access"
        let until = entitlement.until.map { " until \($0.prefix(10))" } ?? ""
        let events = entitlement.reason.positions.map(String.init).joined(separator: ", ")
        let noun = entitlement.reason.positions.count == 1 ? "event" : "events"
        return (access + until).padded(to: 24) + entitlement.state.padded(to: 17)
            + "because of \(entitlement.reason.code), \(noun) \(events)"
    }
}

extension String {
    func padded(to width: Int) -> String { self + String(repeating: " ", count: max(0, width - count)) }
}
