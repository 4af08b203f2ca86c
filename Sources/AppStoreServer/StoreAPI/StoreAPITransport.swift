package import Foundation
import OutgoingHTTP

/// What the store answered.
package struct StoreAPIResponse: Sendable {
    package let status: Int
    /// As the header has it.
    package let retryAfter: String?
    /// As the header `Date` has it.
    package let date: String?
    package let body: [UInt8]

    package init(status: Int, retryAfter: String? = nil, date: String? = nil, body: [UInt8]) {
        self.status = status
        self.retryAfter = retryAfter
        self.date = date
        self.body = body
    }
}

/// Carries signed requests to a server and brings its answers.
package protocol StoreAPITransport: Sendable {
    /// - Parameters:
    ///   - url: where to, whole.
    ///   - token: for the header `Authorization`.
    ///   - limit: how long it may take; the transport's own limit holds as well.
    /// - Throws: whatever kept an answer from coming whole; `CancellationError` at once when the task is cancelled.
    func send(
        _ request: StoreAPIRequest, to url: URL, token: String, within limit: Duration
    ) async throws -> StoreAPIResponse
}

/// The session that all outgoing requests go through, with what the App Store Server API wants to be told.
package struct StoreAPISession: StoreAPITransport {
    /// The largest answer that is taken, in bytes; a page of the store's is far below.
    package static let answerLimit = 4 << 20

    private let session: OutgoingSession
    private let timeout: Duration

    /// - Parameters:
    ///   - timeout: for one request, in seconds.
    ///   - connections: the most that are open; beyond it requests wait, within their time.
    package init(timeout: TimeInterval = 30, connections: Int = OutgoingSession.usualConnections) {
        self.timeout = .milliseconds(Int64(timeout * 1000))
        session = OutgoingSession(timeout: timeout, answerLimit: Self.answerLimit, connections: connections)
    }

    package func send(
        _ request: StoreAPIRequest, to url: URL, token: String, within limit: Duration
    ) async throws -> StoreAPIResponse {
        var headers = [("Authorization", "Bearer \(token)"), ("Accept", "application/json")]
        if request.body != nil { headers.append(("Content-Type", "application/json")) }
        let answer = try await session.send(
            OutgoingRequest(
                request.method.rawValue, url, headers: headers.map { (name: $0.0, value: $0.1) }, body: request.body,
                timeout: min(timeout, limit)))
        return StoreAPIResponse(
            status: answer.status, retryAfter: answer.header("Retry-After"), date: answer.header("Date"),
            body: answer.body)
    }
}
