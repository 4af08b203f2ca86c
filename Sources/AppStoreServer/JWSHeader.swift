import AppStorePayloads
import OpenSSLCrypto

/// The header of a JWS as the App Store signs it: ES256, and the certificates that vouch for the key.
struct JWSHeader {
    let leaf: [UInt8]
    let intermediate: [UInt8]

    /// Reads a header part, in base64url as sent.
    ///
    /// The third certificate of `x5c` is not looked at: it claims to be the root, which only the configuration knows.
    init(encoded: ArraySlice<UInt8>) throws(JWSError) {
        guard let bytes = Base64.decodeURL(encoded) else {
            throw .malformed("the header is not base64url without padding")
        }
        guard let members = try? JSONObject(parsing: bytes) else { throw .malformed("the header is not a JSON object") }
        // A member of the wrong type counts as absent, since both are refused as untrusted.
        guard members["alg"]?.isText("ES256") == true else { throw .untrusted("its algorithm (alg) is not ES256") }
        guard !members.contains("crit") else { throw .untrusted("it demands extensions (crit) that are unknown here") }
        let chain = members["x5c"]?.array?.map(\.string) ?? []
        guard chain.count == 3, let first = chain[0], let second = chain[1], chain[2] != nil else {
            throw .untrusted("its header does not hold exactly three certificates (x5c)")
        }
        guard let leaf = Base64.decode(first), let intermediate = Base64.decode(second) else {
            throw .untrusted("its certificates (x5c) are not in base64")
        }
        self.leaf = leaf
        self.intermediate = intermediate
    }
}
