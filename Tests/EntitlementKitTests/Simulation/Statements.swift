import AppStorePayloads
import Foundation
import Synchronization

@testable import EntitlementKit

/// What a store would sign, unsigned: the Kit takes the device's word for the signature.
enum Statements {
    static let bundleID = "com.example.app"
    /// 2026-01-01T00:00:00Z, in milliseconds.
    static let start: Int64 = 1_767_225_600_000
    static let day: Int64 = 86_400_000

    /// A day of the story as a date.
    static func date(_ days: Double) -> Date { Date(timeIntervalSince1970: Double(start) / 1000 + days * 86_400) }

    /// - Parameters:
    ///   - from: days after the start, like every time here.
    ///   - until: `nil` for a purchase without end.
    static func transaction(
        _ id: String, original: String? = nil, product: String = "monthly", from: Double = 0, until: Double? = 30,
        revoked: Double? = nil, signed: Double? = nil, token: UUID? = nil, app: String? = "A",
        renewal: Bool = false, bundleID: String = bundleID, environment: String = "Production",
        offer: [String: Any] = [:], unverified: String? = nil, type: String? = nil
    ) -> SignedStatement {
        var members: [String: Any] = [
            "transactionId": id, "originalTransactionId": original ?? id, "productId": product, "bundleId": bundleID,
            "purchaseDate": instant(from), "environment": environment, "signedDate": instant(signed ?? from),
            "type": type ?? (until == nil ? "Non-Consumable" : "Auto-Renewable Subscription"),
            "webOrderLineItemId": "w" + id,
            "transactionReason": renewal ? "RENEWAL" : "PURCHASE", "inAppOwnershipType": "PURCHASED",
        ]
        members.merge(offer) { $1 }
        if let until { members["expiresDate"] = instant(until) }
        if let revoked {
            members["revocationDate"] = instant(revoked)
            members["revocationReason"] = 0
        }
        members["appAccountToken"] = token?.uuidString.lowercased()
        members["appTransactionId"] = app
        return SignedStatement(jws: compact(members), unverifiedReason: unverified)
    }

    static func renewal(
        original: String, signed: Double, autoRenews: Bool = true, retry: Bool = false, graceUntil: Double? = nil,
        product: String = "monthly", intent: Int? = nil
    ) -> SignedStatement {
        var members: [String: Any] = [
            "originalTransactionId": original, "environment": "Production", "signedDate": instant(signed),
            "autoRenewProductId": product, "autoRenewStatus": autoRenews ? 1 : 0, "isInBillingRetryPeriod": retry,
        ]
        if let graceUntil { members["gracePeriodExpiresDate"] = instant(graceUntil) }
        members["expirationIntent"] = intent
        return SignedStatement(jws: compact(members))
    }

    static func appTransaction(
        _ id: String? = "A", signed: Double = 0, environment: String = "Production"
    ) -> SignedStatement {
        var members: [String: Any] = [
            "bundleId": bundleID, "receiptType": environment, "receiptCreationDate": instant(signed),
        ]
        members["appTransactionId"] = id
        return SignedStatement(jws: compact(members))
    }

    /// The id of the transaction that a statement is about.
    static func id(_ statement: SignedStatement) -> String? {
        if let known = ids.withLock({ $0[statement.jws] }) { return known }
        let id = try? DeviceTransaction(statement).payload.transactionID
        ids.withLock { $0[statement.jws] = id }
        return id
    }

    /// Read once each: a store that holds many looks through all of them for each that is finished.
    private static let ids = Mutex<[String: String]>([:])

    static func instant(_ days: Double) -> Int64 { start + Int64(days * Double(day)) }

    private static func compact(_ members: [String: Any]) -> String {
        let data = (try? JSONSerialization.data(withJSONObject: members, options: [.sortedKeys])) ?? Data()
        let payload = data.base64EncodedString().replacingOccurrences(of: "+", with: "-")
            .replacingOccurrences(of: "/", with: "_").replacingOccurrences(of: "=", with: "")
        return "e30.\(payload).c2ln"
    }
}
