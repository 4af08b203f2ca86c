/// Why a link was made; it decides nothing about access.
package enum LinkCause: UInt8, Hashable, Sendable, CaseIterable {
    /// Somebody asked for it.
    case command = 0
    /// The identity is an account token that the service issued to the customer, for purchases to bear.
    case issued = 1
    /// A device brought the customer's token and the app transaction together.
    case login = 2
    /// As `login`, with a token of one app: whoever proves only that app transaction is told nothing about other apps.
    case appLogin = 3

    /// As people read it.
    package var word: String {
        switch self {
        case .command: "command"
        case .issued: "issued"
        case .login: "login"
        case .appLogin: "app_login"
        }
    }

    /// As what a link holds again when somebody takes back the one after it: by their command, except that an issued account
    /// token stays one, and that a login with a token of one app tells as little as before.
    var whenRestored: LinkCause {
        switch self {
        case .command, .login: .command
        case .issued, .appLogin: self
        }
    }
}

/// Ties an identity, or a whole customer id, to another customer.
package struct LinkFact: Hashable, Sendable {
    package var identity: IdentityRef
    package var customer: IdentityRef
    package var cause: LinkCause
    /// The name of the API key by which it was ordered.
    package var actor: String?
    /// Why, in the words of whoever ordered it.
    package var reason: String?

    package init(
        identity: IdentityRef, customer: IdentityRef, cause: LinkCause = .command, actor: String? = nil,
        reason: String? = nil
    ) {
        self.identity = identity
        self.customer = customer
        self.cause = cause
        self.actor = actor
        self.reason = reason
    }
}

/// A link, and where the log says so.
package struct RecordedLink: Hashable, Sendable {
    package let position: Int64
    package let fact: LinkFact

    package init(position: Int64, fact: LinkFact) {
        self.position = position
        self.fact = fact
    }
}

/// The first verified claim of an original transaction that bears no identity gives it to the claimant.
package struct ClaimFact: Hashable, Sendable {
    package var originalTransactionID: String
    package var customer: IdentityRef

    package init(originalTransactionID: String, customer: IdentityRef) {
        self.originalTransactionID = originalTransactionID
        self.customer = customer
    }
}

/// Moves an original transaction as a whole, from its recorded instant on.
package struct TransferFact: Hashable, Sendable {
    package var originalTransactionID: String
    package var customer: IdentityRef
    /// It had no owner: it was bought on the web, and no statement known by then named a customer who is still known.
    package var hadNoOwner: Bool
    /// The name of the API key by which it was ordered.
    package var actor: String?
    /// Why, in the words of whoever ordered it.
    package var reason: String?

    package init(
        originalTransactionID: String, customer: IdentityRef, hadNoOwner: Bool = false, actor: String? = nil,
        reason: String? = nil
    ) {
        self.originalTransactionID = originalTransactionID
        self.customer = customer
        self.hadNoOwner = hadNoOwner
        self.actor = actor
        self.reason = reason
    }
}

/// Takes the last transfer of an original transaction back: from its recorded instant on, what held before that
/// transfer holds again.
package struct TransferUndoFact: Hashable, Sendable {
    package var originalTransactionID: String
    /// The position of the transfer; it takes no effect unless that is the last one.
    package var undoes: Int64
    /// The name of the API key by which it was ordered.
    package var actor: String?
    /// Why, in the words of whoever ordered it.
    package var reason: String?

    package init(originalTransactionID: String, undoes: Int64, actor: String? = nil, reason: String? = nil) {
        self.originalTransactionID = originalTransactionID
        self.undoes = undoes
        self.actor = actor
        self.reason = reason
    }
}

/// Somebody claimed what is somebody else's: nobody's access changes, and a person should know.
package struct ConflictFact: Hashable, Sendable {
    package var originalTransactionID: String
    package var claimant: IdentityRef

    package init(originalTransactionID: String, claimant: IdentityRef) {
        self.originalTransactionID = originalTransactionID
        self.claimant = claimant
    }
}

