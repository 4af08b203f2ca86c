import Foundation
import FuzzTargets
import SeededRandom
import StoreSimulator

/// Requests of strangers: variants of those that the service is made for, none of which anybody has signed or has a key
/// for.
struct HostileRequests: Sendable {
    /// What a genuine client would send, as material.
    struct Material: Sendable {
        let notifications: [[UInt8]]
        /// Transactions and renewal information.
        let statements: [String]
        let customers: [String]
        let publishableKey: String
        let secretKey: String
        let token: String
        let bundleID: String
    }

    /// How the bytes of a request are sent.
    enum Manner: Sendable {
        case atOnce
        /// In pieces of this many bytes at most.
        case inPieces(Int)
    }

    let material: Material
    private var random: SplitMix64
    private var mutator: Mutator
    private let genuine: Set<[UInt8]>

    init(_ material: Material, seed: UInt64) {
        self.material = material
        random = SplitMix64(seed: seed)
        mutator = Mutator(seed: random.next())
        genuine = Set(material.notifications + material.statements.map { Array($0.utf8) })
    }

    /// The bytes of a connection: one request, or several.
    mutating func next() -> (bytes: [UInt8], manner: Manner) {
        var bytes = request()
        if random.chance(10) { bytes += request() }
        if random.chance(35) { bytes = badlyFramed(bytes) }
        let manner: Manner = random.chance(10) ? .inPieces(Int(random.pick([1, 2, 7, 100]))) : .atOnce
        // A byte at a time is slow, and says no more of a long body.
        if case .inPieces(let size) = manner { return (Array(bytes.prefix(size * 600)), manner) }
        return (bytes, manner)
    }

    // MARK: - What is asked

    private mutating func request() -> [UInt8] {
        let customer = random.pick(material.customers)
        switch random.number(in: 0...9) {
        case 0...3:
            var body =
                Data("{\"signedPayload\":\"".utf8) + forged(random.pick(material.notifications)) + Data("\"}".utf8)
            if random.chance(20) { body = Data(mutator.mutated(Array(body), with: [], as: .bytes)) }
            return message("POST", "/v1/notifications/appstore", key: nil, body: Array(body))
        case 4...6:
            return message(
                "POST", "/v1/customers/\(customer)/reconcile",
                key: random.chance(70) ? material.publishableKey : forgedKey(),
                body: reconciliation())
        case 7:
            let action = random.pick(["link", "transfer", "grant", "revoke_grant"])
            let body = random.pick([
                "{\"entitlement\":\"premium\",\"reason\":\"x\"}", "{\"customer_id\":\"\(customer)\"}",
                "{\"original_transaction_id\":\"2000000001\",\"to\":\"thief\"}",
            ])
            return message(
                "POST", "/v1/customers/thief/actions/\(action)", key: forgedKey(),
                body: mutator.mutated(Array(body.utf8), with: [], as: .json))
        default:
            let target = random.pick([
                "/v1/customers/\(customer)/entitlements?environment=sandbox&at=2026-11-20T12:00:00Z&known_at=3",
                "/v1/customers/\(customer)/explain?entitlement=premium", "/v1/events?after=1&limit=1000", "/v1/ledger",
                "/v1/events/2/proof?size=3", "/metrics", "/healthz", "/.well-known/rightful-log-key", "/v1/catalog",
            ])
            let changed = mutator.mutated(Array(target.utf8), with: Array("/v1/x?y=%41".utf8), as: .text)
            return message("GET", String(decoding: changed, as: UTF8.self), key: forgedKey(), body: [])
        }
    }

    /// A JWS that nobody has signed.
    private mutating func forged(_ compact: [UInt8]) -> [UInt8] {
        while true {
            let variant = mutator.mutated(compact, with: random.pick(material.notifications), as: .jws)
            if !genuine.contains(variant) { return variant }
        }
    }

