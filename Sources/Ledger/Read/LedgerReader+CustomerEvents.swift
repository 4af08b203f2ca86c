package import EntitlementCore
import PostgresClient

extension LedgerReader {
    /// The events about this customer, in order: those that name the customer or somebody linked to them, those of
    /// original transactions that were claimed by or transferred to one of them, and the transfers of those that
    /// statements say are theirs.
    ///
    /// Events that name nobody are among them where statements say that their original is the customer's and name
    /// nobody else; a claim in vain counts as no name there, nor does one in a place where Stripe is told of something
    /// else. Links count while they are in force. Of somebody who was linked once only the links are shown, and without
    /// a name; so are statements of others' purchases that this customer received.
    ///
    /// - Parameter app: leaves out what is not about this app.
    package func events(
        of customer: CustomerID, environment: StoreEnvironment, after: Int64, limit: Int, app: AppScope? = nil
    ) async throws -> EventPage {
        let own = try await ownPositions(of: customer, environment, app: app)
        let bearing = try await read { try Self.bearing(on: customer, environment, on: $0) }
        let page = try await page(
            Self.bearingPage(isOfApp: own != nil), [.int(ledgerID), .int(after)], after: after, limit: limit,
            more: [
                .int2(environment.number), .intArray(bearing.people.map(\.number)),
                .textArray(bearing.received.sorted()), .textArray(bearing.stated), .intArray(bearing.positions),
                .int(bearing.head),
            ] + (own.map { [.intArray($0)] } ?? []))
        return EventPage(
            events: page.events.filter(bearing.includes).map { $0.nameless(unlessOf: bearing.people) },
            hasMore: page.hasMore, nextAfter: page.nextAfter)
    }

    /// What the events about a customer are found by.
    private struct Bearing: Sendable {
        /// Where the log ended: what comes after it may be of an original that is not found here.
        let head: Int64
        /// Who is the customer, by the links in force.
        let people: [IdentityRef]
        /// The originals that were claimed by or transferred to one of them.
        let received: Set<String>
        /// Those of the App Store that were not, and of which statements name one of them.
        let stated: [String]
        /// Links, and what is of originals that were bought on the web.
        let positions: [Int64]

        /// One event may be found by what only stands beside the owner, or in a row that bears the first owner alone.
        func includes(_ event: ShownEvent) -> Bool {
            switch event.fact {
            case .notification, .statements:
                let subjects = event.fact.subjects
                return subjects.isEmpty || subjects.contains(where: people.contains)
                    || event.fact.originalTransactionID.map(received.contains) ?? false
            case .catalog, .link, .claim, .transfer, .transferUndo, .conflict, .grant, .grantRevocation, .drift,
                .forgetting, .access, .storeRequest, .web:
                return true
            }
        }
    }

    private static func bearing(
        on customer: CustomerID, _ environment: StoreEnvironment, on connection: isolated PostgresConnection
    ) throws -> Bearing {
        let head = try Statements.headPosition(on: connection)
        let people = try people(of: customer, environment, on: connection)
        let originals = try originals(naming: people.now, environment, on: connection)
        let stated = originals.filter { !$0.isReceived }.map(\.id)
        // The App Store's ids are numbers.
        let isOfWeb = { (original: String) in original.contains("_") }
        let ofWeb = try positions(
            ofWeb: stated.filter(isOfWeb), environment, naming: Set(people.now), on: connection)
        return Bearing(
            head: head, people: people.now, received: Set(originals.filter(\.isReceived).map(\.id)),
            stated: stated.filter { !isOfWeb($0) }, positions: people.links + ofWeb)
    }

    /// The originals of which statements name one of some people as the owner, or that were claimed by or transferred to one.
    private static func originals(
        naming people: [IdentityRef], _ environment: StoreEnvironment, on connection: isolated PostgresConnection
    ) throws -> [(id: String, isReceived: Bool)] {
        try connection.query(
            """
            SELECT name.original_transaction_id, bool_or(name.kind = \(NameKind.ownership.rawValue))
            FROM unnest($2::bigint[]) AS person (identity) \(Statements.search(
                """
                SELECT kind, original_transaction_id FROM event_name AS stored
                WHERE stored.ledger_id = $1 AND stored.identity = person.identity AND stored.environment = $3
                    AND stored.kind IN (\(NameKind.list(.owner, .ownership))) AND stored.original_transaction_id <> ''
                """, as: "name"))
            GROUP BY name.original_transaction_id
            """, [.int(ledgerID), .intArray(people.map(\.number)), .int2(environment.number)]
        ).rows.map { (id: try $0.text(0), isReceived: try $0.bool(1)) }
    }

    /// A page of the events that bear on a customer.
    ///
    /// `$2` is the position after which it begins, `$3` how many events it holds, `$4` the environment; `$5` to `$9` are what
    /// ``Bearing`` says, in this order: people, received, stated, positions, head. `$10` are the positions of an app's.
    private static func bearingPage(isOfApp: Bool) -> String {
        """
        SELECT \(EventColumns.list(of: "event")) FROM (
            SELECT found FROM (
                \([naming, "SELECT known FROM unnest($8::bigint[]) AS known WHERE known > $2", ofReceived, ofStated]
                    .joined(separator: " UNION "))
            OFFSET 0) AS bearing (found) WHERE found <= $9 \(isOfApp ? "AND found = ANY ($10)" : "")
            ORDER BY 1 LIMIT $3
        ) AS page
        \(Statements.search(
            "SELECT * FROM event WHERE event.ledger_id = $1 AND event.position = page.found", as: "event"))
        ORDER BY position
        """
    }

