/// Who delivered a signed statement.
///
/// A device's word alone does not withdraw what the store itself said.
package enum StatementSource: UInt8, Hashable, Sendable {
    case notification = 1
    case serverAPI = 2
    case device = 3
}

/// What signed statements about one original transaction state that came by themselves, not in a notification: posted
/// by a device, or found through the Server API.
package struct StatementsFact: Hashable, Sendable {
    package var originalTransactionID: String
    package var transactions: [TransactionFact]
    package var renewals: [RenewalFact]
    /// Things an operator should look at, such as `unknown_field:transaction.x`; they change nothing by themselves.
    package var remarks: [String]

    package init(
        originalTransactionID: String, transactions: [TransactionFact], renewals: [RenewalFact], remarks: [String]
    ) {
        self.originalTransactionID = originalTransactionID
        self.transactions = transactions
        self.renewals = renewals
        self.remarks = remarks
    }

    /// What an event of such statements is called: nothing says what they report but themselves.
    package static let label = "device_report"

    /// The date of the newest of them; `nil` where none bears one.
    package var latestSignedDate: Timestamp? {
        (transactions.map(\.signedDate) + renewals.map(\.signedDate)).compactMap { $0 }.max()
    }
}
