import Foundation
import FoundationNetworking
import Synchronization

/// Keeps what the service was asked and answered, for `deploy/validate-answers` to hold to the service's own description.
///
/// There is one where the environment variable `RIGHTFUL_EXCHANGES` names a directory.
final class ExchangeLog: Sendable {
    static let shared: ExchangeLog? = {
        guard let directory = ProcessInfo.processInfo.environment["RIGHTFUL_EXCHANGES"] else { return nil }
        return ExchangeLog(path: "\(directory)/\(ProcessInfo.processInfo.processIdentifier).jsonl")
    }()

    private struct Exchange: Encodable {
        let method: String
        /// With its query, percent-encoded.
        let target: String
        let status: Int
        let type: String?
        let headers: [String]
        /// The body of a request that was carried out.
        let request: String?
        let answer: String
    }

    private let file: Mutex<FileHandle>

    private init?(path: String) {
        guard FileManager.default.createFile(atPath: path, contents: nil),
            let handle = FileHandle(forWritingAtPath: path)
        else { return nil }
        file = Mutex(handle)
    }

    /// Notes an answer of a service; what others answer, such as a simulated store, has no id of a request.
    func note(_ request: URLRequest, _ answer: HTTPClient.Answer) {
        guard answer.headers["x-request-id"] != nil, let url = request.url else { return }
        let isDone = (200..<300).contains(answer.status)
        write(
            Exchange(
                method: request.httpMethod ?? "GET",
                target: url.path(percentEncoded: true) + (url.query.map { "?\($0)" } ?? ""),
                status: answer.status, type: answer.headers["content-type"], headers: answer.headers.keys.sorted(),
                request: isDone ? request.httpBody.flatMap { String(data: $0, encoding: .utf8) } : nil,
                answer: answer.text))
    }

    /// Notes what the service sent to an endpoint of webhooks.
    func note(message body: String) {
        let type = Self.type(ofMessage: body) ?? ""
        write(
            Exchange(
                method: "MESSAGE", target: type, status: 0, type: "application/json", headers: [], request: nil,
                answer: body))
    }

    /// What a message says it is.
    static func type(ofMessage body: String) -> String? {
        let message = try? JSONSerialization.jsonObject(with: Data(body.utf8)) as? [String: Any]
        // RevenueCat's have it in the event.
        return (message?["event"] as? [String: Any] ?? message)?["type"] as? String
    }

    private func write(_ exchange: Exchange) {
        guard let line = try? JSONEncoder().encode(exchange) else { return }
        file.withLock { $0.write(line + Data("\n".utf8)) }
    }
}
