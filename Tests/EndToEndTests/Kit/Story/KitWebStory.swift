import EntitlementKit
import Foundation
import SeededRandom
import StoreSimulator
import Testing

/// A life of customers who buy in the app and on the web, made up while it is lived.
struct KitWebStory {
    private typealias Product = StoreWorld.ProductID

    let rig: KitRig
    let shop: KitShop
    private var random: SplitMix64
    private var trace: [String] = []
    private var customers: [Int: String] = [:]

    init(_ service: KitService, seed: UInt64) throws {
        rig = try KitRig(service, seed: seed, context: "seed \(seed)")
        shop = try #require(service.shop)
        random = SplitMix64(seed: seed)
    }

    /// Two devices of somebody who is logged in, and one of somebody who never is.
    static func live(_ service: KitService, seed: UInt64, steps: Int) async throws {
        var story = try KitWebStory(service, seed: seed)
        do {
            try await story.begin(seed)
            for _ in 1...steps { try await story.takeStep() }
            try await story.settle()
        } catch {
            await story.rig.close()
            throw error
        }
        await story.rig.close()
    }

    private mutating func begin(_ seed: UInt64) async throws {
        let customer = "c-web-\(seed)"
        for account in [nil, 0, nil] {
            _ = rig.device(account: account) { [shop, service = rig.service] configuration in
                configuration.webCheckout = KitShop.checkout(shop)
                guard account == 0 || rig.devices.isEmpty else { return }
                configuration.tokenProvider = { CustomerToken(try await service.token($0.customerID)) }
            }
        }
        try await rig.service.link(appTransactionID: rig.appTransactionID(rig.devices[0]), to: customer)
        rig.store.with { store in _ = store.link(account: 0, to: CustomerKey(.production, customer)) }
        customers = [0: customer, 1: customer, 2: rig.customer(rig.devices[2])]
        for device in rig.devices { await launch(device) }
    }

    private func launch(_ device: KitDevice) async {
        let kit = await device.launch()
        guard rig.account(device) == 0, let customer = customers[0],
            let token = try? await rig.service.token(customer)
        else { return }
        _ = await kit.identify(customerID: customer, token: token)
    }

    private mutating func note(_ words: String) {
        trace.append(words)
        rig.context = "\(rig.context.prefix { $0 != "," }), after \(trace.joined(separator: "; "))"
    }

    private mutating func takeStep() async throws {
        let device = random.pick(rig.devices)
        switch random.number(in: 0...99) {
        case 0..<40: try await buy(device)
        case 40..<52:
            note("stripe delivers")
            try await deliver()
        case 52..<58:
            note("the store delivers")
            try await rig.deliver()
        case 58..<72:
            let span = random.pick([Span.minute, 3 * Span.hour, 2 * Span.day, 12 * Span.day, 33 * Span.day])
            note("\(span / Span.hour) h pass")
            rig.service.clock.advance(by: span)
        case 72..<82: act()
        case 82..<88:
            guard let open = shop.stripe.openSessions.first else { return }
            note("pay \(open) later")
            shop.pay(open)
        default:
            note("launch \(device.number)")
            await launch(device)
        }
    }

    private mutating func deliver() async throws {
        var random = random
        let (isShuffled, isTwice) = (random.chance(50), random.chance(30))
        try await shop.deliver(to: rig.service, rig.context) { events in
            let events = isTwice ? events + events : events
            return isShuffled ? random.shuffled(events) : events
        }
        self.random = random
    }

    /// Somebody buys in one way or the other, and the webhook of what they pay comes before they are back, or does not.
    private mutating func buy(_ device: KitDevice) async throws {
        let product = random.pick([
            Product.proMonthly, Product.proYearly, Product.newsMonthly, Product.lifetime, Product.season,
            Product.dayPass,
        ])
        let channel = random.pick([PurchaseChannel.web, .web, .webFirst, .storeKit])
        let manner = random.pick(KitShop.Manner.allCases + [.pays, .pays])
        let isPrompt = random.chance(70)
        note("\(device.number) buys \(product) \(channel), \(manner), prompt: \(isPrompt)")
        let customer = try #require(customers[device.number])
        let entitlements = rig.service.world.entitlements(of: product)
        let before = try await held(by: customer)
        let shown = shop.pages.count
        shop.expect(manner) { [shop, service = rig.service] in
            if isPrompt { await shop.deliverMeanwhile(to: service) }
            // Whoever waits for it in vain does not wait for long.
            Task {
                for _ in 0..<60 {
                    try? await Task.sleep(for: .milliseconds(20))
                    service.clock.advance(by: Span.second)
                }
            }
        }
        let report = await rig.service.buy(product, via: channel, on: device.kit)
        note("\(report.outcome.word) \(report.webUnavailability?.rawValue ?? "")")
        // A page that is opened for what the server has told of as held, all of it, would be paid twice.
        if shop.pages.count > shown {
            #expect(!before.isSuperset(of: entitlements), "\(rig.context): a page was opened for what is held")
        }
    }

    /// What a customer holds by purchase, as the server has been told.
    private func held(by customer: String) async throws -> Set<String> {
        let answer = try await rig.service.admin.send("GET", "/v1/customers/\(customer)/entitlements")
        let items = try #require(answer.json["entitlements"] as? [[String: Any]], "\(answer.text)")
        return Set(items.filter { $0["gives_access"] as? Bool == true }.compactMap { $0["id"] as? String })
    }

    private mutating func act() {
        guard let bought = shop.stripe.purchases().isEmpty ? nil : random.pick(shop.stripe.purchases()) else { return }
        let deed = random.pick(SimulatedStripe.Deed.allCases)
        rig.service.clock.advance(by: 3 * Span.second)
        note("\(deed) \(bought.id)")
        shop.stripe.act(deed, on: bought.paymentID)
        rig.service.clock.advance(by: 3 * Span.second)
    }

    /// Everything is delivered: device, server and both records are one.
    private mutating func settle() async throws {
        note("settle")
        try await deliver()
        try await rig.deliver()
        for device in rig.devices {
            await launch(device)
            _ = await device.kit.refresh()
            await rig.store.waitForAllFinished(on: device.number, rig.context)
        }
        try await rig.deliver()
        let record = record
        for device in rig.devices {
            let customer = try #require(customers[device.number])
            let key = CustomerKey(.production, customer)
            let state = await device.kit.refresh()
            let wanted = record.customer(key).answer(at: rig.service.clock.instant).map { KitLine($0) }
            let lines = state.all.map { KitLine($0) }
            #expect(
                state.isLive && lines == wanted,
                "\(rig.context), device \(device.number): \(state.kind) \(lines) instead of \(wanted)")
            let read = await device.read().all.map { KitLine($0) }
            #expect(read == lines, "\(rig.context), device \(device.number), its extension")
            try await rig.service.admin.expectRecord(
                record.customer(key), of: key, alsoAt: [rig.service.clock.instant], limit: 8, rig.context)
        }
        rig.expectNoViolation()
    }

    /// What is true of what was bought in both stores.
    private var record: Record {
        var record = rig.store.with { $0.record }
        record.world = .standardOnWeb
        record.web = shop.stripe.record
        return record
    }
}

extension PurchaseOutcome {
    fileprivate var word: String {
        switch self {
        case .success: "success"
        case .pending: "pending"
        case .userCancelled: "cancelled"
        case .failed(let error): error.reason.rawValue
        }
    }
}
