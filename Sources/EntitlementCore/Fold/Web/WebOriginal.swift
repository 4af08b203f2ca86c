/// Everything known about one original that was bought on the web: the join of all that events and readings state.
///
/// Like that of the App Store's statements the join is a set union followed by dropping what can no longer matter, so
/// permuting, duplicating or delaying deliveries cannot change what is kept, apart from positions.
package struct WebOriginal: Hashable, Sendable {
    /// How many distinct statements about a subscription are kept whatever they say; of more, only the first and the last
    /// of each day that say the same.
    package static let exactStatements = 512

    /// `sub_…`, `pi_…` or `cs_…`.
    package let originalTransactionID: String
    /// The history of the subscription, oldest first.
    package private(set) var subscriptions: [WebStated<WebSubscription>] = []
    /// Of each line the newest statement, in the order of their ids.
    package private(set) var lines: [WebStated<WebPaidLine>] = []
    /// What was said of the one-time payment, each once, oldest first.
    package private(set) var payments: [WebStated<WebPayment>] = []
    /// Of each refund the newest statement, in the order of their ids.
    package private(set) var refunds: [WebStated<WebRefund>] = []
    /// Of each dispute the newest statement, the first by which it is lost, and the newest about its money; in the order
    /// of their ids, oldest first.
    package private(set) var disputes: [WebStated<WebDispute>] = []
    /// Each once, in the order in which they were stated.
    package private(set) var invoicePayments: [WebStated<WebInvoicePayment>] = []
    /// Each once, the one that counts first, with the position of the last event that named them so.
    package private(set) var owners: [WebStated<WebOwner>] = []
    /// The people who were forgotten, each with the event that says so, in the order of the events.
    package private(set) var forgotten: [OwnershipMap.Alias] = []
    /// More than `exactStatements` came.
    package private(set) var isThinned = false

    init(_ originalTransactionID: String) { self.originalTransactionID = originalTransactionID }

    /// Joins what a fact states; returns whether what is kept has changed.
    @discardableResult
    mutating func join(_ fact: WebFact, position: Int64) -> Bool {
        let before = self
        func stated<Value>(_ value: Value) -> WebStated<Value> {
            WebStated(value: value, statedAt: fact.statedAt, hash: fact.payloadHash, position: position)
        }
        if let subscription = fact.subscription { join(stated(subscription)) }
        for invoice in fact.invoices {
            for line in invoice.lines {
                let paid = WebPaidLine(
                    line: line, invoiceID: invoice.invoiceID, paidAt: invoice.paidAt, amountPaid: invoice.amountPaid,
                    currency: invoice.currency)
                lines.joinNewest(stated(paid), id: \.line.lineID) { $0.precedes($1) }
            }
        }
        if let payment = fact.payment { payments.joinEarliest(stated(payment)) { $0.precedes($1) } }
        for refund in fact.refunds {
            refunds.joinNewest(stated(refund), id: \.refundID) { $0.isOutweighed(by: $1) }
        }
        for dispute in fact.disputes { disputes.join(stated(dispute)) }
        for paid in fact.invoicePayments { invoicePayments.joinEarliest(stated(paid)) { $0.isOrdered(before: $1) } }
        for owner in fact.owners { join(stated(owner)) }
        return self != before
    }

    private mutating func join(_ stated: WebStated<WebOwner>) {
        var stated = stated
        if let index = owners.firstIndex(where: { $0.value == stated.value }) {
            let known = owners.remove(at: index)
            let first = stated.isOrdered(before: known) ? stated : known
            stated = first.saidAgain(at: max(stated.position, known.position))
        }
        owners.insert(stated, at: owners.partitioningIndex { stated.isOrdered(before: $0) })
    }

    /// Joins that some people were forgotten; returns whether what is kept has changed.
    mutating func forget(_ people: [IdentityRef], position: Int64) -> Bool {
        let more = people.map { OwnershipMap.Alias(customer: $0, position: position) }.filter {
            !forgotten.contains($0)
        }
        forgotten = (forgotten + more).sorted { ($0.position, $0.customer) < ($1.position, $1.customer) }
        return !more.isEmpty
    }

    /// Joins a fact of either kind, if it is about this original.
    mutating func join(_ fact: LedgerFact, position: Int64) {
        guard fact.originalTransactionID == originalTransactionID else { return }
        switch fact {
        case .web(let fact): join(fact, position: position)
        case .forgetting(let fact): _ = forget(fact.identities, position: position)
        case .notification, .statements, .catalog, .link, .claim, .transfer, .transferUndo, .conflict, .grant,
            .grantRevocation, .drift, .access, .storeRequest:
            break
        }
    }

    private mutating func join(_ stated: WebStated<WebSubscription>) {
        let index = subscriptions.partitioningIndex { !$0.isOrdered(before: stated) }
        if index < subscriptions.endIndex, subscriptions[index].isSame(as: stated) { return }
        subscriptions.insert(stated, at: index)
        if isThinned || subscriptions.count > Self.exactStatements {
            isThinned = true
            subscriptions = subscriptions.thinned()
        }
    }

    /// The same state with every identity replaced; the order of identities must stay what it was.
    func replacingIdentities(_ replace: (IdentityRef) -> IdentityRef) -> WebOriginal {
        var state = self
        state.owners = owners.map {
            $0.with(WebOwner(place: $0.value.place, customer: replace($0.value.customer)))
        }
        state.forgotten = forgotten.map {
            OwnershipMap.Alias(customer: replace($0.customer), position: $0.position)
        }
        return state
    }

    /// The customer it was sold to, links not followed; `nil` where no event names one.
    ///
    /// Where that customer was forgotten, it is the one whom a later event names, since they may have come back under a
    /// new number. Somebody whom only earlier events name never owned it, and does not become its owner.
    package var statedOwner: IdentityRef? { ownerInForce?.customer }

    private var ownerInForce: WebOwner? {
        guard var owner = owners.first else { return nil }
        // In the order of the ends, so that it is over at last, even if somebody is named after being forgotten.
        for end in forgotten where end.customer == owner.value.customer {
            guard let next = owners.first(where: { $0.position > end.position && $0.value.customer != end.customer })
            else { break }
            owner = next
        }
        return owner.value
    }

    private func isForgotten(_ customer: IdentityRef) -> Bool { forgotten.contains { $0.customer == customer } }

    /// The customers who are named beside the owner, which an operator should look at.
    ///
    /// A session's client reference counts only where metadata names nobody, and often means something else. So it
    /// contradicts only where it was stated before any metadata was, and so counted until then.
    package var contradictingOwners: [IdentityRef] {
        guard let owner = ownerInForce else { return [] }
        let inMetadata = owners.filter(\.value.place.isOwnMetadata).map(\.statedAt).min() ?? .endless
        let others = owners.filter { other in
            other.value.customer != owner.customer && !isForgotten(other.value.customer)
                && (other.value.place.isOwnMetadata || other.statedAt < inMetadata)
        }
        return Set(others.map(\.value.customer)).sorted()
    }

    /// Whether, by what is said of an original, its owner is one of some people, and nobody else contradicts that.
    package static func isSold(
        _ originalTransactionID: String, to people: Set<IdentityRef>, by events: [(position: Int64, fact: LedgerFact)]
    ) -> Bool {
        var sold = WebOriginal(originalTransactionID)
        for event in events.sorted(by: { $0.position < $1.position }) {
            sold.join(event.fact, position: event.position)
        }
        guard let owner = sold.statedOwner else { return false }
        return people.contains(owner) && sold.contradictingOwners.allSatisfy(people.contains)
    }

    /// The newest statement by which the subscription was ended; `nil` where none says so.
    ///
    /// An end is final, so all statements of it should say the same.
    var ending: WebStated<WebSubscription>? { subscriptions.last { $0.value.endedAt != nil } }
}

