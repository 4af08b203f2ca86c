import EntitlementAPI
import EntitlementCore
import Foundation
import Ledger
import SeededRandom
import TestSupport
import Testing

@testable import Service

/// Holds what a key of one app is told by a ledger of two apps to what a ledger of that app alone tells anybody.
@Suite("Random lives in two apps", .serialized, .timeLimit(.minutes(60)))
struct AppKeyPropertyTests {
    /// In world 10 a transfer goes to an id that is linked to another app's Apple account, in 28 a dry run transfers to
    /// somebody who is new in the app.
    @Test(
        "a key of one app is answered as by a ledger to which nothing of the other was ever told",
        arguments: Set(Campaign.seeds(1)).union([10, 28]).sorted()
    )
    func sameAnswers(seed: UInt64) async throws {
        var world = try await TwoApps(seed: seed)
        var told: [String] = []
        var held = 0
        for step in 0..<60 {
            told.append(try await world.step())
            guard step % 6 == 5 else { continue }
            let place = "seed \(seed), step \(step):\n\(told.suffix(6).joined(separator: "\n"))"
            for customer in TwoApps.people { held += try await Self.compare(customer, &world, place) }
            try await Self.compareLookups(&world, place)
        }
        // Else nothing would have been compared.
        #expect(held > 60, "seed \(seed)")
    }

    /// Compares what is told of a customer; returns how many entitlements there were.
    private static func compare(_ customer: String, _ world: inout TwoApps, _ place: String) async throws -> Int {
        let environment = world.random.pick(TwoApps.environments)
        let instant = world.own.clock.now.adding(milliseconds: world.random.number(in: -40...40) * 43_200_000)
        let head = try await world.own.head()
        let position = world.random.number(in: 0...head)
        var held = 0
        for question in ["entitlements", "timeline", "explain"] {
            let query = "/\(question)?environment=\(environment)" + (question == "timeline" ? "" : "&at=\(instant)")
            for known in [nil, position] {
                func path(_ customer: String, _ position: Int64?) -> String {
                    "/v1/customers/\(customer)\(query)" + (position.map { "&known_at=\($0)" } ?? "")
                }
                let bound = try await world.whole.send(
                    "GET", path(customer, known.flatMap { world.wholePositions[$0] }), key: world.key)
                // Who was only ever linked, and has nothing here, might be another app's: nothing is said of them.
                let isKnown = try await Self.isKnown(customer, environment, known ?? head, world)
                let asked = isKnown ? customer : Self.nobody
                let expected = try await world.own.get(path(asked, known))
                let differences = world.differences(bound, expected).filter { !$0.hasPrefix("[1].customer_id") }
                #expect(differences == [], "\(path(customer, known)), \(isKnown)\n\(place)")
                held += try expected.json["entitlements"]?.count ?? 0
                if question != "timeline", try expected.json["entitlements"]?.count == 0 {
                    let elsewhere = TwoApps.environments.first { $0 != environment } ?? ""
                    let alsoIn = try await Self.isKnown(customer, elsewhere, known ?? head, world)
                    #expect(try (bound.json["also_in"] != nil) == alsoIn, "\(path(customer, known))\n\(place)")
                }
            }
        }
        func subscriber(_ customer: String) -> String {
            "/revenuecat/v1/subscribers/\(customer)?environment=\(environment)"
        }
        let isKnown = try await Self.isKnown(customer, environment, head, world)
        let shown = try await world.whole.send("GET", subscriber(customer), key: world.key)
        let alone = try await world.own.get(subscriber(isKnown ? customer : Self.nobody))
        // Each ledger gives a grant an id of its own.
        let different = world.differences(shown, alone).filter { difference in
            !difference.contains("\"grant_") && (isKnown || !difference.contains("original_app_user_id"))
        }
        #expect(different == [], "\(subscriber(customer)), \(isKnown)\n\(place)")
        let events = "/v1/customers/\(customer)/events?environment=\(environment)&limit=1000"
        let bound = try await world.whole.send("GET", events, key: world.key).json
        let expected = try await world.own.get(events).json
        let listed = Self.without(["linked"], bound)
        // Links of ids that nothing about the app leads through are not shown.
        #expect(
            world.positions(listed, ofWhole: true)
                == world.positions(Self.without(["linked"], expected), ofWhole: false), "\(place)\n\(events)")
        let all = Set(world.positions(expected, ofWhole: false))
        #expect(all.isSuperset(of: world.positions(bound, ofWhole: true)), "\(place)\n\(events)")
        return held
    }

    private static let nobody = "nobody"

    /// Whether anything but links is known of somebody by the ledger of the one app.
    private static func isKnown(
        _ customer: String, _ environment: String, _ position: Int64, _ world: TwoApps
    ) async throws -> Bool {
        let history = try await world.own.context.reader.history(
            of: #require(CustomerID(customer)), environment: #require(StoreEnvironment(rawValue: environment)),
            knownAt: .position(position))
        return history.events.contains { event in
            switch event.fact {
            case .catalog, .link: false
            default: true
            }
        }
    }

    private static func compareLookups(_ world: inout TwoApps, _ place: String) async throws {
        var paths = TwoApps.originals.flatMap { original in
            TwoApps.environments.map { "/v1/subscriptions/\(original)?environment=\($0)&at=\(world.own.clock.now)" }
                + ["/v1/customers?transaction_id=\(original)0"]
        }
        paths += TwoApps.people.prefix(2).map { "/v1/customers?app_account_token=\($0)" }
        paths += ["701", "702", "801", "802"].map { "/v1/customers?app_transaction_id=\($0)" }
        for path in paths {
            let bound = try await world.whole.send("GET", path, key: world.key)
            let expected = try await world.own.get(path)
            #expect(world.differences(bound, expected) == [], "\(place)\n\(path)")
        }
        let feed = try await world.whole.send("GET", "/v1/events?limit=1000", key: world.key).json
        let expected = try await world.own.get("/v1/events?limit=1000").json
        let held = Self.without(["linked", "granted", "api_key_created"], expected)
        #expect(
            world.positions(feed, ofWhole: true) == world.positions(held, ofWhole: false), "\(place)\nthe feed")
    }

    private static func without(_ types: Set<String>, _ list: WireValue) -> WireValue {
        guard case .array(let items) = list["items"] else { return list }
        return .object([
            "items": .array(
                items.filter { item in
                    guard case .string(let type) = item["type"] else { return true }
                    return !types.contains(type)
                })
        ])
    }
}
