/// Who owns what: the links, claims and transfers of one environment, applied in the order of their positions.
package struct OwnershipMap: Hashable, Sendable {
    /// The owner of an original transaction as a whole from an instant on.
    package struct Transfer: Hashable, Sendable {
        package let at: Timestamp
        /// `nil`: the periods' own owners, since every transfer was taken back.
        package let customer: IdentityRef?
        /// The events that say so.
        package let positions: [Int64]
    }

    package struct Claim: Hashable, Sendable {
        package let customer: IdentityRef
        package let position: Int64
    }

    /// Whom an identity was linked to, and by which event.
    package struct Alias: Hashable, Sendable {
        package let customer: IdentityRef
        package let position: Int64
    }

    /// The transfers of one original transaction.
    fileprivate struct Custody: Hashable, Sendable {
        /// Those that were not taken back, the one in force last.
        var standing: [Alias] = []
        /// Its successive owners.
        var spans: [Transfer] = []
    }

    private var aliases: [IdentityRef: Alias] = [:]
    private var claims: [String: Claim] = [:]
    private var custody: [String: Custody] = [:]

    package init() {}

    /// Applies an event's fact; events must come in the order of their positions.
    ///
    /// Facts that say nothing about ownership are passed over.
    package mutating func apply(_ fact: LedgerFact, position: Int64, recordedAt: Timestamp) {
        switch fact {
        case .link(let link):
            // A link to itself undoes the one before. One that would close a circle names no new owner.
            if link.identity == link.customer {
                aliases[link.identity] = nil
            } else if !closesCircle(link) {
                aliases[link.identity] = Alias(customer: link.customer, position: position)
            }
        case .claim(let claim):
            if claims[claim.originalTransactionID] == nil {
                claims[claim.originalTransactionID] = Claim(customer: claim.customer, position: position)
            }
        case .transfer(let transfer):
            custody[transfer.originalTransactionID, default: Custody()].give(
                to: transfer.customer, position: position, recordedAt: recordedAt)
        case .transferUndo(let undo):
            custody[undo.originalTransactionID]?.takeBack(undo, position: position, recordedAt: recordedAt)
        case .notification, .statements, .catalog, .conflict, .grant, .grantRevocation, .drift, .forgetting, .access,
            .storeRequest, .web:
            break
        }
    }

    /// Whether a link would lead back to the identity that is linked.
    ///
    /// The whole path counts, not only its end: an identity that is an alias itself may be linked anew, and a path
    /// through it would then come back to where it began.
    package func closesCircle(_ link: LinkFact) -> Bool {
        var current = link.customer
        while current != link.identity {
            guard let alias = aliases[current] else { return false }
            current = alias.customer
        }
        return true
    }

    /// The link of an identity that is in force.
    package func alias(of identity: IdentityRef) -> Alias? { aliases[identity] }

    /// The first claim of an original transaction.
    package func claim(of originalTransactionID: String) -> Claim? { claims[originalTransactionID] }

    /// The customer an identity stands for, every link followed.
    package func customer(of identity: IdentityRef) -> IdentityRef {
        var current = identity
        while let alias = aliases[current] { current = alias.customer }
        return current
    }

    /// The links that lead from an identity to its customer.
    func linkPositions(of identity: IdentityRef) -> [Int64] {
        var positions: [Int64] = []
        var current = identity
        while let alias = aliases[current] {
            positions.append(alias.position)
            current = alias.customer
        }
        return positions
    }

    /// Whose a period is before any transfer; `nil` while nobody has claimed it.
    package func owner(of fact: TransactionFact) -> IdentityRef? {
        (fact.statedOwner ?? claims[fact.originalTransactionID]?.customer).map(customer(of:))
    }

    /// Whose a period is at an instant, the transfers until then included; `nil` while nobody has claimed it.
    package func owner(of fact: TransactionFact, at instant: Timestamp) -> IdentityRef? {
        let transfer = transfers(of: fact.originalTransactionID).last { $0.at <= instant }
        return transfer?.customer.map(customer(of:)) ?? owner(of: fact)
    }

    /// Whose a period is now, transfers included; `nil` while nobody has claimed it.
    package func currentOwner(of fact: TransactionFact) -> IdentityRef? {
        transferInForce(of: fact.originalTransactionID).map { customer(of: $0.customer) } ?? owner(of: fact)
    }

    /// The present owner of a web purchase, paid or not; `nil` while it has none.
    package func currentOwner(of web: WebOriginal) -> IdentityRef? {
        if let transfer = transferInForce(of: web.originalTransactionID) { return customer(of: transfer.customer) }
        return statedOwner(of: web)
    }

    /// The owner of a web purchase at an instant, paid or not, transfers until then included; `nil` while it has none.
    package func owner(of web: WebOriginal, at instant: Timestamp) -> IdentityRef? {
        let transfer = transfers(of: web.originalTransactionID).last { $0.at <= instant }
        return transfer?.customer.map(customer(of:)) ?? statedOwner(of: web)
    }

    private func statedOwner(of web: WebOriginal) -> IdentityRef? {
        (web.statedOwner ?? claims[web.originalTransactionID]?.customer).map(customer(of:))
    }

    /// The successive owners of an original transaction as a whole; empty before the first transfer.
    package func transfers(of originalTransactionID: String) -> [Transfer] {
        custody[originalTransactionID]?.spans ?? []
    }

    /// Everybody who owns an original transaction by a claim or by a transfer that was not taken back, and everybody
    /// whom these are linked to.
    package func holders(of originalTransactionID: String) -> Set<IdentityRef> {
        let named =
            [claims[originalTransactionID]?.customer].compactMap(\.self)
            + (custody[originalTransactionID]?.standing.map(\.customer) ?? [])
        return Set(named.flatMap(path(of:)))
    }

    /// An identity and everybody whom its links lead through, its customer last.
    package func path(of identity: IdentityRef) -> [IdentityRef] {
        var path = [identity]
        while let last = path.last, let alias = aliases[last] { path.append(alias.customer) }
        return path
    }

    /// The last transfer that was not taken back.
    package func transferInForce(of originalTransactionID: String) -> Alias? {
        custody[originalTransactionID]?.standing.last
    }
}