extension WebStated<WebSubscription> {
    /// The order of the history: when it was said, then the ended one, the later period end, the hash.
    fileprivate func isOrdered(before other: WebStated) -> Bool {
        if statedAt != other.statedAt { return statedAt < other.statedAt }
        if (value.endedAt != nil) != (other.value.endedAt != nil) { return value.endedAt == nil }
        let (end, otherEnd) = (value.latestPeriodEnd ?? .earliest, other.value.latestPeriodEnd ?? .earliest)
        if end != otherEnd { return end < otherEnd }
        return hash < other.hash
    }
}

extension WebStated<WebRefund> {
    /// Of two statements in one second, the one with the later stage of the refund counts.
    fileprivate func isOutweighed(by other: WebStated) -> Bool {
        if statedAt != other.statedAt { return statedAt < other.statedAt }
        let (stage, otherStage) = (value.stage, other.value.stage)
        return stage != otherStage ? stage < otherStage : hash < other.hash
    }
}

extension WebRefund {
    fileprivate var stage: Int {
        switch status {
        case .unknown, nil: 0
        case .known(.pending): 1
        case .known(.requiresAction): 2
        case .known(.succeeded): 3
        case .known(.failed), .known(.canceled): 4
        }
    }
}

extension WebStated<WebDispute> {
    fileprivate func isOutweighed(by other: WebStated) -> Bool {
        if statedAt != other.statedAt { return statedAt < other.statedAt }
        let (isClosed, otherIsClosed) = (value.isClosed, other.value.isClosed)
        return isClosed != otherIsClosed ? otherIsClosed : hash < other.hash
    }
}

