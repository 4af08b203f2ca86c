import EntitlementCore
public import Foundation

#if canImport(FoundationNetworking)
import FoundationNetworking
#endif

/// A Rightful server, over HTTPS.
public struct HTTPEntitlementServer: EntitlementServer {
    /// The most that is read of an answer, in bytes.
    static let answerLimit = 16 << 20

    private let baseURL: URL
    private let publishableKey: String
    private let session: URLSession

    /// Remembers where the server is.
    ///
    /// - Parameters:
    ///   - baseURL: what `/v1/…` is appended to.
    ///   - publishableKey: `rightful_pk_…`, which ships in the app.
    ///   - timeout: for one request, in seconds.
    public init(baseURL: URL, publishableKey: String, timeout: TimeInterval = 30) {
        self.baseURL = baseURL
        self.publishableKey = publishableKey
        let configuration = URLSessionConfiguration.ephemeral
        configuration.timeoutIntervalForRequest = timeout
        configuration.timeoutIntervalForResource = timeout
        // Answers are about people, and each is newer than the one before.
        configuration.urlCache = nil
        session = URLSession(configuration: configuration)
    }

    /// Posts a body, with the customer's own token or else the publishable key.
    public func reconcile(customerID: String, token: String?, body: Data) async throws -> EntitlementServerResponse {
        try await answer(to: request(customerID: customerID, token: token, body: body))
    }

    /// Asks with the publishable key.
    public func products(environment: String) async throws -> EntitlementServerResponse {
        try await answer(
            to: request(["products"], query: [URLQueryItem(name: "environment", value: environment)], token: nil))
    }

    /// Posts a body, with the customer's own token or else the publishable key.
    public func checkout(
        customerID: String, token: String?, idempotencyKey: String, body: Data
    ) async throws -> EntitlementServerResponse {
        var request = try request(["customers", customerID, "checkout"], token: token, body: body)
        request.setValue(idempotencyKey, forHTTPHeaderField: "Idempotency-Key")
        return try await answer(to: request)
    }

    /// Posts a body, with the customer's own token or else the publishable key.
    public func portal(customerID: String, token: String?, body: Data) async throws -> EntitlementServerResponse {
        try await answer(to: request(["customers", customerID, "portal"], token: token, body: body))
    }

    private func answer(to request: URLRequest) async throws -> EntitlementServerResponse {
        // A task of its own, which nobody cancels: what was sent arrives, whatever becomes of who sent it. On Linux,
        // cancelling a task in the instant in which its URLSession completes is a deadlock of the two.
        let (data, response) = try await Task { [session] in try await session.data(for: request) }.value
        guard let response = response as? HTTPURLResponse, data.count <= Self.answerLimit else {
            throw URLError(.badServerResponse)
        }
        let retryAfter = response.value(forHTTPHeaderField: "Retry-After").flatMap(Int.init).map { max(0, $0) }
        return EntitlementServerResponse(status: response.statusCode, retryAfter: retryAfter, body: data)
    }

    func request(customerID: String, token: String?, body: Data) throws -> URLRequest {
        try request(["customers", customerID, "reconcile"], token: token, body: body)
    }

    /// A request below `/v1`; a `GET` where there is no body.
    func request(
        _ path: [String], query: [URLQueryItem] = [], token: String?, body: Data? = nil
    ) throws -> URLRequest {
        guard var parts = URLComponents(url: baseURL, resolvingAgainstBaseURL: true) else { throw URLError(.badURL) }
        while parts.percentEncodedPath.hasSuffix("/") { parts.percentEncodedPath.removeLast() }
        parts.percentEncodedPath += "/v1/" + path.map { PercentEncoding.text($0) }.joined(separator: "/")
        if !query.isEmpty { parts.queryItems = query }
        guard let url = parts.url else { throw URLError(.badURL) }
        var request = URLRequest(url: url)
        if let body {
            request.httpMethod = "POST"
            request.httpBody = body
            request.setValue("application/json", forHTTPHeaderField: "Content-Type")
        }
        request.setValue("Bearer \(token ?? publishableKey)", forHTTPHeaderField: "Authorization")
        return request
    }
}
