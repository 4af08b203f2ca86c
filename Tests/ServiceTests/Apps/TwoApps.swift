import EntitlementAPI
import EntitlementCore
import HTTPServer
import Ledger
import SeededRandom
import Testing

@testable import Service

/// Random lives in two apps, told to one ledger, and to another ledger those of the first app alone: equal seeds give equal
/// worlds.
///
/// Both ledgers are told of every link, grant and catalog, since these hold in every app.
struct TwoApps {
    static let people = [
        "7e3fb20b-4cdb-47cc-936d-99d65f608138", "0f1d2e3c-4b5a-6978-8796-a5b4c3d2e1f0", "c-1", "c-2", "c-3",
        "apple:701", "apple:702", "apple:801", "apple:802",
    ]
    static let originals = ["1", "2", "3", "4", "1001", "1002", "1003"]
    static let environments = ["production", "sandbox"]
    private static let tokens: [String?] = [people[0], people[1], nil, nil]

    /// Holds both apps, and the first alone.
    let whole: ServiceRig
    let own: ServiceRig
    /// Of the ledger of both apps; bound to the first one.
    let key: String
    var random: SplitMix64
    /// Where the events of the other ledger stand in the one of both apps, and the other way round.
    private(set) var wholePositions: [Int64: Int64] = [0: 0]
    private var ownPositions: [Int64: Int64] = [:]
    private var number = 0
    /// The ends of the logs as far as they are paired.
    private var heads: (whole: Int64, own: Int64) = (2, 2)

    init(seed: UInt64) async throws {
        random = SplitMix64(seed: seed)
        whole = try await ServiceRig.withCatalog(hasOtherApp: true)
        own = try await ServiceRig.withCatalog()
        key = try await whole.keys.create(name: "x", scopes: [.admin], bundleID: ServiceRig.bundleID).secret
        for position: Int64 in 1...2 { pair(whole: position, own: position) }
    }

    private mutating func pair(whole: Int64, own: Int64) {
        wholePositions[own] = whole
        ownPositions[whole] = own
    }

    /// Does one thing and says what.
    mutating func step() async throws -> String {
        number += 1
        whole.clock.now = whole.clock.now.adding(milliseconds: random.number(in: 1...900) * 1000)
        own.clock.now = whole.clock.now
        heads = (try await whole.head(), try await own.head())
        let (told, isShared) = try await act()
        if isShared { try await pairNews(told) }
        #expect(try await own.head() == heads.own, "\(told)")
        return "\(told) at \(try await whole.head())"
    }

    /// Notes which of the events that both were just told of are the same.
    private mutating func pairNews(_ told: String) async throws {
        let after = (whole: try await whole.head(), own: try await own.head())
        #expect(after.whole - heads.whole == after.own - heads.own, "\(told)")
        for offset in 0..<(after.own - heads.own) {
            pair(whole: heads.whole + 1 + offset, own: heads.own + 1 + offset)
        }
        heads = after
    }

    private mutating func act() async throws -> (told: String, isShared: Bool) {
        switch random.number(in: 0...99) {
        case 0..<35: return try await notify()
        case 35..<52: return try await post()
        case 52..<70: return try await link()
        case 70..<88: return try await transfer()
        case 88..<96:
            let body = #"{"entitlement":"gift-\#(number)","reason":"a friend"}"#
            return try await shared("grant", random.pick(Self.people), body)
        default:
            let catalog = random.pick([
                ServiceRig.deviceCatalog,
                #"{"products":[{"product_id":"com.example.pro.yearly","entitlements":["premium","more"]}]}"#,
            ])
            for rig in [whole, own] { _ = try await rig.put(catalog, headers: [("Idempotency-Key", "k\(number)")]) }
            return ("catalog", true)
        }
    }

    private mutating func transaction() -> HeldTransaction {
        let original = random.pick(Self.originals)
        let isForeign = original.count > 1
        let period = random.number(in: 0...2)
        let from = 290.0 + 12 * Double(period)
        let isLifetime = original.hasSuffix("3")
        var transaction = HeldTransaction(
            id: "\(original)\(period)", original: original,
            product: isLifetime ? "com.example.lifetime" : "com.example.pro.yearly",
            kind: isLifetime ? "Non-Consumable" : "Auto-Renewable Subscription", from: from,
            until: isLifetime ? nil : from + Double(random.number(in: 8...30)),
            signed: from + Double(random.number(in: 0...20)) / 4, token: random.pick(Self.tokens),
            appTransaction: random.pick([isForeign ? "801" : "701", isForeign ? "802" : "702", nil]),
            revoked: random.chance(10) ? from + 5 : nil, environment: random.chance(80) ? "Production" : "Sandbox")
        if isForeign { transaction.bundleID = ServiceRig.otherBundleID }
        return transaction
    }

