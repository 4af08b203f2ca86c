package import EntitlementCore

/// Where the log ends.
package struct LogMark: Sendable, Hashable {
    package let position: Int64
    /// The hash of the event at `position`.
    package let hash: Digest
    /// The number that the next identity gets: whoever has a lower one is known.
    package let nextIdentity: Int64

    /// A mark as the head of the log tells it.
    package init(position: Int64, hash: Digest, nextIdentity: Int64) {
        self.position = position
        self.hash = hash
        self.nextIdentity = nextIdentity
    }
}

/// What came into the log after a mark, as far as it can change what was read before.
package struct LogNews: Sendable, Hashable {
    package let head: LogMark
    /// The hash of the event after which these news come, as the log has it now; `nil` where the log ends before it.
    package let previousHash: Digest?
    /// The hashes of the events that came, in the order of their positions.
    package let hashes: [Digest]
    /// `nil` when more came than is worth telling apart: everything read before is in doubt.
    package let changes: [LogChange]?

    /// News of a log that ends at `head`.
    package init(head: LogMark, previousHash: Digest?, hashes: [Digest], changes: [LogChange]?) {
        self.head = head
        self.previousHash = previousHash
        self.hashes = hashes
        self.changes = changes
    }
}

/// Something that came into the log, and the answers that it can change.
package struct LogChange: Sendable, Hashable {
    /// The answers that it can change.
    package enum Scope: Sendable, Hashable {
        /// Those who depend on one of the identities, or on the original transaction.
        case dependents(identities: [IdentityRef], originalTransactionID: String?)
        /// Those who depend on nobody being known by this customer id, account token or app transaction.
        case becameKnown(String)
        /// Everybody: the catalog, a person who was forgotten, and what is in doubt.
        case everybody
    }

    package let position: Int64
    /// `nil` for both.
    package let environment: StoreEnvironment?
    package let scope: Scope

    /// A change that came with the event at `position`, or before.
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
    /// Customer ids and the like that the ledger does not know, as it would store them.
    package var unknown: Set<String>

    /// Dependencies by their kinds.
    package init(
        identities: Set<IdentityRef> = [], originals: Set<String> = [], inEveryEnvironment: Set<IdentityRef> = [],
        unknown: Set<String> = []
    ) {
        self.identities = identities
        self.originals = originals
        self.inEveryEnvironment = inEveryEnvironment
        self.unknown = unknown
    }
}
