import EntitlementAPI
import EntitlementCore
import Foundation
import HTTPServer
import Ledger
import SeededRandom
import StoreSimulator
import Testing

@testable import Service

/// `POST /v1/catalog/actions/try`: what it says would be is what is once the catalog is applied.
@Suite("Trying a catalog", .serialized, .timeLimit(.minutes(5)))
struct CatalogTrialTests {
    /// What somebody holds of an entitlement.
    private struct Held: Equatable {
        let givesAccess: Bool
        let until: Timestamp?
    }

    private struct Key: Hashable {
        let environment: String
        let customer: String
        let entitlement: String
    }

    /// Random lives, with a link, a grant and a transfer among them.
    private static func filled(_ life: StoreLife, limits: Application.Limits = .init()) async throws -> ServiceRig {
        let rig = try await ServiceRig.make(limits: limits)
        #expect(try await rig.put(String(decoding: life.world.catalogFile.encoded(), as: UTF8.self)).status == 200)
        for notification in life.notifications {
            #expect(try await rig.deliver(rig.store.sign(notification)).status == 200)
        }
        return rig
    }

    private static func held(
        _ rig: ServiceRig, _ customers: [CustomerKey], at: String
    ) async throws -> [Key: Held] {
        var held: [Key: Held] = [:]
        for customer in customers {
            let target =
                "/v1/customers/\(customer.customerID)/entitlements?environment=\(customer.environment)&at=\(at)"
            let document = try WireJSON.decode(EntitlementsDocument.self, from: try await rig.get(target).body)
            for entitlement in document.entitlements {
                let key = Key(
                    environment: customer.environment.rawValue, customer: customer.customerID,
                    entitlement: entitlement.id)
                held[key] = Held(givesAccess: entitlement.givesAccess, until: entitlement.until)
            }
        }
        return held
    }

    /// How many gain, lose, or hold until another instant, by environment and entitlement.
    private static func counts(_ before: [Key: Held], _ after: [Key: Held]) -> [[String]: Int64] {
        Set(before.keys).union(after.keys).reduce(into: [:]) { counts, key in
            let (now, then) = (before[key], after[key])
            let kind: String
            switch (now?.givesAccess ?? false, then?.givesAccess ?? false) {
            case (false, false): return
            case (false, true): kind = "gains"
            case (true, false): kind = "loses"
            case (true, true):
                guard now?.until != then?.until else { return }
                kind = "until"
            }
            counts[[key.environment, key.entitlement, kind], default: 0] += 1
        }
    }

    private static func counts(_ trial: CatalogTrialDocument) -> [[String]: Int64] {
        Dictionary(
            uniqueKeysWithValues: trial.effects.map {
                ([$0.environment.rawValue, $0.entitlement, $0.effect.rawValue], $0.customers)
            })
    }

    private static func attempt(
        _ rig: ServiceRig, _ catalog: String, _ query: String
    ) async throws -> CatalogTrialDocument {
        let answer = try await rig.send(
            "POST", "/v1/catalog/actions/try?\(query)", key: rig.admin, body: Array(catalog.utf8))
        try #require(answer.status == 200, "\(answer.text)")
        return try WireJSON.decode(CatalogTrialDocument.self, from: answer.body)
    }

    /// The world's catalog with something taken out, given away and decided otherwise.
    private static func proposal(_ world: StoreWorld, _ random: inout SplitMix64) throws -> String {
        var changed = world.with { policy in
            policy.graceGivesAccess = Bool.random(using: &random)
            policy.billingRetryGivesAccess = Bool.random(using: &random)
            policy.leewaySeconds = Bool.random(using: &random) ? 0 : 20 * 86_400
            policy.proratedRefund = Bool.random(using: &random) ? .endsAccess : .keepsAccess
        }
        changed.mappings = changed.mappings.compactMap { mapping in
            switch Int.random(in: 0..<6, using: &random) {
            case 0: nil
            case 1: CatalogMapping(mapping.productID, ["gold"], duration: mapping.duration)
            case 2: CatalogMapping(mapping.productID, mapping.entitlements + ["silver"], duration: "P400D")
            default: mapping
            }
        }
        changed.mappings.append(CatalogMapping(StoreWorld.ProductID.mystery, ["mystery"]))
        return String(decoding: try changed.catalogFile.encoded(), as: UTF8.self)
    }

