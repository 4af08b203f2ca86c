import Foundation
package import OpenSSLCrypto

/// What Apple's systems do with the certificates of signed statements, done by OpenSSL on others.
package struct AppleChains: Sendable {
    private let store: CertificateStore

    /// - Parameter root: the only one that is trusted.
    package init(_ root: Certificate) throws { store = try CertificateStore(roots: [root]) }

    /// Whether an intermediate certificate has signed a leaf, and the root the intermediate, as of an instant.
    ///
    /// - Parameters:
    ///   - leaf: in DER.
    ///   - intermediate: in DER.
    ///   - instant: when all of them have to be valid, in milliseconds since 1970.
    package func leadsToRoot(leaf: [UInt8], intermediate: [UInt8], at instant: Int64) -> Bool {
        guard let leaf = try? Certificate(der: leaf), let intermediate = try? Certificate(der: intermediate),
            let path = try? store.validate(leaf: leaf, intermediates: [intermediate], atMilliseconds: instant)
        else { return false }
        return path.count == 3
    }

    /// Verifies with a point in X9.63 form, which it puts into a key as it is written for exchange.
    package static func isValid(key: [UInt8], signature: [UInt8], message: [UInt8]) -> Bool {
        let head: [UInt8] = [
            0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2A, 0x86, 0x48, 0xCE, 0x3D, 0x02, 0x01, 0x06, 0x08, 0x2A, 0x86, 0x48,
            0xCE, 0x3D, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
        ]
        let text = Data(head + key).base64EncodedString(options: [.lineLength64Characters, .endLineWithLineFeed])
        guard let key = try? PublicKey(pem: "-----BEGIN PUBLIC KEY-----\n\(text)\n-----END PUBLIC KEY-----\n") else {
            return false
        }
        return key.isValidES256(signature: signature, message: message)
    }
}
