import EntitlementAPI
import EntitlementKit
import Foundation
import StoreSimulator
import Testing

/// Apps are updated by people, if at all: the requests of every version that was ever shipped have to be answered.
@Suite("Kit end to end: requests of other versions", .serialized, .timeLimit(.minutes(2)))
struct KitWireTests {
    /// The requests of the first version, word for word: nothing of these may change, only more may be added.
    private static let requests = [
        """
        {"app":"APP","environment":"production","signed_transactions":["TRANSACTION"],"signed_renewal_infos":[],
        "app_transaction":"APPTRANSACTION","claims":[],"facts":true}
        """,
        """
        {"app":"APP","app_transaction":"APPTRANSACTION","claims":[{"product_id":"com.example.lifetime","state":"active"}],
        "environment":"production","facts":true,"signed_renewal_infos":[],"signed_transactions":[]}
        """,
        // A later version's members are passed over.
        """
        {"app":"APP","environment":"production","signed_transactions":["TRANSACTION"],
        "app_transaction":"APPTRANSACTION","device":{"attestation":"AAAA"},"wishes":["proofs"]}
        """,
    ]

    @Test("every request that a Kit ever sent is answered, with all that it reads")
    func earlierRequests() async throws {
        try await KitRig.race("earlier requests") { rig in
            let device = rig.device()
            let number = device.number
            let account = rig.account(device)
            try rig.store.perform { try $0.redeem(StoreWorld.ProductID.lifetime, account: account) }
            let app = try #require(try rig.store.with { try $0.appTransaction(of: number)?.jws })
            let bought = try #require(try rig.store.with { try $0.allTransactions(of: number).first?.jws })
            let server = HTTPEntitlementServer(
                baseURL: rig.service.url, publishableKey: rig.service.publishableKey)
            for request in Self.requests {
                let body = request.replacingOccurrences(of: "APPTRANSACTION", with: app)
                    .replacingOccurrences(of: "TRANSACTION", with: bought)
                    .replacingOccurrences(of: "APP", with: rig.service.world.bundleID)
                let response = try await server.reconcile(
                    customerID: rig.customer(device), token: nil, body: Data(body.utf8))
                try #require(response.status == 200, "\(request): \(String(decoding: response.body, as: UTF8.self))")
                let answer = try WireJSON.decode(WireValue.self, from: Array(response.body))
                guard case .object(let members) = answer else {
                    Issue.record("no object")
                    return
                }
                for name in ["customer_id", "environment", "position", "at", "proof", "catalog", "finish", "results"] {
                    #expect(members[name] != nil, "\(name)")
                }
                guard case .array(let held)? = members["entitlements"] else { return }
                #expect(held.count == 1, "\(request)")
            }
        }
    }
}
