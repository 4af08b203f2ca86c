import EntitlementCore
import PostgresClient

/// An alias of a person who is forgotten that stays, because it stands for somebody else, too.
package struct KeptAlias: Sendable {
    let ref: IdentityRef
    /// Where a link in force leads from it to somebody who is erased.
    let linkedIn: [StoreEnvironment]
    let isAppTransaction: Bool
}

/// The links that connect people with somebody who is to be forgotten, in each environment by itself.
///
/// One customer in the sandbox may be two in production.
struct PersonLinks {
    private let asked: IdentityRef
    /// Everybody whom any link, in force or not, connects with the one asked for.
    private let everybody: Set<IdentityRef>
    private let maps: [(environment: StoreEnvironment, links: OwnershipMap)]
    /// Account tokens that the service issued to somebody: these never are anybody else's.
    private let issued: Set<IdentityRef>

    init(of identity: IdentityRef, on connection: isolated PostgresConnection) throws {
        var seen: Set<IdentityRef> = [identity]
        var fresh = seen
        var found: [Int64: (environment: StoreEnvironment?, fact: LinkFact, recordedAt: Timestamp)] = [:]
        while !fresh.isEmpty {
            let rows = try connection.query(
                """
                SELECT DISTINCT event.position, event.recorded_at, event.facts, event.environment
                FROM unnest($2::bigint[]) AS key (number)
                \(Statements.search(
                    """
                    SELECT position FROM event_name
                    WHERE event_name.ledger_id = $1 AND event_name.identity = key.number AND environment IN (0, 1, 2)
                        AND kind = \(NameKind.ownership.rawValue) AND original_transaction_id = ''
                    """, as: "name"))
                \(Statements.search(
                    """
                    SELECT position, recorded_at, facts, environment, type FROM event
                    WHERE event.ledger_id = $1 AND event.position = name.position
                    """, as: "event"))
                WHERE event.type = 'linked'
                """, [.int(ledgerID), .intArray(fresh.map(\.number).sorted())]
            ).rows
            fresh = []
            for row in rows {
                guard case .link(let link) = try FactCodec.decode(row.bytes(2)) else { continue }
                found[try row.int(0)] = (
                    try row.optionalInt(3).map { try StoreEnvironment(stored: $0) }, link,
                    try row.instant(1)
                )
                for end in [link.identity, link.customer] where seen.insert(end).inserted { fresh.insert(end) }
            }
        }
        let links = found.sorted { $0.key < $1.key }
        asked = identity
        everybody = seen
        issued = Set(links.filter { $0.value.fact.cause == .issued }.map(\.value.fact.identity))
        maps = StoreEnvironment.allCases.map { environment in
            var map = OwnershipMap()
            for (position, link) in links where link.environment ?? environment == environment {
                map.apply(.link(link.fact), position: position, recordedAt: link.recordedAt)
            }
            return (environment, map)
        }
    }

    /// Whether a link in force leads from the one asked for, or to them.
    private var isLinked: Bool {
        maps.contains { map in
            everybody.contains { identity in
                map.links.alias(of: identity).map { identity == asked || $0.customer == asked } ?? false
            }
        }
    }

    /// Everybody who stands for the same customer, by the links in force in either environment.
    var person: Set<IdentityRef> {
        everybody.filter { identity in maps.contains { isSame(identity, in: $0.links) } }
    }

    /// Whether the links that were read are all there are about an identity.
    func covers(_ identity: IdentityRef) -> Bool { everybody.contains(identity) }

    /// Whom an identity stands for by the links in force, in each environment in which that is another.
    func leads(from identity: IdentityRef) -> [(environment: StoreEnvironment, customer: IdentityRef)] {
        maps.compactMap { map in
            let customer = map.links.customer(of: identity)
            return customer == identity ? nil : (map.environment, customer)
        }
    }

    private func isSame(_ identity: IdentityRef, in links: OwnershipMap) -> Bool {
        links.customer(of: identity) == links.customer(of: asked)
    }

    /// Those of the person who stay, because they stand for somebody else as well.
    ///
    /// - One whom a link in the other environment leads to somebody else.
    /// - One who is somebody else in production, where that costs money: with purchases or grants, and without a link to
    ///   this person there. A sandbox in which an alias has been used without such a link keeps nobody.
    /// - An app transaction that statements bear beside somebody else's account token.
    func kept(on connection: isolated PostgresConnection) throws -> [KeptAlias] {
        let aliases = person.subtracting([asked])
        guard !aliases.isEmpty else { return [] }
        let elsewhere = aliases.filter { identity in
            maps.contains { $0.links.alias(of: identity) != nil && !isSame(identity, in: $0.links) }
        }
        let alone = aliases.subtracting(issued).filter { identity in
            maps.contains { $0.environment == .production && !isSame(identity, in: $0.links) }
        }
        var kept = try elsewhere.union(Self.owners(among: alone, in: [.production], on: connection))
        let values = try Statements.customerIDs(of: Array(aliases), on: connection)
        let appTransactions = Set(values.filter { CustomerID($0.value)?.appTransactionID != nil }.keys)
        kept.formUnion(
            try ForgettingScope.borneBesideOthers(
                appTransactions.subtracting(kept), person: person.subtracting(kept), on: connection))
        return kept.sorted().map { identity in
            KeptAlias(
                ref: identity,
                linkedIn: maps.filter { map in
                    map.links.alias(of: identity).map { person.contains($0.customer) && !kept.contains($0.customer) }
                        ?? false
                }.map(\.environment),
                isAppTransaction: appTransactions.contains(identity))
        }
    }

    /// Those of some identities that own purchases, or were granted or claimed something; `nil` among the environments is an
    /// event of none.
    static func owners(
        among identities: Set<IdentityRef>, in environments: [StoreEnvironment?],
        on connection: isolated PostgresConnection
    ) throws -> Set<IdentityRef> {
        try named(
            identities, in: environments,
            """
            name.kind = \(NameKind.owner.rawValue) OR name.kind = \(NameKind.ownership.rawValue) AND EXISTS (
                SELECT FROM event WHERE event.ledger_id = $1 AND event.position = name.position
                    AND event.type <> 'linked')
            """, on: connection)
    }

    /// Those of some identities that a link in force leads from, or to: one that was undone names nobody any more.
    static func linked(
        among identities: Set<IdentityRef>, on connection: isolated PostgresConnection
    ) throws -> Set<IdentityRef> {
        // Nearly none has any, and each of these takes several statements.
        try named(
            identities, in: [nil] + StoreEnvironment.allCases, "name.kind = \(NameKind.ownership.rawValue)",
            on: connection
        )
        .filter { try PersonLinks(of: $0, on: connection).isLinked }
    }

    private static func named(
        _ identities: Set<IdentityRef>, in environments: [StoreEnvironment?], _ condition: String,
        on connection: isolated PostgresConnection
    ) throws -> Set<IdentityRef> {
        guard !identities.isEmpty else { return [] }
        let rows = try connection.query(
            """
            SELECT key.number FROM unnest($2::bigint[]) AS key (number)
            WHERE EXISTS (
                SELECT FROM event_name AS name
                WHERE name.ledger_id = $1 AND name.identity = key.number AND name.environment = ANY ($3)
                    AND (\(condition)))
            """,
            [
                .int(ledgerID), .intArray(identities.map(\.number).sorted()),
                .int2Array(environments.map { StoreEnvironment.nameNumber($0) }),
            ]
        ).rows
        return Set(try rows.map { IdentityRef(try $0.int(0)) })
    }
}
