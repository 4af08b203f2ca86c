package import EntitlementAPI
package import EntitlementCore
import Foundation

/// The keys that sign passes.
///
/// The newest valid one signs, and the public halves of all are published, so that a key is known everywhere before
/// its first signature, and what an older one signed stays verifiable until it is taken out.
package struct PassKeyRing: Sendable {
    /// A key pair on P-256.
    package struct Key: Sendable {
        package let id: String
        /// The instant from which on it may sign; `nil`: always.
        package let notBefore: Timestamp?
        let x: [UInt8]
        let y: [UInt8]
        let sign: @Sendable ([UInt8]) throws -> [UInt8]

        /// - Parameters:
        ///   - x: the public point's first coordinate, 32 bytes.
        ///   - y: the second, 32 bytes.
        ///   - sign: makes an ES256 signature of a message, 64 bytes (RFC 7518, section 3.4).
        package init(
            id: String, notBefore: Timestamp?, x: [UInt8], y: [UInt8],
            sign: @escaping @Sendable ([UInt8]) throws -> [UInt8]
        ) {
            self.id = id
            self.notBefore = notBefore
            self.x = x
            self.y = y
            self.sign = sign
        }
    }

    /// Without a key no passes are made.
    package static let empty = PassKeyRing([])

    private let keys: [Key]

    /// Takes keys of different ids, in the order in which the configuration lists them.
    package init(_ keys: [Key]) { self.keys = keys }

    package var isEmpty: Bool { keys.isEmpty }

    /// The public halves of all keys, those that are not valid yet included.
    package var keySet: PassKeySetDocument {
        PassKeySetDocument(
            keys: keys.map { .init(keyID: $0.id, x: base64URL($0.x), y: base64URL($0.y)) })
    }

    /// The same as the log records it, in the order of their ids.
    package var facts: [PassKeyFact] {
        keys.map { PassKeyFact(keyID: $0.id, notBefore: $0.notBefore, x: base64URL($0.x), y: base64URL($0.y)) }
            .sorted { $0.keyID < $1.keyID }
    }

    /// A signed pass that states what the customer holds; `nil` where no key is valid.
    ///
    /// - Parameters:
    ///   - audience: the bundle id of the app it is issued to.
    ///   - answers: what the customer holds, read at `now`; what gives no access is left out.
    ///   - position: the one the answers rest on.
    ///   - ttl: how long the pass may live at most.
    /// - Throws: what the signing key throws.
    package func pass(
        customer: CustomerID, audience: String, environment: StoreEnvironment, answers: [EntitlementAnswer],
        position: Int64, now: Timestamp, ttl: Duration
    ) throws -> String? {
        guard let key = signer(at: now) else { return nil }
        return try issue(
            PassDocument(
                customer: customer, audience: audience, environment: environment, answers: answers, position: position,
                now: now, ttl: ttl),
            signedBy: key)
    }

    /// When the first of the keys may sign, where none may yet.
    package func start(after now: Timestamp) -> Timestamp? {
        signer(at: now) == nil ? keys.map(\.start).min() : nil
    }

    /// The key that signs at an instant: the one that became valid last, and of several such the one listed last.
    func signer(at now: Timestamp) -> Key? {
        keys.filter { $0.start <= now }.reduce(nil) { newest, key in
            if let newest, key.start < newest.start { newest } else { key }
        }
    }

    /// The claims as a compact JWS (RFC 7515, section 7.1).
    func issue(_ claims: PassDocument, signedBy key: Key) throws -> String {
        let header = try WireJSON.encode(PassHeader(kid: key.id))
        let signed = base64URL(header) + "." + base64URL(try WireJSON.encode(claims))
        return signed + "." + base64URL(try key.sign(Array(signed.utf8)))
    }
}

extension PassKeyRing.Key {
    fileprivate var start: Timestamp { notBefore ?? .earliest }
}

/// How a pass is signed, and by which key.
private struct PassHeader: Encodable {
    let alg = "ES256"
    let typ = "JWT"
    let kid: String
}

/// Base64url without padding (RFC 7515, section 2).
private func base64URL(_ bytes: [UInt8]) -> String {
    Data(bytes).base64EncodedString()
        .replacing("+", with: "-").replacing("/", with: "_").replacing("=", with: "")
}
