import EntitlementAPI
import EntitlementCore
import HTTPServer
import Ledger
import PostgresClient
import StoreSimulator
import TestSupport
import Testing

@testable import Service

@Suite("Reads answered on the event loop", .serialized, .timeLimit(.minutes(5)))
struct ImmediateReadsTests {
    private static let ann = Purchase.customer

    @Test("an answer from memory is what the general path answers, and stays so whatever happens in between")
    func sameBytes() async throws {
        let rig = try await EntitlementsTests.rig()
        let instance = try await ServedInstance.start(on: rig)
        for (index, step) in Self.steps.enumerated() {
            try await step.act(rig)
            for round in 0..<3 {
                let head = try await rig.head
                let queries = ["", "?environment=sandbox"] + Self.pastQueries(head: head, round: round, step: index)
                for customer in [Self.ann, "c-1", "c-2", "d7e3fb20-4cdb-47cc-936d-99d65f608138", "apple:704000009"] {
                    for query in queries {
                        let told = "step \(index) (\(step.name)), round \(round), \(customer)\(query)"
                        let expected = try await instance.generalAnswer(customer, query: query, key: rig.admin)
                        let read = try await instance.read(customer, query: query, key: rig.admin)
                        #expect(read == expected, "\(told)")
                        let tag = expected.headers["ETag"]
                        let unchanged = try await instance.read(customer, query: query, tag: tag, key: rig.admin)
                        let generally = try await instance.generalAnswer(
                            customer, query: query, tag: tag, key: rig.admin)
                        #expect(unchanged.status == 304 && generally.status == 304, "\(told)")
                        #expect(unchanged.headers["Ledger-Position"] == generally.headers["Ledger-Position"], "\(told)")
                        #expect(unchanged.headers["ETag"] == generally.headers["ETag"], "\(told)")
                    }
                }
                rig.wait()
            }
        }
        #expect(instance.readsFromMemory > Self.steps.count * 40)
        await instance.stop()
    }

    /// Some reads of the past, others each time; also of instants and positions at which nothing was known.
    private static func pastQueries(head: Int64, round: Int, step: Int) -> [String] {
        let position = [0, 1, head / 2, head - Int64(round), head][(round + step) % 5]
        return [
            "?known_at=\(position)", "?known_at=\(head)&environment=sandbox",
            "?at=2026-0\(round + 2)-01T10:00:00Z&known_at=\(position)",
            [
                "?at=2026-11-19T00:00:00Z", "?at=2027-03-01T01%3A00%3A00%2B01%3A00&environment=production",
                "?environment=sandbox&at=2020-01-01T00:00:00Z",
            ][round],
        ]
    }

    private struct Step: Sendable {
        let name: String
        let act: @Sendable (ServiceRig) async throws -> Void
    }

    /// Each is done by another instance than the one that is read from.
    private static let steps: [Step] = [
        Step(name: "nothing") { _ in },
        Step(name: "new purchase") { try await $0.buy("31", by: "d7e3fb20-4cdb-47cc-936d-99d65f608138") },
        Step(name: "another purchase") { try await $0.buy("32", by: ann) },
        Step(name: "sandbox purchase") { try await $0.buy("33", by: ann, environment: "Sandbox") },
        Step(name: "renewal") { try await $0.notify(Purchase().renewed()) },
        Step(name: "grant") { check(try await $0.command("grant", "c-1", grant)) },
        Step(name: "link of a customer") { check(try await $0.link("c-1", to: "c-2")) },
        Step(name: "purchase of somebody linked") {
            check(try await $0.link("d7e3fb20-4cdb-47cc-936d-99d65f608138", to: "c-2"))
            try await $0.buy("34", by: "d7e3fb20-4cdb-47cc-936d-99d65f608138")
        },
        Step(name: "transfer") { check(try await $0.transfer("32", from: ann, to: "c-2")) },
        Step(name: "transfer undone") { check(try await $0.transfer("32", from: "c-2", to: ann)) },
        Step(name: "purchase of nobody") { try await $0.buy("35", by: nil) },
        Step(name: "claim") { rig in
            _ = try await rig.ledger.writer.append(
                EventDraft(
                    environment: .production, source: .api, occurredAt: nil,
                    fact: .claim(ClaimFact(originalTransactionID: "35", customer: IdentityRef(0))),
                    identities: ["c-1"], deduplication: .unique))
        },
        Step(name: "family share") { rig in
            var shared = Purchase()
            shared.uuid = "family"
            shared.original = "36"
            shared.transaction = "36"
            shared.token = nil
            shared.appTransaction = "704000009"
            let told = try await rig.notify(shared)
            #expect(told.status == 200)
        },
        Step(name: "catalog") { rig in
            let catalog = #"{"products":[{"product_id":"com.example.pro.yearly","entitlements":["premium","more"]}]}"#
            let put = try await rig.put(catalog)
            #expect(put.status == 200, "\(put.text)")
        },
        Step(name: "forget") { rig in
            let forgetter = Forgetter(pool: PostgresPool(rig.database.ownerConninfo), now: { rig.clock.now })
            let customer = try #require(CustomerID("c-2"))
            _ = try await forgetter.forget(customer)
        },
    ]

