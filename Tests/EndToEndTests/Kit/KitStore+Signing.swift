import EntitlementKit
import Foundation
import StoreSimulator

extension KitStore {
    /// The same, signed now: real stores sign what they show at each call.
    func signedAnew(_ statement: DeviceStatement) -> SignedStatement {
        let parts = statement.jws.split(separator: ".").map(String.init)
        var text = parts[1].replacingOccurrences(of: "-", with: "+").replacingOccurrences(of: "_", with: "/")
        text += String(repeating: "=", count: (4 - text.utf8.count % 4) % 4)
        guard statement.isVerified, let payload = Data(base64Encoded: text),
            var members = try? JSONSerialization.jsonObject(with: payload) as? [String: Any],
            let signedAt = (members["signedDate"] as? NSNumber)?.int64Value
        else { return SignedStatement(statement) }
        members["signedDate"] = max(signedAt, clock.instant)
        guard let fresh = try? JSONSerialization.data(withJSONObject: members, options: .sortedKeys),
            let jws = try? authority.sign(payloadBytes: Array(fresh))
        else { return SignedStatement(statement) }
        return SignedStatement(jws: jws)
    }
}
