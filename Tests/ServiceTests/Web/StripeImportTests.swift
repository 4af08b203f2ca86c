import EntitlementAPI
import EntitlementCore
import HTTPServer
import Ledger
import PostgresClient
import StoreSimulator
import TestSupport
import Testing

@testable import Service

@Suite("Everything that a Stripe account holds", .timeLimit(.minutes(5)))
struct StripeImportTests {
    @Test("whoever bought has it, however the pages fall; whoever is not named is counted; twice is once")
    func whole() async throws {
        let rig = try await StripeAccountRig()
        rig.account.limitPages(to: 3)
        for number in 1...5 { try await rig.sell(to: "c-\(number)") }
        try await rig.sell(SimulatedShop.lifetime, to: "c-6")
        let nobodys = [try await rig.sell(), try await rig.sell(SimulatedShop.lifetime)]
        let refunded = try await rig.sell(to: "c-7")
        rig.account.act(.refund, on: refunded)
        _ = try await rig.ask(
            "POST", "checkout/sessions",
            ["mode": "payment", "line_items[0][price]": "price_lifetime", "success_url": "x"])
        // Long after Stripe forgot its events; all of them are renewed again and again.
        rig.advance(100 * 86_400_000)
        let report = try await rig.imported()
        for number in 1...6 {
            #expect(try await rig.stripe.access("c-\(number)") == ["web_checkout active"], "c-\(number)")
        }
        #expect(try await rig.stripe.access("c-7") == ["web_checkout active"], "it was renewed since")
        #expect(report.standing.unowned == 2 && Set(report.unownedIDs) == Set(nobodys), "\(report)")
        #expect(report.standing.unfinished > 0 && report.standing.refused == 0 && report.standing.failed.isEmpty)
        #expect(report.recorded == report.standing.recorded && report.read == report.standing.read)
        let first = try await rig.rig.get("/v1/subscriptions/\(refunded)").json
        #expect(first["periods"]?[0]?["revoked_at"] != .null && first["periods"]?[1]?["revoked_at"] == .null)
        let head = try await rig.stripe.head()
        let again = try await rig.imported()
        #expect(again.recorded == 0 && again.read == report.read && again.standing.unowned == 2, "\(again)")
        #expect(try await rig.stripe.head() == head)
        let summary = try await rig.stripe.verify()
        #expect(summary.isProven)
        await rig.stop()
    }

