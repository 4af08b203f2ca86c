import EntitlementCore
import PostgresClient

/// Tells that events were recorded.
enum RecordedEvents {
    /// What endpoints hear of the events after a position, up to and with another one.
    static func messages(
        from start: Int64, to end: Int64, on connection: isolated PostgresConnection
    ) throws -> [OutboxMessage] {
        let names = try StoredEndpoint.apps(wanting: [.eventRecorded, .ownershipConflict], on: connection)
        guard !names.isEmpty else { return [] }
        let events = try connection.query(
            """
            SELECT \(EventColumns.list) FROM event WHERE ledger_id = $1 AND position > $2 AND position <= $3
            ORDER BY position
            """, [.int(ledgerID), .int(start), .int(end)]
        ).rows.map { try DecodedEvent(EventRecord($0)) }.map {
            ShownEvent(record: $0.record, fact: $0.fact, customerID: nil)
        }
        let lines = try MessageLines(of: events, on: connection)
        return try names.sorted().flatMap { name in
            let scope = LogScope(environment: nil, app: name.isEmpty ? nil : AppScope(name))
            return try scope.shown(events, on: connection).flatMap { event in
                messages(of: event, for: name, lines)
            }
        }
    }

    private static func messages(of event: ShownEvent, for app: String, _ lines: MessageLines) -> [OutboxMessage] {
        let record = event.record
        func message(_ content: OutboxMessage.Content, _ identity: IdentityRef?) -> OutboxMessage {
            OutboxMessage(
                content: content, app: app, environment: record.environment,
                identity: identity.map { lines.customer(of: $0, at: record.position) } ?? EventName.nobody,
                position: record.position, at: record.recordedAt)
        }
        let isAccess = if case .access = event.fact { true } else { false }
        let recorded = message(.event(isAccess: isAccess), record.identity)
        if let claimant = event.claimant { return [recorded, message(.conflict, claimant)] }
        return [recorded]
    }
}

/// Whose messages tell of events: the customer's to whom links led, at each event, from the name that it bears.
///
/// What the event changes is told of that customer, too, and messages of one customer come in order.
private struct MessageLines {
    private struct Name: Hashable {
        let identity: IdentityRef
        let position: Int64
    }

    private var customers: [Name: IdentityRef] = [:]

    /// - Parameter events: in the order of their positions.
    init(of events: [ShownEvent], on connection: isolated PostgresConnection) throws {
        for environment in StoreEnvironment.allCases {
            let events = events.filter { $0.record.environment == environment && !$0.named.isEmpty }
            guard let last = events.last else { continue }
            let statement = OwnershipQuery.links(
                connectedWith: Set(events.flatMap(\.named)).sorted(), environment, upTo: last.record.position)
            let links = try OwnershipQuery.events(from: connection.query(statement.sql, statement.parameters))
            guard !links.isEmpty else { continue }
            var left = links.sorted { $0.position < $1.position }[...]
            var map = OwnershipMap()
            for event in events {
                let position = event.record.position
                while let link = left.first, link.position <= position {
                    map.apply(link.fact, position: link.position, recordedAt: link.recordedAt)
                    left.removeFirst()
                }
                for identity in event.named {
                    customers[Name(identity: identity, position: position)] = map.customer(of: identity)
                }
            }
        }
    }

    func customer(of identity: IdentityRef, at position: Int64) -> IdentityRef {
        customers[Name(identity: identity, position: position)] ?? identity
    }
}

extension ShownEvent {
    /// Who claims somebody else's purchase.
    fileprivate var claimant: IdentityRef? {
        if case .conflict(let fact) = fact { fact.claimant } else { nil }
    }

    /// Whom its messages name.
    fileprivate var named: [IdentityRef] { [record.identity, claimant].compactMap(\.self) }
}
