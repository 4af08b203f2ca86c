package import EntitlementCore
import PostgresClient

extension LedgerReader {
    /// The most events one page holds.
    package static let pageLimit = 1000

    /// How many positions one page looks through for events of one environment.
    package static let scanLimit: Int64 = 20_000

    /// How many events one page decodes to find those of one app.
    package static let appScanLimit = 4 * pageLimit

    /// The log after a position, in order.
    ///
    /// - Parameter scope: unless it is the whole log, a page may hold fewer events than there are, or none, and still say
    ///   that there is more.
    package func events(after: Int64, limit: Int, only scope: LogScope = .whole) async throws -> EventPage {
        guard !scope.isWhole else {
            return try await page(
                """
                SELECT \(EventColumns.list) FROM event WHERE ledger_id = $1 AND position > $2
                ORDER BY position LIMIT $3
                """, [.int(ledgerID), .int(after)], after: after, limit: limit)
        }
        let limit = min(max(limit, 1), Self.pageLimit)
        let head = try await status().position
        let end = after < head ? min(head, after + Self.scanLimit) : after
        // Which app an event is about stands in its facts, so more is read than is shown.
        var read = scope.app == nil ? limit : min(4 * limit, Self.pageLimit)
        var events: [ShownEvent] = []
        var decoded = 0
        var last = after
        while events.count < limit, decoded < Self.appScanLimit {
            let page = try await page(
                """
                SELECT \(EventColumns.list) FROM event WHERE ledger_id = $1 AND position > $2 AND position <= $4
                    AND ($5::smallint IS NULL OR environment IS NULL OR environment = $5)
                ORDER BY position LIMIT $3
                """, [.int(ledgerID), .int(last)], after: last, limit: read,
                more: [.int(end), .int2(scope.environment?.number)])
            events += try await self.read { try scope.shown(page.events, on: $0) }
            decoded += page.events.count
            if events.count > limit {
                let events = Array(events.prefix(limit))
                return EventPage(events: events, hasMore: true, nextAfter: events.last?.record.position ?? after)
            }
            guard page.hasMore else { return EventPage(events: events, hasMore: end < head, nextAfter: end) }
            last = page.nextAfter
            read = min(2 * read, Self.pageLimit)
        }
        return EventPage(events: events, hasMore: true, nextAfter: last)
    }

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
        let (head, people, received, stated, ofWeb) = try await read { connection in
            // What comes after it may be of an original that is not found here.
            let head = try Statements.headPosition(on: connection)
            let people = try Self.people(of: customer, environment, on: connection)
            let rows = try connection.query(
                """
                SELECT name.original_transaction_id, bool_or(name.kind = \(NameKind.ownership.rawValue))
                FROM unnest($2::bigint[]) AS person (identity) \(Statements.search(
                    """
                    SELECT kind, original_transaction_id FROM event_name AS stored
                    WHERE stored.ledger_id = $1 AND stored.identity = person.identity AND stored.environment = $3
                        AND stored.kind IN (\(NameKind.list(.owner, .ownership))) AND stored.original_transaction_id <> ''
                    """, as: "name"))
                GROUP BY name.original_transaction_id
                """, [.int(ledgerID), .intArray(people.now.map(\.number)), .int2(environment.number)]
            ).rows.map { (original: try $0.text(0), isReceived: try $0.bool(1)) }
            let stated = rows.filter { !$0.isReceived }.map(\.original)
            // The App Store's ids are numbers.
            let isOfWeb = { (original: String) in original.contains("_") }
            let ofWeb = try Self.positions(
                ofWeb: stated.filter(isOfWeb), environment, naming: Set(people.now), on: connection)
            return (
                head, people, Set(rows.filter(\.isReceived).map(\.original)), stated.filter { !isOfWeb($0) }, ofWeb
            )
        }
        // Of an original that was never claimed or transferred, the events that name one of these people.
        let page = try await page(
            """
            SELECT \(EventColumns.list(of: "event")) FROM (
                SELECT found FROM (
                    SELECT name.position AS found FROM unnest($5::bigint[]) AS key (number) \(Statements.search(
                        """
                        SELECT position FROM event_name AS stored
                        WHERE stored.ledger_id = $1 AND stored.identity = key.number AND stored.environment IN (0, $4)
                            AND stored.kind IN (\(NameKind.list(.ownership, .report))) AND stored.position > $2
                        """, as: "name"))
                    UNION
                    SELECT link FROM unnest($8::bigint[]) AS link WHERE link > $2
                    UNION
                    SELECT event.position FROM unnest($6::text[]) AS key (original) \(Statements.search(
                        """
                        SELECT position FROM event
                        WHERE event.ledger_id = $1 AND event.environment = $4
                            AND event.original_transaction_id = key.original AND event.position > $2
                        """, as: "event"))
                    UNION
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
                OFFSET 0) AS bearing WHERE found <= $9 \(own == nil ? "" : "AND found = ANY ($10)")
                ORDER BY 1 LIMIT $3
            ) AS page
            \(Statements.search(
                "SELECT * FROM event WHERE event.ledger_id = $1 AND event.position = page.found", as: "event"))
            ORDER BY position
            """, [.int(ledgerID), .int(after)], after: after, limit: limit,
            more: [
                .int2(environment.number), .intArray(people.now.map(\.number)), .textArray(received.sorted()),
                .textArray(stated), .intArray(people.links + ofWeb), .int(head),
            ] + (own.map { [.intArray($0)] } ?? []))
        let bearing = page.events.filter { event in
            switch event.fact {
            case .notification, .statements:
                // One of them may be found by what only stands beside the owner, or in a row that bears the first owner alone.
                let subjects = event.fact.subjects
                return subjects.isEmpty || subjects.contains(where: people.now.contains)
                    || event.fact.originalTransactionID.map(received.contains) ?? false
            case .catalog, .link, .claim, .transfer, .transferUndo, .conflict, .grant, .grantRevocation, .drift,
                .forgetting, .access, .storeRequest, .web:
                return true
            }
        }
        return EventPage(
            events: bearing.map { $0.nameless(unlessOf: people.now) }, hasMore: page.hasMore, nextAfter: page.nextAfter)
    }

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

    /// All events about an original transaction, in the order of their positions.
    package func events(about key: OriginalKey, upTo position: Int64) async throws -> [HistoryEvent] {
        try await read { connection in
            let rows = try connection.query(
                """
                SELECT \(EventColumns.list) FROM event
                WHERE ledger_id = $1 AND environment = $2 AND original_transaction_id = $3 AND position <= $4
                ORDER BY position LIMIT $5
                """,
                [
                    .int(ledgerID), .int2(key.environment.number), .text(key.originalTransactionID), .int(position),
                    .int(Int64(Self.historyLimit)),
                ]
            ).rows
            return try rows.map { try DecodedEvent(EventRecord($0)).history }
        }
    }

    /// The positions of a customer's events that are about an app, or hold in every app; `nil` without an app.
    private func ownPositions(
        of customer: CustomerID, _ environment: StoreEnvironment, app: AppScope?
    ) async throws -> [Int64]? {
        guard let app else { return nil }
        let history = try await history(of: customer, environment: environment, app: app)
        return history.handedOut.map(\.position)
    }

    /// One event and its evidence, which is `nil` where none was given or it was erased; `nil` for no such position, and
    /// for one that is not within `scope`.
    package func event(
        at position: Int64, only scope: LogScope = .whole
    ) async throws -> (event: ShownEvent, evidence: [UInt8]?)? {
        try await read { connection in
            let row = try connection.query(
                "SELECT \(EventColumns.list) FROM event WHERE ledger_id = $1 AND position = $2",
                [.int(ledgerID), .int(position)]
            ).first
            guard let row else { return nil }
            let shown = try scope.shown(Self.shown([EventRecord(row)], on: connection), on: connection)
            guard !shown.isEmpty else { return nil }
            guard shown[0].record.evidenceHash != nil else { return (shown[0], nil) }
            let parts = try connection.query(
                "SELECT parts FROM evidence WHERE ledger_id = $1 AND position = $2", [.int(ledgerID), .int(position)]
            ).first?.bytes(0)
            guard let parts else { return (shown[0], nil) }
            return (shown[0], try StoredEvidence.received([(position, parts)], on: connection)[position])
        }
    }

    /// The headers of signed statements that came first most recently.
    ///
    /// Rows of this table are only added, so the order in which they lie is about that in which they came.
    package func latestHeaders(limit: Int) async throws -> [[UInt8]] {
        try await read { connection in
            try connection.query(
                "SELECT header FROM jws_header WHERE ledger_id = $1 ORDER BY ctid DESC LIMIT $2",
                [.int(ledgerID), .int(Int64(limit))]
            ).rows.map { try $0.bytes(0) }
        }
    }

    private func page(
        _ sql: String, _ parameters: [PostgresValue], after: Int64, limit: Int, more: [PostgresValue] = []
    ) async throws -> EventPage {
        let limit = min(max(limit, 1), Self.pageLimit)
        return try await read { connection in
            let rows = try connection.query(sql, parameters + [.int(Int64(limit + 1))] + more).rows
            let records = try rows.prefix(limit).map { try EventRecord($0) }
            return EventPage(
                events: try Self.shown(records, on: connection), hasMore: rows.count > limit,
                nextAfter: records.last?.position ?? after)
        }
    }

    /// Events with what they state, and whose they are.
    static func shown(
        _ records: [EventRecord], on connection: isolated PostgresConnection
    ) throws -> [ShownEvent] {
        let customers = try Statements.customerIDs(of: records.compactMap(\.identity), on: connection)
        return try records.map { record in
            ShownEvent(
                record: record, fact: try FactCodec.decode(record.facts),
                customerID: record.identity.flatMap { customers[$0] })
        }
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
