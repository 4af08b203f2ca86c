/// Writes the steps of a world of several customers, beside the storyteller who tells the store's side.
package struct OwnershipStoryteller: Sendable {
    /// Tells what the store does.
    package var store: Storyteller
    /// The steps so far.
    package private(set) var steps: [OwnershipStep] = []
    /// Watches them, so that chance can choose among what is possible.
    private(set) var watch: OwnershipWitness?
    private var delivered = 0

    init(world: StoreWorld, seed: UInt64) {
        store = Storyteller(world: world, seed: seed)
    }

    /// The store's side is told to its end, and steps are watched from now on.
    mutating func beginToWatch() {
        watch = OwnershipWitness(record: store.record, notifications: store.notifications)
    }

    /// What is true after the steps so far.
    var watched: Record { watch?.record ?? store.record }

    /// Adds a step.
    ///
    /// - Returns: its number, by which undoing and revoking name it.
    @discardableResult
    mutating func add(_ deed: OwnershipStep.Deed, at instant: Int64) -> Int {
        let step = OwnershipStep(number: steps.count, instant: instant, deed: deed)
        steps.append(step)
        watch?.tell(step)
        return step.number
    }
}

// The steps in short, for stories told by hand.
extension OwnershipStoryteller {
    /// Everything that the store has sent since the last time arrives, in the order in which it was told.
    mutating func deliver(at instant: Int64) {
        for index in delivered..<store.notifications.count { add(.deliver(notification: index), at: instant) }
        delivered = store.notifications.count
    }

    /// What the store has sent since the last time arrives with a later call.
    mutating func holdBack() -> [Int] {
        defer { delivered = store.notifications.count }
        return Array(delivered..<store.notifications.count)
    }

    /// What was held back arrives.
    mutating func deliver(_ late: [Int], at instant: Int64) {
        for index in late { add(.deliver(notification: index), at: instant) }
    }

    /// The transaction that the last notification carries.
    func lastStatement() -> StoreStatement {
        guard let statement = store.notifications.last?.statement else {
            preconditionFailure("the last notification carries no transaction")
        }
        return statement
    }

    mutating func post(
        _ statements: [StoreStatement], as customer: CustomerKey, proof: OwnershipStep.Proof = .customerToken,
        at instant: Int64
    ) {
        add(.post(OwnershipStep.Post(customer: customer, statements: statements, proof: proof)), at: instant)
    }

    mutating func link(_ name: OwnershipStep.LinkedName, to target: CustomerKey, at instant: Int64) {
        add(.link(OwnershipStep.Link(name: name, target: target)), at: instant)
    }

    @discardableResult
    mutating func transfer(
        _ original: SimulatedOriginalKey, from: CustomerKey, to: CustomerKey, at instant: Int64
    ) -> Int {
        add(.transfer(OwnershipStep.Transfer(from: from, original: original, to: to)), at: instant)
    }

    mutating func undoTransfer(_ step: Int, _ customer: CustomerKey, at instant: Int64) {
        add(.undoTransfer(OwnershipStep.Undoing(customer: customer, step: step)), at: instant)
    }

    @discardableResult
    mutating func grant(
        _ entitlement: String, to customer: CustomerKey, lasting: Int64? = nil, at instant: Int64
    ) -> Int {
        add(
            .grant(OwnershipStep.Gift(customer: customer, entitlement: entitlement, lasting: lasting)), at: instant)
    }

    mutating func revokeGrant(_ step: Int, _ customer: CustomerKey, at instant: Int64) {
        add(.revokeGrant(OwnershipStep.Undoing(customer: customer, step: step)), at: instant)
    }
}
