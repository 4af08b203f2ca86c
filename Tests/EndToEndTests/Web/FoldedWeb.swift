import AppStorePayloads
import EntitlementCore
import Foundation
import OpenSSLCrypto
import StoreSimulator
import StripePayloads
import Testing

/// The facts of events and readings, joined in memory, as a ledger joins them.
struct FoldedWeb {
    let catalog: Catalog
    private(set) var identities = IdentityList()
    private(set) var states: [SimulatedOriginalKey: OriginalState] = [:]
    /// How often the API was asked.
    private(set) var asked = 0
    private var position: Int64 = 0
    /// What was told, each by itself, in the order of the positions.
    private(set) var events: [HistoryEvent] = []
    /// What was stated under each event's id: one event states one thing.
    private(set) var hashes: [String: Set<Digest>] = [:]

    init(catalog: Catalog) { self.catalog = catalog }

    /// Takes in a webhook's body, and looks up what it calls for.
    ///
    /// - Parameters:
    ///   - library: the API, as it answers when the event arrives; nil where it cannot be asked.
    ///   - soon: whether what may wait is looked up, too.
    mutating func receive(
        _ body: [UInt8], _ library: StripeLibrary?, at instant: Int64, soon: Bool = false
    ) throws {
        let event = try StripeEvent(parsing: body, sha256: sha256)
        if !event.isThin { hashes[event.eventID, default: []].insert(event.fact.payloadHash) }
        join(event.fact, event.identities, event.environment)
        guard let library else { return }
        let now = event.followUps.filter { $0.urgency == .now }.map(\.lookup)
        if !now.isEmpty { try read(body, now, library, event.environment, at: instant) }
        for followUp in event.followUps where soon && followUp.urgency == .soon {
            try read(nil, [followUp.lookup], library, event.environment, at: instant)
        }
    }

    /// Reads something from the API, and what it calls for.
    ///
    /// - Parameter subject: what it is about: an event's body, or an object out of a list.
    mutating func read(
        _ subject: [UInt8]?, _ lookups: [StripeLookup], _ library: StripeLibrary,
        _ environment: StoreEnvironment, at instant: Int64
    ) throws {
        var reading = StripeReading(environment: environment, readAt: Timestamp(milliseconds: instant))
        if let subject { try reading.add(subject: subject) }
        for lookup in lookups { try ask(lookup, &reading, library) }
        // A reading has a limit of its own, and says so.
        while let lookup = reading.next { try ask(lookup, &reading, library) }
        let (fact, identities) = try reading.fact(sha256: sha256)
        let again = try StripeReading(evidence: reading.evidence).fact(sha256: sha256)
        try #require(again.0 == fact && again.1 == identities, "its evidence tells something else")
        join(fact, identities, environment)
    }

    private mutating func ask(
        _ lookup: StripeLookup, _ reading: inout StripeReading, _ library: StripeLibrary
    ) throws {
        asked += 1
        let answer = library.get(lookup)
        switch answer.status {
        case 200: try reading.add(answer: answer.document.json, to: lookup)
        case 404: try reading.addMissing(lookup)
        default: Issue.record("\(lookup.path) was answered \(answer.status): \(answer.document)")
        }
    }

    private mutating func note(_ fact: LedgerFact, _ environment: StoreEnvironment) {
        events.append(
            HistoryEvent(
                position: position, recordedAt: Timestamp(milliseconds: position), environment: environment,
                source: "told", statementSource: .notification, type: "told", occurredAt: nil, fact: fact))
    }

    private mutating func join(
        _ fact: WebFact, _ named: IdentityList, _ environment: StoreEnvironment
    ) {
        position += 1
        guard let original = fact.originalTransactionID else { return }
        var fact = fact
        fact.owners = fact.owners.map { owner in
            let id = named.customerIDs[Int(owner.customer.number)]
            return WebOwner(place: owner.place, customer: identities.reference(customerID: id))
        }
        let key = SimulatedOriginalKey(environment == .production ? .production : .sandbox, original)
        states[key, default: OriginalState()].join(
            .web(fact), originalTransactionID: original, source: .notification, position: position)
        note(.web(fact), environment)
    }

    /// Takes in a notification of the App Store.
    mutating func receive(_ notification: StoreNotification) throws {
        position += 1
        let payload = try NotificationPayload(JSONObject(parsing: PayloadValue.object(notification.payload).encoded()))
        var stated = NotificationFact(
            type: "told", subtype: nil, uuid: notification.uuid, signedDate: payload.signedDate, payloadHash: .zero,
            bundleID: "", transaction: nil, renewal: nil, remarks: [])
        if let object = notification.transaction {
            let bytes = try PayloadValue.object(object).encoded()
            let fact = try TransactionPayload(parsing: bytes).fact(
                payloadHash: sha256(bytes), fallbackSignedDate: payload.signedDate, identities: &identities)
            stated.transaction = fact
            states[SimulatedOriginalKey(notification.environment, fact.originalTransactionID), default: OriginalState()]
                .join(fact, source: .notification, position: position)
        }
        if let object = notification.renewal {
            let bytes = try PayloadValue.object(object).encoded()
            let fact = try RenewalPayload(parsing: bytes).fact(
                payloadHash: sha256(bytes), fallbackSignedDate: payload.signedDate,
                isGraceNotification: payload.isGraceNotification)
            stated.renewal = fact
            states[SimulatedOriginalKey(notification.environment, fact.originalTransactionID), default: OriginalState()]
                .join(fact, source: .notification, position: position)
        }
        note(.notification(stated), notification.environment == .sandbox ? .sandbox : .production)
    }

    /// The number of a customer id.
    mutating func reference(_ customerID: String) -> IdentityRef { identities.reference(customerID: customerID) }

    mutating func facts(of customer: CustomerKey) -> CustomerFacts {
        let mine = states.filter { $0.key.environment == customer.environment }
        return CustomerFacts(
            customer: identities.reference(customerID: customer.customerID),
            originals: Dictionary(uniqueKeysWithValues: mine.map { ($0.key.originalTransactionID, $0.value) }),
            catalog: catalog)
    }

    /// Who is named beside the owner of each purchase.
    var rivals: [SimulatedOriginalKey: Set<String>] {
        states.compactMapValues { state in
            state.web.map { web in Set(web.contradictingOwners.map { identities.customerIDs[Int($0.number)] }) }
        }
    }

    private func sha256(_ bytes: [UInt8]) -> Digest { Digest(SHA256.hash(bytes)) ?? .zero }
}

extension StripeLibrary {
    /// Answers a look-up, whose path is a whole request.
    func get(_ lookup: StripeLookup) -> Answer {
        let parts = lookup.path.split(separator: "?", maxSplits: 1)
        let path = parts[0].split(separator: "/").dropFirst().map { $0.removingPercentEncoding ?? "" }
        let query = (parts.count > 1 ? parts[1] : "").split(separator: "&").map { pair in
            let words = pair.split(separator: "=", maxSplits: 1)
            return (
                name: words[0].removingPercentEncoding ?? "",
                value: words.count > 1 ? words[1].removingPercentEncoding ?? "" : ""
            )
        }
        return get(path, query)
    }
}

extension WebLife {
    /// The API as it answers at an instant.
    func library(at instant: Int64, _ shape: StripeShape = .recent, pageLimit: Int = 100) -> StripeLibrary {
        StripeLibrary(books, isLive: environment == .production, now: instant, shape: shape, pageLimit: pageLimit)
    }
}
