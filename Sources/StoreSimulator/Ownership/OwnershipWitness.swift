/// Watches the steps of a world and knows of each what must come of it, and of the world who then owns what.
///
/// The store's side of the record tells the whole story from the beginning; that is what a service believes once every
/// step was driven. What the service can know of whose a payment is *while* the steps are driven decides claims, so
/// the witness keeps that apart.
package struct OwnershipWitness: Sendable {
    /// The truth after the steps told so far, as far as the store is concerned after all of them.
    package private(set) var record: Record
    private let notifications: [StoreNotification]
    /// The newest testimony about each payment that arrived.
    private var arrived: [SimulatedOriginalKey: [Int: Testimony]] = [:]
    /// Step → the transfer or grant it made.
    private var made: [Int: Made] = [:]

    private struct Made: Sendable {
        let number: Int
        let original: SimulatedOriginalKey?
    }

    init(record: Record, notifications: [StoreNotification]) {
        self.record = record
        self.notifications = notifications
    }

    /// What a step must come to, if it is the next.
    package func verdict(on step: OwnershipStep) -> OwnershipVerdict {
        var copy = self
        return copy.tell(step)
    }

    /// A step was driven.
    ///
    /// - Parameters:
    ///   - recordedAt: the instant the service reported for a transfer, a grant, or the undoing of one, in
    ///     milliseconds; the step's own where nil.
    ///   - until: the end that was asked for a grant; so much after `recordedAt` as the step says where nil.
    /// - Returns: what the step must have come to.
    @discardableResult
    package mutating func tell(
        _ step: OwnershipStep, recordedAt: Int64? = nil, until: Int64? = nil
    ) -> OwnershipVerdict {
        let instant = recordedAt ?? step.instant
        switch step.deed {
        case .deliver(let index):
            if let testimony = notifications[index].testimony { hear(testimony) }
            return .accepted
        case .post(let post):
            return .received(receive(post))
        case .link(let link):
            return verdict(record.link(link.customer, to: link.target))
        case .transfer(let transfer):
            let number = record.transfer(transfer.original, to: transfer.to.customerID, at: instant)
            made[step.number] = Made(number: number, original: transfer.original)
            return .accepted
        case .undoTransfer(let undoing):
            guard let made = made[undoing.step], let original = made.original else { return .refused }
            return verdict(record.undoTransfer(original, made.number, at: instant))
        case .grant(let gift):
            let end = until ?? gift.lasting.map { instant + $0 }
            let number = record.grant(gift.customer, gift.entitlement, until: end, at: instant)
            made[step.number] = Made(number: number, original: nil)
            return .accepted
        case .revokeGrant(let undoing):
            guard let made = made[undoing.step], made.original == nil else { return .refused }
            return verdict(record.revokeGrant(made.number, at: instant))
        }
    }

    private func verdict(_ isDone: Bool) -> OwnershipVerdict { isDone ? .accepted : .refused }

    private mutating func hear(_ testimony: Testimony) {
        let known = arrived[testimony.key]?[testimony.payment]
        if let known, known.signedDate >= testimony.signedDate { return }
        arrived[testimony.key, default: [:]][testimony.payment] = testimony
    }

    /// The statements are facts whoever posts them, so all of them count before any claim is looked at.
    private mutating func receive(_ post: OwnershipStep.Post) -> [Reception] {
        for statement in post.statements { hear(statement.testimony) }
        return post.statements.map { claim($0.testimony, post) }
    }

    /// Settles the claim that goes with one statement.
    private mutating func claim(_ testimony: Testimony, _ post: OwnershipStep.Post) -> Reception {
        guard isProven(post) else { return .unproven }
        let original = testimony.key
        let poster = record.ownership.customer(post.customer)
        // The period counts, not the statement: a newer one may have named its owner.
        let owner = arrived[original]?[testimony.payment]?.owner ?? record.ownership.claims[original]
        let holders = [owner, record.ownership.transferredHolder(of: original)].compactMap { $0 }
        if holders.isEmpty {
            record.claim(original, by: post.customer.customerID)
            return .claimed
        }
        if holders.contains(where: { record.ownership.customer($0) == poster }) { return .own }
        let isKnown = record.isReported(original, claimant: post.customer.customerID)
        record.reportConflict(original, claimant: post.customer.customerID)
        return isKnown ? .knownConflict : .conflict
    }

    private func isProven(_ post: OwnershipStep.Post) -> Bool {
        switch post.proof {
        case .none: return false
        case .secretKey, .customerToken: return true
        case .appTransaction(let id):
            let account = CustomerKey(post.customer.environment, "apple:\(id)")
            return record.ownership.customer(account) == record.ownership.customer(post.customer)
        }
    }
}

extension OwnershipWitness {
    /// The originals of which anything arrived, in order.
    package var knownOriginals: [SimulatedOriginalKey] { arrived.keys.sorted() }

    /// Who has a payment as far as can be known now; nil while it is nobody's.
    package func holder(of key: SimulatedOriginalKey, payment: Int) -> CustomerKey? {
        record.ownership.transferredHolder(of: key)
            ?? arrived[key]?[payment]?.owner ?? record.ownership.claims[key]
    }

    /// Who has an original as far as can be known now: by transfer, else by its newest payment, else by claim.
    package func presentHolder(of key: SimulatedOriginalKey) -> CustomerKey? {
        if let holder = record.ownership.transferredHolder(of: key) { return holder }
        let newest = arrived[key]?.max { $0.key < $1.key }?.value
        return newest.flatMap { $0.owner ?? record.ownership.claims[key] }
    }
}
