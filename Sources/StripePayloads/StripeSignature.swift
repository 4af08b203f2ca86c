package import EntitlementCore
import OpenSSLCrypto

/// Why a webhook's signature is not believed.
package enum StripeSignatureFailure: Error, Hashable, Sendable, CustomStringConvertible {
    /// The header names no instant, or none that is a number, or it is longer than any that Stripe sends.
    case malformed
    /// It bears no `v1` code.
    case unsigned
    /// None of its codes was made with one of the secrets.
    case mismatch
    /// It was made with one of them, too long ago.
    case stale(seconds: Int64)

    package var description: String {
        switch self {
        case .malformed: "the header Stripe-Signature has no usable t"
        case .unsigned: "the header Stripe-Signature has no v1"
        case .mismatch: "no code of the header Stripe-Signature was made with a secret that is configured"
        case .stale(let seconds):
            "the signature was made \(seconds) s ago; at most \(StripeSignature.tolerance) s are believed"
        }
    }
}

/// The header `Stripe-Signature`: `t=<seconds>,v1=<hex>[,v1=…][,v0=…]`.
///
/// While a secret is rolled there is one `v1` for each that is in force. Anything else, such as `v0`, is passed over.
package struct StripeSignature: Hashable, Sendable {
    /// How old a signature may be, in seconds; one from the future is taken, for clocks differ.
    package static let tolerance: Int64 = 300
    /// The longest header that is read, in bytes.
    package static let lengthLimit = 4096
    /// The longest secret that is a key, in bytes; no code was made with a longer one.
    package static let secretLimit = 1024
    /// How many codes are compared at most.
    package static let codeLimit = 16

    /// The seconds as they are written: they are signed as text.
    private let instant: String
    private let seconds: Int64
    private let codes: [[UInt8]]

    package init(header: String) throws(StripeSignatureFailure) {
        guard header.utf8.count <= Self.lengthLimit else { throw .malformed }
        var instants: [Substring] = []
        var codes: [[UInt8]] = []
        for part in header.split(separator: ",") {
            let pair = part.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            guard pair.count == 2 else { continue }
            switch pair[0].drop(while: { $0 == " " }) {
            case "t": instants.append(pair[1])
            case "v1": if codes.count < Self.codeLimit { codes.append(Self.code(pair[1])) }
            default: continue
            }
        }
        guard instants.count == 1, let instant = instants.first, !instant.isEmpty,
            instant.utf8.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }),
            let seconds = Int64(instant)
        else { throw .malformed }
        guard !codes.isEmpty else { throw .unsigned }
        (self.instant, self.seconds, self.codes) = (String(instant), seconds, codes)
    }

    /// Verifies the raw body, exactly as it was received, and that it was signed lately.
    ///
    /// - Parameters:
    ///   - secrets: those in force, each with its `whsec_`, which belongs to the key; one of them has to match.
    /// - Returns: which of the secrets it was.
    package func verify(
        body: [UInt8], secrets: [String], now: Timestamp
    ) throws(StripeSignatureFailure) -> Int {
        let matched = try signer(of: body, secrets: secrets)
        // Floored, as Stripe's own libraries do it.
        let second = now.milliseconds / 1000
        guard second - Self.tolerance <= seconds else { throw .stale(seconds: second - seconds) }
        return matched
    }

    /// Which of the secrets signed the raw body, whenever that was.
    package func signer(of body: [UInt8], secrets: [String]) throws(StripeSignatureFailure) -> Int {
        let message = Array("\(instant).".utf8) + body
        let matched = secrets.firstIndex { secret in
            guard (1...Self.secretLimit).contains(secret.utf8.count) else { return false }
            let code = HMACSHA256.code(of: message, key: Array(secret.utf8))
            return codes.contains { ConstantTime.equal(code, $0) }
        }
        guard let matched else { throw .mismatch }
        return matched
    }

    /// What is written in hex; nothing, which matches nothing, where it is not 32 bytes of it.
    private static func code(_ text: Substring) -> [UInt8] {
        guard text.utf8.count == 64, Hexadecimal.isLowercase(text) else { return [] }
        return Hexadecimal.bytes(text) ?? []
    }
}
