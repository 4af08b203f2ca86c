/// Which sources have delivered a statement.
package struct StatementSources: OptionSet, Hashable, Sendable {
    package let rawValue: UInt8

    package init(rawValue: UInt8) { self.rawValue = rawValue }

    package init(_ source: StatementSource) { rawValue = 1 << source.rawValue }

    /// Adds a delivery.
    ///
    /// Beside the store's own word a device's is not kept: it adds nothing, and whether it was still remembered would
    /// depend on the order of arrival.
    fileprivate mutating func add(_ source: StatementSource) {
        formUnion(StatementSources(source))
        if includesStore { remove(StatementSources(.device)) }
    }

    /// The store said it itself, in a notification or through its Server API.
    package var includesStore: Bool {
        !isDisjoint(with: [StatementSources(.notification), StatementSources(.serverAPI)])
    }
}

/// A transaction statement the fold keeps, with the event it was first seen in.
package struct StatedTransaction: Hashable, Sendable {
    let statement: Shared<TransactionFact>
    package fileprivate(set) var sources: StatementSources
    package let position: Int64

    /// Lent, not copied: it has a dozen fields with storage of their own.
    package var fact: TransactionFact { _read { yield statement.value } }

    fileprivate init(fact: TransactionFact, sources: StatementSources, position: Int64) {
        statement = Shared(fact)
        self.sources = sources
        self.position = position
    }
}

/// A renewal statement the fold keeps, with the event it was first seen in.
package struct StatedRenewal: Hashable, Sendable {
    package fileprivate(set) var fact: RenewalFact
    package fileprivate(set) var sources: StatementSources
    package let position: Int64

    /// Adds another delivery of the same statement; returns whether anything changed.
    fileprivate mutating func add(_ fact: RenewalFact, from source: StatementSource) -> Bool {
        let before = self
        sources.add(source)
        // The label belongs to a delivery, not to the signed statement: any grace delivery sets it.
        if fact.isGraceWithoutEnd { self.fact.isGraceWithoutEnd = true }
        return self != before
    }
}

