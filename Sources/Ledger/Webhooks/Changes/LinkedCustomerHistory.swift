import EntitlementCore
import PostgresClient

/// One of a customer's names in an environment.
struct LinkedCustomerKey: Hashable, Comparable, Sendable {
    let identity: IdentityRef
    let environment: StoreEnvironment

    static func < (left: LinkedCustomerKey, right: LinkedCustomerKey) -> Bool {
        (left.identity, left.environment.number) < (right.identity, right.environment.number)
    }
}

/// All that was ever known in one environment of a customer and of everybody whom any link connects with them.
///
/// It is the same for each of these identities, because links are followed in both directions.
struct LinkedCustomerHistory: Sendable {
    let environment: StoreEnvironment
    /// Everybody whom links, ever made, connect with the customer.
    let names: Set<IdentityRef>
    /// In the order of their positions; the catalogs are not among them.
    let events: [HistoryEvent]

    init(_ past: CustomerPast, of key: LinkedCustomerKey) throws {
        environment = key.environment
        events = try past.history()
        names =
            CustomerHistory(
                of: key.identity, environment: key.environment, position: past.mark.position, events: events
            ).identities
    }

    /// The first event after a position.
    func firstEvent(after position: Int64) -> HistoryEvent? { events.first { $0.position > position } }

    /// Where the last event is at or before a position, from which on nothing more was known then; 0 where there is none.
    func lastPosition(at position: Int64) -> Int64 {
        var (low, high) = (0, events.count)
        while low < high {
            let middle = (low + high) / 2
            if events[middle].position <= position { low = middle + 1 } else { high = middle }
        }
        return low == 0 ? 0 : events[low - 1].position
    }

    /// What was known of the names at a position, but for the catalog.
    ///
    /// - Parameter app: leaves out what is not about this app.
    func facts(knownAt position: Int64, app: AppScope? = nil) -> LinkedFacts {
        LinkedFacts(environment: environment, position: position, events: events, app: app)
    }
}

/// Histories as they were read.
struct LinkedCustomerHistories {
    /// The most names of one statement.
    private static let namesPerStatement = 64

    private var histories: [LinkedCustomerKey: LinkedCustomerHistory] = [:]

    subscript(_ key: LinkedCustomerKey) -> LinkedCustomerHistory? { histories[key] }

    /// Reads the histories of some names; each that links connect with one read before is there already.
    mutating func read(_ keys: Set<LinkedCustomerKey>, on connection: isolated PostgresConnection) throws {
        var left = keys.filter { histories[$0] == nil }.sorted()
        while !left.isEmpty {
            let part = Array(left.prefix(Self.namesPerStatement))
            for (key, past) in zip(part, try Self.pasts(of: part, on: connection)) where histories[key] == nil {
                guard let past else { continue }
                let history = try LinkedCustomerHistory(past, of: key)
                for name in history.names {
                    histories[LinkedCustomerKey(identity: name, environment: key.environment)] = history
                }
            }
            left = left.dropFirst(part.count).filter { histories[$0] == nil }
        }
    }

    /// Together where they are few, else one by one; `nil` for whom more is known of than an answer may rest on, who is not
    /// answered either.
    private static func pasts(
        of keys: [LinkedCustomerKey], on connection: isolated PostgresConnection
    ) throws -> [CustomerPast?] {
        do {
            return try LedgerReader.pasts(of: keys.map { ($0.identity, $0.environment) }, on: connection)
        } catch let error as LedgerError where error.code == .tooMuch {
            guard keys.count > 1 else { return [nil] }
            return try keys.flatMap { try pasts(of: [$0], on: connection) }
        }
    }
}
