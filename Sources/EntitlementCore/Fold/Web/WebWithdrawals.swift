/// A refund or dispute that ends paid time at an instant.
package struct WebWithdrawal: Hashable, Sendable {
    package enum Cause: Hashable, Sendable {
        case refund
        /// A part was refunded, and the policy ends access by that.
        case partialRefund
        case dispute
    }

    package let at: Timestamp
    package let cause: Cause
    let positions: [Int64]
}

/// What was refunded and disputed of one original, under a policy: each acts on the periods of its own invoice or payment.
struct WebWithdrawals {
    private var ofInvoices: [String: WebWithdrawal] = [:]
    private var ofPayments: [String: WebWithdrawal] = [:]

    func first(ofInvoice id: String) -> WebWithdrawal? { ofInvoices[id] }

    func first(ofPayment id: String) -> WebWithdrawal? { ofPayments[id] }

    fileprivate mutating func add(_ withdrawal: WebWithdrawal, to subject: WebPaymentGroups.Subject) {
        switch subject {
        case .invoice(let id): ofInvoices.keepEarlier(withdrawal, of: id)
        case .payment(let id): ofPayments.keepEarlier(withdrawal, of: id)
        }
    }
}

extension WebWithdrawal {
    /// The same as the revocation of a transaction; for a dispute without a kind, because that is no refund.
    var revocation: Revocation {
        let kind: RevocationKind? =
            switch cause {
            case .refund: .refundFull
            case .partialRefund: .refundProrated
            case .dispute: nil
            }
        return Revocation(date: at, kind: kind.map { .known($0) })
    }
}

extension [String: WebWithdrawal] {
    /// Of two at the same instant the one that was added first stays, which is the refund.
    fileprivate mutating func keepEarlier(_ withdrawal: WebWithdrawal, of id: String) {
        if let known = self[id], known.at <= withdrawal.at { return }
        self[id] = withdrawal
    }
}

extension WebOriginal {
    func withdrawals(_ policy: AccessPolicy) -> WebWithdrawals {
        var withdrawals = WebWithdrawals()
        if refunds.isEmpty, disputes.isEmpty { return withdrawals }
        let groups = WebPaymentGroups(self)
        for (subject, refunds) in refundsMade(groups) {
            guard let refund = effective(refunds, whole: groups.whole(of: subject), policy) else { continue }
            withdrawals.add(
                WebWithdrawal(
                    at: refund.created, cause: refund.isPart ? .partialRefund : .refund,
                    positions: refund.positions + groups.positions(of: subject)),
                to: subject)
        }
        for (_, dispute) in Dictionary(grouping: disputes, by: \.value.disputeID).sorted(by: { $0.key < $1.key }) {
            guard let newest = dispute.last, let (at, positions) = effective(dispute, policy) else { continue }
            for subject in groups.subjects(paidBy: newest.value.paymentIntent, newest.value.charge) {
                withdrawals.add(
                    WebWithdrawal(at: at, cause: .dispute, positions: positions + groups.positions(of: subject)),
                    to: subject)
            }
        }
        return withdrawals
    }

    private func refundsMade(_ groups: WebPaymentGroups) -> [WebPaymentGroups.Subject: [WebStated<WebRefund>]] {
        var made: [WebPaymentGroups.Subject: [WebStated<WebRefund>]] = [:]
        for refund in refunds where refund.value.status == .known(.succeeded) {
            for subject in groups.subjects(paidBy: refund.value.paymentIntent, refund.value.charge) {
                made[subject, default: []].append(refund)
            }
        }
        return made
    }

    /// The refunded invoices and payments, each with the instant of the full refund, or else of the first partial one.
    var subjectsRefunded: [(subject: WebPaymentGroups.Subject, at: Timestamp, isPart: Bool)] {
        if refunds.isEmpty { return [] }
        let groups = WebPaymentGroups(self)
        var (untilWhole, untilPart) = (AccessPolicy(), AccessPolicy())
        untilWhole.proratedRefund = .keepsAccess
        untilPart.proratedRefund = .endsAccess
        return refundsMade(groups).compactMap { subject, refunds in
            let whole = groups.whole(of: subject)
            let refund = effective(refunds, whole: whole, untilWhole) ?? effective(refunds, whole: whole, untilPart)
            return refund.map { (subject, $0.created, $0.isPart) }
        }
    }

    /// The invoices and payments that are disputed, or whose dispute was lost, each with the instant of the first one.
    var subjectsDisputed: [(subject: WebPaymentGroups.Subject, at: Timestamp)] {
        var since: [WebPaymentGroups.Subject: Timestamp] = [:]
        for (_, at, subjects) in disputesInForce(Catalog.empty.policy) {
            for subject in subjects { since[subject] = min(since[subject] ?? at, at) }
        }
        return since.map { ($0.key, $0.value) }
    }

    /// The refund that ends access: the one with which all is refunded, or the first, where the policy lets a part end
    /// it.
    private func effective(
        _ refunds: [WebStated<WebRefund>], whole: Int64?, _ policy: AccessPolicy
    ) -> (created: Timestamp, isPart: Bool, positions: [Int64])? {
        let ordered = refunds.sorted {
            ($0.value.created, $0.value.refundID) < ($1.value.created, $1.value.refundID)
        }
        var (sum, positions): (Int64, [Int64]) = (0, [])
        for refund in ordered {
            let (partial, overflows) = sum.addingReportingOverflow(refund.value.amount)
            sum = overflows ? (refund.value.amount < 0 ? .min : .max) : partial
            positions.append(refund.position)
            let isPart = whole.map { sum < $0 } ?? true
            if !isPart || policy.proratedRefund == .endsAccess {
                return (refund.value.created, isPart && whole != nil, positions)
            }
        }
        return nil
    }

