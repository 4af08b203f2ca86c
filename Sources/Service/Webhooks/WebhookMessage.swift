import EntitlementAPI
import EntitlementCore
import Foundation
import Ledger
import OpenSSLCrypto

/// A message as it is sent: its id and its body.
///
/// It is the same at each attempt, so that a receiver can tell that it had it before.
package struct WebhookMessage: Sendable {
    let id: String
    let body: [UInt8]

    private let format: EndpointFormat

    /// The message of a delivery; `nil` where what it is about is gone.
    ///
    /// - Parameters:
    ///   - terms: what the endpoint is told, and how.
    ///   - names: of those whom it names by their numbers.
    init?(
        _ delivery: DueDelivery, by terms: EndpointTerms, event: EventDocument?, names: [IdentityRef: String] = [:]
    ) throws {
        id = Self.id(delivery.id)
        format = terms.knownFormat
        if format == .revenueCat {
            guard let body = try RevenueCatMessage.body(of: delivery, names: names, app: terms.bundleID) else {
                return nil
            }
            self.body = body
            return
        }
        let data: [UInt8]
        switch delivery.type {
        case .entitlementsChanged:
            guard let change = delivery.change, let environment = delivery.environment,
                let sequence = delivery.sequence,
                let customer = try delivery.customerID.map({ try WireJSON.encode($0) }) ?? delivery.body
            else { return nil }
            var bytes = Array(#"{"after":"#.utf8) + change.after + Array(#","before":"#.utf8) + change.before
            bytes +=
                Array(#","cause":"#.utf8)
                + (try WireJSON.encode(EntitlementsChangeDocument.Cause(change.cause, delivery)))
            bytes += Array(#","customer_id":"#.utf8) + customer
            bytes += Array(#","endpoint":"\#(delivery.endpoint)","environment":"\#(environment.rawValue)""#.utf8)
            if delivery.isForgottenNotice { bytes += Array(#","forgotten":true"#.utf8) }
            bytes += Array(#","position":\#(delivery.position),"sequence":\#(sequence)}"#.utf8)
            data = bytes
        case .eventRecorded:
            guard let event else { return nil }
            data = try WireJSON.encode(event)
        case .ownershipConflict:
            guard let event else { return nil }
            data = try WireJSON.encode(ConflictDocument(event, claimant: delivery.customerID))
        case .driftFound, .streamSilent, .streamRecovered, .test:
            guard let body = delivery.body else { return nil }
            data = body
        case .initialPurchase, .renewal, .productChange, .cancellation, .uncancellation, .billingIssue, .expiration,
            .nonRenewingPurchase, .subscriptionExtended, .refundReversed, .transfer:
            return nil
        }
        body =
            Array(#"{"data":"#.utf8) + data
            + Array(#","timestamp":"\#(delivery.at)","type":"\#(delivery.type.rawValue)"}"#.utf8)
    }

    /// - Parameter id: as table `webhook_message` has it.
    static func id(_ id: String) -> String { prefix + id.replacing("-", with: "") }

    private static let prefix = "msg_"

    /// What table `webhook_message` has for what receivers know a message by; `nil` for what can be none.
    package static func stored(_ id: String) -> String? {
        let digits = id.dropFirst(prefix.count)
        guard id.hasPrefix(prefix), digits.utf8.count == 32, Hexadecimal.isLowercase(digits) else { return nil }
        return String(digits)
    }

    /// The headers of an attempt (Standard Webhooks, "Webhook headers").
    ///
    /// - Parameter target: each of its secrets signs.
    func headers(at instant: Timestamp, for target: EndpointTarget) -> [(name: String, value: String)] {
        let seconds = instant.milliseconds / 1000
        let signed = Array("\(id).\(seconds).".utf8) + body
        let signatures = target.secrets.map { "v1," + Base64.encode(HMACSHA256.code(of: signed, key: $0)) }
        return [
            ("Content-Type", "application/json"), ("webhook-id", id), ("webhook-timestamp", String(seconds)),
            ("webhook-signature", signatures.joined(separator: " ")),
        ] + (format == .revenueCat ? RevenueCatMessage.headers(body, at: seconds, target) : [])
    }
}

extension EntitlementsChangeDocument.Cause {
    /// Why an answer has become another one.
    init(_ cause: AnswerCause, _ delivery: DueDelivery) {
        switch cause {
        case .event: self.init(kind: .event, positions: [delivery.position], at: nil)
        case .catalog: self.init(kind: .catalog, positions: [delivery.position], at: nil)
        case .time: self.init(kind: .time, positions: [], at: delivery.at)
        }
    }
}
