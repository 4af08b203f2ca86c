import AppStorePayloads
import Foundation
import Testing

@Suite("Remarks and identities")
struct IdentityRemarkTests {
    @Test(
        "whatever stands in the place of an identity, no remark quotes it",
        arguments: ["appAccountToken", "appTransactionId"])
    func neverQuoted(field: String) throws {
        let secret = "704000001"
        let values: [Any] = [
            secret, 704_000_001, [secret], [[secret]], [secret: 1] as Members, ["k": secret] as Members, true, "",
            secret + "\u{0}", String(repeating: secret, count: 100),
        ]
        for value in values {
            let clean = Samples.transaction.with("appAccountToken", nil).with("appTransactionId", nil)
            let transaction = try TransactionPayload(json(clean.with(field, value))).remarks
            let renewal = try RenewalPayload(
                json([
                    "originalTransactionId": "2000000123456780", "environment": "Production", field: value,
                ])
            ).remarks
            let app = try AppTransactionPayload(
                json([
                    "bundleId": "com.example.app", "receiptType": "Production", "appAppleId": 1, field: value,
                ])
            ).remarks
            for text in (transaction.texts + renewal.texts + app.texts) { #expect(!text.contains(secret), "\(text)") }
        }
    }
}
