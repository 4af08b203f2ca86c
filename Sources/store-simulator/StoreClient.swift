import Foundation
import FoundationNetworking
import StoreSimulator

/// Why something could not be played.
struct PlayError: Error, CustomStringConvertible {
    let description: String
    /// What the service answered, where it did.
    var answer = DeliveryAnswer.noResponse
}

/// Speaks to the service over HTTP: as the store, and as somebody with an API key who asks.
struct StoreClient: Sendable {
    let url: URL
    private let apiKey: String?
    private let session: URLSession = {
        let configuration = URLSessionConfiguration.ephemeral
        // Foundation's cache on Linux takes a URL without its query for the same one.
        configuration.urlCache = nil
        return URLSession(configuration: configuration, delegate: RedirectRefusal(), delegateQueue: nil)
    }()

    /// What the service answers to the store.
    struct Receipt: Decodable {
        let position: Int64
        let duplicate: Bool
    }

    init(_ arguments: inout Arguments) throws {
        url = try Self.address(arguments.required("--url"))
        guard let path = arguments.optional("--api-key-file") else {
            apiKey = nil
            return
        }
        guard let key = try? String(contentsOfFile: path, encoding: .utf8) else {
            throw PlayError(description: "\(path) cannot be read")
        }
        apiKey = key.trimmingCharacters(in: .whitespacesAndNewlines)
    }

    /// A client that only delivers.
    init(url: String) throws(SimulatorUsageError) {
        self.url = try Self.address(url)
        apiKey = nil
    }

    private static func address(_ text: String) throws(SimulatorUsageError) -> URL {
        guard let url = URL(string: text), ["http", "https"].contains(url.scheme), url.host != nil else {
            throw SimulatorUsageError("--url must be the service's address, such as http://127.0.0.1:8080")
        }
        return url
    }

    /// Whether the service says that it can answer.
    func isReady() async -> Bool {
        let request = URLRequest(url: url.appending(path: "readyz"), timeoutInterval: 5)
        return (try? await answer(to: request)) != nil
    }

    /// Whether it can ask as well as tell.
    var canAsk: Bool { apiKey != nil }

    /// Delivers a signed notification.
    func deliver(_ signedPayload: String) async throws -> Receipt {
        var request = URLRequest(url: url.appending(path: "v1/notifications/appstore"), timeoutInterval: 30)
        request.httpMethod = "POST"
        request.setValue("application/json", forHTTPHeaderField: "Content-Type")
        request.httpBody = Data(try SimulatedAuthority.requestBody(signedPayload))
        return try JSONDecoder().decode(Receipt.self, from: try await answer(to: request))
    }

    /// Delivers an event of Stripe's.
    func deliver(_ event: StripeEventEntry, signedWith secret: String) async throws -> Receipt {
        let request = event.webhook(
            to: url.appending(path: "v1/notifications/stripe"), signedWith: secret,
            at: StoreSimulatorProgram.currentMilliseconds())
        return try JSONDecoder().decode(Receipt.self, from: try await answer(to: request))
    }

    /// Posts something that is answered by no document of interest.
    func post(_ path: String, authorization: String? = nil, form: String = "") async throws {
        var request = URLRequest(url: url.appending(path: path), timeoutInterval: 30)
        request.httpMethod = "POST"
        request.setValue(authorization, forHTTPHeaderField: "Authorization")
        request.setValue("application/x-www-form-urlencoded", forHTTPHeaderField: "Content-Type")
        request.httpBody = Data(form.utf8)
        _ = try await answer(to: request)
    }

    /// Posts JSON as somebody with the API key.
    @discardableResult
    func post(_ path: String, _ method: String = "POST", json: [String: PayloadValue]) async throws -> Data {
        var request = URLRequest(url: url.appending(path: path), timeoutInterval: 30)
        request.httpMethod = method
        if let apiKey { request.setValue("Bearer \(apiKey)", forHTTPHeaderField: "Authorization") }
        request.setValue("application/json", forHTTPHeaderField: "Content-Type")
        request.httpBody = Data(try PayloadValue.object(json).encoded())
        return try await answer(to: request)
    }

    /// What the service answers to somebody with the API key.
    func get(_ path: String) async throws -> Data {
        var request = URLRequest(url: url.appending(path: path), timeoutInterval: 30)
        if let apiKey { request.setValue("Bearer \(apiKey)", forHTTPHeaderField: "Authorization") }
        return try await answer(to: request)
    }

    /// Tries once to deliver a signed notification.
    ///
    /// - Returns: what came of it, whether the service knew it already, and what went wrong, for people.
    func attempt(_ signedPayload: String) async -> (answer: DeliveryAnswer, isDuplicate: Bool, complaint: String?) {
        do {
            return (.status(200), try await deliver(signedPayload).duplicate, nil)
        } catch let error as PlayError {
            return (error.answer, false, error.description)
        } catch {
            // It was answered 200, by something that says nothing of positions.
            return (.status(200), false, nil)
        }
    }

    /// What a customer is entitled to now.
    func entitlements(of customer: String) async throws -> CustomerAnswer {
        let place = url.appending(path: "v1/customers").appending(path: customer).appending(path: "entitlements")
        var request = URLRequest(url: place, timeoutInterval: 30)
        if let apiKey { request.setValue("Bearer \(apiKey)", forHTTPHeaderField: "Authorization") }
        return try JSONDecoder().decode(CustomerAnswer.self, from: try await answer(to: request))
    }

    private func answer(to request: URLRequest) async throws -> Data {
        let data: Data
        let response: URLResponse
        do {
            (data, response) = try await session.data(for: request)
        } catch {
            throw PlayError(
                description: "\(url.absoluteString) does not answer: \(error.localizedDescription)",
                answer: (error as? URLError)?.code == .timedOut ? .timedOut : .noResponse)
        }
        let status = (response as? HTTPURLResponse)?.statusCode ?? 0
        guard status == 200 else {
            let path = request.url?.path() ?? ""
            throw PlayError(
                description: "\(request.httpMethod ?? "GET") \(path) was answered \(status): "
                    + String(decoding: data.prefix(500), as: UTF8.self), answer: .status(status))
        }
        return data
    }
}

/// Takes a redirection for the answer, as the App Store and Stripe do.
final class RedirectRefusal: NSObject, URLSessionTaskDelegate {
    func urlSession(
        _ session: URLSession, task: URLSessionTask, willPerformHTTPRedirection response: HTTPURLResponse,
        newRequest request: URLRequest, completionHandler: @escaping @Sendable (URLRequest?) -> Void
    ) { completionHandler(nil) }
}

/// What the service says of one customer; the parts shown here.
struct CustomerAnswer: Decodable {
    struct Entitlement: Decodable {
        struct Reason: Decodable {
            let code: String
            let positions: [Int64]
        }

        let id: String
        let givesAccess: Bool
        let state: String
        let until: String?
        let reason: Reason

        private enum CodingKeys: String, CodingKey {
            case id, state, until, reason
            case givesAccess = "gives_access"
        }
    }

    let entitlements: [Entitlement]
}
