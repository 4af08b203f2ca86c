import EntitlementAPI
import EntitlementCore
import HTTPServer
import Ledger
import PostgresClient
import TestSupport
import Testing

@testable import Service

/// What only an operator can mend, and many webhooks at one instant.
@Suite("Trouble with reading Stripe's API", .timeLimit(.minutes(5)))
struct StripeTroubleTests {
    /// A service, and a server that stands in for Stripe for as long as this is there.
    private final class Trouble: Sendable {
        let stripe: StripeRig
        let shelf: StripeShelf
        let server: HostileServer

        var rig: ServiceRig { stripe.rig }

        init() async throws {
            let shelf = StripeShelf()
            let server = try HostileServer { request, _ in shelf.reply(to: request) }
            // The key is of the account that sends the webhooks.
            shelf.put(StripeShelf.refunded, at: "/v1/events/evt_refund")
            (self.shelf, self.server) = (shelf, server)
            stripe = try await StripeRig.make(api: server.url)
        }

        deinit { server.stop() }

        /// A customer has paid.
        ///
        /// - Parameter isRefunded: whether Stripe answers what there is to read of a refund.
        static func paid(isRefunded: Bool = true) async throws -> Trouble {
            let trouble = try await Trouble()
            if isRefunded { trouble.refund() }
            #expect(try await trouble.stripe.deliver(StripeBody.paid).status == 200)
            return trouble
        }

        /// Stripe knows the refund, and for which invoice it was made.
        func refund() {
            shelf.put(StripeShelf.tie, at: StripeShelf.tiePath)
            shelf.put(StripeShelf.refund(), at: "/v1/refunds/re_1")
        }

        /// What another process, or the same one started again, would read with.
        func lookups(keyInterval: Duration = .zero) -> StripeLookups {
            StripeLookups(
                rig.stripeIngestion, projector: WebLookupProjector(pool: rig.pool, calls: StripeLookups.calls),
                register: register,
                intervals: Repetition(
                    regular: .milliseconds(20), elsewhere: .milliseconds(20), retry: .milliseconds(20),
                    longestRetry: .milliseconds(20)), keyInterval: keyInterval)
        }

        var register: WebLookupRegister { WebLookupRegister(pool: rig.pool) }

        func owed() async throws -> Int64 { try await register.count(.production) }

        func advance(seconds: Int64) { rig.clock.now = rig.clock.now.adding(milliseconds: seconds * 1000) }

        /// Why reading fails, as `rightful status` shows it; `nil` where it does not.
        func complaint() async throws -> String? {
            try await WorkFailures(pool: rig.pool).list().first { $0.work == "stripe_production" }?.reason
        }

        /// Lets a service work until something is so.
        func work(_ lookups: StripeLookups, until isSo: () async throws -> Bool) async throws {
            let work = Task { [watch = rig.watch()] in await lookups.run(watch) }
            while try await !isSo() { try await Task.sleep(for: .milliseconds(20)) }
            work.cancel()
            await work.value
        }
    }

    private static let missing = HostileServer.Reply.answer(
        403,
        #"{"error":{"type":"invalid_request_error","message":"The provided key 'rk_live_*1' does not have the required permissions for this endpoint on account 'acct_1'. Having the 'rak_invoice_payment_read' permission would allow this request to continue."}}"#
    )

