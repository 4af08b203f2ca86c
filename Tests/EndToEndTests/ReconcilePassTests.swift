import Foundation
import StoreSimulator
import Testing

/// The pass of a reconciliation, read by somebody who has the published keys and nothing else.
@Suite("Passes in the answer of reconcile", .serialized)
struct ReconcilePassTests {
    static func purchase(
        _ id: String, _ product: SimulatedStoreProduct, _ world: StoreWorld, ends: Int64?
    ) -> PayloadValue {
        let now = Int64(Date().timeIntervalSince1970 * 1000)
        var members: [String: PayloadValue] = [
            "transactionId": .string(id), "originalTransactionId": .string(id), "productId": .string(product.id),
            "bundleId": .string(world.bundleID), "type": .string(product.kind.rawValue),
            "purchaseDate": .integer(now - 86_400_000), "signedDate": .integer(now - 86_400_000),
            "inAppOwnershipType": .string("PURCHASED"), "environment": .string("Production"),
            "transactionReason": .string("PURCHASE"), "appTransactionId": .string("704"),
        ]
        members["expiresDate"] = ends.map { .integer($0) }
        return .object(members)
    }

    @Test("a pass states what the answer states, ends with the first of it, and verifies with the published keys")
    func pass() async throws {
        let installation = try await Installation()
        defer { installation.remove() }
        try await installation.rightful("catalog", "apply", installation.catalogFile.path())
        let key = try await installation.rightful(
            "keys", "create", "--name", "ios", "--scopes", "reconcile",
            "--app", installation.world.bundleID, "--environment", "production"
        ).trimmingCharacters(in: .whitespacesAndNewlines)
        let service = try await ServiceProcess.start(installation)
        let client = HTTPClient(service.url, key: key)
        let world = installation.world
        let granting = Set(world.mappings.filter { !$0.entitlements.isEmpty }.map(\.productID))
        let subscription = try #require(
            world.products.first { $0.kind == .autoRenewable && granting.contains($0.id) })
        let lifetime = try #require(world.products.first { $0.kind == .nonConsumable && granting.contains($0.id) })
        let soon = Int64(Date().timeIntervalSince1970 + 3600) * 1000 + 999
        let app = try installation.authority.signAppTransaction("704", .production, world: world)

        func reconcile(_ customer: String, _ purchases: [PayloadValue]) async throws -> [String: Any] {
            let signed = try purchases.map { PayloadValue.string(try installation.authority.sign($0)) }
            let answer = try await client.send(
                "POST", "/v1/customers/\(customer)/reconcile",
                body: PayloadValue.object([
                    "signed_transactions": .array(signed), "app_transaction": .string(app),
                ]).encoded())
            try #require(answer.status == 200, "\(answer.text)")
            return answer.json
        }
        let whole = try await reconcile("apple:704", [Self.purchase("1", lifetime, world, ends: nil)])
        let timed = try await reconcile("apple:704", [Self.purchase("2", subscription, world, ends: soon)])
        let none = try await reconcile("apple:705", [Self.purchase("1", lifetime, world, ends: nil)])
        #expect(none["pass"] is NSNull && none["proof"] as? String == "none")

        let keySet = try await HTTPClient(service.url).send("GET", "/.well-known/rightful-keys").text
        let answers = [whole, timed]
        let passes = answers.compactMap { $0["pass"] as? String }
        #expect(passes.count == 2)
        let verdicts = try await JOSEReader.read(passes, keySet: keySet)
        for (answer, verdict) in zip(answers, verdicts) {
            guard case .claims(let text) = verdict,
                let claims = try JSONSerialization.jsonObject(with: Data(text.utf8)) as? [String: Any]
            else {
                Issue.record("\(verdict)")
                continue
            }
            #expect(claims["sub"] as? String == "apple:704" && claims["environment"] as? String == "production")
            #expect(claims["position"] as? Int == answer["position"] as? Int)
            #expect(claims["fold_version"] as? Int == answer["fold_version"] as? Int)
            let held = try #require(answer["entitlements"] as? [[String: Any]]).filter {
                $0["gives_access"] as? Bool == true
            }
            let stated = try #require(claims["entitlements"] as? [[String: Any]])
            #expect(!held.isEmpty && Self.words(stated) == Self.words(held))
            let expiry = try #require(claims["exp"] as? Int64)
            let issued = try #require(claims["iat"] as? Int64)
            #expect(expiry > issued && expiry <= issued + 86_400)
            if held.contains(where: { $0["until"] is String }) {
                #expect(expiry <= soon / 1000 && expiry > soon / 1000 - 2)
            } else {
                #expect(expiry == issued + 86_400)
            }
        }
        let tampered = passes.map { $0.dropLast(4) + ($0.hasSuffix("AAAA") ? "BBBB" : "AAAA") }.map { String($0) }
        #expect(try await JOSEReader.read(tampered, keySet: keySet).allSatisfy { !$0.isVerified })
        #expect(service.stop() == 0)
    }

    private static func words(_ entitlements: [[String: Any]]) -> [String] {
        entitlements.map { entitlement in
            ["id", "state", "until", "product_id", "source"].map { "\(entitlement[$0] ?? "-")" }.joined(separator: " ")
        }
    }
}