/// Gives an entitlement by hand from its recorded instant, until `until` where it states one.
package struct GrantFact: Hashable, Sendable {
    package var grantID: String
    package var customer: IdentityRef
    package var entitlementID: String
    package var until: Timestamp?
    package var reason: String
    /// The name of the API key by which it was ordered.
    package var actor: String?

    package init(
        grantID: String, customer: IdentityRef, entitlementID: String, until: Timestamp?, reason: String,
        actor: String? = nil
    ) {
        self.grantID = grantID
        self.customer = customer
        self.entitlementID = entitlementID
        self.until = until
        self.reason = reason
        self.actor = actor
    }
}

/// Ends a grant at its recorded instant.
package struct GrantRevocationFact: Hashable, Sendable {
    package var grantID: String
    package var customer: IdentityRef
    package var reason: String
    /// The name of the API key by which it was ordered.
    package var actor: String?

    package init(grantID: String, customer: IdentityRef, reason: String, actor: String? = nil) {
        self.grantID = grantID
        self.customer = customer
        self.reason = reason
        self.actor = actor
    }
}

/// What a device believes of a product, compared with the ledger after everything the device posted was recorded.
///
/// It is recorded where the two differ, and once more when a device that differed agrees again. With the Server API as
/// its source it says that the store was asked and agrees with the ledger.
package struct DriftFact: Hashable, Sendable {
    package var customer: IdentityRef
    /// The app that the device runs; only what the App Store sold in this app was compared.
    package var bundleID: String
    package var productID: String
    package var claimed: EntitlementState
    /// `nil`: the device named no end.
    package var claimedUntil: Timestamp?
    /// `nil`: the ledger knows of no purchase of the product.
    package var actual: EntitlementState?
    /// `nil`: without end, or unknown.
    package var actualUntil: Timestamp?

    package init(
        customer: IdentityRef, bundleID: String, productID: String, claimed: EntitlementState,
        claimedUntil: Timestamp?, actual: EntitlementState?, actualUntil: Timestamp?
    ) {
        self.customer = customer
        self.bundleID = bundleID
        self.productID = productID
        self.claimed = claimed
        self.claimedUntil = claimedUntil
        self.actual = actual
        self.actualUntil = actualUntil
    }
}

extension DriftFact {
    /// What the device believed.
    package var claim: DeviceClaim {
        DeviceClaim(productID: productID, of: AppScope(bundleID), state: claimed, until: claimedUntil)
    }

    /// Whether it is about the same product of the same app.
    package func isAbout(_ claim: DeviceClaim) -> Bool {
        productID == claim.productID && claim.app.map { $0.bundleID.utf8.elementsEqual(bundleID.utf8) } ?? true
    }

    /// Whether it reports the end of a difference: what is claimed is what the ledger knows.
    ///
    /// Where only the ends differ, the states are equal and both ends are stated.
    package var isAgreement: Bool {
        guard let actual else { return claimed == .expired }
        return claimed == actual && claimedUntil == actualUntil
    }
}

/// A person was forgotten: the ids behind these numbers are erased, and so is the evidence that contained them.
///
/// The events themselves stay, and so does every hash; exactly what this fact names is missing since.
package struct ForgettingFact: Hashable, Sendable {
    /// The customer asked for first, then their aliases and the app transactions that were theirs alone.
    package var identities: [IdentityRef]
    /// The events whose evidence was erased, ascending.
    package var evidencePositions: [Int64]
    /// A web purchase that named one of the forgotten; if that was its owner, a later event of Stripe's names the next
    /// one.
    ///
    /// Each such purchase has an event of its own, because the state of a purchase is folded from its own events alone.
    package var originalTransactionID: String?

    package init(
        identities: [IdentityRef], evidencePositions: [Int64], originalTransactionID: String? = nil
    ) {
        self.identities = identities
        self.evidencePositions = evidencePositions
        self.originalTransactionID = originalTransactionID
    }
}
