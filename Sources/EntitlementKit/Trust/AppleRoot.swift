import AppStorePayloads
import Foundation

/// Apple's root certificate in DER.
enum AppleRoot {
    static let der = Array(
        Data(base64Encoded: AppleRootCertificate.base64, options: .ignoreUnknownCharacters) ?? Data())
}
