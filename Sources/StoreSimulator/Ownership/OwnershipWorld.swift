/// Several customers, what the store says of them, and what happens in which order; equal seeds give equal worlds.
///
/// An end-to-end test drives a service with the steps, one after the other, and tells the witness of each:
///
/// ```swift
/// let world = OwnershipWorld.random(seed: seed)
/// var witness = world.witness()
/// var positions: [Int: Int] = [:]      // step → position of the transfer it made
/// var grants: [Int: String] = [:]      // step → grant id
/// for step in world.steps {
///     switch step.deed {
///     case .deliver(let index):
///         try await deliver(authority.sign(world.notifications[index]))          // 200, duplicates too
///         witness.tell(step)
///     case .post(let post):
///         let body = try post.statements.map(authority.sign)                     // and the proof, if any
///         let answer = try await reconcile(post.customer, body, post.proof)
///         guard case .received(let receptions) = witness.tell(step) else { … }
///         expect(answer.conflicts, equal: those receptions that are .conflict or .knownConflict)
///     case .transfer(let transfer):
///         let answer = try await act(transfer.from, "transfer", transfer.original, to: transfer.to)
///         positions[step.number] = answer.position
///         witness.tell(step, recordedAt: answer.recordedAt)                      // the service decides the instant
///     case .undoTransfer(let undoing):
///         let answer = try await act(undoing.customer, "transfer", undo: positions[undoing.step])
///         let verdict = witness.tell(step, recordedAt: answer.recordedAt)        // nil where it was refused
///         expect(answer.wasRefused == (verdict == .refused))
///     case .grant(let gift):
///         let until = gift.lasting.map { now() + $0 }
///         let answer = try await act(gift.customer, "grant", gift.entitlement, until)
///         grants[step.number] = answer.grantID
///         witness.tell(step, recordedAt: answer.recordedAt, until: until)
///     …
///     }
/// }
/// for name in world.names {                                     // aliases, strangers and new owners among them
///     let truth = witness.record.customer(name)
///     expect(timeline(name) == truth.timelines)
///     for instant in truth.boundaryInstants { expect(entitlements(name, at: instant) == truth.answer(at: instant)) }
/// }
/// expect(reported conflicts == witness.record.ownership.conflicts)
/// ```
///
/// Steps are to be driven one at a time, because links, claims, transfers and grants are ordered by position. In a
/// world with `storeFirst` everything the store has to say comes before the rest, so that the record can be compared
/// after each step as well.
package struct OwnershipWorld: Sendable {
    /// The seed it was made from.
    package let seed: UInt64
    /// The world it takes place in.
    package let world: StoreWorld
    /// What the store sends, as the steps name it; what no step delivers got lost.
    package let notifications: [StoreNotification]
    /// What happens, in order.
    package let steps: [OwnershipStep]
    /// Everybody worth asking about, in order: owners, aliases, claimants, thieves, and who was given something.
    package let names: [CustomerKey]
    private let record: Record

    /// A witness to whom nothing was told yet.
    package func witness() -> OwnershipWitness {
        OwnershipWitness(record: record, notifications: notifications)
    }

    init(seed: UInt64, _ storyteller: OwnershipStoryteller) {
        self.seed = seed
        world = storyteller.store.world
        notifications = storyteller.store.notifications
        steps = storyteller.steps
        record = storyteller.store.record
        let owners = notifications.compactMap { $0.testimony?.owner }
        names = Set(owners + steps.flatMap(\.names)).sorted()
    }
}

extension OwnershipStep {
    /// Everybody it names.
    package var names: [CustomerKey] {
        switch deed {
        case .deliver: []
        case .post(let post): [post.customer] + post.statements.compactMap(\.testimony.owner)
        case .link(let link): [link.customer, link.target]
        case .transfer(let transfer): [transfer.from, transfer.to]
        case .undoTransfer(let undoing), .revokeGrant(let undoing): [undoing.customer]
        case .grant(let gift): [gift.customer]
        }
    }
}
