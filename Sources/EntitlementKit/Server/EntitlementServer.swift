public import Foundation

/// The way to the server: its requests, passed on as they are.
///
/// Whoever sells nothing on the web needs ``reconcile(customerID:token:body:)`` alone.
public protocol EntitlementServer: Sendable {
    /// Posts a body about a customer.
    ///
    /// - Parameters:
    ///   - customerID: about whom is asked.
    ///   - token: the customer's own, where the app has one; else the app's publishable key is used.
    ///   - body: JSON.
    /// - Returns: whatever the server answered, problems included.
    /// - Throws: where no answer came.
    func reconcile(customerID: String, token: String?, body: Data) async throws -> EntitlementServerResponse
    /// Asks what is sold, and for how much on the web: `GET /v1/products`.
    ///
    /// - Parameter environment: in the server's word.
    func products(environment: String) async throws -> EntitlementServerResponse
    /// Begins a checkout: `POST /v1/customers/{id}/checkout`.
    ///
    /// - Parameters:
    ///   - customerID: for whom.
    ///   - token: the customer's own, where the app has one; else the app's publishable key is used.
    ///   - idempotencyKey: the same for each attempt at the same checkout.
    ///   - body: JSON.
    func checkout(
        customerID: String, token: String?, idempotencyKey: String, body: Data
    ) async throws -> EntitlementServerResponse
    /// Asks for a page on which the customer manages what they bought on the web: `POST /v1/customers/{id}/portal`.
    func portal(customerID: String, token: String?, body: Data) async throws -> EntitlementServerResponse
}

extension EntitlementServer {
    /// Nothing is sold on the web.
    public func products(environment: String) async throws -> EntitlementServerResponse {
        EntitlementServerResponse(status: 501, body: Data())
    }

    /// Nothing is sold on the web.
    public func checkout(
        customerID: String, token: String?, idempotencyKey: String, body: Data
    ) async throws -> EntitlementServerResponse {
        EntitlementServerResponse(status: 501, body: Data())
    }

    /// Nothing was sold on the web.
    public func portal(customerID: String, token: String?, body: Data) async throws -> EntitlementServerResponse {
        EntitlementServerResponse(status: 501, body: Data())
    }
}

/// What a server answered.
public struct EntitlementServerResponse: Sendable, Hashable {
    /// The HTTP status.
    public let status: Int
    /// The header `Retry-After`, in seconds.
    public let retryAfter: Int?
    /// The bytes of the body.
    public let body: Data

    /// Puts one together from its parts.
    public init(status: Int, retryAfter: Int? = nil, body: Data) {
        self.status = status
        self.retryAfter = retryAfter
        self.body = body
    }
}
