import EntitlementAPI
import EntitlementCore
import HTTPServer
import Ledger
import PostgresClient
import SeededRandom
import TestSupport
import Testing

@testable import Service

/// A small world in which everything happens that an answer kept in memory could miss: few people, few purchases, and
/// much that contradicts what was there before.
struct RandomWorld {
    /// Two account tokens, two customers of the server's own, and three app accounts of the store.
    static let people = [
        "7e3fb20b-4cdb-47cc-936d-99d65f608138", "0f1d2e3c-4b5a-6978-8796-a5b4c3d2e1f0", "c-1", "c-2",
        "apple:704000001", "apple:704000002", "apple:704000003",
    ]
    /// Customers of whom nothing is known until a link, a transfer or a grant names them.
    static let newcomers = (1...20).map { "new-\($0)" }
    private static let tokens: [String?] = [people[0], people[1], nil]
    private static let appTransactions: [String?] = ["704000001", "704000002", "704000003", nil]
    private static let environments = ["Production", "Production", "Sandbox"]
    private static let onTheWeb = """
        {"product_id":"web.monthly","entitlements":["premium"],\
        "stripe":{"price":"price_1","product":"prod_1","mode":"subscription"}},\
        {"product_id":"web.book","entitlements":["book"],"stripe":{"price":"price_2","mode":"payment"}}
        """
    private static let catalogs = [
        ServiceRig.deviceCatalog.replacing("[{", with: "[\(onTheWeb),{", maxReplacements: 1),
        #"{"products":[{"product_id":"com.example.pro.yearly","entitlements":["premium","more"]},\#(onTheWeb)]}"#,
        #"{"products":[{"product_id":"com.example.lifetime","entitlements":["premium"]}]}"#,
    ]
    private static let webPurchases = ["sub_1", "sub_2", "sub_3", "pi_1", "pi_2"]

    /// A body that a device posts, again and again.
    struct Launch {
        let customer: String
        let query: String
        let key: String
        let body: [UInt8]
    }

    let rig: ServiceRig
    var random: SplitMix64
    private(set) var launches: [Launch] = []
    /// A secret key, publishable keys of each environment, one of an app that is not configured, tokens of four people in
    /// both environments, and a publishable key that is good for both.
    private var keys: [String] = []
    private var grants: [String] = []
    private var number = 0

    init(_ rig: ServiceRig, seed: UInt64) async throws {
        self.rig = rig
        random = SplitMix64(seed: seed)
        keys = [
            rig.admin, try await rig.publishableKey(), try await rig.publishableKey(environment: .sandbox),
            try await rig.publishableKey(bundleID: "com.example.other"),
        ]
        for person in Self.people.prefix(4) {
            keys.append(try await rig.token(person))
            keys.append(try await rig.token(person, environment: "sandbox"))
        }
        keys.append(try await rig.publishableKey(environment: nil))
        #expect(try await rig.put(Self.catalogs[0]).status == 200)
        for person in [0, 1, 0, 1, 0, 1] {
            _ = try await rig.link(Self.people[4 + person], to: Self.people[person])
            launches.append(try device(of: person))
        }
    }

    /// Does one thing, or lets time pass, and says what.
    mutating func step() async throws -> String {
        number += 1
        moveClock()
        switch random.number(in: 0...99) {
        case 0..<20: return try await notify()
        case 20..<38: return try await post()
        case 38..<48: return try await sell()
        case 48..<60: return try await link()
        case 60..<72: return try await transfer()
        case 72..<88: return try await grant()
        case 88..<92:
            let answer = try await rig.put(random.pick(Self.catalogs))
            return "catalog \(answer.status)"
        case 92..<95:
            let forgetter = Forgetter(pool: PostgresPool(rig.database.ownerConninfo), now: rig.context.now)
            let person = random.pick(Self.people)
            guard let customer = CustomerID(person) else { return "nothing" }
            return "forget \(person) \(try await forgetter.forget(customer) != nil)"
        case 95..<97:
            try await rig.writeViews()
            return "snapshots"
        default:
            rig.clock.now = rig.clock.now.adding(milliseconds: random.number(in: -10...30) * 86_400_000)
            return "clock at \(rig.clock.now)"
        }
    }

    /// What an instance may be asked of somebody, as a path's end.
    mutating func query(head: Int64) -> String {
        var items: [String] = []
        if random.chance(40) { items.append("environment=\(random.pick(["production", "sandbox"]))") }
        if random.chance(35) {
            let at = rig.clock.now.adding(milliseconds: random.number(in: -40...40) * 43_200_000)
            items.append("at=\(at)")
        }
        if random.chance(35) { items.append("known_at=\(random.number(in: max(0, head - 12)...(head + 1)))") }
        return items.isEmpty ? "" : "?" + random.shuffled(items).joined(separator: "&")
    }