    private func rigs(_ isForeign: Bool) -> [ServiceRig] { isForeign ? [whole] : [whole, own] }

    private mutating func notify() async throws -> (String, Bool) {
        let transaction = transaction()
        let renewal = HeldRenewal(
            original: transaction.originalID, signed: transaction.signed, renews: random.chance(70),
            retry: random.chance(20), environment: transaction.environment)
        let isForeign = transaction.bundleID == ServiceRig.otherBundleID
        for rig in rigs(isForeign) {
            try await rig.notify(
                transaction, number % 2 == 0 ? renewal : nil, type: "DID_RENEW", uuid: "uuid-\(number)")
        }
        return ("notification \(transaction)", !isForeign)
    }

    /// A device of anybody's posts: by the bound key in the ledger of both apps, where that may.
    private mutating func post() async throws -> (String, Bool) {
        let transaction = transaction()
        let customer = random.pick(Self.people)
        let isForeign = transaction.bundleID == ServiceRig.otherBundleID
        // An Apple account whose purchase is not known yet is not for a key of one app to name.
        let mayBeBound = !isForeign && !customer.hasPrefix("apple:")
        var answers: [HTTPResponse] = []
        for (index, rig) in rigs(isForeign).enumerated() {
            let posted = Posted(
                app: transaction.bundleID, environment: transaction.environment == "Sandbox" ? .sandbox : .production,
                transactions: [try rig.sign(transaction)])
            answers.append(try await rig.reconcile(customer, posted, key: mayBeBound && index == 0 ? key : nil))
        }
        if !isForeign { try await pairNews("a post") }
        if mayBeBound {
            let (bound, expected) = (answers[0], answers[1])
            #expect(differences(bound, expected) == [], "\(customer) posts \(transaction)")
        }
        return ("\(customer) posts \(transaction)", !isForeign)
    }

    private mutating func link() async throws -> (String, Bool) {
        let linked = random.pick(Self.people)
        let customer = random.chance(20) ? linked : random.pick(Self.people)
        return try await shared("link", customer, #"{"customer_id":"\#(linked)"}"#)
    }

    /// A command that holds in every app.
    private func shared(_ action: String, _ customer: String, _ body: String) async throws -> (String, Bool) {
        let query = "?environment=\(number % 5 == 0 ? "sandbox" : "production")"
        let answers = [
            try await whole.command(action, customer, body, query: query),
            try await own.command(action, customer, body, query: query),
        ]
        #expect(answers[0].verdict == answers[1].verdict, "\(action) \(customer) \(body)")
        return ("\(action) \(customer) \(body) \(answers[0].verdict)", true)
    }

    /// The bound key is to be told the same as whoever asks a ledger of the one app: also of what is foreign to it.
    private mutating func transfer() async throws -> (String, Bool) {
        let (original, from, to) = (random.pick(Self.originals), random.pick(Self.people), random.pick(Self.people))
        let isForeign = original.count > 1
        let environment = random.chance(85) ? StoreEnvironment.production : .sandbox
        let query = "?environment=\(environment.rawValue)"
        let isDryRun = random.chance(25)
        let dryRun = isDryRun ? #","dry_run":true"# : ""
        let body = #"{"original_transaction_id":"\#(original)","to":"\#(to)"\#(dryRun)}"#
        let next = try await whole.head() + 1
        let bound = try await whole.command("transfer", from, body, query: query, key: key)
        if bound.status == 403 {
            // It may not give to an Apple account of which its app knows no purchase, whatever other apps know of it.
            let dry = try await own.command(
                "transfer", from, #"{"original_transaction_id":"\#(original)","to":"\#(to)","dry_run":true}"#,
                query: query)
            #expect(dry.status == 200, "\(from) \(body)")
            guard case .string(let receiver) = try dry.json["to"]?["customer_id"],
                case let name = try await customer(receiver, environment), name.hasPrefix("apple:")
            else { throw TestFailure("\(from) \(body) is refused: \(dry.text)") }
            let known = try await own.get("/v1/customers?app_transaction_id=\(name.dropFirst(6))")
            #expect(try known.json["items"] == .array([]), "\(from) \(body)")
            return ("transfer by \(from) of \(body): \(bound.verdict)", !isForeign)
        }
        let expected = try await own.command("transfer", from, body, query: query)
        // Both speak of the next event, which a dry run does not make.
        ownPositions[next] = try await own.head() + (isDryRun ? 1 : 0)
        defer { if isDryRun || bound.status != 200 { ownPositions[next] = nil } }
        #expect(differences(bound, expected) == [], "\(from) \(body)")
        if isForeign {
            #expect(bound.status == 404)
            _ = try await whole.command("transfer", from, body, query: query)
        }
        return ("transfer by \(from) of \(body): \(bound.verdict)", !isForeign)
    }

    /// Whom an id stands for by the links, which both ledgers were told of.
    private func customer(_ id: String, _ environment: StoreEnvironment) async throws -> String {
        let reader = own.context.reader
        let facts = try await reader.history(
            of: #require(CustomerID(id)), environment: environment, knownAt: .head
        ).facts()
        let end = facts.ownership.customer(of: facts.customer)
        return try await reader.customerIDs(of: [end])[end] ?? id
    }
}

extension TwoApps {
    /// An answer with the positions of the ledger of the one app, and without what differs from ledger to ledger: hashes, how
    /// long the log is, and where else somebody is known, which is compared by itself.
    func comparable(_ response: HTTPResponse, ofWhole isWhole: Bool) -> WireValue {
        guard let json = try? response.json else { return .string("\(response.verdict) \(response.text)") }
        return .array([.string(response.verdict), comparable(json, ofWhole: isWhole)])
    }

