import EntitlementAPI
import EntitlementCore
import HTTPServer
import Ledger
import Testing

@testable import Service

/// `GET /v1/drift`: who hears of what, page by page.
@Suite("The list of differences", .serialized, .timeLimit(.minutes(5)))
struct DriftRouteTests {
    private static let customers = (0..<8).map { "0a000000-0000-4000-8000-00000000000\($0)" }

    /// Of each of some customers a yearly plan, and a device that names an end nobody knows of; the odd ones in the other
    /// app, every fourth in the sandbox.
    private static func filled() async throws -> ServiceRig {
        let rig = try await ServiceRig.withCatalog(hasOtherApp: true)
        for (number, customer) in customers.enumerated() {
            let isSandbox = number % 4 == 3
            var held = HeldTransaction(
                id: "80\(number)", token: customer, environment: isSandbox ? "Sandbox" : "Production")
            if number % 2 == 1 { held.bundleID = ServiceRig.otherBundleID }
            try await rig.notify(held, uuid: "n\(number)")
            let posted = Posted(
                app: held.bundleID, environment: isSandbox ? .sandbox : .production,
                claims: [.init(productID: held.product, state: .active, until: day(400 + Double(number)))])
            _ = try await rig.answer(customer, posted)
        }
        try await rig.tellApart()
        return rig
    }

    @Test("pages hold every difference once, in order, whatever their length and filter")
    func pages() async throws {
        let rig = try await Self.filled()
        for (query, count) in [("", 6), ("environment=sandbox", 2), ("class=unexplained", 6), ("resolved=false", 6)] {
            let whole = try await rig.drift(query)
            #expect(whole.items.count == count && !whole.hasMore, "\(query)")
            #expect(whole.items.map(\.position) == whole.items.map(\.position).sorted())
            #expect(whole.unexplained == count, "\(query)")
            for limit in 1...4 {
                var found: [DriftListDocument.Item] = []
                var after: Int64 = 0
                while true {
                    let answer = try await rig.get("/v1/drift?\(query)&limit=\(limit)&after=\(after)")
                    let page = try WireJSON.decode(DriftListDocument.self, from: answer.body)
                    #expect(page.items.count <= limit)
                    found += page.items
                    after = page.nextAfter
                    if !page.hasMore { break }
                }
                #expect(found == whole.items, "\(query) in pages of \(limit)")
            }
        }
        for query in ["class=ownership", "resolved=true"] { #expect(try await rig.drift(query).items.isEmpty) }
        #expect(try await rig.get("/v1/drift?limit=5000").status == 200, "a larger limit is clamped")
    }

    @Test("parameters that make no sense are told by name")
    func parameters() async throws {
        let rig = try await ServiceRig.make()
        for (query, name) in [
            ("class=strange", "class"), ("class=", "class"), ("resolved=yes", "resolved"), ("after=x", "after"),
            ("limit=0", "limit"), ("environment=test", "environment"),
        ] {
            let answer = try await rig.get("/v1/drift?\(query)")
            #expect(answer.verdict == "400 malformed_request", "\(query)")
            #expect(try answer.json["param"] == .string(name))
        }
        let empty = try await rig.drift()
        #expect(empty.items.isEmpty && !empty.hasMore && empty.unexplained == 0 && empty.readTo == 0)
    }

    @Test("keys of one app or environment hear of theirs alone, and count them alone")
    func bindings() async throws {
        let rig = try await Self.filled()
        let own = try await rig.keys.create(name: "a", scopes: [.eventsRead], bundleID: ServiceRig.bundleID).secret
        let other = try await rig.keys.create(
            name: "b", scopes: [.eventsRead], bundleID: ServiceRig.otherBundleID
        ).secret
        let list = try await rig.drift(key: own)
        #expect(list.items.compactMap(\.customerID) == [0, 2, 4, 6].map { Self.customers[$0] })
        #expect(list.items.allSatisfy { $0.app == ServiceRig.bundleID } && list.unexplained == 4)
        let others = try await rig.drift(key: other)
        #expect(others.items.compactMap(\.customerID) == [1, 5].map { Self.customers[$0] } && others.unexplained == 2)
        #expect(try await rig.drift("environment=sandbox", key: own).items.isEmpty)
        #expect(try await rig.drift("environment=sandbox", key: other).unexplained == 2)
        let sandbox = try await rig.keys.create(name: "s", scopes: [.eventsRead], environment: .sandbox).secret
        #expect(try await rig.drift(key: sandbox).items.allSatisfy { $0.environment == .sandbox })
        #expect(try await rig.send("GET", "/v1/drift?environment=production", key: sandbox).status == 403)
        // What a device says is its own app's, also of a product that nobody is known to have bought.
        _ = try await rig.answer("c-9", Posted(claims: [.init(productID: "com.example.lifetime", state: .active)]))
        try await rig.tellApart()
        #expect(try await rig.drift().items.last?.customerID == "c-9")
        #expect(try await rig.drift(key: own).items.last?.customerID == "c-9")
        #expect(try await rig.drift(key: other).items.count == 2)
    }

    @Test("the metrics and the projection's standing show what was found")
    func figures() async throws {
        let rig = try await Self.filled()
        let watch = DriftWatch(
            projector: DriftProjector(pool: rig.pool), register: DriftRegister(pool: rig.pool),
            metrics: rig.context.metrics, watch: nil)
        try await watch.look()
        let metrics = try await rig.get("/metrics").text
        for line in [
            #"rightful_drift_open{environment="production",class="unexplained"} 6"#,
            #"rightful_drift_open{environment="sandbox",class="unexplained"} 2"#,
            #"rightful_drift_open{environment="production",class="stale_device"} 0"#,
            #"rightful_drift_found{environment="production",class="unexplained"} 6"#,
        ] { #expect(metrics.contains(line), "\(line)") }
        let ledger = try await rig.get("/v1/ledger").json
        guard case .array(let projections) = ledger["projections"] else {
            Issue.record("no projections")
            return
        }
        #expect(projections.contains { $0["name"] == .string("drift") && $0["checkpoint"] == ledger["position"] })
    }
}