    private mutating func moveClock() {
        // A clock that was set back by a little is nothing unusual.
        let seconds = random.chance(10) ? -random.number(in: 1...90) : random.number(in: 0...600)
        rig.clock.now = rig.clock.now.adding(milliseconds: seconds * 1000)
    }

    /// A period of one of five purchases; mostly it names the person whose the purchase is in most statements.
    private mutating func transaction(environment: String, of person: Int? = nil) -> HeldTransaction {
        let isOrdinary = person != nil || random.chance(60)
        let owner = person ?? Int(random.number(in: 0...1))
        let original = isOrdinary ? Int64(1 + 2 * owner) + random.number(in: 0...1) : random.number(in: 1...5)
        let isLifetime = original > 3
        let period = random.number(in: 0...2)
        let from = 290.0 + 12 * Double(period)
        return HeldTransaction(
            id: "\(original)\(period)", original: "\(original)",
            product: isLifetime ? "com.example.lifetime" : "com.example.pro.yearly",
            kind: isLifetime ? "Non-Consumable" : "Auto-Renewable Subscription", from: from,
            until: isLifetime ? nil : from + Double(random.number(in: 8...30)),
            signed: from + Double(random.number(in: 0...20)) / 4,
            token: isOrdinary ? Self.tokens[owner] : random.pick(Self.tokens),
            appTransaction: isOrdinary ? Self.appTransactions[owner] : random.pick(Self.appTransactions),
            revoked: random.chance(10) ? from + 5 : nil,
            environment: environment)
    }

    private mutating func renewal(of transaction: HeldTransaction) -> HeldRenewal {
        HeldRenewal(
            original: transaction.originalID, signed: transaction.signed, renews: random.chance(70),
            retry: random.chance(20), environment: transaction.environment)
    }

    private mutating func notify() async throws -> String {
        let transaction = transaction(environment: random.pick(Self.environments))
        let renewal = random.chance(60) ? renewal(of: transaction) : nil
        try await rig.notify(
            transaction, renewal, type: transaction.revoked == nil ? "DID_RENEW" : "REFUND", uuid: "uuid-\(number)")
        return "notification \(transaction)"
    }

    /// Something that Stripe says of one of five purchases; it may name several people, each time others.
    private mutating func sell() async throws -> String {
        let original = random.pick(Self.webPurchases)
        let from = day(290 + 12 * Double(random.number(in: 0...2)))
        let end = from.adding(milliseconds: random.number(in: 8...30) * 86_400_000)
        var fact = WebFact(
            type: WebFact.readingLabel, eventID: nil,
            statedAt: from.adding(milliseconds: random.number(in: 0...20) * 21_600_000),
            payloadHash: RandomDrafts.digest("web \(number)"), originalTransactionID: original)
        if original.hasPrefix("pi_") {
            fact.payment = WebPayment(
                paidAt: from, isPaidByEvent: random.chance(50), amount: 4999, currency: "usd", catalogProductID: nil,
                products: [WebProduct(price: "price_2", product: nil)])
            if random.chance(15) {
                fact.refunds = [
                    WebRefund(
                        refundID: "re_\(original)", amount: 4999, currency: "usd", status: .known(.succeeded),
                        created: end,
                        paymentIntent: original, charge: nil)
                ]
            }
        } else {
            let sold = WebProduct(price: "price_1", product: "prod_1")
            let line = WebLine(
                lineID: "il_\(number)", item: "si_1", product: sold, start: from, end: end, isProration: false,
                amount: 999)
            fact.invoices = [
                WebInvoice(invoiceID: "in_\(number)", paidAt: from, amountPaid: 999, currency: "usd", lines: [line])
            ]
            fact.subscription = WebSubscription(
                status: .known(random.pick([.active, .active, .pastDue, .canceled])),
                items: [WebItem(item: "si_1", product: sold, periodStart: from, periodEnd: end)],
                endedAt: random.chance(15) ? end : nil)
        }
        let places = random.shuffled(WebOwner.Place.allCases).prefix(Int(random.number(in: 0...2)))
        let named = places.map { _ in anybody() }
        fact.owners = places.enumerated().map { WebOwner(place: $1, customer: IdentityRef(Int64($0))) }
        let environment = random.pick([StoreEnvironment.production, .production, .sandbox])
        _ = try await rig.ledger.writer.append(
            EventDraft(
                environment: environment, source: .stripeAPI, type: fact.type, occurredAt: nil, fact: .web(fact),
                identities: named, deduplication: .unique))
        return "\(original) in \(environment) of \(zip(places, named).map { "\($1) by \($0)" })"
    }