    @Test("an id of one's own in metadata of another key, or of Stripe's customer, says whose it is, and is evidence")
    func ownerMetadata() async throws {
        let rig = try await StripeAccountRig()
        try await rig.sell(metadata: ["user_id": "u-1"])
        try await rig.sell(of: ["user_id": "u-2"])
        try await rig.sell(SimulatedShop.lifetime, metadata: ["user_id": "u-3"])
        try await rig.sell(SimulatedShop.lifetime, of: ["user_id": "u-4"])
        try await rig.sell(to: "c-5", metadata: ["user_id": "u-5"])
        try await rig.sell(of: ["login": "u-6"])
        let plain = try await rig.imported()
        #expect(plain.standing.unowned == 5)
        #expect(try await rig.stripe.access("u-1") == [])
        let report = try await rig.imported(ownerMetadata: "user_id")
        #expect(report.standing.unowned == 1, "\(report)")
        for user in ["u-1", "u-2", "u-3", "u-4", "c-5"] {
            #expect(try await rig.stripe.access(user) == ["web_checkout active"], "\(user)")
        }
        for nobody in ["u-5", "u-6"] { #expect(try await rig.stripe.access(nobody) == [], "\(nobody)") }
        #expect(try await rig.imported(ownerMetadata: "user_id").recorded == 0)
        #expect(try await rig.stripe.verify().isProven)
        // Without the key nothing is taken away again.
        #expect(try await rig.imported().recorded == 0)
        #expect(try await rig.stripe.access("u-2") == ["web_checkout active"])
        await rig.stop()
    }

    @Test("a purchase that names two customers in Stripe is counted and told by an import as by a webhook, once")
    func conflicts() async throws {
        let rig = try await StripeAccountRig()
        try await rig.sell(to: "c-1", of: ["user_id": "c-9"])
        let session = try await rig.ask(
            "POST", "checkout/sessions",
            [
                "mode": "payment", "line_items[0][price]": "price_lifetime", "success_url": "x",
                "metadata[rightful_customer_id]": "c-2",
                "payment_intent_data[metadata][rightful_customer_id]": "c-3",
            ])
        guard case .string(let id)? = session["id"] else { throw CancellationError() }
        #expect(rig.account.pay(id, by: .card) != nil)
        rig.advance(60_000)
        for _ in 0..<2 {
            _ = try await rig.imported(ownerMetadata: "user_id")
            let metrics = try await rig.rig.get("/metrics").text
            #expect(metrics.contains("rightful_ownership_conflicts_total 1\n"))
            #expect(metrics.contains(#"rightful_notification_remarks_total{kind="ownership_conflict"} 1"#))
            #expect(rig.rig.log.lines.count { $0.contains("a purchase on the web names two customers") } == 1)
        }
        #expect(try await rig.stripe.access("c-2") == [])
        #expect(try await rig.stripe.access("c-3") == ["web_checkout active"])
        let explained = try await rig.rig.get("/v1/customers/c-3/explain").json["conflicts"]
        #expect(explained?.count == 1, "\(String(describing: explained))")
        await rig.stop()
    }

    @Test("what breaks off keeps what it has and goes on there; what fails alone is named and read by the next run")
    func resumed() async throws {
        let rig = try await StripeAccountRig()
        rig.account.limitPages(to: 2)
        for number in 1...4 { try await rig.sell(to: "c-\(number)") }
        let refunded = try await rig.sell(to: "c-5")
        rig.account.act(.refund, on: refunded)
        rig.advance(60_000)
        rig.account.failAlways(.status(503), about: "invoices")
        await #expect(throws: (any Error).self) { try await rig.imported() }
        let state = try #require(try await WebImportRegister.states(rig.rig.pool).first)
        #expect(state.standing.list == 3 && state.completedAt == nil && !state.isHeld)
        #expect(state.lastError?.contains("503") == true, "\(state)")
        let asked = rig.account.asked.count
        rig.account.failAlways(nil, about: "invoices")
        // The refund's own invoice cannot be found.
        rig.account.failAlways(.status(500), about: "invoice_payments")
        let report = try await rig.imported()
        #expect(report.standing.failed.count == 1 && report.failures.count == 1, "\(report)")
        #expect(
            !rig.account.asked.dropFirst(asked).contains("GET /v1/subscriptions"), "what was read is not read again")
        #expect(try await rig.stripe.access("c-5") == ["web_checkout active"])
        rig.account.failAlways(nil, about: "invoice_payments")
        let before = rig.account.asked.count
        #expect(try await rig.imported().standing.failed.isEmpty)
        #expect(!rig.account.asked.dropFirst(before).contains("GET /v1/invoices"))
        #expect(try await rig.stripe.access("c-5") == ["web_checkout revoked"])
        await rig.stop()
    }

    @Test("what the log has lost before it was noted how far the lists were read is read again")
    func lost() async throws {
        let rig = try await StripeAccountRig()
        try await rig.sell(to: "c-1")
        let ingestion = rig.rig.stripeIngestion
        let log = try await LosingLog(rig.rig)
        let losing = StripeIngestion(
            ingestion.clients, reader: ingestion.reader, metrics: ingestion.metrics, logger: ingestion.logger,
            now: ingestion.now
        ) { try await log.append($0) }
        let lists = StripeImport(
            losing, try #require(ingestion.client(.production)),
            register: WebImportRegister(
                pool: rig.rig.pool, environment: .production, ownerMetadata: nil, holder: "test"),
            intervals: .impatient)
        let error = await #expect(throws: LedgerError.self) { try await lists.run() }
        #expect(error?.code == .invalid)
        let state = try #require(try await WebImportRegister.states(rig.rig.pool).first)
        #expect(state.completedAt == nil && state.standing.recorded == 0 && !state.isHeld)
        #expect(try await rig.stripe.access("c-1") == [])
        log.stop()
        #expect(try await lists.run()?.standing.recorded ?? 0 > 0)
        #expect(try await rig.stripe.access("c-1") == ["web_checkout active"])
        await rig.stop()
    }