    private static func check(_ response: HTTPResponse) { #expect(response.status == 200, "\(response.text)") }

    private static let grant = #"{"entitlement":"premium","reason":"test"}"#

    @Test("an answer from memory holds until the next boundary, to the millisecond")
    func boundary() async throws {
        let rig = try await EntitlementsTests.rig()
        let instance = try await ServedInstance.start(on: rig)
        let expiry = try instant("2027-01-01T00:00:00Z")
        for offset in [-3, -2, -1, 0, 1, 2] as [Int64] {
            rig.clock.now = expiry.adding(milliseconds: offset)
            for _ in 0..<2 {
                let read = try await instance.read(Self.ann, key: rig.admin)
                let expected = try await instance.generalAnswer(Self.ann, key: rig.admin)
                #expect(read == expected, "offset \(offset)")
                #expect(read.body.contains(#""state":"expired""#) == (offset >= 0), "offset \(offset)")
            }
        }
        // Loaded once before the boundary and once after it.
        #expect(instance.readsFromMemory >= 10)
        await instance.stop()
    }

    @Test("an event of several statements, of which only the second names the customer, is noticed")
    func secondStatementNamesCustomer() async throws {
        let rig = try await EntitlementsTests.rig()
        let instance = try await ServedInstance.start(on: rig)
        _ = try await instance.read(Self.ann, key: rig.admin)
        func transaction(_ id: String, _ token: IdentityRef?) -> TransactionFact {
            TransactionFact(
                payloadHash: RandomDrafts.digest(id), signedDate: day(1), transactionID: id,
                originalTransactionID: "71", productID: "com.example.pro.yearly", bundleID: ServiceRig.bundleID,
                kind: .known(.autoRenewable), purchaseDate: day(0), expiresDate: day(500), accountToken: token)
        }
        let fact = StatementsFact(
            originalTransactionID: "71", transactions: [transaction("71", nil), transaction("72", IdentityRef(0))],
            renewals: [], remarks: [])
        _ = try await rig.ledger.writer.append(
            EventDraft(
                environment: .production, source: .device, type: "device_report", occurredAt: nil,
                fact: .statements(fact), identities: [Self.ann], deduplication: .unique))
        let expected = try await instance.generalAnswer(Self.ann, key: rig.admin)
        #expect(expected.body.contains(#""original_transaction_id":"71""#))
        #expect(try await instance.read(Self.ann, key: rig.admin) == expected)
        await instance.stop()
    }

    @Test("what was bought on the web and names the customer behind another is noticed")
    func secondOwner() async throws {
        let rig = try await EntitlementsTests.rig()
        Self.check(
            try await rig.put(
                """
                {"products":[{"product_id":"com.example.pro.yearly","entitlements":["premium"]},
                {"product_id":"com.example.lifetime","entitlements":["lifetime"],
                "stripe":{"price":"price_1","mode":"payment"}}]}
                """))
        let instance = try await ServedInstance.start(on: rig)
        _ = try await instance.read(Self.ann, key: rig.admin)
        let fact = WebFact(
            type: WebFact.readingLabel, eventID: nil, statedAt: day(2), payloadHash: RandomDrafts.digest("pi_9"),
            originalTransactionID: "pi_9",
            payment: WebPayment(
                paidAt: day(1), isPaidByEvent: true, amount: 4999, currency: "usd",
                catalogProductID: "com.example.lifetime", products: []),
            owners: [
                WebOwner(place: .clientReference, customer: IdentityRef(0)),
                WebOwner(place: .purchase, customer: IdentityRef(1)),
            ])
        _ = try await rig.ledger.writer.append(
            EventDraft(
                environment: .production, source: .stripeAPI, type: WebFact.readingLabel, occurredAt: nil,
                fact: .web(fact), identities: ["c-7", Self.ann], deduplication: .unique))
        let expected = try await instance.generalAnswer(Self.ann, key: rig.admin)
        #expect(expected.body.contains(#""original_transaction_id":"pi_9""#))
        #expect(try await instance.read(Self.ann, key: rig.admin) == expected)
        await instance.stop()
    }

    @Test("a revoked key is refused as soon as keys are asked for again")
    func revokedKey() async throws {
        var limits = Application.Limits()
        limits.keyLifetime = .milliseconds(300)
        let rig = try await EntitlementsTests.rig()
        let instance = try await ServedInstance.start(on: rig, limits: limits)
        let (key, secret) = try await rig.keys.create(name: "reader", scopes: [.customersRead])
        for _ in 0..<3 { #expect(try await instance.read(Self.ann, key: secret).status == 200) }
        _ = try await rig.keys.revoke(key.id)
        try await Task.sleep(for: .milliseconds(350))
        #expect(try await instance.read(Self.ann, key: secret).status == 401)
        await instance.stop()
    }

    @Test("when the session is lost, the general path answers, and another session is opened")
    func lostSession() async throws {
        let rig = try await EntitlementsTests.rig()
        let instance = try await ServedInstance.start(on: rig)
        let owner = try await rig.database.owner()
        for round in 0..<3 {
            let before = instance.immediateReads
            try await owner.run { connection in
                _ = try connection.query(
                    """
                    SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity
                    WHERE datname = current_database() AND pid <> pg_backend_pid()
                    """)
            }
            try await rig.buy("4\(round)", by: Self.ann)
            while instance.immediateReads < before + 3 {
                let read = try await instance.read(Self.ann, key: rig.admin)
                #expect(read.status == 200 && read.position == Int64(4 + round), "\(read)")
            }
        }
        await instance.stop()
    }

    @Test("64 reads that wait for a frozen database when the server stops are told so")
    func stopWhileFrozen() async throws {
        let rig = try await EntitlementsTests.rig()
        let instance = try await ServedInstance.start(on: rig)
        let owner = try await rig.database.owner()
        try await owner.execute(script: "BEGIN; LOCK TABLE ledger_head IN ACCESS EXCLUSIVE MODE")
        let statuses = try await withThrowingTaskGroup(of: Int.self) { group in
            for _ in 0..<64 {
                group.addTask { try await instance.read(Self.ann, key: rig.admin).status }
            }
            group.addTask {
                try await Task.sleep(for: .milliseconds(200))
                await instance.stop(graceSeconds: 0.1)
                return 503
            }
            return try await group.reduce(into: []) { $0.append($1) }
        }
        #expect(statuses == Array(repeating: 503, count: 65))
        try await owner.execute(script: "ROLLBACK")
    }

    @Test("a reader that alternates between instances misses nothing acknowledged, and never goes back")
    func threeInstances() async throws {
        let rig = try await EntitlementsTests.rig()
        let instances = [
            try await ServedInstance.start(on: rig), try await ServedInstance.start(on: rig),
            try await ServedInstance.start(on: rig),
        ]
        let customers = (0..<6).map { "c-\($0)" }
        try await withThrowingTaskGroup(of: Void.self) { group in
            let acknowledged = Acknowledged()
            group.addTask {
                for round in 1...2000 {
                    // Until every instance has had its part, however slow the machine is.
                    if round > 40, instances.allSatisfy({ $0.immediateReads > 5 }) { break }
                    for customer in customers {
                        rig.wait(seconds: 1)
                        let body = #"{"entitlement":"e-\#(round)","reason":"test"}"#
                        let answer = try await rig.command("grant", customer, body)
                        #expect(answer.status == 200)
                        await acknowledged.note(customer, Int64(answer.header("Ledger-Position") ?? "") ?? -1)
                    }
                }
                await acknowledged.end()
            }
            for reader in 0..<4 {
                group.addTask {
                    var turn = reader
                    var last: Int64 = 0
                    while await !acknowledged.isOver {
                        turn += 1
                        let customer = customers[turn % customers.count]
                        let atLeast = await acknowledged.position(of: customer)
                        let read = try await instances[turn % 3].read(customer, key: rig.admin)
                        #expect(read.position >= max(atLeast, last), "\(customer)")
                        last = read.position
                        // Each grant gives an entitlement of its own, which cites it.
                        let isShown = read.body.contains(#""positions":[\#(atLeast)]"#)
                        #expect(read.status == 200 && (isShown || atLeast == 0), "\(atLeast) \(read)")
                    }
                }
            }
            try await group.waitForAll()
        }
        for instance in instances {
            #expect(instance.immediateReads > 5)
            await instance.stop()
        }
    }
}

/// What was acknowledged to the writer, for readers to hold answers to.
private actor Acknowledged {
    private var positions: [String: Int64] = [:]
    private(set) var isOver = false

    func note(_ customer: String, _ position: Int64) { positions[customer] = position }
    func position(of customer: String) -> Int64 { positions[customer] ?? 0 }
    func end() { isOver = true }
}
