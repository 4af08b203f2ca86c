/// One thing that happens to a service in a world of several customers.
package struct OwnershipStep: Sendable, Equatable {
    /// Its place in the list of steps, from 0; undoing and revoking name an earlier step by it.
    package let number: Int
    /// The simulated instant at which it happens; a driver whose service has another clock passes it by.
    package let instant: Int64
    /// What happens.
    package let deed: Deed

    /// What can happen.
    package enum Deed: Sendable, Equatable {
        /// The store delivers a notification: its place in the world's list. One may come late, and more than once.
        case deliver(notification: Int)
        /// A device reconciles.
        case post(Post)
        /// A name is tied to a customer, or to itself, which frees it.
        case link(Link)
        /// An original is handed on.
        case transfer(Transfer)
        /// A transfer is taken back.
        case undoTransfer(Undoing)
        /// A customer is given an entitlement.
        case grant(Gift)
        /// A grant is taken back.
        case revokeGrant(Undoing)
    }

    /// `POST /v1/customers/{id}/reconcile`.
    package struct Post: Sendable, Equatable {
        /// The customer the device says it is.
        package let customer: CustomerKey
        /// What it holds, its own or copied from another device; sign each for the body.
        package let statements: [StoreStatement]
        /// How it proves to be that customer.
        package let proof: Proof
    }

    /// How a device proves to be the customer it says it is.
    package enum Proof: Sendable, Equatable {
        /// A publishable key alone proves nothing.
        case none
        /// The app's own server speaks for it.
        case secretKey
        /// `POST /v1/customers/{id}/tokens` was asked for a token first.
        case customerToken
        /// The app transaction of an Apple account, which has to be that customer's; to be signed for the body.
        case appTransaction(String)
    }

    /// `POST /v1/customers/{target}/actions/link`.
    package struct Link: Sendable, Equatable {
        /// What is tied, as the body states it.
        package let name: LinkedName
        /// To whom; the customer of the very name where the tie is undone.
        package let target: CustomerKey

        /// What is tied, as the default customer it stands for.
        package var customer: CustomerKey { name.customer(target.environment) }
        /// Whether it frees the name instead of tying it.
        package var isUndoing: Bool { customer == target }
    }

    /// A name that a link can tie.
    package enum LinkedName: Sendable, Equatable {
        /// `{"app_account_token"}`
        case appAccountToken(String)
        /// `{"app_transaction_id"}`
        case appTransactionID(String)
        /// `{"customer_id"}`
        case customerID(String)

        /// The customer of that name, before any link.
        package func customer(_ environment: SimulatedStoreEnvironment) -> CustomerKey {
            switch self {
            case .appAccountToken(let token): CustomerKey(environment, token)
            case .appTransactionID(let id): CustomerKey(environment, "apple:\(id)")
            case .customerID(let id): CustomerKey(environment, id)
            }
        }
    }

    /// `POST /v1/customers/{from}/actions/transfer` with `{"original_transaction_id","to"}`.
    package struct Transfer: Sendable, Equatable {
        /// Who has it now, whole or in part.
        package let from: CustomerKey
        /// What is handed on.
        package let original: SimulatedOriginalKey
        /// Who gets it.
        package let to: CustomerKey
    }

    /// `…/actions/transfer` with `{"undo"}`, or `…/actions/revoke_grant` with `{"grant_id"}`.
    package struct Undoing: Sendable, Equatable {
        /// The customer of the route: the one of the step that is undone.
        package let customer: CustomerKey
        /// The number of the step that is undone; its answer named the position, or the grant id, to send.
        package let step: Int
    }

    /// `POST /v1/customers/{id}/actions/grant`.
    package struct Gift: Sendable, Equatable {
        /// Who gets it.
        package let customer: CustomerKey
        /// What is given.
        package let entitlement: String
        /// How long it lasts, in milliseconds: the body's `until` is so much after the driver's now; nil for ever.
        package let lasting: Int64?
    }
}

/// What a step must come to.
package enum OwnershipVerdict: Sendable, Equatable {
    /// It is done.
    case accepted
    /// It contradicts what holds, and changes nothing.
    case refused
    /// A device's statements, in their order: each is kept as a fact, and this is what becomes of the claim to it.
    case received([Reception])
}

/// What becomes of the claim that goes with a posted transaction.
package enum Reception: String, Sendable {
    /// Nothing proves that the poster is the customer, so nothing is claimed.
    case unproven
    /// It is the customer's already.
    case own
    /// It was nobody's, and is the customer's from now on.
    case claimed
    /// It is somebody else's: an `ownership_conflict`, the first of this claimant about this original.
    case conflict
    /// The same conflict once more, which is not reported again.
    case knownConflict = "known_conflict"
}
