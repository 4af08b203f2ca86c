import EntitlementAPI
import HTTPServer
import Ledger
import Testing

@testable import Service

@Suite("Who ordered a command, and why", .timeLimit(.minutes(5)))
struct CommandOrderTests {
    @Test("every command about a customer keeps the name of its key, and the reason that was given")
    func order() async throws {
        let rig = try await ServiceRig.make()
        _ = try await rig.put(ServiceRig.proCatalog)
        try await rig.notify(Purchase())
        let secret = try await rig.keys.create(name: "Mia at support", scopes: [.customersWrite]).secret
        /// Sends a command and reads what the log kept of it.
        func order(_ action: String, _ customer: String, _ body: String) async throws -> WireValue {
            let answer = try await rig.send(
                "POST", "/v1/customers/\(customer)/actions/\(action)",
                headers: [("Authorization", "Bearer \(secret)")], body: Array(body.utf8))
            #expect(answer.status == 200, "\(answer.text)")
            guard case .int(let position)? = try answer.json["position"] else { return .null }
            let event = try await rig.get("/v1/events/\(position)").json
            #expect(event["facts"]?["actor"] == .string("Mia at support"), "\(action): \(event)")
            return event
        }
        let grant = try await order("grant", "c-1", #"{"entitlement":"premium","reason":"goodwill"}"#)
        #expect(grant["facts"]?["reason"] == .string("goodwill"))
        guard case .string(let id)? = grant["facts"]?["grant_id"] else {
            Issue.record("\(grant)")
            return
        }
        let revoked = try await order("revoke_grant", "c-1", #"{"grant_id":"\#(id)","reason":"a mistake"}"#)
        #expect(revoked["facts"]?["reason"] == .string("a mistake"))

        let link = try await order("link", "c-1", #"{"customer_id":"c-2","reason":"one person"}"#)
        #expect(link["facts"]?["reason"] == .string("one person"))
        guard case .int(let linked)? = link["position"] else { return }
        let unlinked = try await order("link", "c-1", #"{"undo":\#(linked),"reason":"two persons"}"#)
        #expect(unlinked["facts"]?["reason"] == .string("two persons"))
        let silent = try await order("link", "c-1", #"{"customer_id":"c-2"}"#)
        #expect(silent["facts"]?["reason"] == .null)

        let moved = try await order(
            "transfer", Purchase.customer, #"{"original_transaction_id":"2000000123456780","to":"c-3"}"#)
        #expect(moved["facts"]?["reason"] == .null)
        guard case .int(let move)? = moved["position"] else { return }
        let undone = try await order(
            "transfer", Purchase.customer, #"{"undo":\#(move),"reason":"the wrong account"}"#)
        #expect(undone["facts"]?["reason"] == .string("the wrong account"))
    }

    @Test("a reason that is too long, or no text, is refused")
    func limits() async throws {
        let rig = try await ServiceRig.make()
        for reason in [#""""#, "7", "\"\(String(repeating: "x", count: CommandLimits.reason + 1))\""] {
            let answer = try await rig.command("link", "c-1", #"{"customer_id":"c-2","reason":\#(reason)}"#)
            #expect([400, 422].contains(answer.status), "\(answer.text)")
        }
    }
}
