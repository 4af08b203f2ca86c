import EntitlementAPI
import EntitlementCore
import Foundation
import OpenSSLCrypto

@testable import EntitlementKit

/// Signs the passes of a scripted server.
struct PassSigner: Sendable {
    private let key: PrivateKey

    init() throws { key = try PrivateKey.generate(.p256) }

    /// The published key set.
    func keySet() throws -> PassKeySet? {
        let point = try key.publicKey.p256Point()
        let row = ["kty": "EC", "crv": "P-256", "kid": "k", "x": Self.text(point.x), "y": Self.text(point.y)]
        return PassKeySet(json: try JSONSerialization.data(withJSONObject: ["keys": [row]]))
    }

    /// What a device without CryptoKit verifies with.
    func es256() -> @Sendable (Data, Data, Data) -> Bool {
        let publicKey = key.publicKey
        return { _, signature, message in
            publicKey.isValidES256(signature: Array(signature), message: Array(message))
        }
    }

    /// The answer with a pass that states what it says.
    func signing(_ answer: WireValue) -> WireValue {
        guard case .object(var members) = answer, answer["proof"]?.text != "none", let at = answer["at"]?.instant else {
            return answer
        }
        let given = answer["entitlements"]?.entries.filter { $0["gives_access"]?.flag == true } ?? []
        let claims: [String: WireValue] = [
            "iss": .string("rightful"), "sub": answer["customer_id"] ?? .null, "aud": .string(Statements.bundleID),
            "environment": answer["environment"] ?? .null, "iat": .int(at.milliseconds / 1000),
            "position": answer["position"] ?? .null, "exp": .int(at.milliseconds / 1000 + 86_400),
            "entitlements": .array(given),
        ]
        guard let header = try? WireJSON.encode(["alg": "ES256", "kid": "k"]),
            let payload = try? WireJSON.encode(WireValue.object(claims))
        else { return answer }
        let signed = Self.text(header) + "." + Self.text(payload)
        members["pass"] = (try? key.signES256(Array(signed.utf8))).map { .string(signed + "." + Self.text($0)) }
        return .object(members)
    }

    private static func text(_ bytes: [UInt8]) -> String {
        Data(bytes).base64EncodedString().replacingOccurrences(of: "+", with: "-")
            .replacingOccurrences(of: "/", with: "_").replacingOccurrences(of: "=", with: "")
    }
}
