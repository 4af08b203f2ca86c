import EntitlementAPI
import Foundation
import Testing

@testable import EntitlementKit

@Suite("Kit, situations: the web first, and what is left where it cannot be", .timeLimit(.minutes(1)))
struct WebFirstTests {
    /// A situation in which nothing can be bought on the web, and the reason.
    struct Situation: Sendable, CustomTestStringConvertible {
        let name: String
        let why: WebUnavailability
        var options = PurchaseOptions()
        /// How the server answers after it has told of the customer once; `nil`: as before.
        var later: ScriptedServer.Mood?
        var device: @Sendable (inout ScriptedStore.Script) -> Void = { _ in }
        var server: @Sendable (inout ScriptedServer.Script) -> Void = { _ in }
        var configuration: @Sendable (inout EntitlementConfiguration) -> Void = { _ in }

        var testDescription: String { name }
    }

    private static func answer(_ members: [String: WireValue]) -> WireValue {
        .object(
            ["id": .string("cs"), "url": .string("https://pay.example.com"), "product_id": .string("monthly")]
                .merging(members) { $1 })
    }

    static let situations = [
        Situation(name: "the app sells nothing on the web", why: .notConfigured) { _ in
        } configuration: {
            $0.webCheckout = nil
        },
        Situation(name: "sync is off", why: .notConfigured) { _ in
        } configuration: {
            $0.isSyncEnabled = false
        },
        Situation(name: "the storefront is not known", why: .storefrontUnknown) { $0.storefront = nil },
        Situation(name: "another country", why: .linkNotAllowed) { $0.storefront = "DEU" },
        Situation(name: "a policy that allows nothing", why: .linkNotAllowed) { _ in
        } configuration: {
            $0.webCheckout?.linkPolicy = .storefronts([])
        },
        Situation(
            name: "an offer of the App Store", why: .optionsNotSold, options: PurchaseOptions(offer: .winBack("w"))),
        Situation(name: "several at once", why: .optionsNotSold, options: PurchaseOptions(quantity: 2)),
        Situation(name: "Xcode's own store", why: .customerUnknown) { _ in
        } configuration: {
            $0.environment = .xcode
        },
        Situation(name: "nobody is known to be here", why: .customerUnknown) { $0.appTransaction = nil },
        Situation(name: "no price on the web", why: .noPrice) { _ in
        } server: {
            $0.shop.prices["monthly"] = nil
        },
        Situation(name: "an older server", why: .notOffered) { _ in
        } server: {
            $0.shop.mood = .status(404)
        },
        Situation(name: "a server that is not set up for it", why: .notOffered) { _ in
        } server: {
            $0.shop.mood = .status(501)
        },
        Situation(name: "offline", why: .unreachable, later: .unreachable),
        Situation(name: "a server that loses its connection in the middle", why: .unreachable) { _ in
        } server: {
            $0.shop.mood = .unreachable
        },
        Situation(name: "a key that may not sell", why: .refused) { _ in
        } server: {
            $0.shop.mood = .status(403)
        },
        Situation(name: "a server that refuses what it is asked", why: .serverFailed, later: .status(403)),
        Situation(name: "too many requests", why: .serverFailed) { _ in
        } server: {
            $0.shop.mood = .status(429)
        },
        Situation(name: "the payment provider is away", why: .serverFailed) { _ in
        } server: {
            $0.shop.mood = .status(503)
        },
        Situation(name: "a list that is none", why: .serverFailed) { _ in
        } server: {
            $0.shop.mood = .says(.int(3))
        },
    ]

    @Test(
        "the store's sheet opens instead, and the report says why; without a way out nothing opens",
        arguments: situations)
    func fallsBack(_ situation: Situation) async {
        let payer = Payer()
        let rig = KitRig.web(payer) {
            $0.purchase = .success(.pending)
            situation.device(&$0)
        } server: {
            situation.server(&$0)
        } configuration: {
            situation.configuration(&$0)
        }
        if let later = situation.later {
            await rig.launch()
            rig.server.edit { $0.mood = later }
        }
        let only = await rig.store.purchase("monthly", via: .web, options: situation.options)
        #expect(only.webUnavailability == situation.why && only.channel == .web)
        guard case .failed(let error) = only.outcome else {
            Issue.record("\(only.outcome)")
            return
        }
        #expect(error.reason == .webUnavailable && error.detail.hasPrefix(situation.why.rawValue))
        #expect(error.webUnavailability == situation.why)
        #expect(rig.device.state.purchases.isEmpty)
        let first = await rig.store.purchase("monthly", via: .webFirst, options: situation.options)
        #expect(first.outcome == .pending && first.channel == .storeKit && first.webUnavailability == situation.why)
        #expect(first.webDetail == only.webDetail)
        #expect(rig.device.state.purchases.count == 1)
        #expect(await payer.pages.isEmpty)
    }

