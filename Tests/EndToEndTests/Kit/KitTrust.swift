import EntitlementCore
import Foundation
import OpenSSLCrypto
import StoreSimulator

@testable import EntitlementKit

/// The way to the simulated store's root by OpenSSL, where Apple's systems have their own to Apple's.
private struct KitTrust: CertificateTrust {
    let chains: AppleChains

    func leadsToRoot(leaf: [UInt8], intermediate: [UInt8], at instant: Timestamp) -> Bool {
        chains.leadsToRoot(leaf: leaf, intermediate: intermediate, at: instant.milliseconds)
    }
}

extension AppStoreStatementVerifier {
    /// What an app on Apple's systems has by itself, for statements of a simulated store.
    static func simulated(_ authority: SimulatedAuthority) throws -> AppStoreStatementVerifier {
        let root = authority.root.certificate
        return AppStoreStatementVerifier(
            root: root.der, chains: VouchedChains(KitTrust(chains: try AppleChains(root))),
            isValid: { key, signature, message in
                AppleChains.isValid(key: Array(key), signature: Array(signature), message: Array(message))
            }, believesXcode: false)
    }
}