/// Everything known about one original transaction of one environment: the join of all signed statements.
///
/// The join is a set union followed by dropping what can no longer matter, or what devices repeat beyond any measure, so
/// permuting, duplicating or delaying deliveries cannot change what is kept, apart from positions. Catalog, policy and
/// ownership are applied when the state is read.
package struct OriginalState: Hashable, Sendable {
    /// Changes whenever the fold could answer differently from the same facts.
    package static let foldVersion = 1

    /// How many distinct renewal statements are kept whatever they say: a device can have the store sign the same
    /// content as often as it likes, each time with a date of its own.
    package static let exactRenewals = 512

    /// For each spelling of a transaction the newest statement, and the newest of the store itself where a device's
    /// is newer.
    ///
    /// In the order of their keys.
    package private(set) var transactions: [StatedTransaction] = []
    /// The distinct renewal statements, oldest first: all of them, unless `isThinned`.
    package private(set) var renewals: [StatedRenewal] = []
    /// Whether more than `exactRenewals` distinct renewal statements came, so that devices' repetitions are dropped
    /// (`thinned`).
    package private(set) var isThinned = false
    /// The last event that stated something about this original transaction.
    package private(set) var lastPosition: Int64 = 0
    /// Whether it was ever claimed or transferred; only then readers look up its claims and transfers.
    package private(set) var hasOwnershipEvents = false
    /// What is known of it where it was bought on the web; `nil` of what the App Store sold.
    package private(set) var web: WebOriginal?

    package init() {}

    /// Joins what a fact states about `originalTransactionID`.
    ///
    /// Returns whether what is kept has changed, `lastPosition` aside.
    @discardableResult
    package mutating func join(
        _ fact: LedgerFact, originalTransactionID: String, source: StatementSource, position: Int64
    ) -> Bool {
        lastPosition = max(lastPosition, position)
        var isChanged = false
        func add(_ transaction: TransactionFact) {
            guard transaction.originalTransactionID == originalTransactionID else { return }
            if join(transaction, source: source, position: position) { isChanged = true }
        }
        func add(_ renewal: RenewalFact) {
            guard renewal.originalTransactionID == originalTransactionID else { return }
            if join(renewal, source: source, position: position) { isChanged = true }
        }
        switch fact {
        case .notification(let fact):
            if let transaction = fact.transaction { add(transaction) }
            if let renewal = fact.renewal { add(renewal) }
        case .statements(let fact):
            for transaction in fact.transactions { add(transaction) }
            for renewal in fact.renewals { add(renewal) }
        case .claim, .transfer, .transferUndo:
            isChanged = !hasOwnershipEvents
            hasOwnershipEvents = true
        case .web(let fact):
            guard fact.originalTransactionID == originalTransactionID else { break }
            var known = web ?? WebOriginal(originalTransactionID)
            isChanged = known.join(fact, position: position) || web == nil
            web = known
        case .forgetting(let fact):
            guard fact.originalTransactionID == originalTransactionID else { break }
            var known = web ?? WebOriginal(originalTransactionID)
            isChanged = known.forget(fact.identities, position: position) || web == nil
            web = known
        case .catalog, .link, .conflict, .grant, .grantRevocation, .drift, .access, .storeRequest:
            break
        }
        return isChanged
    }

    /// Whether joining a fact would change what is kept, positions aside; for a web purchase, whether the fact says
    /// anything new, whatever its date.
    package func learns(from fact: LedgerFact, originalTransactionID: String, source: StatementSource) -> Bool {
        if case .web(let fact) = fact, let web { return web.learns(from: fact) }
        var joined = self
        return joined.join(
            fact, originalTransactionID: originalTransactionID, source: source, position: lastPosition)
    }

    /// The same state with every identity replaced; the order of identities must stay what it was.
    func replacingIdentities(_ replace: (IdentityRef) -> IdentityRef) -> OriginalState {
        var state = self
        state.transactions = transactions.map {
            StatedTransaction(fact: $0.fact.replacingIdentities(replace), sources: $0.sources, position: $0.position)
        }
        state.web = web?.replacingIdentities(replace)
        return state
    }

    /// Joins a transaction statement; returns whether what is kept has changed.
    @discardableResult
    package mutating func join(_ fact: TransactionFact, source: StatementSource, position: Int64) -> Bool {
        lastPosition = max(lastPosition, position)
        let range = transactions.range(of: TransactionKey(fact))
        if range.isEmpty {
            transactions.insert(
                StatedTransaction(fact: fact, sources: StatementSources(source), position: position),
                at: range.lowerBound)
            return true
        }
        let known = Array(transactions[range])
        var rivals = known
        if let index = rivals.firstIndex(where: { $0.fact == fact }) {
            rivals[index].sources.add(source)
        } else if let index = rivals.firstIndex(where: { $0.fact.isSameStatement(as: fact) }) {
            // The people it names were forgotten and came back under new numbers, which own it from now on.
            guard rivals[index].position <= position else { return false }
            rivals[index] = StatedTransaction(fact: fact, sources: rivals[index].sources, position: position)
            rivals[index].sources.add(source)
        } else {
            rivals.append(StatedTransaction(fact: fact, sources: StatementSources(source), position: position))
        }
        let retained = Self.retained(rivals)
        guard retained != known else { return false }
        transactions.replaceSubrange(range, with: retained)
        return true
    }

    /// Joins a renewal statement; returns whether what is kept has changed.
    @discardableResult
    package mutating func join(_ fact: RenewalFact, source: StatementSource, position: Int64) -> Bool {
        lastPosition = max(lastPosition, position)
        let index = renewals.insertionIndex(of: fact)
        if index < renewals.endIndex, renewals[index].fact.isSameStatement(as: fact) {
            return renewals[index].add(fact, from: source)
        }
        renewals.insert(StatedRenewal(fact: fact, sources: StatementSources(source), position: position), at: index)
        if isThinned {
            let day = renewals.day(of: renewals[index].fact)
            let kept = renewals[day].thinned()
            let isKept = kept.contains { $0.fact == fact }
            renewals.replaceSubrange(day, with: kept)
            return isKept
        }
        if renewals.count > Self.exactRenewals {
            isThinned = true
            renewals = renewals[...].thinned()
        }
        return true
    }

    /// Whether a renewal statement says what one beside it, by its signed date, or one of the same day says already.
    package func repeats(_ fact: RenewalFact) -> Bool {
        let content = RenewalContent(fact)
        let index = renewals.insertionIndex(of: fact)
        let besides = [index - 1, index].filter(renewals.indices.contains)
        return besides.contains { RenewalContent(renewals[$0].fact) == content }
            || renewals.hasSaid(content, onDayOf: fact)
    }

    /// The newest statement, and the newest of the store: no other can ever win again.
    private static func retained(_ rivals: [StatedTransaction]) -> [StatedTransaction] {
        let newest = rivals.max { $0.fact.precedes($1.fact) }
        let newestOfStore = rivals.filter(\.sources.includesStore).max { $0.fact.precedes($1.fact) }
        guard let newest else { return [] }
        guard let newestOfStore, newestOfStore.fact != newest.fact else { return [newest] }
        return [newestOfStore, newest]
    }
}

