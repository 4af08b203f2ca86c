import EntitlementCore
import HTTPServer
import PostgresClient
import TestSupport
import Testing

@testable import Service

/// What becomes of answers in memory when the database is not the one any more that they were read from.
@Suite("A log that was restored or failed over", .serialized, .timeLimit(.minutes(5)))
struct RestoredLogTests {
    private static let ann = Purchase.customer

    @Test("nothing read before is answered from memory when the log lost events, however long it is again")
    func lostEvents() async throws {
        let rig = try await EntitlementsTests.rig()
        let instance = try await ServedInstance.start(on: rig)
        let owner = try await rig.database.owner()
        for round in 0..<3 {
            let end = try await LogEnd.now(of: owner)
            let lost = try await Self.grant("lost-\(round)", rig)
            for _ in 0..<2 {
                let read = try await instance.read(Self.ann, key: rig.admin)
                #expect(read.body.contains("lost-\(round)") && read.position == lost)
                let past = try await instance.read(Self.ann, query: "?known_at=\(lost)", key: rig.admin)
                #expect(past.body.contains("lost-\(round)"))
            }
            try await end.restore(by: owner)
            // Another position than before, the same one, and a later one.
            let fresh = rig.restarted()
            for number in 0..<round { _ = try await Self.grant("new-\(round)-\(number)", rig, fresh) }
            for query in ["", "?known_at=\(try await rig.head)"] {
                let read = try await instance.read(Self.ann, query: query, key: rig.admin)
                let expected = try await instance.generalAnswer(Self.ann, query: query, key: rig.admin, by: fresh)
                #expect(read == expected, "round \(round)\(query)")
                #expect(!read.body.contains("lost"), "round \(round)\(query)")
            }
        }
        await instance.stop()
    }

    @Test("a catalog that was lost is not taken for the one that came in its place")
    func lostCatalog() async throws {
        let rig = try await EntitlementsTests.rig()
        let instance = try await ServedInstance.start(on: rig)
        func catalog(_ entitlement: String) -> String {
            #"{"products":[{"product_id":"com.example.pro.yearly","entitlements":["\#(entitlement)"]}]}"#
        }
        let owner = try await rig.database.owner()
        let end = try await LogEnd.now(of: owner)
        #expect(try await rig.put(catalog("lost")).status == 200)
        #expect(try await instance.read(Self.ann, key: rig.admin).body.contains("lost"))
        try await end.restore(by: owner)
        let head = HTTPRequestHead(
            method: "PUT", target: "/v1/catalog", headers: [("Authorization", "Bearer " + rig.admin)])
        let put = await rig.restarted().handle(try HTTPRequest(head: head, body: Array(catalog("new").utf8)))
        #expect(put.status == 200, "\(put.text)")
        let read = try await instance.read(Self.ann, key: rig.admin)
        #expect(read.body.contains("new") && !read.body.contains("lost"), "\(read)")
        // To write what was lost once more is an event again.
        try await end.restore(by: owner)
        #expect(try await rig.put(catalog("lost")).status == 200)
        #expect(try await instance.read(Self.ann, key: rig.admin).body.contains("lost"))
        await instance.stop()
    }

    @Test("a launch whose answer rests on what was lost since is not answered so again")
    func lostLaunch() async throws {
        let rig = try await ServiceRig.withCatalog()
        let instance = try await ServedInstance.start(on: rig)
        let body = try Posted(
            transactions: [rig.sign(HeldTransaction(token: Self.ann, appTransaction: "704000001"))], renewals: [],
            appTransaction: rig.signAppTransaction("704000001"), claims: []
        ).body
        _ = try await instance.reconcile(Self.ann, body, key: rig.admin)
        let owner = try await rig.database.owner()
        for round in 0..<3 {
            // The event loop knows the log up to here; what comes next it has not asked for when it is lost.
            _ = try await instance.read(Self.ann, key: rig.admin)
            let end = try await LogEnd.now(of: owner)
            _ = try await Self.grant("lost-\(round)", rig)
            #expect(try await instance.reconcile(Self.ann, body, key: rig.admin).body.contains("lost-\(round)"))
            try await end.restore(by: owner)
            let fresh = rig.restarted()
            for number in 0..<round { _ = try await Self.grant("new-\(round)-\(number)", rig, fresh) }
            let launch = try await instance.reconcile(Self.ann, body, key: rig.admin)
            let expected = try await instance.generalReconciliation(Self.ann, body, key: rig.admin)
            #expect(launch == expected, "round \(round)")
            #expect(!launch.body.contains("lost"), "round \(round)")
        }
        await instance.stop()
    }

    @Test("metrics show where the log ends now, also where it was longer before")
    func lostHead() async throws {
        let rig = try await EntitlementsTests.rig()
        func shows(_ position: Int64) async throws -> Bool {
            try await rig.get("/metrics").text.contains("\nrightful_ledger_head_position \(position)\n")
        }
        let owner = try await rig.database.owner()
        let end = try await LogEnd.now(of: owner)
        let before = try await rig.head
        let lost = try await Self.grant("lost", rig)
        #expect(lost > before)
        #expect(try await shows(lost))
        try await end.restore(by: owner)
        #expect(try await shows(before))
    }

    private static func grant(
        _ entitlement: String, _ rig: ServiceRig, _ application: Application? = nil
    ) async throws -> Int64 {
        rig.wait()
        let head = HTTPRequestHead(
            method: "POST", target: "/v1/customers/\(ann)/actions/grant",
            headers: [("Authorization", "Bearer " + rig.admin)])
        let body = Array(#"{"entitlement":"\#(entitlement)","reason":"test"}"#.utf8)
        let answer = await (application ?? rig.application).handle(try HTTPRequest(head: head, body: body))
        #expect(answer.status == 200, "\(answer.text)")
        rig.wait()
        return try #require(answer.header("Ledger-Position").flatMap { Int64($0) })
    }
}

extension ServiceRig {
    /// The service as a new process would have it: nothing is remembered of the log.
    fileprivate func restarted() -> Application { secondInstance() }
}
