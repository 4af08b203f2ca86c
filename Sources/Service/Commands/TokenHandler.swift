import EntitlementAPI
import EntitlementCore
import HTTPServer
import Ledger

/// A token for a device: the answer of `POST /v1/customers/{id}/tokens`.
private struct CustomerTokenDocument: Encodable {
    let object = "customer_token"
    let token: String
    let customerID: String
    let environment: StoreEnvironment
    let expiresAt: Timestamp

    private enum CodingKeys: String, CodingKey {
        case object, token, environment
        case customerID = "customer_id"
        case expiresAt = "expires_at"
    }
}

extension Application {
    private static let defaultTokenSeconds: Int64 = 3600
    private static let tokenSeconds: ClosedRange<Int64> = 60...86_400

    /// `POST /v1/customers/{id}/tokens`: what a device may hold in place of a key.
    ///
    /// Under an idempotency key its instants are those of the first request, so that the same token is answered again.
    func makeCustomerToken(_ call: Call) async throws -> HTTPResponse {
        let customer = try call.customerID()
        let body = try call.bodyMembers()
        let environment = try call.environment(orInBody: body)
        let seconds = try Self.tokenSeconds(body["expires_in"])
        let bundleID = call.credential?.onlyBundleID
        var issuedAt = now()
        if let command = try commandKey(of: call) {
            issuedAt = try await commandKeys.remember(
                key: command.key, requestHash: command.requestHash, now: issuedAt
            ).recordedAt
        }
        let token = CustomerToken(
            customerID: customer, environment: environment, bundleID: bundleID, issuedAt: issuedAt,
            expiresAt: issuedAt.adding(milliseconds: seconds * 1000))
        return try .document(
            CustomerTokenDocument(
                token: try await tokens.make(token), customerID: customer.value, environment: environment,
                expiresAt: token.expiresAt),
            headers: [("Cache-Control", "no-store")])
    }

    private static func tokenSeconds(_ value: WireValue?) throws(Problem) -> Int64 {
        guard let value else { return defaultTokenSeconds }
        guard case .int(let seconds) = value, tokenSeconds.contains(seconds) else {
            throw Problem(
                .unprocessable,
                "expires_in is a whole number of seconds from \(tokenSeconds.lowerBound) to \(tokenSeconds.upperBound).",
                param: "expires_in")
        }
        return seconds
    }
}
