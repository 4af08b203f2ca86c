#if canImport(Security) && canImport(CryptoKit)
import CoreFoundation
import EntitlementCore
import Foundation
import Security

/// Finds the way to Apple's root with what the system has, offline.
struct SystemTrust: CertificateTrust {
    func leadsToRoot(leaf: [UInt8], intermediate: [UInt8], at instant: Timestamp) -> Bool {
        guard let leaf = Self.certificate(leaf), let intermediate = Self.certificate(intermediate),
            let root = Self.certificate(AppleRoot.der), let chain = Self.array([leaf, intermediate]),
            let anchors = Self.array([root]),
            let date = CFDateCreate(nil, instant.date.timeIntervalSinceReferenceDate)
        else { return false }
        var made: SecTrust?
        guard SecTrustCreateWithCertificates(chain, SecPolicyCreateBasicX509(), &made) == 0, let trust = made,
            SecTrustSetAnchorCertificates(trust, anchors) == 0, SecTrustSetAnchorCertificatesOnly(trust, true) == 0,
            SecTrustSetNetworkFetchAllowed(trust, false) == 0, SecTrustSetVerifyDate(trust, date) == 0
        else { return false }
        return SecTrustEvaluateWithError(trust, nil)
    }

    private static func certificate(_ der: [UInt8]) -> SecCertificate? {
        CFDataCreate(nil, der, der.count).flatMap { SecCertificateCreateWithData(nil, $0) }
    }

    /// An array that retains what it holds.
    private static func array(_ certificates: [SecCertificate]) -> CFArray? {
        var values: [UnsafeRawPointer?] = certificates.map { UnsafeRawPointer(Unmanaged.passUnretained($0).toOpaque()) }
        var callbacks = kCFTypeArrayCallBacks
        return withExtendedLifetime(certificates) { CFArrayCreate(nil, &values, values.count, &callbacks) }
    }
}

extension AppStoreStatementVerifier {
    /// Of the whole process.
    private static let chains = VouchedChains(SystemTrust())

    /// Verifies with what the system has.
    ///
    /// - Parameter believesXcode: whether what Xcode's own store states counts, which Apple does not sign. Only a build for
    ///   debugging, or one for the simulator, believes it unless told; any other reads it from Xcode's store anew at each
    ///   launch.
    public init(believesXcode: Bool = Self.isBuiltForXcode) {
        self.init(chains: Self.chains, isValid: PassCheck.platform, believesXcode: believesXcode)
    }

    /// Whether this is a build for debugging, or one for the simulator.
    public static var isBuiltForXcode: Bool {
        #if DEBUG || targetEnvironment(simulator)
        true
        #else
        false
        #endif
    }
}
#endif
