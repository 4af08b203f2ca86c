import EntitlementAPI
import EntitlementCore
import HTTPServer
import Ledger
import Testing

@testable import Service

/// What reconcile leaves behind: evidence in the log, nothing of people in the service's own words.
@Suite("Traces of reconcile", .serialized, .timeLimit(.minutes(5)))
struct ReconcileTraceTests {
    private static let customer = Purchase.customer

    @Test("the evidence of an event is every signed text it was taken from, and of what says nothing new there is none")
    func evidence() async throws {
        let rig = try await ServiceRig.withCatalog()
        var held: [HeldTransaction] = []
        for number in 0..<3 {
            let start = Double(number * 100)
            held.append(
                HeldTransaction(
                    id: "\(100 + number)", original: "100", from: start, until: start + 100, signed: 1,
                    token: Self.customer, reason: number == 0 ? "PURCHASE" : "RENEWAL"))
        }
        let first = try held.map { try rig.sign($0) }
        let renewal = try rig.sign(HeldRenewal(original: "100", signed: 1))
        _ = try await rig.answer(Self.customer, Posted(transactions: first, renewals: [renewal]))
        let later = try held.map { item in try rig.sign(item.with { $0.signed = 5 }) }
        _ = try await rig.answer(Self.customer, Posted(transactions: first + later, renewals: [renewal]))
        #expect(try await rig.head() == 6)
        var events: [String] = []
        for position in 3...6 { events.append(try await rig.get("/v1/events/\(position)").text) }
        for jws in first { #expect(events[..<3].count { $0.contains(jws) } == 1) }
        #expect(events[..<3].count { $0.contains(renewal) } == 1)
        #expect(later.allSatisfy { events[3].contains($0) } && !events[3].contains(renewal))
        #expect(first.allSatisfy { !events[3].contains($0) })
    }

    @Test("no log line holds a customer, a token, a signed text or a key, whatever becomes of a request")
    func logs() async throws {
        let rig = try await ServiceRig.withCatalog(passKeys: PassKeyRing([ServiceRig.passKey()]))
        let token = try await rig.token(Self.customer)
        let publishable = try await rig.publishableKey()
        let jws = try rig.sign(HeldTransaction(token: Self.customer, appTransaction: "704"))
        let app = try rig.signAppTransaction("704")
        let claims = [ReconcileRequest.Claim(productID: "com.example.lifetime", state: .active)]
        let posted = Posted(transactions: [jws, String(jws.dropLast(3)), "x"], appTransaction: app, claims: claims)
        var passes: [String] = []
        for (name, key) in [
            (Self.customer, token), ("apple:704", publishable), ("thief-1", rig.admin), ("thief-1", publishable),
            ("thief-1", token), (Self.customer, "rightful_pk_wrong"), (Self.customer, rig.admin),
        ] {
            let answer = try await rig.reconcile(name, posted, key: key)
            if case .string(let pass) = try answer.json["pass"] { passes.append(pass) }
        }
        #expect(passes.count > 2)
        _ = try await rig.reconcile(Self.customer, Posted(app: "com.example.other"))
        let secrets =
            [Self.customer, "apple:704", "thief-1", "2000000000000001", jws, app, token, publishable, rig.admin]
            + passes
        #expect(!rig.log.lines.isEmpty)
        for line in rig.log.lines {
            for secret in secrets { #expect(!line.contains(secret), "\(line)") }
        }
        let metrics = try await rig.get("/metrics").text
        for secret in secrets { #expect(!metrics.contains(secret)) }
        #expect(metrics.contains("/v1/customers/{id}/reconcile"))
    }

    @Test("a customer's own statements, claims and drift are among the customer's events; a stranger's conflict too")
    func customerEvents() async throws {
        let rig = try await ServiceRig.withCatalog()
        let nobodys = try rig.sign(HeldTransaction.lifetime("7"))
        let claims = [ReconcileRequest.Claim(productID: "com.example.pro.yearly", state: .active)]
        _ = try await rig.answer("c-1", Posted(transactions: [nobodys], claims: claims))
        _ = try await rig.answer("c-2", Posted(transactions: [nobodys]))
        func types(_ customer: String) async throws -> [String] {
            guard case .array(let items) = try await rig.get("/v1/customers/\(customer)/events").json["items"] else {
                throw TestFailure("no list")
            }
            return items.compactMap { if case .string(let type) = $0["type"] { type } else { nil } }
        }
        let own = try await types("c-1")
        #expect(own.contains("device_report") && own.contains("claimed") && own.contains("drift"), "\(own)")
        #expect(try await types("c-2").contains("ownership_conflict"))
        #expect(try await !types("c-2").contains("drift"))
    }
}
