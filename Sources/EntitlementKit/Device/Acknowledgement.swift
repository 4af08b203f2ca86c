import AppStorePayloads
import EntitlementAPI
import EntitlementCore
import Foundation

/// What an app said last about a transaction that it grants by itself.
struct Acknowledgement: Hashable, Comparable, Sendable {
    /// What it did.
    enum Deed: String, Hashable, Sendable {
        /// Nothing yet since the transaction came to be refunded, to another extent, or no more.
        case withdrawn
        case granted
        case takenBack = "taken_back"

        fileprivate var rank: Int { self == .withdrawn ? 0 : 1 }
    }

    /// When the statement was signed that it is about; later ones may say the same.
    let signedDate: Timestamp
    let deed: Deed

    init(at transaction: DeviceTransaction, _ deed: Deed) {
        (signedDate, self.deed) = (transaction.payload.signedDate ?? .earliest, deed)
    }

    /// Reads what was kept; `nil` for a deed that this version does not know.
    init?(_ row: WireValue) {
        guard let deed = row["deed"]?.text.flatMap({ Deed(rawValue: $0) }), let signedDate = row["at"]?.instant else {
            return nil
        }
        (self.signedDate, self.deed) = (signedDate, deed)
    }

    static func < (left: Acknowledgement, right: Acknowledgement) -> Bool {
        (left.signedDate, left.deed.rank, left.deed.rawValue) < (right.signedDate, right.deed.rank, right.deed.rawValue)
    }
}

/// What an app is told of a revocation, and is to be told again where it changes; `nil`: there is none.
struct ToldRevocation: Hashable, Sendable {
    let date: Date
    /// In Apple's word.
    let type: String?
    /// 40 is 40 %.
    let percentage: Double?

    init?(_ transaction: DeviceTransaction) { self.init(transaction.payload.revocation) }

    init?(_ revocation: Revocation?) {
        guard let revocation else { return nil }
        (date, type) = (revocation.date.date, revocation.kind?.raw)
        percentage = revocation.percentage.map { Double($0) / 1000 }
    }

    init?(_ record: PurchaseRecord) {
        guard let date = record.revocationDate else { return nil }
        (self.date, type, percentage) = (date, record.revocationType, record.revocationPercentage)
    }
}
