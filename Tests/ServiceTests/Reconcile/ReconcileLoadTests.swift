import EntitlementAPI
import EntitlementCore
import HTTPServer
import Ledger
import PostgresClient
import Testing

@testable import Service

@Suite("Cost of launches without news", .serialized, .timeLimit(.minutes(5)))
struct ReconcileLoadTests {
    private static let customer = Purchase.customer

    /// Three subscriptions of 24 periods each, and two one-time purchases.
    private static let held: [HeldTransaction] = {
        var held = [
            HeldTransaction.lifetime("1", token: customer),
            HeldTransaction(id: "2", product: "com.example.coins", kind: "Consumable", until: nil, token: customer),
        ]
        for subscription in 1...3 {
            for period in 0..<24 {
                let start = Double(period * 14)
                held.append(
                    HeldTransaction(
                        id: "\(subscription * 1000 + period)", original: "\(subscription * 1000)",
                        product: "com.example.pro.monthly", from: start, until: start + 14, signed: start,
                        token: customer, reason: period == 0 ? "PURCHASE" : "RENEWAL"))
            }
        }
        return held
    }()

    private static func posted(_ rig: ServiceRig) throws -> Posted {
        Posted(
            transactions: try held.map { try rig.sign($0) },
            renewals: try (1...3).map { try rig.sign(HeldRenewal(original: "\($0 * 1000)", signed: 322)) },
            appTransaction: try rig.signAppTransaction("704"),
            claims: [
                .init(productID: "com.example.lifetime", state: .active),
                .init(productID: "com.example.pro.monthly", state: .active, until: day(336)),
            ])
    }

    @Test("three hundred launches of a customer with nothing new, all at once, add no event")
    func launches() async throws {
        var limits = Application.Limits()
        limits.rates.address = RateLimit(perSecond: 100_000, burst: 100_000)
        let rig = try await ServiceRig.withCatalog(limits: limits, passKeys: PassKeyRing([ServiceRig.passKey()]))
        let posted = try Self.posted(rig)
        let token = try await rig.token(Self.customer)
        let first = try await rig.answer(Self.customer, posted, key: token)
        #expect(first.entitlements.map(\.id) == ["lifetime", "premium"] && first.drift.isEmpty)
        #expect(first.finish == Self.held.map(\.id))
        let head = try await rig.head()
        // Beside them there are the admin's key, the catalog and the link that the login made.
        #expect(head == first.position && head == Int64(Self.held.count + 3))
        let instances = [rig.application, rig.secondInstance()]
        let clock = ContinuousClock()
        let start = clock.now
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<300 {
                if number >= 16 { try await group.next() }
                group.addTask {
                    let answer = try await rig.answer(
                        Self.customer, posted, key: token, on: instances[number % instances.count])
                    #expect(answer.position == head && answer.held == first.held && answer.finish == first.finish)
                    #expect(answer.verdicts.allSatisfy { $0 == "known" } && answer.pass != nil)
                    #expect(answer.renewalResults.allSatisfy { $0.status == .known })
                }
            }
            try await group.waitForAll()
        }
        #expect(try await rig.head() == head)
        #expect(start.duration(to: clock.now) < .seconds(240))
    }

    @Test("a steady launch is under a handful of transactions of the database")
    func queries() async throws {
        let rig = try await ServiceRig.withCatalog(passKeys: PassKeyRing([ServiceRig.passKey()]), connections: 1)
        let posted = try Self.posted(rig)
        let bearers = [
            rig.admin, try await rig.token(Self.customer), try await rig.publishableKey(),
        ]
        _ = try await rig.answer(Self.customer, posted)
        // So that a publishable key with the app transaction speaks for the customer.
        try await rig.link("apple:704", to: Self.customer)
        for bearer in bearers {
            let first = try await rig.answer(Self.customer, posted, key: bearer)
            #expect(first.proof != .none && first.pass != nil)
            let launches = 10
            let work = try await rig.databaseWork {
                for _ in 0..<launches { _ = try await rig.answer(Self.customer, posted, key: bearer) }
            }
            // An autovacuum's, and that of a look for changed keys, are counted along.
            #expect(work.transactions <= Int64(launches) * 3 + 5, "\(bearer.prefix(3)): \(work)")
        }
    }
}

/// What something cost the database.
struct DatabaseWork {
    let transactions: Int64
    /// Rows that indexes led to.
    let rows: Int64
}

extension ServiceRig {
    /// What something costs the database; the rig's pool has to have one connection only.
    ///
    /// A session's counts are its own until it is told to publish them.
    func databaseWork(_ body: () async throws -> Void) async throws -> DatabaseWork {
        _ = try await counts()
        let idle = try await counts()
        let before = try await counts()
        try await body()
        let after = try await counts()
        // What counting itself adds is the same every time.
        return DatabaseWork(
            transactions: after.transactions - before.transactions - (before.transactions - idle.transactions),
            rows: after.rows - before.rows - (before.rows - idle.rows))
    }

    private func counts() async throws -> DatabaseWork {
        try await pool.withConnection { _ = try $0.query("SELECT pg_stat_force_next_flush()") }
        return try await pool.withConnection { connection in
            let counts = try connection.query(
                "SELECT xact_commit, tup_fetched FROM pg_stat_database WHERE datname = current_database()")
            guard let row = counts.first else { throw TestFailure("no counts") }
            return DatabaseWork(transactions: try row.int(0), rows: try row.int(1))
        }
    }
}
