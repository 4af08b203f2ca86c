import EntitlementAPI
import EntitlementCore
import HTTPServer
import Ledger
import Testing

@testable import Service

@Suite("What is handed out of two customers who were linked by mistake", .timeLimit(.minutes(5)))
struct UndoneLinkTests {
    private static let people = ["lk-a", "lk-b"]

    private static func rig() async throws -> StripeRig {
        let stripe = try await StripeRig.make()
        for person in people {
            let invoice = StripeBody.invoice(person, subscription: "sub_\(person)")
                .replacing("zoë@example.com", with: "\(person)@example.com")
            let body = StripeBody.event("invoice.paid", invoice, id: "evt_\(person)")
            #expect(try await stripe.deliver(body).status == 200)
        }
        return stripe
    }

    /// Every text in an answer.
    private static func texts(_ value: WireValue?) -> [String] {
        switch value {
        case .string(let text): [text]
        case .array(let items): items.flatMap { texts($0) }
        case .object(let members): members.values.flatMap { texts($0) }
        case .null, .bool, .int, .double, nil: []
        }
    }

    @Test("neither's export, events nor explanation tells anything of the other, to a key of one app neither")
    func neither() async throws {
        let stripe = try await Self.rig()
        let rig = stripe.rig
        let bound = try await rig.keys.create(name: "x", scopes: [.admin], bundleID: ServiceRig.bundleID).secret
        func told(_ person: String) async throws -> [String] {
            let customer = try #require(CustomerID(person))
            let export = try #require(
                try await rig.context.reader.export(of: customer, environments: [.production]))
            var texts = export.items.compactMap(\.evidence).map { String(decoding: $0, as: UTF8.self) }
            texts += export.identities.values
            for path in ["events", "explain", "entitlements", "timeline"] {
                for key in [nil, bound] {
                    let target = "/v1/customers/\(person)/\(path)"
                    let answer = try await rig.send("GET", target, key: key ?? rig.admin)
                    #expect(answer.status == 200, "\(path)")
                    texts += try Self.texts(answer.json)
                }
            }
            return texts
        }
        let linked = try await rig.link("lk-b", to: "lk-a")
        #expect(linked.status == 200)
        for person in Self.people {
            let texts = try await told(person)
            for other in Self.people { #expect(texts.contains { $0.contains(other) }, "while linked they are one") }
        }
        guard case .int(let position)? = try linked.json["position"] else {
            Issue.record("a link has a position")
            return
        }
        #expect(try await rig.command("link", "lk-a", #"{"undo":\#(position)}"#).status == 200)
        for (person, other) in [("lk-a", "lk-b"), ("lk-b", "lk-a")] {
            let texts = try await told(person)
            #expect(texts.contains { $0.contains(person) })
            #expect(!texts.contains { $0.contains(other) }, "\(texts.filter { $0.contains(other) })")
            #expect(try await stripe.access(person) == ["web_checkout active"])
        }
    }
}
