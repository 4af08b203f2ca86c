import EntitlementAPI
import EntitlementCore
public import Foundation

#if canImport(CryptoKit)
import CryptoKit
#endif

/// The public keys of your server's passes, for an app that believes nothing of the server, a proxy or a disk but what one of
/// these has signed.
///
/// They are what `GET /.well-known/rightful-keys` answers; put that file into your app. A key that is to sign passes in a
/// year is best in it today: an app that knows none of the server's keys believes its own store alone.
public struct PassKeySet: Sendable, Hashable {
    /// The points on P-256 in X9.63 form, by the keys' ids.
    let keys: [String: Data]

    /// Reads a JSON Web Key Set; `nil` where it holds no key that passes are signed with.
    public init?(json: Data) {
        guard let set = try? WireJSON.decode(WireValue.self, from: Array(json)) else { return nil }
        var keys: [String: Data] = [:]
        for row in set["keys"]?.entries ?? [] {
            guard row["kty"]?.text == "EC", row["crv"]?.text == "P-256", let id = row["kid"]?.text,
                let x = row["x"]?.text.flatMap({ Data(base64URL: $0) }), x.count == 32,
                let y = row["y"]?.text.flatMap({ Data(base64URL: $0) }), y.count == 32
            else { continue }
            keys[id] = Data([4]) + x + y
        }
        guard !keys.isEmpty else { return nil }
        self.keys = keys
    }
}

/// What a pass states, once it is known who signed it.
struct PassClaims: Hashable, Sendable {
    struct Entitlement: Hashable, Sendable {
        let id: String
        let state: String
        /// `nil`: without end, as far as known.
        let until: Timestamp?
        let productID: String?
        let source: String
    }

    let entitlements: [Entitlement]
    let issuedAt: Timestamp
    let expiresAt: Timestamp
    /// Up to where the log is believed.
    let position: Int64

    /// Until when it states an entitlement, where it does at an instant.
    func end(of entitlementID: String, at now: Timestamp) -> Timestamp? {
        let ends = entitlements.filter { $0.id == entitlementID }.map { $0.until ?? .endless }
        return ends.filter { now < $0 }.max()
    }
}

/// Tells which pass vouches for a server's answer.
struct PassCheck: Sendable {
    /// Whether a signature (64 bytes) is one of a message by a key in X9.63 form.
    typealias ES256 = @Sendable (_ key: Data, _ signature: Data, _ message: Data) -> Bool

    /// How old a pass in an answer may be, in milliseconds: a server signs no other for a launch that follows soon.
    private static let passAge: Int64 = 60_000

    private let keys: PassKeySet
    private let bundleID: String
    private let isValid: ES256

    /// `nil` where the app names no keys.
    init?(_ configuration: EntitlementConfiguration) {
        guard let keys = configuration.passKeys else { return nil }
        self.keys = keys
        bundleID = configuration.bundleID
        isValid = configuration.es256 ?? Self.platform
    }

    /// By the system's own cryptography; where there is none, nothing is believed.
    static let platform: ES256 = { key, signature, message in
        #if canImport(CryptoKit)
        guard let key = try? P256.Signing.PublicKey(x963Representation: key),
            let signature = try? P256.Signing.ECDSASignature(rawRepresentation: signature)
        else { return false }
        return key.isValidSignature(signature, for: message)
        #else
        false
        #endif
    }

    /// The answer with what its pass states, which limits what the rest of it gives at any instant (``SignedWord``); without a pass
    /// that counts, it says nothing of what anybody holds.
    ///
    /// - Parameter isOld: whether a pass is one of long ago that somebody sends again, such as to set the clock back.
    func limit(_ answer: ServerAnswer, isOld: (PassClaims) -> Bool = { _ in false }) -> ServerAnswer {
        guard let claims = answer.pass.flatMap({ claims(of: $0, for: answer) }), !isOld(claims) else {
            return answer.unvouched
        }
        return answer.vouched(by: claims)
    }

    private func claims(of pass: String, for answer: ServerAnswer) -> PassClaims? {
        let parts = pass.split(separator: ".", omittingEmptySubsequences: false).map(String.init)
        guard parts.count == 3, let header = Self.object(parts[0]), header["alg"]?.text == "ES256",
            let key = header["kid"]?.text.flatMap({ keys.keys[$0] }), let signature = Data(base64URL: parts[2]),
            isValid(key, signature, Data((parts[0] + "." + parts[1]).utf8)), let claims = Self.object(parts[1]),
            claims["iss"]?.text == PassDocument.issuer,
            claims["sub"]?.text.flatMap(CustomerID.init) == answer.customerID,
            claims["aud"]?.text == bundleID, claims["environment"]?.text == answer.environment,
            let issued = claims["iat"]?.number, let expires = claims["exp"]?.number,
            let position = claims["position"]?.number
        else { return nil }
        let issuedAt = Timestamp(milliseconds: issued * 1000)
        // An answer of another time than its pass is put together from two.
        guard (0..<Self.passAge).contains(answer.at.milliseconds - issuedAt.milliseconds) else { return nil }
        let entitlements = claims["entitlements"]?.entries.compactMap { row -> PassClaims.Entitlement? in
            guard let id = row["id"]?.text else { return nil }
            return PassClaims.Entitlement(
                id: id, state: row["state"]?.text ?? EntitlementState.active.rawValue, until: row["until"]?.instant,
                productID: row["product_id"]?.text, source: row["source"]?.text ?? "unknown")
        }
        return PassClaims(
            entitlements: entitlements ?? [], issuedAt: issuedAt,
            expiresAt: Timestamp(milliseconds: expires * 1000), position: position)
    }

    private static func object(_ part: String) -> WireValue? {
        Data(base64URL: part).flatMap { try? WireJSON.decode(WireValue.self, from: Array($0)) }
    }
}

extension Data {
    /// Reads base64url with or without padding (RFC 7515, section 2).
    init?(base64URL text: some StringProtocol) {
        var text = text.replacingOccurrences(of: "-", with: "+").replacingOccurrences(of: "_", with: "/")
        text += String(repeating: "=", count: (4 - text.utf8.count % 4) % 4)
        self.init(base64Encoded: text)
    }
}
