package import Foundation

#if canImport(FoundationNetworking)
import FoundationNetworking
#endif

/// What the store answered.
package struct StoreAPIResponse: Sendable {
    package let status: Int
    /// As the header has it.
    package let retryAfter: String?
    package let body: [UInt8]

    package init(status: Int, retryAfter: String? = nil, body: [UInt8]) {
        self.status = status
        self.retryAfter = retryAfter
        self.body = body
    }
}

/// Carries signed requests to a server and brings its answers.
package protocol StoreAPITransport: Sendable {
    /// - Parameters:
    ///   - url: where to, whole.
    ///   - token: for the header `Authorization`.
    /// - Throws: whatever kept an answer from coming whole.
    func send(_ request: StoreAPIRequest, to url: URL, token: String) async throws -> StoreAPIResponse
}

/// Foundation's URLSession, which follows no redirection: the token is for one server.
package struct StoreAPISession: StoreAPITransport {
    /// The largest answer that is looked at, in bytes; a page of the store's is far below.
    package static let answerLimit = 16 << 20

    private let session: URLSession

    /// - Parameter timeout: for one request, in seconds.
    package init(timeout: TimeInterval = 30) {
        let configuration = URLSessionConfiguration.ephemeral
        configuration.timeoutIntervalForRequest = timeout
        configuration.timeoutIntervalForResource = timeout
        configuration.urlCache = nil
        configuration.httpCookieStorage = nil
        configuration.httpShouldSetCookies = false
        session = URLSession(configuration: configuration, delegate: Stationary(), delegateQueue: nil)
    }

    package func send(_ request: StoreAPIRequest, to url: URL, token: String) async throws -> StoreAPIResponse {
        var outgoing = URLRequest(url: url)
        outgoing.httpMethod = request.method.rawValue
        outgoing.httpBody = request.body.map { Data($0) }
        if request.body != nil { outgoing.setValue("application/json", forHTTPHeaderField: "Content-Type") }
        outgoing.setValue("Bearer \(token)", forHTTPHeaderField: "Authorization")
        outgoing.setValue("application/json", forHTTPHeaderField: "Accept")
        // A task of its own, which nobody cancels: on Linux, to cancel a task in the instant in which its URLSession
        // completes is a deadlock of the two. The session's timeout ends it.
        let (data, response) = try await Task { [session, outgoing] in try await session.data(for: outgoing) }.value
        guard let response = response as? HTTPURLResponse, data.count <= Self.answerLimit else {
            throw URLError(.badServerResponse)
        }
        return StoreAPIResponse(
            status: response.statusCode, retryAfter: response.value(forHTTPHeaderField: "Retry-After"),
            body: Array(data))
    }

    /// Stays where it was sent.
    private final class Stationary: NSObject, URLSessionTaskDelegate {
        func urlSession(
            _ session: URLSession, task: URLSessionTask, willPerformHTTPRedirection response: HTTPURLResponse,
            newRequest request: URLRequest, completionHandler: @escaping @Sendable (URLRequest?) -> Void
        ) {
            completionHandler(nil)
        }
    }
}
