import Testing

@testable import EntitlementCore

/// What the store says when it is asked, and whether the ledger should have heard it before.
@Suite("Differences between store and ledger")
struct StoreDriftTests {
    private static func notification(_ statement: Statement, signed: Double) -> LedgerFact {
        guard case .transaction(let fact, _) = statement else { return granted() }
        return .notification(
            NotificationFact(
                type: "DID_RENEW", subtype: nil, uuid: "u", signedDate: day(signed), payloadHash: .zero,
                bundleID: "com.example", transaction: fact, renewal: nil, remarks: []))
    }

    private static func report(_ statements: [Statement]) -> LedgerFact {
        var fact = StatementsFact(originalTransactionID: "1000", transactions: [], renewals: [], remarks: [])
        for statement in statements {
            switch statement {
            case .transaction(let transaction, _): fact.transactions.append(transaction)
            case .renewal(let renewal, _): fact.renewals.append(renewal)
            }
        }
        return .statements(fact)
    }

    private static let paid = subscription("1", from: 0, to: 30)
    private static let renewed = subscription("2", from: 30, to: 60, signed: 40, .renewal)

    @Test("a notification of the store's history is a difference when it was sent since the ledger listens")
    func history() {
        let table: [(signed: Double, since: Double, cause: DriftCause?)] = [
            (30, 10, .foundInHistory), (30, 30, .foundInHistory), (30, 31, nil),
        ]
        for row in table {
            let fact = Self.notification(Self.renewed, signed: row.signed)
            let cause = StoreDrift.cause(
                of: fact, occurredAt: day(row.signed), before: nil, listeningSince: day(row.since))
            #expect(cause == row.cause, "\(row)")
        }
        let test = LedgerFact.notification(
            NotificationFact(
                type: "TEST", subtype: nil, uuid: "u", signedDate: day(30), payloadHash: .zero, bundleID: "com.example",
                transaction: nil, renewal: nil, remarks: []))
        #expect(StoreDrift.cause(of: test, occurredAt: day(30), before: nil, listeningSince: day(0)) == nil)
    }

    @Test("an answer about one customer is one when it changes what is known, or tells of a new purchase")
    func answers() {
        let willRenew = renewalInfo(signed: 1, renews: true)
        let willNot = renewalInfo(signed: 41, renews: false)
        let still = renewalInfo(signed: 41, renews: true)
        let table: [(String, known: [Statement]?, told: [Statement], since: Double, cause: DriftCause?)] = [
            ("a renewal", [Self.paid], [Self.renewed], 10, .foundWhenAsked),
            ("a renewal of before", [Self.paid], [Self.renewed], 31, nil),
            ("an import", nil, [Self.paid, willRenew], 10, nil),
            ("a purchase nobody had heard of", nil, [Self.renewed], 10, .foundWhenAsked),
            (
                "a refund", [Self.paid], [subscription("1", from: 0, to: 30, signed: 20, revoked: 20)], 10,
                .foundWhenAsked
            ),
            ("it renews no more", [Self.paid, willRenew], [willNot], 10, .foundWhenAsked),
            ("the first word about that", [Self.paid], [willNot], 10, nil),
            ("the same again", [Self.paid, willRenew], [still], 10, nil),
            ("what a device had said", [Self.paid, Self.renewed.fromDevice], [Self.renewed], 10, nil),
        ]
        for row in table {
            let cause = StoreDrift.cause(
                of: Self.report(row.told), occurredAt: day(41), before: row.known.map { OriginalState($0) },
                listeningSince: day(row.since))
            #expect(cause == row.cause, "\(row.0)")
        }
    }

    @Test("a notification that arrives after the question is the same when it was sent before, of the same transaction")
    func delivered() {
        let found = Self.report([Self.renewed])
        func event(_ statement: Statement, signed: Double, _ source: StatementSource = .notification) -> HistoryEvent {
            HistoryEvent(
                position: 9, recordedAt: day(50), environment: .production, source: "x", statementSource: source,
                type: "renewed", occurredAt: day(signed), fact: Self.notification(statement, signed: signed))
        }
        #expect(StoreDrift.isDelivered(found, foundAt: day(41), by: event(Self.renewed, signed: 30)))
        #expect(!StoreDrift.isDelivered(found, foundAt: day(41), by: event(Self.renewed, signed: 42)))
        #expect(!StoreDrift.isDelivered(found, foundAt: day(41), by: event(Self.paid, signed: 30)))
        #expect(!StoreDrift.isDelivered(found, foundAt: day(41), by: event(Self.renewed, signed: 30, .serverAPI)))
        let told = Self.report([renewalInfo(signed: 41, renews: false)])
        #expect(StoreDrift.isDelivered(told, foundAt: day(41), by: event(Self.paid, signed: 30)))
    }
}
