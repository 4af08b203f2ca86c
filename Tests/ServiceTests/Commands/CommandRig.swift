import EntitlementAPI
import EntitlementCore
import HTTPServer
import Ledger
import Testing

@testable import Service

extension ServiceRig {
    /// Sends a command about a customer.
    func command(
        _ action: String, _ customer: String, _ body: String, query: String = "", idempotencyKey: String? = nil,
        key: String? = nil
    ) async throws -> HTTPResponse {
        let headers = idempotencyKey.map { [("Idempotency-Key", $0)] } ?? []
        return try await send(
            "POST", "/v1/customers/\(customer)/actions/\(action)\(query)", key: key ?? admin, headers: headers,
            body: Array(body.utf8))
    }

    @discardableResult
    func link(_ linked: String, to customer: String, idempotencyKey: String? = nil) async throws -> HTTPResponse {
        try await command("link", customer, #"{"customer_id":"\#(linked)"}"#, idempotencyKey: idempotencyKey)
    }

    func transfer(
        _ original: String, from: String, to: String, dryRun: Bool = false, idempotencyKey: String? = nil
    ) async throws -> HTTPResponse {
        let flag = dryRun ? #","dry_run":true"# : ""
        return try await command(
            "transfer", from, #"{"original_transaction_id":"\#(original)","to":"\#(to)"\#(flag)}"#,
            idempotencyKey: idempotencyKey)
    }

    /// What a customer holds: `premium active com.example.pro.yearly`, and so on.
    func holdings(_ customer: String, _ query: String = "") async throws -> [String] {
        let answer = try await get("/v1/customers/\(customer)/entitlements\(query)").json
        guard case .array(let items) = answer["entitlements"] else { return [] }
        return items.map { Self.words($0) }
    }

    /// The entitlements of one side of a transfer's answer.
    static func side(_ answer: WireValue, _ side: String, _ when: String) -> [String] {
        guard case .array(let items) = answer[side]?[when] else { return ["no list"] }
        return items.map { words($0) }
    }

    private static func words(_ item: WireValue) -> String {
        [item["id"], item["state"], item["reason"]?["code"]].map { value in
            if case .string(let text) = value { text } else { "-" }
        }.joined(separator: " ")
    }

    /// Lets time pass: what was recorded with the clock standing is dated a little later than it shows.
    func wait(seconds: Int64 = 60) { clock.now = clock.now.adding(milliseconds: seconds * 1000) }

    var head: Int64 {
        get async throws { try await context.reader.status().position }
    }

    /// A purchase of its own, by the customer a token stands for; by nobody without one.
    func buy(_ original: String, by token: String?, environment: String = "Production") async throws {
        var purchase = Purchase()
        purchase.uuid = "uuid-\(original)-\(environment)"
        purchase.original = original
        purchase.transaction = original
        purchase.token = token
        purchase.appTransaction = nil
        purchase.environment = environment
        #expect(try await notify(purchase).status == 200)
    }
}