/// One spelling of a transaction: the statement's claims about which period it is about.
struct TransactionKey: Hashable, Comparable {
    let transactionID: String
    let webOrderLineItemID: String?
    let productID: String
    let purchaseDate: Timestamp

    init(_ fact: TransactionFact) {
        transactionID = fact.transactionID
        webOrderLineItemID = fact.webOrderLineItemID
        productID = fact.productID
        purchaseDate = fact.purchaseDate
    }

    static func < (left: TransactionKey, right: TransactionKey) -> Bool {
        if left.purchaseDate != right.purchaseDate { return left.purchaseDate < right.purchaseDate }
        if left.transactionID != right.transactionID { return left.transactionID < right.transactionID }
        if left.productID != right.productID { return left.productID < right.productID }
        // No line item and an empty one are two keys, so the order must tell them apart.
        guard let rightItem = right.webOrderLineItemID else { return false }
        guard let leftItem = left.webOrderLineItemID else { return true }
        return leftItem < rightItem
    }
}

extension [StatedTransaction] {
    /// Where statements of `key` stand, or would be inserted, in an array ordered by key.
    fileprivate func range(of key: TransactionKey) -> Range<Int> {
        // Statements mostly come in the order of their purchases, so one comparison of dates decides.
        guard let last = indices.last, !(self[last].fact.purchaseDate < key.purchaseDate),
            !(TransactionKey(self[last].fact) < key)
        else { return endIndex..<endIndex }
        let start = partitioningIndex { !(TransactionKey($0.fact) < key) }
        let end = self[start...].firstIndex { TransactionKey($0.fact) != key } ?? endIndex
        return start..<end
    }
}

extension [StatedRenewal] {
    /// The first statement that does not precede `fact`, in an array ordered by `precedes`.
    fileprivate func insertionIndex(of fact: RenewalFact) -> Int {
        guard let last = indices.last, !self[last].fact.precedes(fact) else { return endIndex }
        return partitioningIndex { !$0.fact.precedes(fact) }
    }
}

extension TransactionFact {
    /// The same signed payload, dated alike, whatever numbers stand for whom it names.
    fileprivate func isSameStatement(as other: TransactionFact) -> Bool {
        payloadHash == other.payloadHash && signedDate == other.signedDate
    }

    /// The same content, whenever it was signed.
    func saysTheSame(as other: TransactionFact) -> Bool {
        var dated = self
        (dated.payloadHash, dated.signedDate) = (other.payloadHash, other.signedDate)
        return dated == other
    }

    /// The order of purchases by when they were made; what was bought in the same instant, by its id.
    package func isBought(before other: TransactionFact) -> Bool {
        (purchaseDate, transactionID) < (other.purchaseDate, other.transactionID)
    }