    /// The refunds that were made, with what each was for.
    var refundsMade: [(refund: WebRefund, subjects: [WebPaymentGroups.Subject])] {
        if refunds.isEmpty { return [] }
        let groups = WebPaymentGroups(self)
        return refunds.map(\.value).filter { $0.status == .known(.succeeded) }.map {
            ($0, groups.subjects(paidBy: $0.paymentIntent, $0.charge))
        }
    }

    /// The disputes by which money is held back under a policy or was lost, each with its date and with what it is about.
    func disputesInForce(
        _ policy: AccessPolicy
    ) -> [(dispute: WebDispute, at: Timestamp, subjects: [WebPaymentGroups.Subject])] {
        if disputes.isEmpty { return [] }
        let groups = WebPaymentGroups(self)
        return Dictionary(grouping: disputes, by: \.value.disputeID).values.compactMap { statements in
            guard let newest = statements.last?.value, let (at, _) = effective(statements, policy) else { return nil }
            return (newest, at, groups.subjects(paidBy: newest.paymentIntent, newest.charge))
        }
    }

    /// From when on a dispute takes back what is disputed; `nil` where it does not, or not any more.
    ///
    /// - Parameter statements: those kept of the one dispute, oldest first.
    private func effective(
        _ statements: [WebStated<WebDispute>], _ policy: AccessPolicy
    ) -> (at: Timestamp, positions: [Int64])? {
        guard let newest = statements.last else { return nil }
        let isReinstated = statements.last { $0.value.funds != nil }?.value.funds == .reinstated
        guard !isReinstated else { return nil }
        switch newest.value.status {
        case .known(.won), .known(.prevented), .known(.warningNeedsResponse), .known(.warningUnderReview),
            .known(.warningClosed), .unknown:
            return nil
        case .known(.needsResponse), .known(.underReview):
            return policy.webDispute == .suspendsAccess ? (newest.value.created, [newest.position]) : nil
        case .known(.lost):
            if policy.webDispute == .suspendsAccess { return (newest.value.created, [newest.position]) }
            guard let lost = statements.first(where: { $0.value.status == .known(.lost) }) else { return nil }
            return (lost.statedAt, [lost.position, newest.position])
        }
    }
}

/// Which payment paid for what: the payment intents and charges that are one payment, and the invoices it was made for.
struct WebPaymentGroups {
    enum Subject: Hashable {
        case invoice(String)
        /// The original itself, which is a payment.
        case payment(String)
    }

    private let original: WebOriginal
    /// The other names of each payment intent and charge.
    private var neighbours: [String: Set<String>] = [:]

    init(_ original: WebOriginal) {
        self.original = original
        for paid in original.invoicePayments { join(paid.value.paymentIntent, paid.value.charge) }
        for refund in original.refunds { join(refund.value.paymentIntent, refund.value.charge) }
        for dispute in original.disputes { join(dispute.value.paymentIntent, dispute.value.charge) }
    }

    private mutating func join(_ left: String?, _ right: String?) {
        guard let left, let right, left != right else { return }
        neighbours[left, default: []].insert(right)
        neighbours[right, default: []].insert(left)
    }

    /// A payment under all the names that are known for it.
    private func names(_ ids: [String]) -> Set<String> {
        var found = Set(ids)
        var frontier = ids
        while let next = frontier.popLast() {
            for name in neighbours[next] ?? [] where found.insert(name).inserted { frontier.append(name) }
        }
        return found
    }

    func subjects(paidBy paymentIntent: String?, _ charge: String?) -> [Subject] {
        let names = names([paymentIntent, charge].compactMap(\.self))
        let invoices = original.invoicePayments.filter { paid in
            [paid.value.paymentIntent, paid.value.charge].compactMap(\.self).contains(where: names.contains)
        }.compactMap(\.value.invoice)
        let own: [Subject] =
            names.contains(original.originalTransactionID) ? [.payment(original.originalTransactionID)] : []
        return own + Set(invoices).sorted().map { .invoice($0) }
    }

    /// What was paid in all; `nil` where nobody said.
    func whole(of subject: Subject) -> Int64? {
        switch subject {
        case .invoice(let id):
            original.lines.first { $0.value.invoiceID == id && $0.value.amountPaid != nil }?.value.amountPaid
                ?? original.invoicePayments.filter { $0.value.invoice == id }.compactMap(\.value.amount).max()
        case .payment(let id):
            original.payments.compactMap(\.value.amount).max() ?? amount(ofPayment: id)
        }
    }

    private func amount(ofPayment id: String) -> Int64? {
        let names = names([id])
        return original.invoicePayments.filter { paid in
            [paid.value.paymentIntent, paid.value.charge].compactMap(\.self).contains(where: names.contains)
        }.compactMap(\.value.amount).max()
    }

    /// The events that say what the payment was made for.
    func positions(of subject: Subject) -> [Int64] {
        switch subject {
        case .invoice(let id): original.invoicePayments.filter { $0.value.invoice == id }.map(\.position)
        case .payment: []
        }
    }
}