    @Test("where the object is gone after which a list goes on, nothing of what is as old is left out")
    func cursorIsGone() async throws {
        let rig = try await StripeAccountRig()
        for number in 1...3 {
            try await rig.sell(to: "c-\(number)")
            rig.advance(86_400_000)
        }
        let register = WebImportRegister(
            pool: rig.rig.pool, environment: .production, ownerMetadata: nil, holder: "other")
        var standing = try #require(try await register.begin())
        (standing.list, standing.cursor) = (2, "sub_gone")
        standing.cursorCreatedAt = rig.now.adding(milliseconds: -86_400_000 - 3_600_000)
        try await register.note(standing, after: WebImportStanding())
        try await register.letGo(nil)
        let report = try await rig.imported()
        #expect(report.standing.failed.isEmpty && report.standing.list == 6)
        for number in 1...2 {
            let sold = try await rig.rig.get("/v1/customers/c-\(number)/entitlements").json
            #expect(sold["entitlements"]?[0]?["will_renew"] == .bool(true), "c-\(number): its subscription was read")
        }
        let newest = try await rig.rig.get("/v1/customers/c-3/entitlements").json
        #expect(newest["entitlements"]?[0]?["will_renew"] == .null, "it was before the cursor")
        await rig.stop()
    }

    @Test("a list that leads in a circle is not followed for long, by the next run neither", arguments: [1, 2, 7])
    func circle(length: Int) async throws {
        let server = try HostileServer { request, _ in
            let after = request.target.firstRange(of: "starting_after=cs_").flatMap {
                Int(request.target[$0.upperBound...])
            }
            return Self.page(after.map { ($0 + 1) % length } ?? 0)
        }
        try await Self.expectNoEnd(server, atMost: 3 * length + 1)
    }

    @Test("a list is not followed for long that leads in a circle since whatever it goes on after is gone")
    func circleOfGone() async throws {
        let server = try HostileServer { request, count in
            guard request.target.contains("starting_after=") else { return Self.page(count % 4) }
            return .answer(
                400,
                #"{"error":{"type":"invalid_request_error","message":"No such session","param":"starting_after"}}"#)
        }
        try await Self.expectNoEnd(server, atMost: 300)
    }

    /// One session that nobody went through, and more to come.
    private static func page(_ number: Int) -> HostileServer.Reply {
        .answer(
            200,
            """
            {"object":"list","url":"/v1/x","has_more":true,"data":[{"id":"cs_\(number)","object":"checkout.session",
            "status":"open","livemode":true,"created":\(StripeRig.noon - 60)}]}
            """)
    }

    private static func expectNoEnd(_ server: HostileServer, atMost requests: Int) async throws {
        defer { server.stop() }
        let rig = try await StripeRig.make(api: server.url).rig
        let lists = StripeImport(
            rig.stripeIngestion, try #require(rig.stripeIngestion.client(.production)),
            register: WebImportRegister(
                pool: rig.pool, environment: .production, ownerMetadata: nil, holder: "test"), intervals: .impatient)
        for _ in 1...2 {
            let before = server.requests.count
            await #expect {
                _ = try await lists.run()
            } throws: {
                "\($0)".contains("the list does not end")
            }
            #expect((1...requests).contains(server.requests.count - before))
            let state = try #require(try await WebImportRegister.states(rig.pool).first)
            #expect(state.standing.list == 0 && state.completedAt == nil && !state.isHeld)
            #expect(state.lastError?.contains("the list does not end") == true, "\(state)")
        }
    }

    @Test("one process reads at a time; what one left that was killed is taken up when it is silent")
    func leased() async throws {
        let rig = try await StripeAccountRig()
        try await rig.sell(to: "c-1")
        let other = WebImportRegister(
            pool: rig.rig.pool, environment: .production, ownerMetadata: nil, holder: "other")
        var standing = try #require(try await other.begin())
        #expect(try await rig.lists().run() == nil)
        standing.list = 1
        try await other.note(standing, after: WebImportStanding())
        let owner = try await rig.rig.database.owner()
        _ = try await owner.run { connection in
            try connection.query("UPDATE web_import SET heartbeat_at = heartbeat_at - interval '31 seconds'")
        }
        #expect(try await rig.imported().standing.list == 6)
        #expect(!rig.account.asked.contains("GET /v1/checkout/sessions"))
        await #expect(throws: LedgerError.self) { try await other.note(standing, after: standing) }
        await rig.stop()
    }
}