    /// A key that nobody has made; one that may only reconcile, for everything else.
    private mutating func forgedKey() -> String? {
        if random.chance(20) { return random.chance(50) ? nil : material.publishableKey }
        let key = random.pick([material.secretKey, material.token])
        while true {
            let variant = String(decoding: mutator.mutated(Array(key.utf8), with: [], as: .text), as: UTF8.self)
            // What surrounds a key in a header is no part of it.
            let word = variant.trimmingCharacters(in: .whitespacesAndNewlines)
            if word != key, !word.hasPrefix(key + "\r"), !word.hasPrefix(key + "\n") { return variant }
        }
    }

    private mutating func reconciliation() -> [UInt8] {
        func text(_ bytes: [UInt8]) -> PayloadValue { .string(String(decoding: bytes, as: UTF8.self)) }
        let statements = (0...random.number(in: 0...2)).map { _ in
            text(forged(Array(random.pick(material.statements).utf8)))
        }
        let body = PayloadValue.object([
            "app": .string(material.bundleID), "environment": .string(random.pick(["production", "sandbox", "auto"])),
            "signed_transactions": .array(statements), "signed_renewal_infos": .array(Array(statements.prefix(1))),
            "app_transaction": text(forged(Array(random.pick(material.statements).utf8))), "facts": .boolean(true),
        ])
        let bytes = (try? body.encoded()) ?? []
        return random.chance(50) ? bytes : mutator.mutated(bytes, with: [], as: .bytes)
    }

    // MARK: - How it is framed

    private mutating func message(_ method: String, _ target: String, key: String?, body: [UInt8]) -> [UInt8] {
        var head = "\(method) \(target) HTTP/1.1\r\nHost: test\r\n"
        if let key { head += "Authorization: Bearer \(key)\r\n" }
        if random.chance(85) { head += "Connection: close\r\n" }
        if random.chance(10) { return Array((head + "Transfer-Encoding: chunked\r\n\r\n").utf8) + chunked(body) }
        return Array((head + "Content-Length: \(body.count)\r\n\r\n").utf8) + body
    }

    private mutating func chunked(_ body: [UInt8]) -> [UInt8] {
        var bytes: [UInt8] = []
        var start = 0
        while start < body.count {
            let end = min(body.count, start + Int(random.number(in: 1...5000)))
            bytes += Array((String(end - start, radix: 16) + "\r\n").utf8) + body[start..<end] + Array("\r\n".utf8)
            start = end
        }
        return bytes + Array("0\r\n\r\n".utf8)
    }

    private static let oddLines = [
        "Content-Length: 5", "Content-Length: -1", "Content-Length: 99999999999999999999", "Transfer-Encoding: chunked",
        "Transfer-Encoding: chunked, identity", "Transfer-Encoding : chunked", "Expect: 100-continue", " folded: line",
        "Connection: Upgrade", "Host: other", ": empty", "X:\u{0}", "Authorization: Basic eDp5", "Cookie: a=b",
        "Idempotency-Key: " + String(repeating: "k", count: 300), "X-Forwarded-For: 1.2.3.4, ::1",
        "X-Long: " + String(repeating: "long", count: 20_000),
    ]

    private mutating func badlyFramed(_ message: [UInt8]) -> [UInt8] {
        switch random.number(in: 0...5) {
        case 0: return mutator.mutated(message, with: message, as: .bytes)
        case 1:
            let lines = message.split(separator: 0x0A, maxSplits: 1, omittingEmptySubsequences: false)
            let odd = (0...random.number(in: 0...3)).map { _ in random.pick(Self.oddLines) + "\r\n" }.joined()
            return Array(lines[0]) + [0x0A] + Array(odd.utf8) + (lines.count > 1 ? Array(lines[1]) : [])
        case 2: return message.filter { $0 != 0x0D }
        case 3: return Array(message.prefix(Int(random.number(in: 0...Int64(message.count)))))
        case 4:
            let line = random.pick([
                "GET", "PRI * HTTP/2.0\r\n\r\nSM", "\u{16}\u{3}\u{1}", "GET / HTTP/9.9", "\r\n\r\n\r\n",
            ])
            return Array(line.utf8) + message
        default: return message + mutator.mutated(message, with: [], as: .text)
        }
    }
}