    @Test("each of thirty refunds of one instant is read before it is answered")
    func many() async throws {
        let trouble = try await Trouble()
        let count = 30
        for number in 1...count {
            let invoice = StripeBody.invoice("c-\(number)", subscription: "sub_\(number)")
            #expect(
                try await trouble.stripe.deliver(StripeBody.event("invoice.paid", invoice, id: "evt_\(number)")).status
                    == 200)
            trouble.shelf.put(
                StripeShelf.tie.replacing("pi_1", with: "pi_\(number)").replacing(
                    StripeBody.invoice(), with: invoice),
                at: StripeShelf.tiePath.replacing("pi_1", with: "pi_\(number)"))
            trouble.shelf.put(StripeShelf.refund("succeeded", number), at: "/v1/refunds/re_\(number)")
        }
        let late = try await withThrowingTaskGroup(of: String?.self) { group in
            for number in 1...count {
                group.addTask {
                    let refund = StripeBody.event(
                        "refund.created", StripeShelf.refund("succeeded", number), id: "evt_r\(number)",
                        created: StripeRig.noon - 20)
                    guard try await trouble.stripe.deliver(refund).status == 200 else {
                        return "c-\(number): not taken"
                    }
                    let access = try await trouble.stripe.access("c-\(number)")
                    return access == ["web_checkout revoked"] ? nil : "c-\(number): \(access)"
                }
            }
            return try await group.reduce(into: []) { late, one in if let one { late.append(one) } }
        }
        #expect(late.isEmpty)
    }

    @Test("while all readings wait, a refund is kept and answered, and nothing is asked for it")
    func resting() async throws {
        let trouble = try await Trouble.paid()
        trouble.shelf.fail(.answer(500, "{}"))
        #expect(try await trouble.stripe.deliver(StripeShelf.refunded).status == 200)
        var sent = trouble.server.requests.count
        for number in 2...5 {
            let refund = StripeBody.event(
                "refund.created", StripeShelf.refund("succeeded", number), id: "evt_r\(number)",
                created: StripeRig.noon - 20)
            #expect(try await trouble.stripe.deliver(refund).status == 200)
            // The first failure may be of the one refund alone.
            #expect((trouble.server.requests.count > sent) == (number == 2))
            sent = trouble.server.requests.count
        }
        trouble.shelf.fail(nil)
        trouble.advance(seconds: 11)
        try await trouble.work(trouble.lookups()) {
            try await trouble.stripe.access("c-1") == ["web_checkout revoked"]
        }
    }

    @Test("what one process is reading, another leaves to it for as long as all that was taken with it may take")
    func leased() async throws {
        let trouble = try await Trouble.paid()
        trouble.shelf.fail(.answer(500, "{}"))
        #expect(try await trouble.stripe.deliver(StripeShelf.refunded).status == 200)
        trouble.shelf.fail(nil)
        trouble.advance(seconds: 121)
        trouble.shelf.hold(true)
        let asked = trouble.server.requests.count
        let reading = Task { try await trouble.lookups().round() }
        while trouble.server.requests.count == asked { try await Task.sleep(for: .milliseconds(5)) }
        // Two goes of 25 seconds: what an event calls for, and what is read again.
        trouble.advance(seconds: 50)
        let now = trouble.rig.clock.now
        #expect(try await trouble.register.take(.production, for: .zero, now: now, limit: 9).isEmpty)
        trouble.shelf.hold(false)
        #expect(try await reading.value > 0)
        #expect(try await trouble.stripe.access("c-1") == ["web_checkout revoked"])
    }

    @Test("a refund is answered when it is read, also while another process notes what is owed")
    func noting() async throws {
        let trouble = try await Trouble.paid()
        _ = try await trouble.lookups().round()
        let answer = try await trouble.rig.pool.withConnection { connection in
            try connection.transaction { connection in
                _ = try connection.query("SELECT 1 FROM projection WHERE name = 'web_lookup' FOR UPDATE").row(0)
                let answer = Task { try await trouble.stripe.deliver(StripeShelf.refunded).status }
                while try connection.query("SELECT position FROM ledger_head").row(0).int(0) < 4 {}
                // For a while beyond that.
                _ = try connection.query("SELECT pg_sleep(0.2)")
                return answer
            }
        }
        #expect(try await answer.value == 200)
        #expect(try await trouble.stripe.access("c-1") == ["web_checkout revoked"])
    }

    @Test("a refund that is being read already is answered when that is done")
    func held() async throws {
        let trouble = try await Trouble.paid()
        trouble.shelf.hold(true)
        let first = Task { try await trouble.stripe.deliver(StripeShelf.refunded).status }
        while trouble.server.requests.isEmpty { try await Task.sleep(for: .milliseconds(5)) }
        let second = Task { try await trouble.stripe.deliver(StripeShelf.refunded).status }
        while try await !trouble.rig.get("/metrics").text.contains(#"verdict="duplicate"} 1"#) {
            try await Task.sleep(for: .milliseconds(5))
        }
        trouble.shelf.hold(false)
        #expect(try await second.value == 200)
        #expect(try await trouble.stripe.access("c-1") == ["web_checkout revoked"])
        #expect(try await first.value == 200)
        #expect(trouble.server.requests.count == 1)
    }

    @Test("a permission that is missing is shown, and soon after it is given what waited for it is read")
    func permission() async throws {
        let trouble = try await Trouble.paid()
        trouble.shelf.fail(Self.missing)
        #expect(try await trouble.stripe.deliver(StripeShelf.refunded).status == 200)
        let lookups = trouble.lookups()
        try await trouble.work(lookups) { try await trouble.complaint() != nil }
        let complaint = try #require(try await trouble.complaint())
        #expect(complaint.contains("rak_invoice_payment_read") && complaint.contains("lacks a permission"))
        #expect(!complaint.contains("pi_1"), "\(complaint)")
        #expect(try await trouble.stripe.access("c-1") == ["web_checkout active"])
        // However often it was tried in vain, and without the clock moving.
        try await trouble.rig.pool.withConnection {
            try $0.execute(
                script: "UPDATE web_lookup SET attempts = 12, next_try_at = next_try_at + interval '6 hours'")
        }
        trouble.shelf.fail(nil)
        try await trouble.work(lookups) { try await trouble.complaint() == nil }
        #expect(try await trouble.stripe.access("c-1") == ["web_checkout revoked"])
    }

    @Test("a service that is started again tries at once what only the operator could mend")
    func restarted() async throws {
        let trouble = try await Trouble.paid()
        let unauthorized =
            #"{"error":{"type":"invalid_request_error","message":"Expired API Key provided: sk_live_1"}}"#
        trouble.shelf.fail(.answer(401, unauthorized))
        #expect(try await trouble.stripe.deliver(StripeShelf.refunded).status == 200)
        try await trouble.work(trouble.lookups()) { try await trouble.complaint() != nil }
        #expect(try #require(try await trouble.complaint()).contains("secret_key_path"))
        trouble.shelf.fail(nil)
        try await trouble.work(trouble.lookups(keyInterval: .seconds(3600))) { try await trouble.complaint() == nil }
        #expect(try await trouble.stripe.access("c-1") == ["web_checkout revoked"])
    }

    @Test("what Stripe told of and does not know is not called foreign: the key of another account is named")
    func anotherAccount() async throws {
        let trouble = try await Trouble.paid(isRefunded: false)
        trouble.shelf.take("/v1/events/evt_refund")
        #expect(try await trouble.stripe.deliver(StripeShelf.refunded).status == 200)
        #expect(try await trouble.owed() == 2)
        let lookups = trouble.lookups()
        try await trouble.work(lookups) { try await trouble.complaint() != nil }
        #expect(try #require(try await trouble.complaint()).contains("is of another account of Stripe's"))
        #expect(trouble.server.requests.contains { $0.target == "/v1/events/evt_refund" })
        // The operator configures the right one.
        trouble.shelf.put(StripeShelf.refunded, at: "/v1/events/evt_refund")
        trouble.refund()
        trouble.advance(seconds: 3600)
        // The complaint is taken back once the work was done, so that is waited for.
        try await trouble.work(trouble.lookups()) {
            let owed = try await trouble.owed()
            let complaint = try await trouble.complaint()
            return owed == 0 && complaint == nil
        }
        #expect(try await trouble.stripe.access("c-1") == ["web_checkout revoked"])
    }

    @Test("test data that was deleted at Stripe is asked for some times, and then given up with a line of log")
    func deleted() async throws {
        let trouble = try await Trouble()
        #expect(try await trouble.stripe.deliver(StripeShelf.refunded).status == 200)
        let lookups = trouble.lookups()
        var rounds = 0
        while try await trouble.owed() > 0, rounds < 30 {
            trouble.advance(seconds: 6 * 3600)
            _ = try await lookups.round()
            rounds += 1
        }
        #expect((8...12).contains(rounds), "\(rounds)")
        #expect(trouble.rig.log.lines.contains { $0.contains("Stripe has deleted what it told of") })
    }
}
