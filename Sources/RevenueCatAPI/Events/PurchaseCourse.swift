import EntitlementCore

/// One event about a purchase, before it is written.
struct PurchaseEvent: Hashable, Sendable {
    /// What events of one type have beside what all have.
    enum Detail: Hashable, Sendable {
        case none
        case renewal(isTrialConversion: Bool)
        case cancellation(EndReason)
        case expiration(EndReason)
        case billingIssue(graceEnd: Timestamp?)
        case productChange(to: String)
    }

    let type: MessageType
    let view: PurchaseView
    var detail = Detail.none
}

/// What became of one purchase from one moment to another, in RevenueCat's words.
///
/// A receiver that lets in by one event and keeps out by EXPIRATION is always right: whenever a purchase comes to give access,
/// or gives it again, there is one that says so, and EXPIRATION just when it stops. One that goes by `expiration_at_ms` is, too:
/// whenever access comes to last longer than was told, there is an event that says until when. And one that keeps whether it
/// renews: what lets in says that it does, and what else is so follows.
struct PurchaseCourse {
    /// What is heard of later than this and changes no access is not told, in milliseconds: it is history.
    ///
    /// A period that is over is counted from its end. What becomes of the money of a payment that was told is told whenever
    /// that is heard of, or sums would be wrong for ever.
    /// Stores repeat notifications for days, and a service that was away reads them then.
    static let lateness = 7 * Timestamp.millisecondsPerDay

    private let after: PurchaseStanding
    private let instant: Timestamp
    private let told: ToldPayments
    private(set) var events: [PurchaseEvent] = []

    /// What the period that is the latest afterwards was before, as far as events tell.
    private struct Base {
        var isOpen: Bool
        /// Until when access was known to last.
        var end: Timestamp
        var hasFailed: Bool
        var isUnsubscribed: Bool
        var nextProductID: String?
        var entitlementIDs: [String]

        init(_ before: PurchaseStanding, to after: PurchaseStanding) {
            (isOpen, end) = (before.isOpen, before.view.end)
            (hasFailed, isUnsubscribed) = (before.failedAt != nil, before.isUnsubscribed)
            nextProductID = before.renewsUnchanged(to: after) ? after.view.productID : before.nextProductID
            entitlementIDs = before.view.entitlementIDs
        }

        /// What an event that lets in says by itself: that it renews as what it is.
        ///
        /// One about what gives nothing lets nobody in.
        init(letIn after: PurchaseStanding, nextProductID: String? = nil) {
            (isOpen, end) = (!after.givesNothing, after.view.end)
            (hasFailed, isUnsubscribed) = (false, false)
            self.nextProductID = nextProductID
            entitlementIDs = after.view.entitlementIDs
        }
    }

    /// - Parameter before: `nil` where it was not the customer's.
    init(from before: PurchaseStanding?, to after: PurchaseStanding, at instant: Timestamp, _ told: ToldPayments) {
        (self.after, self.instant, self.told) = (after, instant, told)
        guard let before, !before.knownIDs.isDisjoint(with: after.transactionIDs) else {
            begin(after: before)
            return
        }
        let isSame = !before.transactionIDs.isDisjoint(with: after.transactionIDs)
        compare(before, isSame: isSame)
        goOn(from: !before.isOpen && after.isOpen ? reopen() : keep(before))
        if before.isOpen { return }
        // What would be told of it by now would be told when it was looked at last, too.
        let mayBeNew = after.isTellable(at: instant) && !before.isTellable(at: instant)
        guard after.kind != .grant, !events.isEmpty || mayBeNew, !told.isTold(after.payment) else { return }
        // Receivers have not heard of it, and money that goes back would be of no payment: if it is told now, then as new.
        events = []
        begin(after: nil)
    }

    /// What follows from what was told of the latest period.
    private mutating func goOn(from base: Base) {
        bill(base)
        announce(base)
        if base.isOpen, !after.isOpen { expire(base) }
        if after.isOpen, after.view.end > base.end, !events.contains(where: { Self.prolonging.contains($0.type) }) {
            tell(.subscriptionExtended)
        }
    }

