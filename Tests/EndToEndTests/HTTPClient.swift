import Foundation
import FoundationNetworking
import StoreSimulator
import Testing

/// Speaks to a service as any client would: what is refused with a time to come back is sent again then.
///
/// On a machine whose disk stands still for seconds, as where a build has just written gigabytes, any answer may take too
/// long. The campaigns that count refusals ask once.
struct HTTPClient: Sendable {
    /// How often a request is sent at most.
    private let attempts: Int
    let base: URL
    var key: String?
    private let session: URLSession

    init(_ base: URL, key: String? = nil, attempts: Int = 3) {
        self.base = base
        self.key = key
        self.attempts = attempts
        let configuration = URLSessionConfiguration.ephemeral
        configuration.httpMaximumConnectionsPerHost = 8
        // Foundation's cache on Linux takes a URL without its query for the same one.
        configuration.urlCache = nil
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
        for _ in 1..<attempts {
            let answer = try await send(request)
            guard answer.status == 503, let wait = answer.headers["retry-after"].flatMap({ Int($0) }) else {
                return answer
            }
            print("\(method) \(path) was answered 503, and is sent again after \(wait) s: \(answer.text)")
            try await Task.sleep(for: .seconds(min(wait, 10)))
        }
        return try await send(request)
    }

    private func send(_ request: URLRequest) async throws -> Answer {
        let (data, response) = try await session.data(for: request)
        let http = try #require(response as? HTTPURLResponse)
        var fields: [String: String] = [:]
        for (name, value) in http.allHeaderFields { fields["\(name)".lowercased()] = "\(value)" }
        let answer = Answer(status: http.statusCode, headers: fields, body: data)
        ExchangeLog.shared?.note(request, answer)
        return answer
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
