package import EntitlementCore

/// A line of a team's own list of whose the App Store's purchases are.
package struct ListedOwner: Sendable {
    package let transactionID: Substring
    /// `nil` for an id that the system before made up for a device where nobody had logged in.
    package let customer: CustomerID?
    package let line: Int

    package init(transactionID: Substring, customer: CustomerID?, line: Int) {
        self.transactionID = transactionID
        self.customer = customer
        self.line = line
    }
}

/// What became of such a list.
package struct ListedOwnersReport: Sendable {
    /// How many lines were looked at; of those that say the same twice one.
    package var done = 0
    /// Apple accounts that were linked to the customers named.
    package var linked = 0
    /// Purchases of nobody that were given to the customers named.
    package var given = 0
    /// Lines whose purchase was the customer's already.
    package var theirs = 0
    /// Lines that name nobody.
    package var passedOver = 0
    /// Lines of whose transaction nothing is known.
    package var unknown = 0
    /// Lines whose purchase is somebody else's.
    package var kept = 0
    /// Some of these.
    package var examples: [Kept] = []

    /// A purchase that keeps its owner, whatever the list says.
    package struct Kept: Sendable {
        package let transactionID: Substring
        package let reason: Reason
    }

    /// Why a purchase keeps its owner.
    package enum Reason: Sendable, Hashable {
        /// It is somebody else's; of these whoever is still known.
        case others([String])
        /// It is somebody else's, to whom a line before gives the same Apple account.
        case listed(String, line: Int)
        /// It was theirs by a link or a transfer, which was taken back.
        case takenBack
    }
}