    /// It stopped giving access.
    ///
    /// What a changed catalog gives no time any more has no end of its own: it ended at this moment, with all that it gave.
    private mutating func expire(_ base: Base) {
        var view = after.view
        if after.givesNothing {
            view.expiresAt = min(base.end, instant)
            view.entitlementIDs = base.entitlementIDs
        }
        events.append(PurchaseEvent(type: .expiration, view: view, detail: .expiration(after.endReason)))
    }

    /// It gives access again.
    ///
    /// What was said meanwhile of renewing was told to nobody, so all of it is told anew.
    private mutating func reopen() -> Base {
        if !events.contains(where: { Self.reopening.contains($0.type) }) { tell(.subscriptionExtended) }
        return Base(letIn: after)
    }

    private mutating func keep(_ before: PurchaseStanding) -> Base {
        if before.isCancelled, !after.isCancelled, after.isOpen { tell(.uncancellation) }
        return Base(before, to: after)
    }

    /// What says that a period gives access again.
    private static let reopening: Set<MessageType> = [.refundReversed, .subscriptionExtended]
    /// What says of a period that gives access until when it does.
    private static let prolonging = reopening.union([.billingIssue, .uncancellation])

    private mutating func tell(_ type: MessageType, _ detail: PurchaseEvent.Detail = .none) {
        events.append(PurchaseEvent(type: type, view: after.view, detail: detail))
    }

    /// Whether something is news by itself, though it changes no access.
    private func isRecent(_ statedAt: Timestamp) -> Bool {
        instant < statedAt.adding(milliseconds: Self.lateness)
    }

    /// A period that was not known; of several that were not, the latest alone.
    private mutating func begin(after before: PurchaseStanding?) {
        let open = before.flatMap { $0.isOpen ? $0 : nil }
        let left = open.map { ended($0) }
        if let before, !before.aheadIDs.isDisjoint(with: after.transactionIDs),
            let known = told.moneyBack(of: after.payment)
        {
            return resume(open, left, since: known)
        }
        guard after.isTellable(at: instant) else {
            // Of what was told of, for of what came in between receivers know nothing.
            if let left {
                events.append(PurchaseEvent(type: .expiration, view: left, detail: .expiration(after.endReason)))
            }
            return
        }
        enter(open, left, isFirst: before == nil && after.isFirst)
        // A part of it may have gone back already, and somebody else may have been told that.
        if after.moneyBack != .nothing { tellMoney(since: told.moneyBack(of: after.payment) ?? .nothing) }
        let isSame = open?.view.productID == after.view.productID
        goOn(from: Base(letIn: after, nextProductID: isSame ? open?.nextProductID : nil))
    }

    /// A period that was told when it was announced, and was not to be seen meanwhile: what ran before it was refunded, or
    /// something else took its place, or its own money had gone back.
    ///
    /// The payment is not told twice; what it gives is.
    private mutating func resume(_ open: PurchaseStanding?, _ left: PurchaseView?, since known: MoneyBack) {
        if let left, !after.isOpen || left.productID != after.view.productID {
            events.append(PurchaseEvent(type: .expiration, view: left, detail: .expiration(after.endReason)))
        }
        tellMoney(since: known)
        let isReversed = events.contains { $0.type == .refundReversed }
        if let open, after.isOpen, !isReversed, open.view.productID == after.view.productID {
            return goOn(from: Base(open, to: after))
        }
        if after.isOpen, !isReversed { tell(.subscriptionExtended) }
        if after.isOpen { goOn(from: Base(letIn: after)) }
    }

    /// - Parameters:
    ///   - open: what gave access until then.
    ///   - left: the same as it is now.
    private mutating func enter(_ open: PurchaseStanding?, _ left: PurchaseView?, isFirst: Bool) {
        guard after.kind == .subscription else { return tell(.nonRenewingPurchase) }
        if let open, let left, left.productID != after.view.productID {
            // One that was announced is news where it comes before its time.
            let isCut = left.end < min(open.expiry, open.view.end)
            if isCut || open.nextProductID != after.view.productID {
                events.append(
                    PurchaseEvent(
                        type: .productChange, view: left, detail: .productChange(to: after.view.productID)))
            }
        }
        if isFirst { return tell(.initialPurchase) }
        tell(.renewal, .renewal(isTrialConversion: after.followsTrial))
    }

