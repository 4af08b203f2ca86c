package import EntitlementCore
package import Foundation
import OpenSSLCrypto

/// A promotional offer of a subscription, for a customer whom somebody has chosen.
///
/// Source: Apple, "Generating a signature for promotional offers".
package struct PromotionalOffer: Sendable {
    package let productID: String
    package let offerID: String
    /// What the purchase will bear; `nil`: nothing.
    package let accountToken: String?

    package init(productID: String, offerID: String, accountToken: String?) {
        self.productID = productID
        self.offerID = offerID
        self.accountToken = accountToken
    }

    /// Such an offer, signed.
    package struct Signature: Sendable {
        package let keyID: String
        package let nonce: UUID
        /// In milliseconds since 1970; the store takes it for 24 hours.
        package let timestamp: Int64
        /// ECDSA on P-256 of the SHA-256, in DER.
        package let bytes: [UInt8]
    }

    /// What is signed: each part in the spelling that the device hands to the store, with U+2063 between them.
    func message(bundleID: String, keyID: String, nonce: UUID, timestamp: Int64) -> String {
        [
            bundleID, keyID, productID, offerID, accountToken?.lowercased() ?? "", nonce.uuidString.lowercased(),
            "\(timestamp)",
        ].joined(separator: "\u{2063}")
    }
}

extension StoreAPICredentials {
    /// Signs an offer of this app.
    ///
    /// - Parameter nonce: one of its own for each signature.
    /// - Throws: what signing throws.
    package func sign(_ offer: PromotionalOffer, nonce: UUID, now: Timestamp) throws -> PromotionalOffer.Signature {
        let message = offer.message(bundleID: bundleID, keyID: keyID, nonce: nonce, timestamp: now.milliseconds)
        return PromotionalOffer.Signature(
            keyID: keyID, nonce: nonce, timestamp: now.milliseconds, bytes: try key.signP256(Array(message.utf8)))
    }
}
