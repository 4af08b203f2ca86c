public import Foundation

/// The way to the server: one request, `POST /v1/customers/{id}/reconcile`, passed on as it is.
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