    /// Makes a device, whose first launch is still to come, or lets one start again.
    private mutating func post() async throws -> String {
        guard launches.count < 12 || random.chance(30) else {
            let launch = random.pick(launches)
            let answer = try await send(launch)
            return "launch of \(launch.customer) again: \(answer.status)"
        }
        // Most devices hold what is theirs; the others contradict them.
        let launch = try device(of: random.chance(70) ? Int(random.number(in: 0...1)) : nil)
        if launches.count < 12 {
            launches.append(launch)
        } else {
            launches[Int(random.number(in: 0...11))] = launch
        }
        let answer = try await send(launch)
        return "first launch of \(launch.customer): \(answer.status)"
    }

    /// A device of one of the two people with an account token, or one that holds anything.
    private mutating func device(of person: Int?) throws -> Launch {
        let environment = random.pick(Self.environments)
        let isSandbox = environment == "Sandbox"
        var posted = Posted()
        // Some have bought nothing, and post their app transaction alone.
        let transactions = (0..<random.number(in: random.chance(15) ? 0...0 : 1...3)).map { _ in
            transaction(environment: environment, of: person)
        }
        posted.transactions = try transactions.map { try rig.sign($0) }
        if random.chance(40), let first = transactions.first {
            posted.renewals = [try rig.sign(renewal(of: first))]
        }
        if random.chance(60), let id = person.map({ Self.appTransactions[$0] }) ?? random.pick(Self.appTransactions) {
            posted.appTransaction = try rig.signAppTransaction(id, environment: environment)
        }
        if random.chance(30) { posted.environment = .auto }
        if random.chance(15) {
            posted.claims = [ReconcileRequest.Claim(productID: "com.example.pro.yearly", state: .active)]
        }
        var key = random.pick(keys)
        if let person, random.chance(70) {
            key = random.pick([rig.admin, keys[isSandbox ? 2 : 1], keys[4 + 2 * person + (isSandbox ? 1 : 0)]])
        }
        var customer = person.map { Self.people[$0] } ?? anybody()
        if random.chance(20) {
            // Somebody logs in on it, whosever it is.
            let login = Int(random.number(in: 0...3))
            (customer, key) = (Self.people[login], keys[4 + 2 * login + (isSandbox ? 1 : 0)])
        }
        return Launch(
            customer: customer,
            query: random.chance(60) ? "?environment=\(environment.lowercased())" : "", key: key,
            body: try posted.body)
    }

    private func send(_ launch: Launch) async throws -> HTTPResponse {
        try await rig.send(
            "POST", "/v1/customers/\(launch.customer)/reconcile\(launch.query)", key: launch.key, body: launch.body)
    }

    private var sandboxQuery: String {
        mutating get { random.chance(25) ? "?environment=sandbox" : "" }
    }

    private mutating func link() async throws -> String {
        let (customer, other) = (anybody(), anybody())
        if random.chance(30) {
            // Perhaps one that a login made.
            let undone = random.number(in: 1...max(1, try await rig.head))
            let answer = try await rig.command("link", customer, #"{"undo":\#(undone)}"#, query: sandboxQuery)
            return "undoing of \(undone) for \(customer) \(answer.status)"
        }
        let answer = try await rig.link(other, to: customer)
        return "link \(other) to \(customer) \(answer.status)"
    }

    private mutating func transfer() async throws -> String {
        let (customer, other) = (random.pick(Self.people), anybody())
        let undone = random.number(in: 1...max(1, try await rig.head))
        let original = random.chance(30) ? random.pick(Self.webPurchases) : String(random.number(in: 1...5))
        let body =
            random.chance(25)
            ? #"{"undo":\#(undone)}"#
            : #"{"original_transaction_id":"\#(original)","to":"\#(other)"}"#
        let answer = try await rig.command("transfer", customer, body, query: sandboxQuery)
        return "transfer from \(customer) \(body) \(answer.status)"
    }

    private mutating func anybody() -> String {
        random.pick(random.chance(20) ? Self.newcomers : Self.people)
    }

    private mutating func grant() async throws -> String {
        let customer = anybody()
        if random.chance(25), !grants.isEmpty {
            let body = #"{"grant_id":"\#(random.pick(grants))","reason":"r"}"#
            let answer = try await rig.command("revoke_grant", customer, body)
            return "revoke of \(customer) \(answer.status)"
        }
        let until = rig.clock.now.adding(milliseconds: random.number(in: 1...20) * 3_600_000)
        let end = random.chance(50) ? #","until":"\#(until)""# : ""
        let answer = try await rig.command(
            "grant", customer, #"{"entitlement":"\#(random.pick(["premium", "gift"]))","reason":"r"\#(end)}"#,
            query: sandboxQuery)
        if case .string(let id) = try? answer.json["grant_id"] { grants.append(id) }
        return "grant to \(customer)\(end) \(answer.status)"
    }
}
