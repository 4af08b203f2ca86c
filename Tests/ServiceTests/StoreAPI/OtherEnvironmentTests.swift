import EntitlementAPI
import EntitlementCore
import HTTPServer
import Ledger
import Testing

@testable import Service

/// What is told to somebody who names an original transaction that another environment knows.
@Suite("An id that another environment knows", .serialized, .timeLimit(.minutes(5)))
struct OtherEnvironmentTests {
    private static let id = "2000000000000001"

    @Test("the 404 says where it is known, to whoever may read it there, and to nobody else")
    func hint() async throws {
        let rig = try await ServiceRig.withCatalog(hasOtherApp: true, asksStore: true)
        try await rig.notify(HeldTransaction(id: Self.id, environment: "Sandbox"), uuid: "n1")
        func key(_ environment: StoreEnvironment?, _ app: String?) async throws -> String {
            try await rig.keys.create(
                name: "k", scopes: [.customersRead, .customersWrite], environment: environment, bundleID: app
            ).secret
        }
        let own = ServiceRig.bundleID
        let rows: [(key: String, isTold: Bool)] = [
            (rig.admin, true), (try await key(nil, own), true),
            (try await key(nil, ServiceRig.otherBundleID), false), (try await key(.production, nil), false),
        ]
        for (number, row) in rows.enumerated() {
            let read = try await rig.send(
                "GET", "/v1/subscriptions/\(Self.id)?environment=production", key: row.key)
            let unknown = try await rig.send("GET", "/v1/subscriptions/7?environment=production", key: row.key)
            let app = number == 2 ? ServiceRig.otherBundleID : own
            let check = try await rig.check(
                Self.id, query: "?environment=production", body: #"{"app":"\#(app)"}"#, key: row.key)
            for answer in [read, check] {
                #expect(answer.verdict == "404 not_found", "\(number): \(answer.text)")
                #expect(answer.text.contains("It is known in sandbox") == row.isTold, "\(number): \(answer.text)")
            }
            // What may not be told is told as what nobody knows.
            #expect(try row.isTold || read.json["detail"] == unknown.json["detail"])
            #expect(!unknown.text.contains("sandbox"))
        }
        #expect(
            try await rig.get("/v1/subscriptions/\(Self.id)?environment=sandbox").status == 200)
        // Nor what was not known then.
        let past = try await rig.get("/v1/subscriptions/\(Self.id)?environment=production&known_at=1")
        #expect(past.status == 404 && !past.text.contains("sandbox"))
    }

    @Test("a look-up finds whose something is behind originals of which nothing is told")
    func lookup() async throws {
        let rig = try await ServiceRig.withCatalog()
        let (mine, other) = ("0a000000-0000-4000-8000-00000000000a", "0f1d2e3c-4b5a-6978-8796-a5b4c3d2e1f0")
        // Claimed in vain, and so named beside an original that is somebody else's.
        let foreign = HeldTransaction(id: "100", token: other)
        try await rig.notify(foreign, uuid: "n1")
        _ = try await rig.answer(mine, Posted(transactions: [try rig.sign(foreign)]))
        try await rig.notify(HeldTransaction(id: "200", token: mine), uuid: "n2")
        let reader = rig.context.reader
        for most in 1...2 {
            let found = try await reader.customers(.appAccountToken(mine), most: most)
            #expect(found.matches.map(\.originalTransactionID) == ["200"] && !found.hasMore, "\(most)")
        }
        try await rig.notify(HeldTransaction(id: "300", token: mine), uuid: "n3")
        let first = try await reader.customers(.appAccountToken(mine), most: 1)
        #expect(first.matches.map(\.originalTransactionID) == ["200"] && first.hasMore)
    }
}
