import Foundation
import OpenSSLCrypto

/// The header of a JWS as the App Store signs it: ES256, and the certificates that vouch for the key.
struct JWSHeader {
    let leaf: [UInt8]
    let intermediate: [UInt8]

    /// Reads a header part, in base64url as sent.
    ///
    /// The third certificate of `x5c` is not looked at: it claims to be the root, which only the configuration knows.
    init(encoded: ArraySlice<UInt8>) throws(JWSError) {
        let members = try Self.members(of: encoded)
        guard members.algorithm == "ES256" else { throw .untrusted("its algorithm (alg) is not ES256") }
        guard !members.isCritical else { throw .untrusted("it demands extensions (crit) that are unknown here") }
        guard let chain = members.chain, chain.count == 3 else {
            throw .untrusted("its header does not hold exactly three certificates (x5c)")
        }
        guard let leaf = Base64.decode(chain[0]), let intermediate = Base64.decode(chain[1]) else {
            throw .untrusted("its certificates (x5c) are not in base64")
        }
        self.leaf = leaf
        self.intermediate = intermediate
    }

    private static func members(of encoded: ArraySlice<UInt8>) throws(JWSError) -> Members {
        guard let bytes = Base64.decodeURL(encoded) else {
            throw .malformed("the header is not base64url without padding")
        }
        do {
            return try JSONDecoder().decode(Members.self, from: Data(bytes))
        } catch {
            throw .malformed("the header is not a JSON object")
        }
    }

    /// What of the header matters; a member of the wrong type counts as absent, since both are refused as untrusted.
    private struct Members: Decodable {
        let algorithm: String?
        let chain: [String]?
        let isCritical: Bool

        enum CodingKeys: String, CodingKey { case alg, x5c, crit }

        init(from decoder: any Decoder) throws {
            let container = try decoder.container(keyedBy: CodingKeys.self)
            algorithm = try? container.decode(String.self, forKey: .alg)
            chain = try? container.decode([String].self, forKey: .x5c)
            isCritical = container.contains(.crit)
        }
    }
}
