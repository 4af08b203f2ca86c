/// What one App Store notification states: its label, and the statements it carries.
package struct NotificationFact: Hashable, Sendable {
    package var type: String
    package var subtype: String?
    package var uuid: String
    package var signedDate: Timestamp?
    package var payloadHash: Digest
    package var bundleID: String
    package var transaction: TransactionFact?
    package var renewal: RenewalFact?
    /// Whose copy of the app it is about, where it carries an app transaction: it tells whose consent was withdrawn.
    package var appTransaction: IdentityRef?
    /// Things an operator should look at, such as `unknown_type:X`; they change nothing by themselves.
    package var remarks: [String]

    package init(
        type: String, subtype: String?, uuid: String, signedDate: Timestamp?, payloadHash: Digest, bundleID: String,
        transaction: TransactionFact?, renewal: RenewalFact?, appTransaction: IdentityRef? = nil, remarks: [String]
    ) {
        self.type = type
        self.subtype = subtype
        self.uuid = uuid
        self.signedDate = signedDate
        self.payloadHash = payloadHash
        self.bundleID = bundleID
        self.transaction = transaction
        self.renewal = renewal
        self.appTransaction = appTransaction
        self.remarks = remarks
    }
}
