import EntitlementCore
import Foundation

/// A request to the App Store Server API, before it is signed and sent.
package struct StoreAPIRequest: Sendable, Equatable {
    package enum Method: String, Sendable {
        case get = "GET"
        case post = "POST"
        case put = "PUT"
    }

    package let method: Method
    /// Percent-encoded.
    package let path: String
    package let query: [QueryItem]
    /// JSON, where there is one.
    package let body: [UInt8]?
    package let limit: StoreAPILimit
    /// Whether it may be sent again when nobody knows what became of it.
    package let isRepeatable: Bool

    package struct QueryItem: Sendable, Equatable {
        package let name: String
        package let value: String

        package init(_ name: String, _ value: String) {
            self.name = name
            self.value = value
        }
    }

    init(
        _ method: Method, _ path: [String], query: [QueryItem] = [], body: [UInt8]? = nil, limit: StoreAPILimit,
        isRepeatable: Bool = true
    ) {
        self.method = method
        self.path = path.map { "/" + PercentEncoding.text($0) }.joined()
        self.query = query
        self.body = body
        self.limit = limit
        self.isRepeatable = isRepeatable
    }

    /// Path and query, percent-encoded.
    package var target: String {
        guard !query.isEmpty else { return path }
        return path + "?"
            + query.map { PercentEncoding.text($0.name) + "=" + PercentEncoding.text($0.value) }.joined(separator: "&")
    }
}

/// A request with what reads its answer.
package struct StoreAPICall<Answer: Sendable>: Sendable {
    package let request: StoreAPIRequest
    let read: @Sendable ([UInt8]) throws -> Answer

    init(_ request: StoreAPIRequest, read: @escaping @Sendable ([UInt8]) throws -> Answer) {
        self.request = request
        self.read = read
    }
}

extension StoreAPICall where Answer: Decodable {
    init(_ request: StoreAPIRequest) {
        self.init(request) { try JSONDecoder().decode(Answer.self, from: Data($0)) }
    }
}

extension StoreAPICall where Answer == Void {
    init(_ request: StoreAPIRequest) {
        self.init(request) { _ in }
    }
}
