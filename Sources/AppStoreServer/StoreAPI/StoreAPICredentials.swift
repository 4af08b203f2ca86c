package import EntitlementCore
import Foundation
package import OpenSSLCrypto

/// Signs in to the App Store Server API for one app.
///
/// Source: Apple, "Generating JSON Web Tokens for API requests".
package struct StoreAPICredentials: Sendable {
    package let issuerID: String
    package let keyID: String
    package let bundleID: String
    let key: PrivateKey

    /// - Parameters:
    ///   - issuerID: the account's, from App Store Connect.
    ///   - keyID: the key's, from App Store Connect.
    ///   - key: a key on P-256 of the kind "In-App Purchase".
    package init(issuerID: String, keyID: String, bundleID: String, key: PrivateKey) {
        self.issuerID = issuerID
        self.keyID = keyID
        self.bundleID = bundleID
        self.key = key
    }

    /// A minute: a store whose clock is behind ours refuses what is dated ahead of it.
    private static let backdating: Int64 = 60
    /// Five minutes; the store takes up to sixty.
    private static let lifetime: Int64 = 300

    /// A token for one request.
    ///
    /// - Throws: what signing throws.
    package func token(now: Timestamp) throws -> String {
        let second = now.milliseconds / 1000
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        let header = try encoder.encode(Header(kid: keyID))
        let claims = try encoder.encode(
            Claims(
                iss: issuerID, iat: second - Self.backdating, exp: second - Self.backdating + Self.lifetime,
                bid: bundleID))
        let signed = Base64.encodeURL(header) + "." + Base64.encodeURL(claims)
        return signed + "." + Base64.encodeURL(try key.signES256(Array(signed.utf8)))
    }

    private struct Header: Encodable {
        var alg = "ES256"
        let kid: String
        var typ = "JWT"
    }

    private struct Claims: Encodable {
        let iss: String
        let iat: Int64
        let exp: Int64
        var aud = "appstoreconnect-v1"
        let bid: String
    }
}
