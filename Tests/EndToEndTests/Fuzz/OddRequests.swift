import Foundation
import FuzzTargets
import SeededRandom
import StoreSimulator

/// Requests with a key that may do everything, and statements that the store itself has signed, about anything.
struct OddRequests {
    private let material: HostileRequests.Material
    private let life: StoreLife
    private let authority: SimulatedAuthority
    private var random: SplitMix64
    private var mutator: Mutator

    init(_ material: HostileRequests.Material, _ life: StoreLife, _ authority: SimulatedAuthority, seed: UInt64) {
        self.material = material
        self.life = life
        self.authority = authority
        random = SplitMix64(seed: seed)
        mutator = Mutator(seed: random.next())
    }

    mutating func next() -> [UInt8] {
        let customer = random.chance(80) ? random.pick(material.customers) : "c-\(random.number(in: 1...9))"
        switch random.number(in: 0...9) {
        case 0...2:
            return message("POST", "/v1/notifications/appstore", "{\"signedPayload\":\"\(signedNotification())\"}")
        case 3...4:
            let statement = signed(random.pick(life.notifications).transaction ?? [:])
            let body = """
                {"app":"\(material.bundleID)","environment":"auto","signed_transactions":["\(statement)"],"facts":true,
                "claims":[{"product_id":"com.example.pro.monthly","state":"active","until":"2027-01-01T00:00:00Z"}]}
                """
            return message("POST", "/v1/customers/\(customer)/reconcile", random.chance(50) ? body : changed(body))
        case 5...6:
            let other = random.pick(material.customers)
            let original = random.pick(life.notifications).originalTransactionID ?? "1"
            let (action, body) = random.pick([
                ("grant", "{\"entitlement\":\"premium\",\"until\":\"2027-01-01T00:00:00Z\",\"reason\":\"x\"}"),
                ("revoke_grant", "{\"grant_id\":\"g\",\"reason\":\"x\"}"), ("link", "{\"customer_id\":\"\(other)\"}"),
                ("link", "{\"app_account_token\":\"\(other)\"}"), ("link", "{\"app_transaction_id\":\"704000001\"}"),
                ("transfer", "{\"original_transaction_id\":\"\(original)\",\"to\":\"\(other)\",\"dry_run\":true}"),
                ("transfer", "{\"original_transaction_id\":\"\(original)\",\"to\":\"\(other)\"}"),
                ("transfer", "{\"undo\":\(random.number(in: 1...400))}"),
            ])
            return message("POST", "/v1/customers/\(customer)/actions/\(action)", changed(body))
        case 7:
            let body = (try? life.world.catalogFile.encoded()).map { String(decoding: $0, as: UTF8.self) } ?? "{}"
            return message("PUT", "/v1/catalog", changed(body))
        default:
            let target = random.pick([
                "/v1/customers/\(customer)/entitlements?environment=sandbox&at=2026-11-20T12:00:00Z&known_at=3",
                "/v1/customers/\(customer)/timeline?known_at=2026-11-20T12:00:00Z&entitlement=premium",
                "/v1/customers/\(customer)/explain?entitlement=premium&at=2026-11-20T12:00:00Z&known_at=20",
                "/v1/customers/\(customer)/events?after=1&limit=10", "/v1/events?after=1&limit=1000", "/v1/events/7",
                "/v1/customers?transaction_id=2000000001", "/v1/customers?app_account_token=\(customer)",
                "/v1/subscriptions/2000000001?environment=sandbox&at=2026-11-20T12:00:00Z&known_at=9",
                "/v1/events/2/proof?size=3", "/v1/ledger/consistency?from=1&to=5", "/v1/ledger", "/metrics",
            ])
            let bytes = mutator.mutated(Array(target.utf8), with: Array("/v1/x?min_position=1".utf8), as: .text)
            return message("GET", String(decoding: bytes, as: UTF8.self), "")
        }
    }

    private mutating func changed(_ body: String) -> String {
        String(
            decoding: mutator.mutated(Array(body.utf8), with: Array("[1,null,\"a\"]".utf8), as: .json), as: UTF8.self)
    }

    /// What the store signs although it makes no sense.
    private mutating func signed(_ payload: [String: PayloadValue]) -> String {
        guard let bytes = try? PayloadValue.object(payload).encoded() else { return "" }
        let odd = mutator.mutated(bytes, with: Array("{\"a\":[1,\"b\"]}".utf8), as: .json)
        return (try? authority.sign(payloadBytes: odd)) ?? ""
    }

    private mutating func signedNotification() -> String {
        let notification = random.pick(life.notifications)
        var payload = notification.payload
        payload["notificationUUID"] = .string(random.uuid())
        if case .object(var data) = payload["data"] {
            data["signedTransactionInfo"] = notification.transaction.map { .string(signed($0)) }
            data["signedRenewalInfo"] = notification.renewal.map { .string(signed($0)) }
            payload["data"] = .object(data)
        }
        if random.chance(50) { return (try? authority.sign(.object(payload))) ?? "" }
        return signed(payload)
    }

    private func message(_ method: String, _ target: String, _ body: String) -> [UInt8] {
        let head =
            "\(method) \(target) HTTP/1.1\r\nHost: test\r\nConnection: close\r\nAuthorization: Bearer \(material.secretKey)\r\n"
            + "Content-Length: \(body.utf8.count)\r\n\r\n"
        return Array(head.utf8) + Array(body.utf8)
    }
}
