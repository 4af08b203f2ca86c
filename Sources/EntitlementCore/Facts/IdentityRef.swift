/// Stands for one customer identity in facts, so that the log never holds the identity itself.
///
/// An account token and an app transaction id stand for their default customers (the token in lower case, and
/// `apple:<appTransactionId>`), so one kind of reference serves all three. Inside an `EventDraft` it is an index into
/// the draft's list of identities; inside the log it is the ledger's own number.
package struct IdentityRef: Hashable, Comparable, Sendable {
    package let number: Int64

    package init(_ number: Int64) { self.number = number }

    package static func < (left: IdentityRef, right: IdentityRef) -> Bool { left.number < right.number }
}