    /// Where what the bound key was told by the ledger of both apps differs from what the other ledger tells.
    func differences(_ bound: HTTPResponse, _ expected: HTTPResponse) -> [String] {
        comparable(bound, ofWhole: true).differences(from: comparable(expected, ofWhole: false))
    }

    /// Of several events that each would do, an explanation cites the one that its search comes upon.
    private static let ignored: Set<String> = [
        "request_id", "also_in", "events", "known_at", "position", "evidence_sha256", "previous_hash", "hash",
        "next_after", "ledger_id",
        "written_at",
    ]

    private func comparable(_ value: WireValue, ofWhole isWhole: Bool) -> WireValue {
        switch value {
        case .object(let members):
            var kept: [String: WireValue] = [:]
            for (name, value) in members where !Self.ignored.contains(name) {
                if name == "positions", case .array(let positions) = value {
                    kept[name] = .array(positions.map { place($0, ofWhole: isWhole) })
                } else {
                    kept[name] = comparable(value, ofWhole: isWhole)
                }
            }
            return .object(kept)
        case .array(let values): return .array(values.map { comparable($0, ofWhole: isWhole) })
        case .null, .bool, .int, .double, .string: return value
        }
    }

    /// A position as that of the ledger of one app; one that has none there stays, and so differs.
    private func place(_ value: WireValue, ofWhole isWhole: Bool) -> WireValue {
        guard isWhole, case .int(let position) = value else { return value }
        return .int(ownPositions[position] ?? -position)
    }

    /// The positions of the items of a list, as those of the ledger of one app.
    func positions(_ list: WireValue, ofWhole isWhole: Bool) -> [WireValue] {
        guard case .array(let items) = list["items"] else { return [] }
        return items.compactMap { $0["position"] }.map { place($0, ofWhole: isWhole) }
    }
}

extension WireValue {
    /// Where two values differ: paths, with what stands there.
    func differences(from other: WireValue, at path: String = "") -> [String] {
        switch (self, other) {
        case (.object(let mine), .object(let others)):
            return Set(mine.keys).union(others.keys).sorted().flatMap { name in
                (mine[name] ?? .null).differences(from: others[name] ?? .null, at: path + "." + name)
            }
        case (.array(let mine), .array(let others)) where mine.count == others.count:
            return zip(mine, others).enumerated().flatMap { $1.0.differences(from: $1.1, at: "\(path)[\($0)]") }
        default: return self == other ? [] : ["\(path): \(self.text) ≠ \(other.text)"]
        }
    }

    private var text: String { (try? String(decoding: WireJSON.encode(self), as: UTF8.self)) ?? "?" }
}
