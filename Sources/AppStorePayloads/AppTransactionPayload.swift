package import EntitlementCore

/// A decoded app transaction (AppTransaction): somebody's copy of the app itself.
package struct AppTransactionPayload: Hashable, Sendable {
    package let bundleID: String
    /// The environment in Apple's word; Apple calls the field `receiptType`.
    package let environment: String

    /// Absent in the sandbox.
    package let appAppleID: Int64?
    /// Apple's `receiptCreationDate`, which is when it was signed.
    package let signedDate: Timestamp?
    /// Whose it is, in clear.
    package let appTransactionID: String?
    package let remarks: RemarkList

    /// Decodes the payload's JSON text.
    package init(parsing bytes: [UInt8]) throws(PayloadError) { try self.init(JSONObject(parsing: bytes)) }

    /// An app and an environment are mandatory, as nothing else would tell it from any other payload.
    package init(_ json: JSONObject) throws(PayloadError) {
        bundleID = try json.mandatory("bundleId", of: "the app transaction") { $0.identifier }
        environment = try json.mandatory("receiptType", of: "the app transaction") { $0.identifier }
        appAppleID = json["appAppleId"]?.int64
        signedDate = json["receiptCreationDate"]?.timestamp
        appTransactionID = json["appTransactionId"]?.identifier
        var remarks = RemarkList()
        PayloadSchema.appTransaction.inspect(json, path: "app_transaction", into: &remarks)
        self.remarks = remarks
    }
}