extension WebDispute {
    fileprivate var isClosed: Bool {
        switch status {
        case .known(.won), .known(.lost), .known(.prevented), .known(.warningClosed): true
        case .known(.warningNeedsResponse), .known(.warningUnderReview), .known(.needsResponse), .known(.underReview),
            .unknown:
            false
        }
    }
}

extension WebStated<WebInvoicePayment> {
    fileprivate func isOrdered(before other: WebStated) -> Bool {
        if !isSame(as: other) { return precedes(other) }
        // A missing id and an empty one are not equal, so the order must tell them apart.
        func words(_ paid: WebInvoicePayment) -> [String] {
            [paid.paymentIntent, paid.charge, paid.invoice, paid.amount.map(String.init)].map {
                $0.map { "=" + $0 } ?? ""
            }
        }
        return words(value).lexicographicallyPrecedes(words(other.value))
    }
}

extension WebStated<WebOwner> {
    /// By the place of the name, then by the earliest statement: the owner does not change when another name is written
    /// later.
    fileprivate func isOrdered(before other: WebStated) -> Bool {
        if value.place.rank != other.value.place.rank { return value.place.rank < other.value.place.rank }
        if !isSame(as: other) { return precedes(other) }
        if value.customer != other.value.customer { return value.customer < other.value.customer }
        return value.place.rawValue < other.value.place.rawValue
    }
}

extension Array {
    /// Keeps of all statements with one id the one that outweighs the others, in the order of ids.
    fileprivate mutating func joinNewest<Value>(
        _ stated: WebStated<Value>, id: (Value) -> String,
        isOutweighed: (WebStated<Value>, WebStated<Value>) -> Bool
    ) where Element == WebStated<Value> {
        let key = id(stated.value)
        let index = partitioningIndex { !(id($0.value) < key) }
        guard index < endIndex, id(self[index].value) == key else { return insert(stated, at: index) }
        if isOutweighed(self[index], stated) { self[index] = stated }
    }

    /// Keeps of all statements that say the same the first.
    fileprivate mutating func joinEarliest<Value>(
        _ stated: WebStated<Value>, isOrdered: (WebStated<Value>, WebStated<Value>) -> Bool
    ) where Element == WebStated<Value> {
        if let known = firstIndex(where: { $0.value == stated.value }) {
            guard isOrdered(stated, self[known]) else { return }
            remove(at: known)
        }
        insert(stated, at: partitioningIndex { isOrdered(stated, $0) })
    }
}

extension [WebStated<WebDispute>] {
    fileprivate mutating func join(_ stated: WebStated<WebDispute>) {
        let id = stated.value.disputeID
        let start = partitioningIndex { !($0.value.disputeID < id) }
        let end = self[start...].firstIndex { $0.value.disputeID != id } ?? endIndex
        var rivals = Array(self[start..<end])
        guard !rivals.contains(where: { $0.isSame(as: stated) }) else { return }
        rivals.append(stated)
        rivals.sort { $0.isOutweighed(by: $1) }
        let newest = rivals.indices.last
        let firstLost = rivals.firstIndex { $0.value.status == .known(.lost) }
        let lastFunds = rivals.lastIndex { $0.value.funds != nil }
        let kept = Set([newest, firstLost, lastFunds].compactMap(\.self)).sorted().map { rivals[$0] }
        replaceSubrange(start..<end, with: kept)
    }
}

/// The statements of one day that say the same.
private struct SubscriptionDayContent: Hashable {
    let day: Int64
    let content: WebSubscription
}

extension [WebStated<WebSubscription>] {
    /// The first and the last statement of each day that say the same.
    ///
    /// Which are dropped does not depend on the order of arrival: one that is neither can never become either again.
    fileprivate func thinned() -> [WebStated<WebSubscription>] {
        var ends: [SubscriptionDayContent: (first: Int, last: Int)] = [:]
        func key(_ stated: Element) -> SubscriptionDayContent {
            SubscriptionDayContent(day: stated.statedAt.daysSinceEpoch, content: stated.value)
        }
        for (index, stated) in enumerated() { ends[key(stated), default: (index, index)].last = index }
        return enumerated().filter { index, stated in
            guard let ends = ends[key(stated)] else { return true }
            return index == ends.first || index == ends.last
        }.map(\.element)
    }
}

