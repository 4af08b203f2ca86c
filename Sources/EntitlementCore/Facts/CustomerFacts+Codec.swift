// The canonical form of all facts about one customer, which the server hands to a device. The device adds what only it
// knows so far and folds the same facts, so it cannot come to another answer.

extension CustomerFacts {
    /// The versions of the form below: of a catalog that says nothing of the web, and of one that does.
    private static let codecVersion: UInt8 = 1
    private static let webCodecVersion: UInt8 = 2

    /// The canonical bytes; the same facts give the same bytes.
    package func encoded() -> [UInt8] {
        var writer = CanonicalWriter()
        writer.byte(catalog.speaksOfWeb ? Self.webCodecVersion : Self.codecVersion)
        writer.integer(Int64(OriginalState.foldVersion))
        writer.integer(customer.number)
        writer.count(originals.count)
        for (id, state) in originals.sorted(by: { $0.key < $1.key }) {
            writer.text(id)
            writer.data(state.encoded())
        }
        writer.count(grants.count)
        for grant in grants.sorted(by: { $0.position < $1.position }) { writer.grant(grant) }
        ownership.write(to: &writer)
        if catalog.speaksOfWeb { writer.webCatalog(catalog) } else { writer.catalog(catalog) }
        return writer.bytes
    }

    /// Reads what `encoded` wrote.
    ///
    /// - Throws: also for facts of another fold version: what was kept for another fold might not be all this one needs.
    package init(encoded bytes: [UInt8]) throws(FactCodec.DecodingFailure) {
        self = try CanonicalReader.read(bytes) { reader throws(FactCodec.DecodingFailure) in
            try CustomerFacts(from: &reader)
        }
    }

    private init(from reader: inout CanonicalReader) throws(FactCodec.DecodingFailure) {
        let version = try reader.byte()
        let speaksOfWeb = version == Self.webCodecVersion
        guard version == Self.codecVersion || speaksOfWeb else { throw .unknownVersion(version) }
        let fold = try reader.integer()
        guard fold == Int64(OriginalState.foldVersion) else { throw .invalid("facts for fold version \(fold)") }
        let customer = IdentityRef(try reader.integer())
        var originals: [String: OriginalState] = [:]
        for _ in 0..<(try reader.count()) {
            let id = try reader.text()
            originals[id] = try OriginalState(encoded: reader.data())
        }
        let grants = try reader.list { reader throws(FactCodec.DecodingFailure) in try reader.grant() }
        let ownership = try OwnershipMap(from: &reader)
        self.init(
            customer: customer, originals: originals, grants: grants, ownership: ownership,
            catalog: speaksOfWeb ? try reader.webCatalog() : try reader.catalog())
        try reader.finish()
    }
}

extension CanonicalWriter {
    fileprivate mutating func grant(_ grant: GrantState) {
        text(grant.grantID)
        text(grant.entitlementID)
        integer(grant.customer.number)
        timestamp(grant.from)
        optional(grant.until) { $0.timestamp($1) }
        integer(grant.position)
        optional(grant.revokedAt) { $0.timestamp($1) }
        optional(grant.revokedPosition) { $0.integer($1) }
    }
}

extension CanonicalReader {
    fileprivate mutating func grant() throws(Failure) -> GrantState {
        let grantID = try text()
        let entitlementID = try text()
        let customer = IdentityRef(try integer())
        let from = try timestamp()
        let until = try flag() ? try timestamp() : nil
        var grant = GrantState(
            fact: GrantFact(
                grantID: grantID, customer: customer, entitlementID: entitlementID, until: until, reason: ""),
            position: try integer(), recordedAt: from)
        grant.revokedAt = try flag() ? try timestamp() : nil
        grant.revokedPosition = try flag() ? try integer() : nil
        return grant
    }
}
