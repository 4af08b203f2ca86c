import Foundation
import StoreSimulator

/// Plays the demonstration once, and shows what it led to.
struct DemoCommand {
    let directory: DemoDirectory
    let store: StoreClient
    /// The simulated Stripe that has sold on the web what the demo tells of; nil where nothing is sold there.
    let shop: DemoShop?

    func run(now: Int64) async throws {
        let authority = try directory.authority()
        try await shop?.open(deliveringTo: store.url)
        if directory.isPlayed {
            try await DemoReceivers(store).open(at: shop?.url)
            say("The demo was played before; nothing is sent again.")
        } else {
            try await play(authority, now: now)
        }
        guard store.canAsk else { return }
        say("\nWhat they are entitled to now, and why:")
        let onWeb = shop == nil ? [] : [("Eve", DemoWebStory.eve)]
        for (name, customerID) in DemoStory.people.map({ ($0.name, $0.customerID) }) + onWeb {
            for line in Self.lines(try await store.entitlements(of: customerID)) {
                say("  \(name.padded(to: 5)) \(customerID)  \(line)")
            }
        }
    }

    private func play(_ authority: SimulatedAuthority, now: Int64) async throws {
        say("The simulated App Store reports:")
        for (step, payload) in try directory.story(authority, now: now) {
            let receipt = try await store.deliver(payload)
            let label = [step.notification.type, step.notification.subtype].compactMap(\.self).joined(separator: "/")
            tell(step.line, label, at: step.notification.signedDate, receipt)
        }
        if let shop {
            say("The simulated Stripe reports:")
            // Nobody is told of it before its account has it: the service asks there for what an event leaves open.
            try await shop.begin()
            for step in DemoWebStory(now: try directory.storyInstant(now: now)).steps {
                let receipt = try await store.deliver(step.event, signedWith: shop.webhookSecret)
                if let line = step.line { tell(line, step.event.type, at: step.event.created, receipt) }
            }
        }
        let crowd = DemoCrowd(now: try directory.storyInstant(now: now))
        for payload in try directory.signed("demo.crowd", crowd.notifications, authority) {
            _ = try await store.deliver(payload)
        }
        say("They report of \(crowd.count) others as well, so that the console has something to show.")
        try await DemoReceivers(store).open(at: shop?.url)
        if store.canAsk { try await DemoTrouble(store, directory).play(authority, now: now) }
        try directory.markPlayed()
    }

    private func tell(_ line: String, _ label: String, at instant: Int64, _ receipt: StoreClient.Receipt) {
        let day = Date(timeIntervalSince1970: Double(instant) / 1000).formatted(.iso8601.year().month().day())
        say("  \(day)  \(line.padded(to: 66)) \(label.padded(to: 32)) event \(receipt.position)")
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
