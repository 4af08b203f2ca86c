import EntitlementAPI
import EntitlementCore
import HTTPServer
import Ledger
import Testing

@testable import Service

/// What a command would change, told before it is sent.
@Suite("Foreseeing commands", .serialized, .timeLimit(.minutes(5)))
struct PreviewTests {
    private func post(_ rig: ServiceRig, _ customer: String, _ action: String, _ body: String) async throws
        -> HTTPResponse
    {
        try await rig.send(
            "POST", "/v1/customers/\(customer)/actions/\(action)", key: rig.admin, body: Array(body.utf8))
    }

    /// Foresees a command, carries it out, and expects that everybody then reads as was foreseen.
    private func expectForeseen(
        _ rig: ServiceRig, _ customer: String, _ action: String, _ body: String, names: [String],
        sourceLocation: SourceLocation = #_sourceLocation
    ) async throws -> HTTPResponse {
        let head = try await rig.context.reader.status().position
        let answer = try await post(rig, customer, "preview", #"{"\#(action)":\#(body)}"#)
        try #require(answer.status == 200, "\(answer.text)", sourceLocation: sourceLocation)
        let preview = try WireJSON.decode(PreviewDocument.self, from: answer.body)
        #expect(preview.knownAt == head, sourceLocation: sourceLocation)
        #expect(preview.customers.map(\.customerID) == names, sourceLocation: sourceLocation)
        #expect(try await rig.context.reader.status().position == head, sourceLocation: sourceLocation)
        for side in preview.customers {
            #expect(try await read(rig, side.customerID) == ids(side.before), sourceLocation: sourceLocation)
        }
        let done = try await post(rig, customer, action, body)
        #expect(done.status == 200, "\(done.text)", sourceLocation: sourceLocation)
        // What begins with the command began before that.
        rig.clock.now = rig.clock.now.adding(milliseconds: 1000)
        for side in preview.customers {
            #expect(try await read(rig, side.customerID) == ids(side.after), sourceLocation: sourceLocation)
        }
        return done
    }

    /// What matters of entitlements, their events aside: a foreseen one has no id yet.
    private func ids(_ held: [EntitlementDocument]) -> [String] {
        held.map { "\($0.id) \($0.state) \($0.givesAccess) \($0.until.map { "\($0)" } ?? "-") \($0.source)" }
    }

    private func read(_ rig: ServiceRig, _ customer: String) async throws -> [String] {
        let answer = try await rig.get("/v1/customers/\(customer)/entitlements")
        return ids(try WireJSON.decode(EntitlementsDocument.self, from: answer.body).entitlements)
    }

    @Test("a grant, its revocation, a link and its undoing turn out as foreseen, and foreseeing records nothing")
    func foreseen() async throws {
        let rig = try await ServiceRig.make()
        _ = try await rig.put(ServiceRig.proCatalog)
        try await rig.notify(Purchase())
        let grant = try await expectForeseen(
            rig, "c-9", "grant", #"{"entitlement":"premium","until":"2026-12-01T00:00:00Z","reason":"r"}"#,
            names: ["c-9"])
        guard case .string(let id)? = try grant.json["grant_id"] else {
            Issue.record("\(grant.text)")
            return
        }
        let revocation = #"{"grant_id":"\#(id)","reason":"r"}"#
        _ = try await expectForeseen(rig, "c-9", "revoke_grant", revocation, names: ["c-9"])
        // It is so already.
        _ = try await expectForeseen(rig, "c-9", "revoke_grant", revocation, names: ["c-9"])
        let token = #"{"app_account_token":"\#(Purchase.customer)"}"#
        let link = try await expectForeseen(rig, "c-9", "link", token, names: ["c-9", Purchase.customer])
        #expect(try await read(rig, "c-9").contains { $0.hasPrefix("premium active true 2027") })
        guard case .int(let position)? = try link.json["position"] else {
            Issue.record("\(link.text)")
            return
        }
        _ = try await expectForeseen(
            rig, "c-9", "link", #"{"undo":\#(position)}"#, names: ["c-9", Purchase.customer])
        #expect(try await read(rig, "c-9").allSatisfy { $0.contains("false") })
    }

    @Test("whoever has what is to be linked is told of, because they lose it")
    func holder() async throws {
        let rig = try await ServiceRig.make()
        _ = try await rig.put(ServiceRig.proCatalog)
        try await rig.notify(Purchase())
        try await rig.link(Purchase.customer, to: "c-9")
        let token = #"{"app_account_token":"\#(Purchase.customer)"}"#
        _ = try await expectForeseen(rig, "c-8", "link", token, names: ["c-8", Purchase.customer, "c-9"])
        #expect(try await read(rig, "c-9").isEmpty)
        #expect(try await read(rig, "c-8").count == 1)
    }

    @Test("a command is foreseen in the environment that it names, and refused where it would be there")
    func environments() async throws {
        let rig = try await ServiceRig.make()
        let grant = #"{"entitlement":"premium","reason":"r","environment":"sandbox"}"#
        guard case .string(let id)? = try await post(rig, "c-9", "grant", grant).json["grant_id"] else { return }
        let revocation = #"{"grant_id":"\#(id)","reason":"r","environment":"sandbox"}"#
        let commands = [
            ("grant", grant), ("revoke_grant", revocation), ("link", #"{"customer_id":"d-1","environment":"sandbox"}"#),
        ]
        let bound = try await rig.keys.create(name: "k", scopes: [.customersWrite], environment: .production).secret
        for (action, body) in commands {
            let foreseen = try await post(rig, "c-9", "preview", #"{"\#(action)":\#(body)}"#)
            #expect(
                try foreseen.status == 200 && foreseen.json["environment"] == .string("sandbox"), "\(foreseen.text)")
            for (query, key) in [("?environment=production", rig.admin), ("", bound)] {
                let refusal = try await rig.command(action, "c-9", body, query: query, key: key)
                let preview = try await rig.command(
                    "preview", "c-9", #"{"\#(action)":\#(body)}"#, query: query, key: key)
                #expect(refusal.status == (query.isEmpty ? 403 : 400), "\(action) \(refusal.text)")
                #expect(preview.verdict == refusal.verdict, "\(action) \(preview.text)")
                #expect(try preview.json["param"] == refusal.json["param"], "\(preview.text)")
            }
            let twofold = try await post(
                rig, "c-9", "preview", #"{"environment":"production","\#(action)":\#(body)}"#)
            #expect(twofold.verdict == "400 malformed_request", "\(twofold.text)")
        }
    }

    @Test(
        "what is refused of a command is named by its place in the body",
        arguments: [
            (#"{"grant":"x"}"#, "grant"), (#"{"grant":{"entitlement":1,"reason":"r"}}"#, "grant.entitlement"),
            (#"{"grant":{"entitlement":"e","until":"2020-01-01T00:00:00Z","reason":"r"}}"#, "grant.until"),
            (#"{"revoke_grant":{"grant_id":"none","reason":"r"}}"#, "revoke_grant.grant_id"),
            (#"{"link":{"undo":1}}"#, "link.undo"), (#"{"link":{"undo":1,"undo":2}}"#, "link.undo"),
        ])
    func places(body: String, place: String) async throws {
        let answer = try await post(try await ServiceRig.make(), "c-9", "preview", body)
        #expect(try answer.json["param"] == .string(place), "\(answer.text)")
    }

    @Test("what would be refused is refused, with the same code")
    func refused() async throws {
        let rig = try await ServiceRig.make()
        for (action, body, verdict) in [
            ("grant", #"{"entitlement":"premium","until":"2020-01-01T00:00:00Z","reason":"r"}"#, "422 unprocessable"),
            ("grant", #"{"entitlement":"premium"}"#, "400 malformed_request"),
            ("revoke_grant", #"{"grant_id":"grant_none","reason":"r"}"#, "404 not_found"),
            ("link", #"{"undo":1}"#, "404 not_found"), ("link", "{}", "400 malformed_request"),
            ("link", "7", "400 malformed_request"),
        ] {
            #expect(try await post(rig, "c-9", action, body).verdict == verdict, "\(action) \(body)")
            #expect(
                try await post(rig, "c-9", "preview", #"{"\#(action)":\#(body)}"#).verdict == verdict,
                "\(action) \(body)")
        }
        for body in ["{}", #"{"grant":{"entitlement":"a","reason":"b"},"link":{"undo":1}}"#, "[]"] {
            #expect(try await post(rig, "c-9", "preview", body).verdict == "400 malformed_request", "\(body)")
        }
        let bound = try await rig.keys.create(name: "k", scopes: [.customersWrite], bundleID: ServiceRig.bundleID)
            .secret
        let answer = try await rig.send(
            "POST", "/v1/customers/c-9/actions/preview", key: bound,
            body: Array(#"{"grant":{"entitlement":"a","reason":"b"}}"#.utf8))
        #expect(answer.verdict == "403 forbidden")
    }
}