    /// What names one of the people as who does or receives something.
    private static let naming = """
        SELECT name.position FROM unnest($5::bigint[]) AS key (number) \(Statements.search(
            """
            SELECT position FROM event_name AS stored
            WHERE stored.ledger_id = $1 AND stored.identity = key.number AND stored.environment IN (0, $4)
                AND stored.kind IN (\(NameKind.list(.ownership, .report))) AND stored.position > $2
            """, as: "name"))
        """

    /// All events of the originals that one of them received.
    private static let ofReceived = """
        SELECT event.position FROM unnest($6::text[]) AS key (original) \(Statements.search(
            """
            SELECT position FROM event
            WHERE event.ledger_id = $1 AND event.environment = $4
                AND event.original_transaction_id = key.original AND event.position > $2
            """, as: "event"))
        """

    /// Of an original that was never claimed or transferred, the events that name one of these people, and those that name
    /// nobody where nobody else is named.
    private static let ofStated = """
        SELECT event.position FROM unnest($7::text[]) AS key (original) \(Statements.search(
            """
            SELECT NOT EXISTS (
                SELECT FROM event AS other
                WHERE other.ledger_id = $1 AND other.environment = $4
                    AND other.original_transaction_id = key.original AND other.identity <> ALL ($5)
                    AND other.type <> 'ownership_conflict'
            ) AS is_theirs_alone
            """, as: "life")) \(Statements.search(
            """
            SELECT position FROM event
            WHERE event.ledger_id = $1 AND event.environment = $4
                AND event.original_transaction_id = key.original AND event.position > $2
                AND (event.identity = ANY ($5) OR event.type IN ('transferred', 'transfer_undone')
                    OR event.identity IS NULL AND life.is_theirs_alone)
            """, as: "event"))
        """

    /// Which events of originals that were bought on the web name some people or change whose they are, and which name nobody
    /// where these people own it.
    ///
    /// An event's row bears the first owner that Stripe names alone, so the facts are looked at.
    private static func positions(
        ofWeb originals: [String], _ environment: StoreEnvironment, naming people: Set<IdentityRef>,
        on connection: isolated PostgresConnection
    ) throws -> [Int64] {
        guard !originals.isEmpty else { return [] }
        let rows = try connection.query(
            """
            SELECT key.original, event.position, event.facts FROM unnest($2::text[]) AS key (original)
            \(Statements.search(
                """
                SELECT position, facts FROM event WHERE event.ledger_id = $1 AND event.environment = $3
                    AND event.original_transaction_id = key.original
                """, as: "event"))
            """, [.int(ledgerID), .textArray(originals), .int2(environment.number)]
        ).rows.map { (original: try $0.text(0), position: try $0.int(1), fact: try FactCodec.decode($0.bytes(2))) }
        return Dictionary(grouping: rows, by: \.original).flatMap { original, events in
            let isTheirs = WebOriginal.isSold(
                original, to: people, by: events.map { (position: $0.position, fact: $0.fact) })
            return events.filter { event in
                switch event.fact {
                case .transfer, .transferUndo: true
                case .notification, .statements, .catalog, .link, .claim, .conflict, .grant, .grantRevocation, .drift,
                    .forgetting, .access, .storeRequest, .web:
                    event.fact.identities.contains(where: people.contains)
                        || event.fact.identities.isEmpty && isTheirs
                }
            }.map(\.position)
        }.sorted()
    }

    /// Who is a customer by the links in force, and the positions of all links that were ever made between them and others.
    private static func people(
        of customer: CustomerID, _ environment: StoreEnvironment, on connection: isolated PostgresConnection
    ) throws -> (now: [IdentityRef], links: [Int64]) {
        let asked = Statements.identity(of: customer.value)
        guard let row = try connection.query(asked.sql, asked.parameters).first else { return ([], []) }
        let identity = IdentityRef(try row.int(0))
        let query = OwnershipQuery.events(connectedWith: [identity], environment, upTo: .max)
        let found = try OwnershipQuery.events(from: connection.query(query.sql, query.parameters))
        let links = found.filter { if case .link = $0.fact { true } else { false } }
        let map = OwnershipMap(links)
        let connected = Set(links.flatMap(\.fact.identities)).union([identity])
        let whose = map.customer(of: identity)
        return (connected.filter { map.customer(of: $0) == whose }.sorted(), links.map(\.position).sorted())
    }

    /// The positions of a customer's events that are about an app, or hold in every app; `nil` without an app.
    private func ownPositions(
        of customer: CustomerID, _ environment: StoreEnvironment, app: AppScope?
    ) async throws -> [Int64]? {
        guard let app else { return nil }
        let history = try await history(of: customer, environment: environment, app: app)
        return history.handedOut.map(\.position)
    }
}

extension ShownEvent {
    /// A link of somebody who is none of these, or what states their purchase, tells by a number alone who that is.
    fileprivate func nameless(unlessOf people: [IdentityRef]) -> ShownEvent {
        let named: IdentityRef? =
            switch fact {
            case .link(let link): link.identity
            // Whom the row bears may be another than whom of these the facts name.
            case .notification, .statements, .web: record.identity
            case .catalog, .claim, .transfer, .transferUndo, .conflict, .grant, .grantRevocation, .drift, .forgetting,
                .access, .storeRequest:
                nil
            }
        guard let named, !people.contains(named) else { return self }
        return ShownEvent(record: record, fact: fact, customerID: nil)
    }
}