    @Test("the counts are those of everybody's answers before and after it is applied", arguments: [UInt64(1), 2, 3])
    func applied(seed: UInt64) async throws {
        var random = SplitMix64(seed: seed)
        let life = StoreLife.random(seed: seed, customers: 25)
        let rig = try await Self.filled(life)
        var customers = life.record.customers
        // One is another's alias from now on, and is not counted beside that one.
        let inSandbox = Set(customers.filter { $0.environment == .sandbox }.map(\.customerID))
        let linked = customers.filter { $0.environment == .production && !inSandbox.contains($0.customerID) }
        let link = try await rig.send(
            "POST", "/v1/customers/\(linked[0].customerID)/actions/link", key: rig.admin,
            body: Array(#"{"customer_id":"\#(linked[1].customerID)"}"#.utf8))
        #expect(link.status == 200, "\(link.text)")
        customers.removeAll { $0.customerID == linked[1].customerID }
        let grant = try await rig.send(
            "POST", "/v1/customers/nobody-else/actions/grant", key: rig.admin,
            body: Array(#"{"entitlement":"premium","reason":"test"}"#.utf8))
        #expect(grant.status == 200, "\(grant.text)")
        for _ in 0..<3 {
            let at = Timestamp(
                milliseconds: life.world.start + Int64.random(in: 0...500, using: &random) * 86_400_000
            ).description
            let proposed = try Self.proposal(life.world, &random)
            let head = try await rig.context.reader.status().position
            let before = try await Self.held(rig, customers, at: at)
            let trial = try await Self.attempt(rig, proposed, "at=\(at)")
            #expect(trial.complete && trial.nextAfter == nil && trial.knownAt == head)
            #expect(try await rig.context.reader.status().position == head, "it recorded something")
            #expect(try await Self.held(rig, customers, at: at) == before)
            #expect(trial.catalogPosition <= head)

            let applied = try await rig.put(proposed, headers: [("If-Match", "\"\(trial.catalogPosition)\"")])
            #expect(applied.status == 200, "\(applied.text)")
            let after = try await Self.held(rig, customers, at: at)
            let expected = Self.counts(before, after)
            #expect(Self.counts(trial) == expected, "seed \(seed) at \(at)")
            #expect(!expected.isEmpty)
            for effect in trial.effects {
                #expect(effect.examples.count == Int(min(effect.customers, 10)))
                for example in effect.examples {
                    let key = Key(
                        environment: effect.environment.rawValue, customer: example.customerID,
                        entitlement: effect.entitlement)
                    #expect(
                        before[key] == example.before.map { Held(givesAccess: $0.givesAccess, until: $0.until) })
                    #expect(after[key] == example.after.map { Held(givesAccess: $0.givesAccess, until: $0.until) })
                }
            }
            // What was known then is tried as it was then, whatever came since.
            let again = try await Self.attempt(rig, proposed, "at=\(at)&known_at=\(trial.knownAt)")
            #expect(again == trial)
            // What is applied changes nothing more.
            #expect(try await Self.attempt(rig, proposed, "at=\(at)").effects.isEmpty)
        }
    }

    @Test("what one request cannot do goes on with the next, and adds up")
    func parts() async throws {
        let life = StoreLife.random(seed: 7, customers: 60)
        var limits = Application.Limits()
        limits.catalogTrial = .zero
        let rig = try await Self.filled(life, limits: limits)
        let at = Timestamp(milliseconds: life.world.start + 100 * 86_400_000).description
        let before = try await Self.held(rig, life.record.customers, at: at)
        let expected = Self.counts(before, [:])
        var (sum, customers, requests) = ([[String]: Int64](), Int64(0), 0)
        var query = "at=\(at)"
        while true {
            let trial = try await Self.attempt(rig, #"{"products":[]}"#, query)
            sum.merge(Self.counts(trial)) { $0 + $1 }
            customers += trial.customers.reduce(0) { $0 + $1.count }
            requests += 1
            guard let next = trial.nextAfter else { break }
            #expect(!trial.complete)
            query = "at=\(at)&known_at=\(trial.knownAt)&after=\(next)"
        }
        #expect(sum == expected && requests > 1)
        #expect(customers == Int64(life.record.customers.count))
    }

    @Test("another name for what is sold for one payment is remarked, for payments state the name")
    func renamed() async throws {
        let rig = try await ServiceRig.make()
        func catalog(_ names: String..., mode: String = "payment") -> String {
            let products = names.enumerated().map { index, name in
                #"{"product_id":"\#(name)","entitlements":["x"]"#
                    + (index > 0 ? "}" : #","stripe":{"price":"price_1","mode":"\#(mode)"}}"#)
            }
            return #"{"products":[\#(products.joined(separator: ","))]}"#
        }
        #expect(try await rig.put(catalog("old")).status == 200)
        #expect(try await Self.attempt(rig, catalog("new"), "").remarks == ["renamed_one_time_product:old"])
        #expect(try await Self.attempt(rig, catalog("new", "old"), "").remarks == nil, "the old name stays known")
        #expect(try await Self.attempt(rig, #"{"products":[]}"#, "").remarks == nil)
        #expect(try await rig.put(catalog("old", mode: "subscription")).status == 200)
        #expect(try await Self.attempt(rig, catalog("new", mode: "subscription"), "").remarks == nil)
    }

    @Test("it says in what the catalogs differ, and refuses what is none")
    func differences() async throws {
        let rig = try await ServiceRig.make()
        #expect(try await rig.put(ServiceRig.proCatalog).status == 200)
        let proposed =
            #"{"products":[{"product_id":"com.example.other","entitlements":["other"]}],"policy":{"leeway_seconds":1}}"#
        let difference = try await Self.attempt(rig, proposed, "").difference
        #expect(
            difference.productsRemoved == ["com.example.pro.yearly"]
                && difference.productsAdded == ["com.example.other"])
        #expect(difference.entitlementsRemoved == ["premium"] && difference.entitlementsAdded == ["other"])
        #expect(difference.productsChanged.isEmpty && difference.policyChanged)
        for (body, query, verdict) in [
            ("{", "", "400 malformed_request"), (#"{"products":1}"#, "", "400 malformed_request"),
            (proposed, "known_at=100", "422 unprocessable"), (proposed, "after=x", "400 malformed_request"),
            (proposed, "at=x", "400 malformed_request"),
        ] {
            let answer = try await rig.send(
                "POST", "/v1/catalog/actions/try?\(query)", key: rig.admin, body: Array(body.utf8))
            #expect(answer.verdict == verdict, "\(body) \(query): \(answer.text)")
        }
        let bound = try await rig.keys.create(name: "s", scopes: [.catalogWrite], environment: .sandbox).secret
        let answer = try await rig.send("POST", "/v1/catalog/actions/try", key: bound, body: Array(proposed.utf8))
        #expect(answer.verdict == "403 forbidden", "it would tell of customers of both")
    }
}
