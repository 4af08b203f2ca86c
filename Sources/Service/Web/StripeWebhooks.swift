import AppStorePayloads
package import EntitlementCore
import Ledger
import OpenSSLCrypto
import StripePayloads

/// A secret that Stripe signs webhooks of one environment with.
package struct StripeWebhookSecret: Sendable, Hashable, CustomStringConvertible, CustomReflectable {
    package let environment: StoreEnvironment
    /// With its `whsec_`, which belongs to the key.
    let value: String

    /// The longest secret taken, in bytes; it is the key of an HMAC.
    package static let lengthLimit = 1024

    /// `nil` for what Stripe gives nobody.
    package init?(_ value: String, of environment: StoreEnvironment) {
        guard value.hasPrefix("whsec_"), value.utf8.count > 6, value.utf8.count <= Self.lengthLimit,
            value.utf8.allSatisfy({ (0x21...0x7E).contains($0) })
        else { return nil }
        self.environment = environment
        self.value = value
    }

    /// Whether it signs with the same key, for whatever environment.
    package func isSame(as other: StripeWebhookSecret) -> Bool { value == other.value }

    package var description: String { "a webhook secret of \(environment.rawValue)" }
    package var customMirror: Mirror { Mirror(self, children: []) }
}

/// What verifies the webhooks of Stripe: all secrets that are in force, of both environments.
package struct StripeWebhooks: Sendable {
    private let secrets: [StripeWebhookSecret]

    package init(_ secrets: [StripeWebhookSecret]) { self.secrets = secrets }

    /// Whether there is none, and so nothing to verify anything with.
    package var isEmpty: Bool { secrets.isEmpty }

    /// What the check of one webhook costs at most, in checks of a signature.
    func cost(of body: [UInt8]) -> Int64 { 1 + Int64(body.count) * Int64(secrets.count) / Self.bytesPerUnit }

    /// How many bytes are hashed in the time of one check of a signature, roughly.
    private static let bytesPerUnit: Int64 = 1 << 16

    /// Whose secret signed a webhook.
    func verify(_ webhook: SignedWebhook, now: Timestamp) throws(StripeSignatureFailure) -> StoreEnvironment {
        let index = try StripeSignature(header: webhook.signature).verify(
            body: webhook.body, secrets: secrets.map(\.value), now: now)
        return secrets[index].environment
    }

    /// What the event of a webhook must state, from its evidence.
    ///
    /// How old the signature was was asked when it came, and is not asked again.
    ///
    /// - Parameter label: the event's type: what came when its type was not known is read as not known, whatever this
    ///   version knows.
    /// - Throws: `PayloadError`, or `EvidenceFault` where a secret of the other environment signed it.
    func derive(_ evidence: [UInt8], of label: String) throws -> DerivedEvent {
        let webhook = SignedWebhook(evidence: evidence)
        let event = try StripeEvent(
            parsing: webhook.body, sha256: SignedWebhook.hash,
            knowing: { StripeEvent.isRead($0, of: label) })
        var signer: StoreEnvironment?
        do throws(StripeSignatureFailure) {
            let index = try StripeSignature(header: webhook.signature).signer(
                of: webhook.body, secrets: secrets.map(\.value))
            signer = secrets[index].environment
        } catch {
            switch error {
            // Secrets are rolled, and the old ones given up.
            case .mismatch: break
            case .malformed, .unsigned, .stale: throw EvidenceFault(description: "has no signature: \(error)")
            }
        }
        if let signer, signer != event.environment {
            throw EvidenceFault(description: "is signed with a secret of \(signer.rawValue)")
        }
        return DerivedEvent(
            environment: event.environment, type: event.label, occurredAt: event.created, fact: .web(event.fact),
            identities: event.identities.customerIDs, signature: signer == nil ? .ofUnknownSecret : .checked)
    }
}

/// A webhook as it came: the header that signs it, and its body.
struct SignedWebhook: Sendable {
    /// The header `Stripe-Signature`.
    let signature: String
    let body: [UInt8]

    /// - Throws: `malformed` for a header that cannot be one line of text.
    init(signature: String, body: [UInt8]) throws(StripeSignatureFailure) {
        guard signature.utf8.allSatisfy({ (0x20...0x7E).contains($0) }) else { throw .malformed }
        self.signature = signature
        self.body = body
    }

    /// Takes evidence apart.
    init(evidence: [UInt8]) {
        let end = evidence.firstIndex(of: Self.newline) ?? evidence.endIndex
        signature = String(decoding: evidence[..<end], as: UTF8.self)
        body = Array(evidence[end...].dropFirst())
    }

    /// The header in a line of its own, and behind it the body, byte for byte.
    var evidence: [UInt8] { Array(signature.utf8) + [Self.newline] + body }

    private static let newline = UInt8(ascii: "\n")

    /// The hash that names what an event states.
    static func hash(_ bytes: [UInt8]) -> Digest { Digest(SHA256.hash(bytes)) ?? .zero }
}
