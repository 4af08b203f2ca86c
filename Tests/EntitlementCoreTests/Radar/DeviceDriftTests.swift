import Testing

@testable import EntitlementCore

/// What a device's claim is called, by each rule: a table of what is known when it is found, and of what comes after.
@Suite("Classes of differences between device and ledger")
struct DeviceDriftTests {
    /// A difference that was found on day 40, unless a row says otherwise.
    private struct Row {
        let name: String
        let claim: (state: EntitlementState, until: Double?)
        var found = 40.0
        var known: [Entry] = []
        var elsewhere: [Entry] = []
        var disputed: [DeviceDrift.Disputed] = []
        let cause: DriftCause
    }

    private static let paid = Entry.statement(subscription("1", from: 0, to: 30))
    private static let renewed = Entry.statement(subscription("2", from: 30, to: 60, .renewal))
    private static let refunded = Entry.statement(subscription("2", from: 30, to: 60, signed: 35, revoked: 35))
    private static let brought = told(subscription("2", from: 30, to: 60, signed: 38), by: .device)

    private static func report(
        _ state: EntitlementState, _ actual: EntitlementState?, _ until: Double? = nil, actualUntil: Double? = nil,
        of customer: IdentityRef = alice, product: String = "pro", app: String = "com.example"
    ) -> LedgerFact {
        .drift(
            DriftFact(
                customer: customer, bundleID: app, productID: product, claimed: state,
                claimedUntil: until.map { day($0) },
                actual: actual, actualUntil: actualUntil.map { day($0) }))
    }

    private static func drift(
        _ claim: (state: EntitlementState, until: Double?), found: Double, _ known: [Entry], _ elsewhere: [Entry] = [],
        _ disputed: [DeviceDrift.Disputed] = []
    ) -> DeviceDrift {
        var other: [HistoryEvent] = []
        for event in CustomerHistory(of: alice, elsewhere).events {
            other.append(
                HistoryEvent(
                    position: event.position, recordedAt: event.recordedAt,
                    environment: event.environment.map { _ in .sandbox }, source: event.source,
                    statementSource: event.statementSource, type: event.type, occurredAt: event.occurredAt,
                    fact: event.fact))
        }
        return DeviceDrift(
            DeviceClaim(productID: "pro", state: claim.state, until: claim.until.map { day($0) }), at: day(found),
            history: CustomerHistory(of: alice, known),
            elsewhere: CustomerHistory(of: alice, environment: .sandbox, position: .max, events: other),
            disputed: disputed)
    }

    private static let rows: [Row] = [
        Row(name: "nothing is known", claim: (.active, 60), cause: .none),
        Row(
            name: "a refund the device has not heard of", claim: (.active, 60), known: [paid, renewed, refunded],
            cause: .trueBefore),
        Row(
            name: "a newer statement that a device brought, which knows nothing of the refund", claim: (.active, 60),
            known: [paid, renewed, refunded, brought], cause: .disputed),
        Row(
            name: "the same, and the device reads the refund's purchase as over", claim: (.expired, nil),
            known: [paid, renewed, refunded, brought], cause: .notHeardOf),
        Row(
            name: "a renewal the device has not heard of", claim: (.active, 30), known: [paid, renewed],
            cause: .trueBefore),
        Row(
            name: "both at once, and in the wrong order", claim: (.active, 60), known: [refunded, paid, renewed],
            cause: .trueBefore),
        Row(name: "it lapsed", claim: (.active, nil), known: [paid], cause: .trueBefore),
        Row(
            name: "an upgrade the device has not heard of", claim: (.active, 30), found: 20,
            known: [
                paid, .statement(subscription("1", from: 0, to: 30, signed: 10, upgraded: true)),
                .statement(subscription("3", "max", from: 10, to: 40, signed: 10)),
            ], cause: .trueBefore),
        Row(
            name: "a purchase the device knows nothing of", claim: (.expired, nil), known: [paid, renewed],
            cause: .notHeardOf),
        Row(name: "an end that never was", claim: (.active, 77), known: [paid, renewed], cause: .none),
        Row(name: "a refund nobody knows of", claim: (.revoked, nil), known: [paid, renewed], cause: .none),
        Row(
            name: "a grace period nobody knows of", claim: (.inGracePeriod, 46), known: [paid], cause: .none),
        Row(
            name: "transferred away", claim: (.active, 60),
            known: [paid, renewed, .fact(transfer(to: bob), recorded: 35)], cause: .heldByAnother),
        Row(
            name: "a conflict", claim: (.active, 60),
            known: [.fact(.conflict(ConflictFact(originalTransactionID: "2000", claimant: alice)), recorded: 39)],
            disputed: [.init(originalTransactionID: "2000", bundleID: "com.example", products: ["pro"])],
            cause: .inConflict),
        Row(
            name: "a conflict about another product", claim: (.active, 60),
            disputed: [.init(originalTransactionID: "2000", bundleID: "com.example", products: ["max"])], cause: .none),
        Row(
            name: "held in the other environment", claim: (.active, 60), elsewhere: [paid, renewed],
            cause: .heldElsewhere),
        Row(
            name: "held there until another day", claim: (.active, 61), elsewhere: [paid, renewed],
            cause: .heldElsewhere),
        Row(
            name: "held there until another day, and once here", claim: (.active, 61), known: [paid],
            elsewhere: [paid, renewed], cause: .none),
        Row(
            name: "held there now, and lapsed here", claim: (.active, 60), known: [paid], elsewhere: [paid, renewed],
            cause: .heldElsewhere),
    ]

