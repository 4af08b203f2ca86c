import Foundation
import OpenSSLCrypto
import Synchronization

// The endpoints by which a service changes something, or tells the store something.
extension SimulatedStoreAPI {
    /// A renewal date that was moved.
    struct Extension: Sendable {
        let requestIdentifier: String
        let at: Int64
        let until: Int64
    }

    /// Apple names errors for these, and publishes no number.
    private static let generalBadRequest: Int64 = 4_000_000

    private static let deliveryStatuses: Set<String> = [
        "DELIVERED", "UNDELIVERED_QUALITY_ISSUE", "UNDELIVERED_WRONG_ITEM", "UNDELIVERED_SERVER_OUTAGE",
        "UNDELIVERED_OTHER",
    ]

    /// What was told of a transaction, as JSON, in the order in which it came.
    package func consumption(of transactionID: String) -> [String] {
        state.withLock { $0.consumption[transactionID] ?? [] }.map { String(decoding: $0, as: UTF8.self) }
    }

    /// "Send Consumption Information" (v2).
    func takeConsumption(of id: String, _ request: Request) throws -> Response {
        try count("consumption")
        guard let known = archive.transaction(id) else { return try error(404, 4_040_010) }
        guard known.text("inAppOwnershipType") != "FAMILY_SHARED" else { return try error(400, 4_000_185) }
        let body = Self.members(of: request)
        guard body["customerConsented"] as? Bool == true else { return try error(400, 4_000_035) }
        guard body["sampleContentProvided"] is Bool else { return try error(400, 4_000_041) }
        guard let delivery = body["deliveryStatus"] as? String, Self.deliveryStatuses.contains(delivery) else {
            return try error(400, 4_000_036)
        }
        let preference = body["refundPreference"] as? String
        let percentage = (body["consumptionPercentage"] as? NSNumber)?.int64Value
        let isSubscription = known.text("type") == SimulatedProductKind.autoRenewable.rawValue
        let isSound =
            (percentage.map { (0...100_000).contains($0) } ?? true) && !(isSubscription && percentage != nil)
            && (delivery == "DELIVERED" || percentage ?? 0 == 0)
            && (preference.map { ["DECLINE", "GRANT_FULL", "GRANT_PRORATED"].contains($0) } ?? true)
            && (preference != "GRANT_PRORATED" || isSubscription || (1..<100_000).contains(percentage ?? 0))
        guard isSound else { return try error(400, Self.generalBadRequest) }
        state.withLock { $0.consumption[id, default: []].append(request.body) }
        return Response(status: 202)
    }

    /// "Extend a Subscription Renewal Date": the period runs longer, and the store says so with a notification.
    func extend(_ original: String, _ request: Request) throws -> Response {
        try count("extend")
        let body = Self.members(of: request)
        guard let days = (body["extendByDays"] as? NSNumber)?.int64Value, (1...90).contains(days) else {
            return try error(400, 4_000_009)
        }
        guard let reason = (body["extendReasonCode"] as? NSNumber)?.int64Value, (0...3).contains(reason) else {
            return try error(400, 4_000_010)
        }
        guard let identifier = body["requestIdentifier"] as? String, (1...128).contains(identifier.count) else {
            return try error(400, 4_000_011)
        }
        guard let known = archive.originals[original] else {
            return archive.transaction(original) == nil ? try error(404, 4_040_005) : try error(400, 4_000_187)
        }
        let earlier = state.withLock { $0.extensions[original] ?? [] }
        if let same = earlier.first(where: { $0.requestIdentifier == identifier }) {
            return try extended(original, until: same.until)
        }
        guard known.status(at: now()) == 1, let last = known.last, let expires = last.expiresDate,
            last.text("offerDiscountType") != "FREE_TRIAL"
        else { return try error(403, 4_030_004) }
        guard last.text("inAppOwnershipType") != "FAMILY_SHARED" else { return try error(403, 4_030_007) }
        guard earlier.count(where: { $0.at > now() - 365 * Span.day }) < 2 else { return try error(403, 4_030_005) }
        let until = expires + days * Span.day
        var transaction = last.payload
        transaction["expiresDate"] = .integer(until)
        transaction["signedDate"] = .integer(now())
        var renewal = known.renewal?.payload
        renewal?["renewalDate"] = .integer(until)
        renewal?["signedDate"] = .integer(now())
        state.withLock {
            $0.extensions[original, default: []].append(
                Extension(requestIdentifier: identifier, at: now(), until: until))
        }
        try send("RENEWAL_EXTENDED", uuid: uuid(of: "\(original) \(identifier)"), transaction, renewal)
        return try extended(original, until: until)
    }

    private func extended(_ original: String, until: Int64) throws -> Response {
        try document([
            "originalTransactionId": .string(original), "success": .boolean(true), "effectiveDate": .integer(until),
        ])
    }

    private func uuid(of text: String) -> String {
        let hex = SHA256.hash(Array("\(environment.payloadName) \(text)".utf8)).prefix(16)
            .map { String(format: "%02x", $0) }
        return [0..<4, 4..<6, 6..<8, 8..<10, 10..<16].map { hex[$0].joined() }.joined(separator: "-")
    }

    private static func members(of request: Request) -> [String: Any] {
        (try? JSONSerialization.jsonObject(with: Data(request.body)) as? [String: Any]) ?? [:]
    }
}

extension StoreArchive.Statement {
    fileprivate func text(_ name: String) -> String? {
        if case .string(let text)? = payload[name] { text } else { nil }
    }
}
