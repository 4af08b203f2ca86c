package import Foundation

/// A request to another server, whole.
package struct OutgoingRequest: Sendable {
    /// Such as `GET`.
    package var method: String
    package var url: URL
    /// Those that the transport does not make itself.
    package var headers: [(name: String, value: String)]
    package var body: [UInt8]?
    /// How long it may take; `nil`: as long as any.
    package var timeout: Duration?

    package init(
        _ method: String, _ url: URL, headers: [(name: String, value: String)], body: [UInt8]? = nil,
        timeout: Duration? = nil
    ) {
        self.method = method
        self.url = url
        self.headers = headers
        self.body = body
        self.timeout = timeout
    }
}

/// What another server answered.
package struct OutgoingAnswer: Sendable {
    package let status: Int
    package let body: [UInt8]
    /// By their names in lower case.
    private let headers: [String: String]

    package init(status: Int, headers: [String: String] = [:], body: [UInt8]) {
        self.status = status
        self.headers = Dictionary(headers.map { ($0.lowercased(), $1) }) { first, _ in first }
        self.body = body
    }

    /// The value of a header, whatever case its name is written in.
    package func header(_ name: String) -> String? { headers[name.lowercased()] }
}

/// Carries requests to other servers and brings their answers.
package protocol OutgoingTransport: Sendable {
    /// - Throws: whatever kept an answer from coming whole; `CancellationError` at once when the task is cancelled.
    func send(_ request: OutgoingRequest) async throws -> OutgoingAnswer
}