extension WebOriginal {
    /// Whether a fact says anything new, whatever its date; a reading of Stripe's API becomes an event only if it does.
    package func learns(from fact: WebFact) -> Bool {
        var joined = self
        joined.join(fact, position: .max)
        if let subscription = fact.subscription {
            let before = subscriptions.last { $0.statedAt <= fact.statedAt }
            if before?.value != subscription { return true }
        }
        return joined.lines.map(\.value) != lines.map(\.value) || joined.whatWasPaid != whatWasPaid
            || joined.refunds.map(\.value) != refunds.map(\.value) || !joined.saysSameOfDisputes(as: self)
            || joined.invoicePayments.count != invoicePayments.count
            || Set(joined.owners.map(\.value)) != Set(owners.map(\.value))
    }

    private func saysSameOfDisputes(as other: WebOriginal) -> Bool {
        Set(disputes.map(\.value)) == Set(other.disputes.map(\.value))
    }
}

extension WebOriginal {
    func write(to writer: inout CanonicalWriter) {
        writer.text(originalTransactionID)
        writer.stated(subscriptions) { $0.webSubscription($1) }
        writer.stated(lines) { writer, paid in
            writer.webLine(paid.line)
            writer.text(paid.invoiceID)
            writer.optional(paid.paidAt) { $0.timestamp($1) }
            writer.optional(paid.amountPaid) { $0.integer($1) }
            writer.optional(paid.currency) { $0.text($1) }
        }
        writer.stated(payments) { $0.webPayment($1) }
        writer.stated(refunds) { $0.webRefund($1) }
        writer.stated(disputes) { $0.webDispute($1) }
        writer.stated(invoicePayments) { $0.webInvoicePayment($1) }
        writer.stated(owners) { $0.webOwner($1) }
        // Where nobody was forgotten, the form is the one that earlier versions wrote.
        writer.byte((isThinned ? 1 : 0) | (forgotten.isEmpty ? 0 : 2))
        if !forgotten.isEmpty {
            writer.list(forgotten) { writer, alias in
                writer.integer(alias.customer.number)
                writer.integer(alias.position)
            }
        }
    }

    init(from reader: inout CanonicalReader) throws(FactCodec.DecodingFailure) {
        self.init(try reader.text())
        subscriptions = try reader.stated { reader throws(FactCodec.DecodingFailure) in try reader.webSubscription() }
        lines = try reader.stated { reader throws(FactCodec.DecodingFailure) in
            WebPaidLine(
                line: try reader.webLine(), invoiceID: try reader.text(), paidAt: try reader.optionalTimestamp(),
                amountPaid: try reader.optionalInteger(), currency: try reader.optionalText())
        }
        payments = try reader.stated { reader throws(FactCodec.DecodingFailure) in try reader.webPayment() }
        refunds = try reader.stated { reader throws(FactCodec.DecodingFailure) in try reader.webRefund() }
        disputes = try reader.stated { reader throws(FactCodec.DecodingFailure) in try reader.webDispute() }
        invoicePayments = try reader.stated { reader throws(FactCodec.DecodingFailure) in try reader.webInvoicePayment()
        }
        owners = try reader.stated { reader throws(FactCodec.DecodingFailure) in try reader.webOwner() }
        let flags = try reader.byte()
        guard flags < 4 else { throw .invalid("flags of \(flags)") }
        isThinned = flags & 1 == 1
        guard flags & 2 == 2 else { return }
        forgotten = try reader.list { reader throws(FactCodec.DecodingFailure) in
            OwnershipMap.Alias(customer: IdentityRef(try reader.integer()), position: try reader.integer())
        }
        guard !forgotten.isEmpty else { throw .invalid("a list of nobody") }
    }
}

extension CanonicalWriter {
    fileprivate mutating func stated<Value>(
        _ values: [WebStated<Value>], _ write: (inout CanonicalWriter, Value) -> Void
    ) {
        list(values) { writer, stated in
            writer.timestamp(stated.statedAt)
            writer.digest(stated.hash)
            writer.integer(stated.position)
            write(&writer, stated.value)
        }
    }
}

extension CanonicalReader {
    fileprivate mutating func stated<Value>(
        _ read: (inout CanonicalReader) throws(Failure) -> Value
    ) throws(Failure) -> [WebStated<Value>] {
        try list { reader throws(Failure) in
            let (statedAt, hash, position) = (try reader.timestamp(), try reader.digest(), try reader.integer())
            return WebStated(value: try read(&reader), statedAt: statedAt, hash: hash, position: position)
        }
    }
}
