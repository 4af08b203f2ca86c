import EntitlementCore
import Ledger
import OpenSSLCrypto
import RevenueCatAPI

/// What is so only of messages in RevenueCat's format.
enum RevenueCatMessage {
    /// How long a receiver of RevenueCat's may take.
    static let patience = Duration.seconds(60)

    /// The body of a delivery; `nil` where what it is about is gone.
    ///
    /// - Parameters:
    ///   - names: of those it names, who are known.
    ///   - app: the only one that the endpoint is told of; `nil`: all.
    static func body(of delivery: DueDelivery, names: [IdentityRef: String], app: String?) throws -> [UInt8]? {
        if delivery.type == .test {
            return try EventMessage.test(
                id: uuid("test \(delivery.id)", delivery), appID: app, at: delivery.at)
        }
        guard let kept = delivery.body, let change = delivery.change, let customer = delivery.customerID,
            let sequence = delivery.sequence
        else { return nil }
        return try EventMessage.body(
            of: kept,
            EventMessage.Sending(
                id: uuid(EventMessage.subject(of: kept), delivery), at: delivery.toldAt, sequence: sequence,
                customerID: customer, names: names, before: change.before, after: change.after))
    }

    /// An id that is made of what the event is about, so it is the same whenever that is told again.
    ///
    /// A version 8 UUID (RFC 9562, section 5.8), of a SHA-256.
    private static func uuid(_ subject: String, _ delivery: DueDelivery) -> String {
        let words = [
            "revenuecat", delivery.type.rawValue, delivery.environment?.rawValue ?? "", String(delivery.position),
            String(delivery.at.milliseconds), subject,
        ]
        var bytes = Array(SHA256.hash(Array(words.joined(separator: "\n").utf8)).prefix(16))
        bytes[6] = bytes[6] & 0x0F | 0x80
        bytes[8] = bytes[8] & 0x3F | 0x80
        let digits = Array((Digest(bytes + bytes) ?? .zero).hex.uppercased())
        return [0..<8, 8..<12, 12..<16, 16..<20, 20..<32].map { String(digits[$0]) }.joined(separator: "-")
    }

    /// The headers that RevenueCat's receivers know: `Authorization`, and a signature over time and body, in Stripe's scheme
    /// (`t=…,v1=…`), under each secret as it was told.
    static func headers(
        _ body: [UInt8], at seconds: Int64, _ target: EndpointTarget
    ) -> [(name: String, value: String)] {
        let signed = Array("\(seconds).".utf8) + body
        let signatures = target.secrets.map { secret in
            let key = EndpointRegister.secretPrefix + Base64.encode(secret)
            return "v1=" + (Digest(HMACSHA256.code(of: signed, key: Array(key.utf8))) ?? .zero).hex
        }
        return [("X-RevenueCat-Webhook-Signature", (["t=\(seconds)"] + signatures).joined(separator: ","))]
            + (target.authorization.map { [("Authorization", $0)] } ?? [])
    }
}