    @Test("a purchase of the other environment is named only where that is the cause")
    func subject() {
        let here = Self.drift((.active, 60), found: 40, [Self.paid], [Self.paid, Self.renewed])
        let there = Self.drift((.active, 60), found: 40, [], [Self.paid, Self.renewed])
        #expect(here.subject(of: .none) != nil && here.subject(of: .heldElsewhere) != nil)
        #expect(there.subject(of: .none) == nil && there.subject(of: .heldElsewhere) != nil)
    }

    @Test("what is said when a difference is found")
    func found() {
        for row in Self.rows {
            let drift = Self.drift(row.claim, found: row.found, row.known, row.elsewhere, row.disputed)
            #expect(drift.verdictWhenFound() == .open(row.cause), "\(row.name)")
        }
    }

    @Test("every class and every rule is given by some row here, or by what comes after")
    func complete() {
        let open = Set(Self.rows.map(\.cause))
        let ended = Set(Self.endings.map(\.cause))
        let rest: Set<DriftCause> = [
            .foundInHistory, .foundWhenAsked, .deliveredAfterAsking, .tooMuchKnown, .confirmedByStore,
        ]
        #expect(open.union(ended).union(rest) == Set(DriftCause.allCases))
        #expect(Set(DriftCause.allCases.map(\.driftClass)) == Set(DriftClass.allCases))
        #expect(Set(DriftCause.allCases.map(\.sentence)).count == DriftCause.allCases.count)
    }

    /// What comes after a difference that was found with `known`, and what is said then.
    private struct Ending {
        let name: String
        let claim: (state: EntitlementState, until: Double?)
        var known: [Entry] = []
        let event: Entry
        let cause: DriftCause
        let by: DriftEnd?
    }

    private static func told(_ statement: Statement, by source: StatementSource) -> Entry {
        guard case .transaction(let fact, _) = statement else { return .statement(statement) }
        return .statement(.transaction(fact, source))
    }

    private static let unnamed = Entry.statement(subscription("1", from: 0, to: 60, of: dave))