    @Test(
        "an answer that no app should follow is refused",
        arguments: [
            answer(["url": .string("http://pay.example.com")]), answer(["url": .string("javascript:alert(1)")]),
            answer(["url": .string("myapp://pay")]), answer(["id": .string("")]), answer(["id": .null]),
            answer(["product_id": .string("another")]), .array([]), .null,
        ])
    func badAnswer(_ answer: WireValue) async {
        let payer = Payer()
        let rig = KitRig.web(payer) { $0.purchase = .success(.pending) }
        // What is sold was learnt before.
        _ = await rig.store.products()
        rig.server.shop { $0.mood = .says(answer) }
        let report = await rig.store.purchase("monthly", via: .webFirst)
        let detail = "the answer is no page that can be opened"
        #expect(
            report
                == PurchaseReport(
                    outcome: .pending, channel: .storeKit, webUnavailability: .refused, webDetail: detail))
        #expect(await payer.pages.isEmpty)
    }

    private static let elsewhere = "success_url leads to another server than the pages that are configured."

    @Test(
        "what the server says of a refused page is in the report and the log, and what can be mended has its own reason",
        arguments: [
            (
                WebShop.Mood.problem(
                    403, code: "wrong_environment", detail: "No account is configured for production."),
                WebUnavailability.environmentNotConfigured, "No account is configured for production."
            ),
            (.problem(403, code: "forbidden", detail: elsewhere, param: "success_url"), .pageNotAllowed, elsewhere),
            (
                .problem(400, code: "malformed_request", detail: "It is an https address.", param: "cancel_url"),
                .pageNotAllowed, "It is an https address."
            ),
            (
                .problem(422, code: "unprocessable", detail: "The catalog has no such product.", param: "product_id"),
                .refused, "The catalog has no such product."
            ),
            (
                .problem(503, code: "unavailable", detail: "Customer apple:A of a@b.de, by 42 and https://x.y/z?a=b."),
                .serverFailed, "Customer … of … by … and …"
            ),
        ])
    func told(_ mood: WebShop.Mood, _ why: WebUnavailability, _ logged: String) async throws {
        let log = LogNotebook()
        let rig = KitRig.web(Payer()) {
            $0.purchase = .success(.pending)
        } configuration: {
            $0.logger = log
        }
        _ = await rig.store.products()
        rig.server.shop { $0.mood = mood }
        let report = await rig.store.purchase("monthly", via: .webFirst)
        #expect(report.outcome == .pending && report.channel == .storeKit && report.webUnavailability == why)
        guard case .problem(_, _, let detail, _) = mood else { return }
        #expect(report.webDetail == detail)
        #expect(log.lines.contains { $0.contains("cannot be bought on the web: \(why.rawValue); \(logged)") })
        #expect(log.lines.contains { $0.hasPrefix("error purchase: the web checkout") && $0.hasSuffix(logged) })
        #expect(!log.lines.contains { $0.contains("apple:A") })
    }

    @Test("a server that knows better what is owned keeps the store's sheet shut, too")
    func conflict() async {
        let rig = KitRig.web(Payer()) { $0.purchase = .success(.pending) }
        _ = await rig.store.products()
        rig.server.shop { $0.mood = .status(409) }
        let report = await rig.store.purchase("monthly", via: .webFirst)
        #expect(
            report.outcome == .failed(PurchaseError(.alreadyOwned, of: "monthly", detail: "HTTP status 409"))
                && report.channel == .web)
        #expect(rig.device.state.purchases.isEmpty)
    }

    @Test("a server that takes its time is not waited for, and what it still answers is opened by nobody")
    func slowServer() async {
        let door = Door()
        let payer = Payer()
        let rig = KitRig.web(payer) {
            $0.purchase = .success(.pending)
        } server: {
            $0.shop.door = door
        }
        let report = await whileTimePasses(on: rig.clock) { await rig.store.purchase("monthly", via: .webFirst) }
        #expect(report == PurchaseReport(outcome: .pending, channel: .storeKit, webUnavailability: .unreachable))
        await door.open()
        await rig.store.settled()
        #expect(await payer.pages.isEmpty)
    }

    @Test("who logs in and buys at once is sold to on the web, though an answer about who was here before comes first")
    func boughtWithTheLogin() async {
        let (before, after) = (Door(), Door())
        let payer = Payer()
        let rig = KitRig.web(payer) { $0.purchase = .success(.pending) }
        await rig.store.settled()
        guard let copy = await rig.store.current.customerID else {
            Issue.record("nobody has this copy of the app")
            return
        }
        rig.server.edit { $0.doorsByCustomer = [copy: before, "c-1": after] }
        let asking = Task { await rig.store.refresh() }
        while await before.visitors == 0 { await Task.yield() }
        await rig.store.identify(customerID: "c-1", token: "t")
        let buying = Task { await rig.store.purchase("monthly", via: .webFirst) }
        while await after.visitors == 0 { await Task.yield() }
        // The purchase waits by now for an answer, which this is not.
        try? await Task.sleep(for: .milliseconds(50))
        await before.open()
        try? await Task.sleep(for: .milliseconds(50))
        await after.open()
        let report = await whileTimePasses(on: rig.clock) { await buying.value }
        #expect(report.webUnavailability == nil && report.channel == .web, "\(report)")
        #expect(await payer.pages.count == 1)
        _ = await asking.value
    }

    @Test("a store that does not tell its country is not waited for either")
    func slowStorefront() async {
        let door = Door()
        let rig = KitRig.web(Payer()) {
            $0.purchase = .success(.pending)
            $0.doors[.storefront] = door
        }
        let report = await whileTimePasses(on: rig.clock) { await rig.store.purchase("monthly", via: .webFirst) }
        #expect(report.channel == .storeKit && report.webUnavailability == .storefrontUnknown)
        await door.open()
    }

    @Test("whom somebody keeps from buying is not led around that")
    func notAllowed() async {
        let payer = Payer()
        let rig = KitRig.web(payer) { $0.mayPay = false }
        let report = await rig.store.purchase("monthly", via: .webFirst)
        #expect(report.outcome == .failed(PurchaseError(.notAllowed, of: "monthly")))
        #expect(await payer.pages.isEmpty)
        #expect(await rig.store.products().allSatisfy { $0.webPrice == nil && $0.webUnavailability == .notAllowed })
    }

    @Test("prices stand beside each other where both may be offered, and the web's nowhere else")
    func prices() async throws {
        let rig = KitRig.web(Payer()) { _ in
        } server: {
            $0.shop.prices = ["monthly": 399]
        }
        let products = await rig.store.products()
        let monthly = try #require(products.first)
        #expect(monthly.appStorePrice == "$4.99" && monthly.storeKitAvailable)
        #expect(monthly.web == WebPrice(amount: Decimal(string: "3.99") ?? 0, currencyCode: "USD", interval: "month"))
        #expect(monthly.webPrice?.contains("3") == true && monthly.webUnavailability == nil)
        #expect(products.last?.webPrice == nil && products.last?.webUnavailability == .noPrice)
        rig.device.edit { $0.storefront = "FRA" }
        for product in await rig.store.products() {
            #expect(product.webPrice == nil && product.web == nil && product.webUnavailability == .linkNotAllowed)
        }
    }

    @Test(
        "an amount is counted in the currency's smallest unit, as the payment provider has it",
        arguments: [
            (399, "usd", "3.99"), (500, "jpy", "500"), (5000, "kwd", "5"), (1234, "bhd", "1.234"), (-50, "eur", "-0.5"),
            (10000, "isk", "100"), (0, "usd", "0"),
        ] as [(Int64, String, String)])
    func amounts(_ minor: Int64, _ currency: String, _ amount: String) {
        let price = WebPrice(minorUnits: minor, currency: currency, interval: nil)
        #expect(price.amount == Decimal(string: amount))
        #expect(price.currencyCode == currency.uppercased())
    }

    @Test("a price reads as people of a place write it")
    func formatted() {
        let price = WebPrice(minorUnits: 123_400, currency: "usd", interval: nil)
        #expect(price.formatted(Locale(identifier: "en_US")) == "$1,234.00")
    }
}
