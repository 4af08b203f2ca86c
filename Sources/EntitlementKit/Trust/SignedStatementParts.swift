import AppStorePayloads
import EntitlementCore
import Foundation

/// What of a compact JWS decides whether the store has signed it.
struct SignedStatementParts {
    /// The certificate whose key has signed it, and the one that issued that, in DER.
    ///
    /// The third one of `x5c` is not looked at: it claims to be the root, which is known.
    let leaf: [UInt8]
    let intermediate: [UInt8]
    /// What the signature is about.
    let message: Data
    let signature: Data
    /// When it was signed, by its own word.
    let signedAt: Timestamp

    /// Takes one apart that is signed with ES256 and brings exactly three certificates; `nil` for any other.
    init?(_ jws: String) {
        guard let (parts, payload) = Self.parts(of: jws), let header = Self.object(parts[0]),
            header["alg"]?.string == "ES256", !header.contains("crit"),
            let signedAt = (payload["signedDate"] ?? payload["receiptCreationDate"])?.timestamp,
            let signature = Data(base64URL: parts[2]), signature.count == 64
        else { return nil }
        let chain = header["x5c"]?.array?.map { $0.string.flatMap { Data(base64Encoded: $0) } } ?? []
        guard chain.count == 3, let leaf = chain[0], let intermediate = chain[1], chain[2] != nil else { return nil }
        (self.leaf, self.intermediate) = (Array(leaf), Array(intermediate))
        message = Data((parts[0] + "." + parts[1]).utf8)
        (self.signature, self.signedAt) = (signature, signedAt)
    }

    /// Whether a statement says of itself that it is of Xcode's own store.
    static func isOfXcode(_ jws: String) -> Bool {
        guard let payload = parts(of: jws)?.payload else { return false }
        return (payload["environment"] ?? payload["receiptType"])?.string == StoreEnvironmentName.xcode.rawValue
    }

    private static func parts(of jws: String) -> (parts: [String], payload: JSONObject)? {
        let parts = jws.split(separator: ".", omittingEmptySubsequences: false).map(String.init)
        guard parts.count == 3, let payload = object(parts[1]) else { return nil }
        return (parts, payload)
    }

    private static func object(_ part: String) -> JSONObject? {
        Data(base64URL: part).flatMap { try? JSONObject(parsing: Array($0)) }
    }
}
