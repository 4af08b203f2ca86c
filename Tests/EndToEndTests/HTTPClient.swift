import Foundation
import FoundationNetworking
import StoreSimulator
import Testing

/// Speaks to a service as any client would.
struct HTTPClient: Sendable {
    let base: URL
    var key: String?
    private let session: URLSession

    init(_ base: URL, key: String? = nil) {
        self.base = base
        self.key = key
        let configuration = URLSessionConfiguration.ephemeral
        configuration.httpMaximumConnectionsPerHost = 8
        configuration.timeoutIntervalForRequest = 60
        session = URLSession(configuration: configuration)
    }

    struct Answer {
        let status: Int
        let headers: [String: String]
        let body: Data

        var json: [String: Any] { (try? JSONSerialization.jsonObject(with: body) as? [String: Any]) ?? [:] }
        var code: String? { json["code"] as? String }
        var text: String { String(decoding: body, as: UTF8.self) }
    }

    func send(
        _ method: String, _ path: String, query: [String: String] = [:], body: [UInt8]? = nil,
        headers: [String: String] = [:]
    ) async throws -> Answer {
        var components = try #require(URLComponents(url: base, resolvingAgainstBaseURL: false))
        components.path = path
        if !query.isEmpty {
            components.queryItems = query.sorted { $0.key < $1.key }.map { URLQueryItem(name: $0.key, value: $0.value) }
        }
        var request = URLRequest(url: try #require(components.url))
        request.httpMethod = method
        request.httpBody = body.map { Data($0) }
        if let key { request.setValue("Bearer \(key)", forHTTPHeaderField: "Authorization") }
        for (name, value) in headers { request.setValue(value, forHTTPHeaderField: name) }
        let (data, response) = try await session.data(for: request)
        let http = try #require(response as? HTTPURLResponse)
        var fields: [String: String] = [:]
        for (name, value) in http.allHeaderFields { fields["\(name)".lowercased()] = "\(value)" }
        return Answer(status: http.statusCode, headers: fields, body: data)
    }

    func notify(_ signedPayload: String) async throws -> Answer {
        try await send(
            "POST", "/v1/notifications/appstore", body: SimulatedAuthority.requestBody(signedPayload),
            headers: ["Content-Type": "application/json"])
    }

    func head() async throws -> Int64 {
        let answer = try await send("GET", "/v1/ledger")
        return try #require((answer.json["position"] as? NSNumber)?.int64Value, "\(answer.status) \(answer.text)")
    }

    /// Every event of the log after a position.
    func events(after position: Int64 = 0) async throws -> [[String: Any]] {
        var events: [[String: Any]] = []
        var after = position
        while true {
            let page = try await send("GET", "/v1/events", query: ["after": "\(after)", "limit": "1000"]).json
            events += try #require(page["items"] as? [[String: Any]])
            guard page["has_more"] as? Bool == true else { return events }
            after = try #require((page["next_after"] as? NSNumber)?.int64Value)
        }
    }
}
