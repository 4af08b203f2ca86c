package import EntitlementCore
import PostgresClient

/// What a catalog would change for all customers, or for some of them.
package struct CatalogTrial: Sendable {
    /// The customers of whom an effect is alike.
    package struct Group: Hashable, Comparable, Sendable {
        package let environment: StoreEnvironment
        package let entitlementID: String
        package let kind: CatalogEffectKind

        package static func < (left: Group, right: Group) -> Bool {
            (left.environment.number, left.entitlementID, left.kind.rawValue)
                < (right.environment.number, right.entitlementID, right.kind.rawValue)
        }
    }

    package struct Example: Sendable {
        package let customerID: String
        package let effect: CatalogEffect
    }

    /// The most customers that are named of a group.
    package static let exampleLimit = 10

    /// Up to where the log is believed.
    package let position: Int64
    /// The catalog in force there, and where it was written.
    package let present: Catalog
    package let catalogPosition: Int64
    /// How many customers of whom something is known were looked at.
    package fileprivate(set) var customers: [StoreEnvironment: Int64] = [:]
    package fileprivate(set) var counts: [Group: Int64] = [:]
    /// The first of each group.
    package fileprivate(set) var examples: [Group: [Example]] = [:]
    /// The last one who was looked at; `nil`: everybody was.
    package fileprivate(set) var reached: Int64?
}

extension LedgerReader {
    /// How many identities are looked at together.
    private static let triedTogether = 32

    /// Tries a catalog on everybody, and records nothing.
    ///
    /// Customers are looked at one after the other, in the order in which the ledger came to know them; what was known of
    /// each is folded from the log, and forgotten before the next.
    ///
    /// - Parameters:
    ///   - instant: at which answers are compared.
    ///   - after: begins after this identity: `reached` of what was tried before.
    ///   - end: at which it stops, once it has looked at some.
    package func tryCatalog(
        _ proposed: Catalog, at instant: Timestamp, knownAt: KnownAt, after: Int64, until end: ContinuousClock.Instant
    ) async throws -> CatalogTrial {
        let (present, catalogPosition, position) = try await catalog(knownAt: knownAt)
        var trial = CatalogTrial(position: position, present: present, catalogPosition: catalogPosition)
        var last = after
        repeat {
            try Task.checkCancellation()
            let (begin, before) = (last, trial)
            let step = try await read { connection in
                var trial = before
                let last = try Self.tryNext(proposed, at: instant, after: begin, &trial, on: connection)
                return (trial: trial, last: last)
            }
            trial = step.trial
            guard let reached = step.last else { return trial }
            last = reached
        } while .now < end
        trial.reached = last
        return trial
    }

    /// Looks at the next few; returns the last of them, `nil` where there is nobody after these.
    private static func tryNext(
        _ proposed: Catalog, at instant: Timestamp, after: Int64, _ trial: inout CatalogTrial,
        on connection: isolated PostgresConnection
    ) throws -> Int64? {
        let rows = try connection.query(
            "SELECT identity, value FROM identity WHERE ledger_id = $1 AND identity > $2 ORDER BY identity LIMIT $3",
            [.int(ledgerID), .int(after), .int(Int64(triedTogether))]
        ).rows
        let identities = try rows.map { (number: IdentityRef(try $0.int(0)), customerID: try $0.text(1)) }
        let keys = identities.flatMap { identity in
            StoreEnvironment.allCases.map { LinkedCustomerKey(identity: identity.number, environment: $0) }
        }
        var histories = LinkedCustomerHistories()
        try histories.read(Set(keys), on: connection)
        // By the least of each customer's names.
        var folded: [LinkedCustomerKey: LinkedFacts] = [:]
        for (identity, customerID) in identities {
            for environment in StoreEnvironment.allCases {
                guard let history = histories[LinkedCustomerKey(identity: identity, environment: environment)] else {
                    continue
                }
                let first = LinkedCustomerKey(identity: history.names.min() ?? identity, environment: environment)
                var linked = folded[first] ?? history.facts(knownAt: trial.position)
                var facts = linked.facts(of: identity).facts
                folded[first] = linked
                // An alias is left out: its customer is looked at under that customer's own id.
                guard facts.customer == identity else { continue }
                facts = facts.ofCustomerAlone()
                guard !facts.originals.isEmpty || !facts.grants.isEmpty else { continue }
                facts.catalog = trial.present
                trial.customers[environment, default: 0] += 1
                for effect in facts.effects(of: proposed, at: instant) {
                    let group = CatalogTrial.Group(
                        environment: environment, entitlementID: effect.entitlementID, kind: effect.kind)
                    trial.counts[group, default: 0] += 1
                    if trial.examples[group, default: []].count < CatalogTrial.exampleLimit {
                        trial.examples[group, default: []].append(
                            CatalogTrial.Example(customerID: customerID, effect: effect))
                    }
                }
            }
        }
        return rows.count < triedTogether ? nil : identities.last?.number.number
    }
}