extension OwnershipMap.Custody {
    fileprivate mutating func give(to customer: IdentityRef, position: Int64, recordedAt: Timestamp) {
        standing.append(OwnershipMap.Alias(customer: customer, position: position))
        spans.append(OwnershipMap.Transfer(at: recordedAt, customer: customer, positions: [position]))
    }

    /// Only the transfer in force can be taken back.
    fileprivate mutating func takeBack(_ undo: TransferUndoFact, position: Int64, recordedAt: Timestamp) {
        guard standing.last?.position == undo.undoes else { return }
        standing.removeLast()
        spans.append(
            OwnershipMap.Transfer(
                at: recordedAt, customer: standing.last?.customer,
                positions: [position] + (standing.last.map { [$0.position] } ?? [])))
    }
}

extension OwnershipMap {
    /// The same map with every identity replaced; no two may become one.
    func replacingIdentities(_ replace: (IdentityRef) -> IdentityRef) -> OwnershipMap {
        func replaced(_ alias: Alias) -> Alias {
            Alias(customer: replace(alias.customer), position: alias.position)
        }
        var map = self
        map.aliases = Dictionary(uniqueKeysWithValues: aliases.map { (replace($0.key), replaced($0.value)) })
        map.claims = claims.mapValues { Claim(customer: replace($0.customer), position: $0.position) }
        map.custody = custody.mapValues { custody in
            Custody(
                standing: custody.standing.map(replaced),
                spans: custody.spans.map {
                    Transfer(at: $0.at, customer: $0.customer.map(replace), positions: $0.positions)
                })
        }
        return map
    }
}

extension OwnershipMap {
    /// The map in canonical bytes.
    func write(to writer: inout CanonicalWriter) {
        writer.count(aliases.count)
        for (identity, alias) in aliases.sorted(by: { $0.key < $1.key }) {
            writer.integer(identity.number)
            writer.alias(alias)
        }
        writer.count(claims.count)
        for (original, claim) in claims.sorted(by: { $0.key < $1.key }) {
            writer.text(original)
            writer.integer(claim.customer.number)
            writer.integer(claim.position)
        }
        writer.count(custody.count)
        for (original, custody) in custody.sorted(by: { $0.key < $1.key }) {
            writer.text(original)
            writer.count(custody.standing.count)
            for alias in custody.standing { writer.alias(alias) }
            writer.count(custody.spans.count)
            for span in custody.spans {
                writer.timestamp(span.at)
                writer.optional(span.customer) { $0.integer($1.number) }
                writer.count(span.positions.count)
                for position in span.positions { writer.integer(position) }
            }
        }
    }

    init(from reader: inout CanonicalReader) throws(FactCodec.DecodingFailure) {
        for _ in 0..<(try reader.count()) {
            let identity = IdentityRef(try reader.integer())
            aliases[identity] = try reader.alias()
        }
        for _ in 0..<(try reader.count()) {
            let original = try reader.text()
            claims[original] = Claim(customer: IdentityRef(try reader.integer()), position: try reader.integer())
        }
        for _ in 0..<(try reader.count()) {
            let original = try reader.text()
            let standing = try reader.list { reader throws(FactCodec.DecodingFailure) in try reader.alias() }
            let spans = try reader.list { reader throws(FactCodec.DecodingFailure) in
                Transfer(
                    at: try reader.timestamp(), customer: try reader.flag() ? IdentityRef(try reader.integer()) : nil,
                    positions: try reader.list { reader throws(FactCodec.DecodingFailure) in try reader.integer() })
            }
            custody[original] = Custody(standing: standing, spans: spans)
        }
        // A map that was not made by `apply` might lead in a circle, and following it would never end.
        for identity in aliases.keys {
            var current = identity
            for _ in 0...aliases.count {
                guard let alias = aliases[current] else { break }
                current = alias.customer
            }
            guard aliases[current] == nil else { throw .invalid("links that lead in a circle") }
        }
    }
}

extension CanonicalWriter {
    fileprivate mutating func alias(_ alias: OwnershipMap.Alias) {
        integer(alias.customer.number)
        integer(alias.position)
    }
}

extension CanonicalReader {
    fileprivate mutating func alias() throws(Failure) -> OwnershipMap.Alias {
        OwnershipMap.Alias(customer: IdentityRef(try integer()), position: try integer())
    }
}
