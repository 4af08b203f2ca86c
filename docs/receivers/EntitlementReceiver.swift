// Receives Rightful's webhooks and keeps what each customer is entitled to, in any Swift server: it needs swift-crypto, which
// Vapor and Hummingbird bring along. With Vapor the route is
//
//   let receiver = try EntitlementReceiver(secret: "whsec_…", rightful: URL(string: "https://…")!, key: "…")
//   app.on(.POST, "rightful", body: .collect(maxSize: "8mb")) { request async -> HTTPStatus in
//       let headers = Dictionary(request.headers.map { ($0.lowercased(), $1) }) { first, _ in first }
//       let body = Data(buffer: request.body.data ?? ByteBuffer())
//       return HTTPStatus(statusCode: await receiver.receive(body, headers: headers))
//   }
//
// The key needs the scope customers:read.
import Crypto
import Foundation

#if canImport(FoundationNetworking)
import FoundationNetworking
#endif

actor EntitlementReceiver {
    struct Customer: Hashable, Sendable {
        let id: String
        let environment: String

        /// Byte for byte: to `String`, two spellings of one character are the same, and to Rightful they are two customers.
        static func == (left: Customer, right: Customer) -> Bool {
            left.id.utf8.elementsEqual(right.id.utf8) && left.environment == right.environment
        }

        func hash(into hasher: inout Hasher) { hasher.combine(Array(id.utf8)) }
    }

    /// What you need of an entitlement; docs/http.md has all of it.
    struct Entitlement: Codable, Hashable, Sendable {
        let id: String
        let givesAccess: Bool
        let state: String

        enum CodingKeys: String, CodingKey {
            case id, state
            case givesAccess = "gives_access"
        }
    }

    struct Kept: Sendable {
        let endpoint: String
        let sequence: Int
        let entitlements: [Entitlement]
        /// Whether it was read, because something was missed.
        let isRead: Bool
    }

    struct Failure: Error { let what: String }

    private let secret: SymmetricKey
    private let rightful: URL
    private let key: String
    private let session: URLSession
    /// In place of a table of your database.
    ///
    /// What was forgotten at the end of the process is read again, because to an empty table every message comes after a hole.
    private(set) var customers: [Customer: Kept] = [:]
    /// Messages of one customer are taken one after the other.
    private var turns: [Customer: Task<Void, any Error>] = [:]

    init(secret: String, rightful: URL, key: String) throws {
        let prefix = "whsec_"
        guard secret.hasPrefix(prefix), let bytes = Data(base64Encoded: String(secret.dropFirst(prefix.count))) else {
            throw Failure(what: "a secret of an endpoint begins with \(prefix)")
        }
        self.secret = SymmetricKey(data: bytes)
        (self.rightful, self.key) = (rightful, key)
        let configuration = URLSessionConfiguration.ephemeral
        configuration.timeoutIntervalForRequest = 5
        session = URLSession(configuration: configuration)
    }

    /// Whether the customer may use something.
    func hasAccess(_ customer: Customer, to entitlement: String) -> Bool {
        customers[customer]?.entitlements.contains { $0.id == entitlement && $0.givesAccess } ?? false
    }

    /// Takes a message; returns the HTTP status of the answer.
    ///
    /// Whatever is not 204 is sent again.
    ///
    /// - Parameters:
    ///   - body: byte for byte as it came.
    ///   - headers: by their names in lower case.
    func receive(_ body: Data, headers: [String: String], at now: Date = Date()) async -> Int {
        guard isSigned(body, headers, now) else { return 400 }
        do {
            let message = try JSONDecoder().decode(Message.self, from: body)
            if message.type == "entitlements.changed" {
                try await take(try JSONDecoder().decode(Envelope.self, from: body).data)
            }
            return 204
        } catch {
            // For your log: it is not kept, and sent again.
            return 500
        }
    }

    private struct Message: Decodable { let type: String }
    private struct Envelope: Decodable { let data: Change }

    private struct Change: Decodable {
        let customerID: String
        let environment: String
        let endpoint: String
        let sequence: Int
        let before: [Entitlement]
        let after: [Entitlement]
        let forgotten: Bool?

        enum CodingKeys: String, CodingKey {
            case environment, endpoint, sequence, before, after, forgotten
            case customerID = "customer_id"
        }
    }

    /// Whether Rightful signed it, within five minutes.
    private func isSigned(_ body: Data, _ headers: [String: String], _ now: Date) -> Bool {
        guard let id = headers["webhook-id"], let timestamp = headers["webhook-timestamp"],
            let seconds = TimeInterval(timestamp), abs(now.timeIntervalSince1970 - seconds) <= 300
        else { return false }
        let signed = Data("\(id).\(timestamp).".utf8) + body
        // While a secret is rolled there are two signatures.
        return (headers["webhook-signature"] ?? "").split(separator: " ").contains { signature in
            guard signature.hasPrefix("v1,"), let code = Data(base64Encoded: String(signature.dropFirst(3))) else {
                return false
            }
            // Compares in constant time.
            return HMAC<SHA256>.isValidAuthenticationCode(code, authenticating: signed, using: secret)
        }
    }

    private func take(_ change: Change) async throws {
        let customer = Customer(id: change.customerID, environment: change.environment)
        let former = turns[customer]
        let turn = Task {
            _ = await former?.result
            try await keep(change, of: customer)
        }
        turns[customer] = turn
        defer { if turns[customer] == turn { turns[customer] = nil } }
        try await turn.value
    }

    private func keep(_ change: Change, of customer: Customer) async throws {
        let known = customers[customer]
        let held = known?.entitlements ?? []
        let isSame = change.endpoint == known?.endpoint ?? change.endpoint
        let sequence = known?.sequence ?? 0
        if isSame, change.sequence == sequence, change.after == held { return }  // It came before.
        let isForgotten = change.forgotten == true
        let isNext = isSame && change.sequence == sequence + 1 && change.before == held && !isForgotten
        // Whatever is not the next one tells that something was missed, came late, or began anew: so what holds now is read.
        let now = isNext ? change.after : try await entitlements(of: customer)
        customers[customer] =
            isForgotten && now.isEmpty
            ? nil
            : Kept(endpoint: change.endpoint, sequence: change.sequence, entitlements: now, isRead: !isNext)
    }

    /// What a customer is entitled to, read from Rightful.
    private func entitlements(of customer: Customer) async throws -> [Entitlement] {
        struct Answer: Decodable { let entitlements: [Entitlement] }
        let url = rightful.appending(path: "v1/customers").appending(component: customer.id)
            .appending(path: "entitlements")
            .appending(queryItems: [URLQueryItem(name: "environment", value: customer.environment)])
        var request = URLRequest(url: url)
        request.setValue("Bearer \(key)", forHTTPHeaderField: "Authorization")
        let (body, response) = try await session.data(for: request)
        guard (response as? HTTPURLResponse)?.statusCode == 200 else { throw Failure(what: "\(response)") }
        return try JSONDecoder().decode(Answer.self, from: body).entitlements
    }
}
