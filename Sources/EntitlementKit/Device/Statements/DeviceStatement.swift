import AppStorePayloads
import EntitlementCore
import Foundation

/// Why something the store handed over is not believed.
struct StatementRefusal: Error, Hashable, Sendable {
    let reason: String
}

/// The payload of a compact JWS whose signature the store's own framework has checked.
private struct DecodedJWS {
    /// Apple's are a few kilobytes; a longer one is none of them.
    static let lengthLimit = 512 * 1024

    let payload: [UInt8]
    let json: JSONObject

    init(_ statement: SignedStatement) throws(StatementRefusal) {
        if let reason = statement.unverifiedReason { throw StatementRefusal(reason: reason) }
        let parts = statement.jws.split(separator: ".", omittingEmptySubsequences: false)
        guard statement.jws.utf8.count <= Self.lengthLimit, parts.count == 3 else {
            throw StatementRefusal(reason: "it is not a compact JWS")
        }
        guard let data = Data(base64URL: parts[1]) else {
            throw StatementRefusal(reason: "its payload is not base64url")
        }
        payload = Array(data)
        do throws(PayloadError) {
            json = try JSONObject(parsing: payload)
        } catch {
            throw StatementRefusal(reason: error.description)
        }
    }

    /// The same for whatever is stated alike, whenever and for whichever device it was signed.
    var contentHash: Digest {
        var members = (try? JSONSerialization.jsonObject(with: Data(payload)) as? [String: Any]) ?? [:]
        for name in ["signedDate", "deviceVerification", "deviceVerificationNonce"] { members[name] = nil }
        let text = try? JSONSerialization.data(withJSONObject: members, options: [.sortedKeys])
        return PortableSHA256.hash(text.map(Array.init) ?? payload)
    }
}

/// A transaction the device believes.
struct DeviceTransaction: Hashable, Sendable {
    let jws: String
    let payload: TransactionPayload
    /// What the server knows the statement by, too.
    let payloadHash: Digest
    let contentHash: Digest
    /// How many were bought; the ledger's facts do not say, since it gives no more access.
    let quantity: Int
    /// The group of a subscription; of one product it is always the same.
    let subscriptionGroup: String?

    init(_ statement: SignedStatement) throws(StatementRefusal) {
        let decoded = try DecodedJWS(statement)
        jws = statement.jws
        payloadHash = PortableSHA256.hash(decoded.payload)
        contentHash = decoded.contentHash
        quantity = decoded.json["quantity"]?.int64.map { Int(clamping: max(1, $0)) } ?? 1
        subscriptionGroup = decoded.json["subscriptionGroupIdentifier"]?.identifier
        do throws(PayloadError) {
            payload = try TransactionPayload(decoded.json)
        } catch {
            throw StatementRefusal(reason: error.description)
        }
    }

    func fact(_ identities: inout IdentityList) -> TransactionFact {
        payload.fact(payloadHash: payloadHash, fallbackSignedDate: nil, identities: &identities)
    }
}

/// Renewal information the device believes.
struct DeviceRenewal: Hashable, Sendable {
    let jws: String
    let payload: RenewalPayload
    let payloadHash: Digest
    let contentHash: Digest

    init(_ statement: SignedStatement) throws(StatementRefusal) {
        let decoded = try DecodedJWS(statement)
        jws = statement.jws
        payloadHash = PortableSHA256.hash(decoded.payload)
        contentHash = decoded.contentHash
        do throws(PayloadError) {
            payload = try RenewalPayload(decoded.json)
        } catch {
            throw StatementRefusal(reason: error.description)
        }
    }

    var fact: RenewalFact {
        payload.fact(payloadHash: payloadHash, fallbackSignedDate: nil, isGraceNotification: false)
    }
}

/// The app's own purchase, as far as the device believes it.
struct DeviceAppTransaction: Hashable, Sendable {
    let jws: String
    let payload: AppTransactionPayload

    init(_ statement: SignedStatement) throws(StatementRefusal) {
        let decoded = try DecodedJWS(statement)
        jws = statement.jws
        do throws(PayloadError) {
            payload = try AppTransactionPayload(decoded.json)
        } catch {
            throw StatementRefusal(reason: error.description)
        }
    }

    /// Who has this copy of the app; `nil` where the store does not number them yet.
    var customerID: CustomerID? { payload.appTransactionID.flatMap(CustomerID.ofAppTransaction) }
}