    private static let endings: [Ending] = [
        Ending(
            name: "the notification comes late", claim: (.active, 60), known: [paid], event: renewed,
            cause: .notifiedLater, by: .notification),
        Ending(
            name: "the store is asked", claim: (.active, 60), known: [paid],
            event: told(subscription("2", from: 30, to: 60, signed: 41, .renewal), by: .serverAPI),
            cause: .toldWhenAsked,
            by: .storeAnswer),
        Ending(
            name: "a device posts it", claim: (.active, 60), known: [paid],
            event: told(subscription("2", from: 30, to: 60, .renewal), by: .device), cause: .postedLater, by: .device),
        Ending(
            name: "a link", claim: (.active, 60), known: [],
            event: .fact(.link(LinkFact(identity: dave, customer: alice)), recorded: 41), cause: .ownedLater,
            by: .ownership),
        Ending(
            name: "a transfer", claim: (.active, 60), known: [],
            event: .fact(transfer(to: alice), recorded: 41), cause: .ownedLater, by: .ownership),
        Ending(
            name: "a refund that happened since does not matter", claim: (.active, 60), known: [paid],
            event: .statement(subscription("2", from: 30, to: 60, signed: 45, revoked: 45)), cause: .notifiedLater,
            by: .notification),
        Ending(
            name: "what happened since explains nothing", claim: (.active, 60), known: [paid],
            event: .statement(subscription("3", from: 45, to: 60, signed: 45, .renewal)), cause: .none, by: nil),
        Ending(
            name: "a refund that is taken back later does not show that the device was right", claim: (.active, 60),
            known: [paid, renewed, refunded], event: .statement(subscription("2", from: 30, to: 60, signed: 45)),
            cause: .trueBefore, by: .notification),
        Ending(
            name: "a device's newer statement knows nothing of the refund", claim: (.active, 60),
            known: [paid, renewed, refunded], event: brought, cause: .disputed, by: nil),
        Ending(
            name: "the store says again that it was refunded", claim: (.active, 60),
            known: [paid, renewed, refunded, brought],
            event: told(subscription("2", from: 30, to: 60, signed: 41, revoked: 35), by: .serverAPI),
            cause: .trueBefore, by: nil),
        Ending(
            name: "the store says that the refund was taken back", claim: (.active, 60),
            known: [paid, renewed, refunded, brought],
            event: told(subscription("2", from: 30, to: 60, signed: 41), by: .serverAPI), cause: .toldWhenAsked,
            by: .storeAnswer),
        Ending(
            name: "the device agrees, and it was stale", claim: (.active, 60), known: [paid, renewed, refunded],
            event: .fact(report(.revoked, .revoked), recorded: 41), cause: .trueBefore, by: .agreement),
        Ending(
            name: "the device agrees, and nobody knew why it had not", claim: (.active, 77), known: [paid, renewed],
            event: .fact(report(.active, .active, 60, actualUntil: 60), recorded: 41), cause: .learned, by: .agreement),
        Ending(
            name: "a newer report", claim: (.active, 77), known: [paid, renewed],
            event: .fact(report(.active, .active, 78, actualUntil: 60), recorded: 41), cause: .none, by: .newerReport),
        Ending(
            name: "a report about another product", claim: (.active, 77), known: [paid, renewed],
            event: .fact(report(.active, nil, 78, product: "max"), recorded: 41), cause: .none, by: nil),
        Ending(
            name: "forgotten", claim: (.active, 77), known: [paid, renewed],
            event: .fact(.forgetting(ForgettingFact(identities: [alice], evidencePositions: [])), recorded: 41),
            cause: .none, by: .forgotten),
        Ending(
            name: "a grant is no purchase", claim: (.active, 77), known: [paid, renewed],
            event: .fact(granted(), recorded: 41), cause: .none, by: nil),
    ]

    @Test("what is said after another event")
    func after() throws {
        for ending in Self.endings {
            // What is somebody else's at first is known to the ledger, and not of the customer.
            let isForeign = ending.by == .ownership
            let known = isForeign ? [Self.unnamed] + ending.known : ending.known
            let before = Self.drift(ending.claim, found: 40, known)
            guard case .open(let cause) = before.verdictWhenFound() else {
                Issue.record("\(ending.name): \(before.verdictWhenFound())")
                continue
            }
            let whole = known + [ending.event]
            let event = try #require(
                Self.events(whole).last, "\(ending.name)")
            let verdict = Self.drift(ending.claim, found: 40, whole).verdict(after: event, cause)
            let expected: DeviceDrift.Verdict = ending.by.map { .ended(ending.cause, by: $0) } ?? .open(ending.cause)
            #expect(verdict == expected, "\(ending.name)")
        }
    }

    @Test("the store's own agreement explains what nothing explained, and resolves nothing")
    func confirmed() throws {
        let known = [Self.paid, Self.renewed]
        let drift = Self.drift((.active, 77), found: 40, known)
        let fact = Self.report(.active, .active, 60, actualUntil: 60)
        let event = HistoryEvent(
            position: 9, recordedAt: day(41), environment: .production, source: "app_store_api",
            statementSource: .serverAPI, type: "drift", occurredAt: nil, fact: fact)
        #expect(drift.verdict(after: event, .none) == .open(.confirmedByStore))
        #expect(drift.verdict(after: event, .trueBefore) == .open(.trueBefore))
    }

    @Test("of more than is compared, only what a device reports is heard")
    func tooMuch() throws {
        let drift = DeviceDrift(
            DeviceClaim(productID: "pro", state: .active, until: day(60)), at: day(40),
            history: CustomerHistory(of: alice, []), elsewhere: CustomerHistory(of: alice, []), disputed: [],
            isTooLarge: true)
        #expect(drift.verdictWhenFound() == .open(.tooMuchKnown))
        let late = try #require(Self.events([Self.paid, Self.renewed]).last)
        #expect(drift.verdict(after: late, .tooMuchKnown) == .open(.tooMuchKnown))
        let agreement = try #require(Self.events([.fact(Self.report(.active, .active), recorded: 41)]).last)
        #expect(drift.verdict(after: agreement, .tooMuchKnown) == .ended(.learned, by: .agreement))
    }

    /// All events, also those that are no part of a history.
    private static func events(_ told: [Entry]) -> [HistoryEvent] {
        told.enumerated().map { $1.event(at: Int64($0 + 2)) }
    }
}
