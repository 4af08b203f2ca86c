package import EntitlementCore

/// What came into the log after a position, as far as it can change what was read before.
package struct LogNews: Sendable, Hashable {
    /// The head of the log.
    package let position: Int64
    /// The head's hash.
    package let hash: Digest
    /// The hash of the event after which these news come, as the log has it now; `nil` where the log ends before it.
    package let previousHash: Digest?
    /// `nil` when more came than is worth telling apart: everything read before is in doubt.
    package let changes: [LogChange]?

    /// News of a log that ends at `position`.
    package init(position: Int64, hash: Digest, previousHash: Digest?, changes: [LogChange]?) {
        self.position = position
        self.hash = hash
        self.previousHash = previousHash
        self.changes = changes
    }
}

/// An event, and whose reading it can change.
package struct LogChange: Sendable, Hashable {
    /// What an event can bear on.
    package enum Scope: Sendable, Hashable {
        /// Those who depend on one of the identities, or on the original transaction.
        case dependents(identities: [IdentityRef], originalTransactionID: String?)
        /// Everybody: the catalog, a person who was forgotten, and what is in doubt.
        case everybody
    }

    package let position: Int64
    /// `nil` for both.
    package let environment: StoreEnvironment?
    package let scope: Scope

    /// A change that the event at `position` makes.
    package init(position: Int64, environment: StoreEnvironment?, scope: Scope) {
        self.position = position
        self.environment = environment
        self.scope = scope
    }
}

/// What a customer's reading depends on: an event that names none of it leaves the reading as it is.
package struct CustomerDependencies: Sendable, Hashable {
    /// The customer's own number, and those of everybody whom links connect with it.
    package var identities: Set<IdentityRef>
    /// The original transactions in which the customer has, or had, a part, or might have one.
    package var originals: Set<String>
    /// Those among the identities on whose part in the other environments the answer depends too.
    package var inEveryEnvironment: Set<IdentityRef>

    /// Dependencies by their kinds.
    package init(
        identities: Set<IdentityRef>, originals: Set<String>, inEveryEnvironment: Set<IdentityRef> = []
    ) {
        self.identities = identities
        self.originals = originals
        self.inEveryEnvironment = inEveryEnvironment
    }
}