    /// What was told of a period, as it is now that another has come after it.
    private func ended(_ before: PurchaseStanding) -> PurchaseView {
        if let left = after.views[before.view.productID] { return left }
        var left = before.view
        left.expiresAt = min(left.expiresAt ?? .endless, instant)
        return left
    }

    /// A period that was known, of which more was said.
    ///
    /// - Parameter isSame: whether it was the latest before; else what had followed it does not any more.
    private mutating func compare(_ before: PurchaseStanding, isSame: Bool) {
        // Of what followed it the money is another's.
        if let known = isSame ? before.moneyBack : told.moneyBack(of: after.payment) { tellMoney(since: known) }
        if let ahead = after.refundedAhead, before.refundedAhead?.transactionID != ahead.transactionID,
            before.transactionIDs.contains(ahead.transactionID) || told.isTold(ahead.payment)
        {
            events.append(PurchaseEvent(type: .cancellation, view: ahead, detail: .cancellation(.customerSupport)))
        }
        if after.kind == .grant, after.withdrawnAt != nil, before.withdrawnAt == nil, before.isOpen {
            tell(.cancellation, .cancellation(.developerInitiated))
        }
        if after.kind == .subscription, before.withdrawnAt == nil, after.withdrawnAt == nil,
            after.transactionIDs == before.transactionIDs, after.expiry > before.expiry, after.isOpen
        {
            tell(.subscriptionExtended)
        }
    }

    /// What became of the money of a payment that was told, with how much of it that is.
    private mutating func tellMoney(since known: MoneyBack) {
        var view = after.view
        if let part = after.moneyBack.part(since: known) {
            view.refund = part.amount
            events.append(PurchaseEvent(type: .cancellation, view: view, detail: .cancellation(.customerSupport)))
        }
        // Of several refunds of Stripe's one may fail.
        if let part = known.part(since: after.moneyBack) {
            view.refund = part.amount
            events.append(PurchaseEvent(type: .refundReversed, view: view))
            // It lets in, and what has ended meanwhile does not.
            if !after.isOpen, !after.givesNothing { tell(.expiration, .expiration(after.endReason)) }
        }
    }

    /// A charge that failed, once for each period; and that it does not renew, once for whatever reasons.
    private mutating func bill(_ base: Base) {
        let isHeld = base.isOpen || after.isOpen
        if let failedAt = after.failedAt, !base.hasFailed, after.withdrawnAt == nil, after.isCollecting,
            isHeld || isRecent(failedAt)
        {
            tell(.billingIssue, .billingIssue(graceEnd: after.graceEnd))
            if !base.isUnsubscribed { tell(.cancellation, .cancellation(.billingError)) }
        }
        // A part that went back and left the access says nothing of whether it renews.
        let isCancelled = events.contains { event in
            event.type == .cancellation
                && (event.detail != .cancellation(.customerSupport) || !after.isOpen)
        }
        // With what is taken back renewing ends, too, which nobody turned off.
        let isRunning = after.isOpen || base.isOpen && after.withdrawnAt == nil
        if after.isUnsubscribed, !base.isUnsubscribed, !base.hasFailed, isRunning, !isCancelled {
            tell(.cancellation, .cancellation(after.cancelReason))
        }
    }

    /// What it is to renew as.
    private mutating func announce(_ base: Base) {
        guard after.isOpen, let next = after.nextProductID, next != base.nextProductID ?? after.view.productID else {
            return
        }
        tell(.productChange, .productChange(to: next))
    }
}

extension PurchaseStanding {
    /// Whether it does not renew as things are: what cannot be charged does not, whatever somebody wishes.
    fileprivate var isCancelled: Bool { isUnsubscribed || failedAt != nil }

    /// Whether the same period was to renew as the product that it is, and the catalog has another name for that now.
    fileprivate func renewsUnchanged(to after: PurchaseStanding) -> Bool {
        nextProductID == view.productID && !transactionIDs.isDisjoint(with: after.transactionIDs)
            && view.productID != after.view.productID
    }
}