    /// Whether `other` wins against this statement about the same period: the newer signed date, then the revoked
    /// one, then the later expiry, then the greater payload hash.
    package func precedes(_ other: TransactionFact) -> Bool {
        let own = signedDate ?? .earliest
        let theirs = other.signedDate ?? .earliest
        if own != theirs { return own < theirs }
        if (revocation != nil) != (other.revocation != nil) { return revocation == nil }
        let ownExpiry = expiresDate ?? .endless
        let theirExpiry = other.expiresDate ?? .endless
        if ownExpiry != theirExpiry { return ownExpiry < theirExpiry }
        return payloadHash < other.payloadHash
    }
}

extension RenewalFact {
    /// The order of the history: signed date, then the later grace end, then the greater payload hash.
    package func precedes(_ other: RenewalFact) -> Bool {
        let own = signedDate ?? .earliest
        let theirs = other.signedDate ?? .earliest
        if own != theirs { return own < theirs }
        let ownEnd = graceEnd ?? .earliest
        let theirEnd = other.graceEnd ?? .earliest
        if ownEnd != theirEnd { return ownEnd < theirEnd }
        return payloadHash < other.payloadHash
    }

    /// The same signed payload, dated alike; a payload without a date of its own is another statement in another
    /// notification.
    func isSameStatement(as other: RenewalFact) -> Bool {
        payloadHash == other.payloadHash && signedDate == other.signedDate
    }
}

extension OriginalState {
    /// The canonical bytes a view row holds.
    package func encoded() -> [UInt8] {
        // About as much as statements take, so that a long state is not copied as it grows.
        var writer = CanonicalWriter(capacity: 512 + 240 * transactions.count + 120 * renewals.count)
        var texts = StatementTexts(areWrittenOnce: true)
        writer.count(transactions.count)
        for stated in transactions {
            writer.byte(stated.sources.rawValue)
            writer.integer(stated.position)
            writer.transaction(stated.fact, &texts)
        }
        writer.count(renewals.count)
        for stated in renewals {
            writer.byte(stated.sources.rawValue)
            writer.integer(stated.position)
            writer.renewal(stated.fact, &texts)
        }
        writer.integer(lastPosition)
        let marks = Marks(of: self)
        if !marks.isEmpty { writer.byte(marks.rawValue) }
        web?.write(to: &writer)
        return writer.bytes
    }

    package init(encoded bytes: [UInt8]) throws(FactCodec.DecodingFailure) {
        self = try CanonicalReader.read(bytes) { reader throws(FactCodec.DecodingFailure) in
            try OriginalState(from: &reader)
        }
    }

    private init(from reader: inout CanonicalReader) throws(FactCodec.DecodingFailure) {
        var texts = StatementTexts(areWrittenOnce: true)
        transactions = try reader.list { reader throws(FactCodec.DecodingFailure) in
            let sources = StatementSources(rawValue: try reader.byte())
            let position = try reader.integer()
            return StatedTransaction(fact: try reader.transaction(&texts), sources: sources, position: position)
        }
        renewals = try reader.list { reader throws(FactCodec.DecodingFailure) in
            let sources = StatementSources(rawValue: try reader.byte())
            let position = try reader.integer()
            return StatedRenewal(fact: try reader.renewal(&texts), sources: sources, position: position)
        }
        lastPosition = try reader.integer()
        if !reader.isAtEnd {
            let marks = Marks(rawValue: try reader.byte())
            hasOwnershipEvents = marks.contains(.hasOwnershipEvents)
            isThinned = marks.contains(.isThinned)
            if marks.contains(.isOfWeb) { web = try WebOriginal(from: &reader) }
            guard !marks.isEmpty, marks == Marks(of: self) else { throw .trailingBytes }
        }
        try reader.finish()
    }

    /// What is true of few states, and so takes a byte only where it is.
    private struct Marks: OptionSet {
        let rawValue: UInt8

        static let hasOwnershipEvents = Marks(rawValue: 1)
        static let isThinned = Marks(rawValue: 2)
        static let isOfWeb = Marks(rawValue: 4)

        init(rawValue: UInt8) { self.rawValue = rawValue }

        init(of state: OriginalState) {
            self = []
            if state.hasOwnershipEvents { insert(.hasOwnershipEvents) }
            if state.isThinned { insert(.isThinned) }
            if state.web != nil { insert(.isOfWeb) }
        }
    }
}
