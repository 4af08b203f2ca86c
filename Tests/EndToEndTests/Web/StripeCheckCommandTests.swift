import EntitlementCore
import Foundation
import StoreSimulator
import Testing

/// `rightful check` of what was bought on the web.
@Suite("Asking Stripe by the command", .serialized, .timeLimit(.minutes(10)))
struct StripeCheckCommandTests {
    @Test("of lives of which nothing was ever heard each check brings what is true now, and another nothing more")
    func lives() async throws {
        let stage = try await StripeStage(seeds: 360..<368)
        let installation = stage.installation
        let originals = stage.lives.flatMap(\.record.web.stories).filter { $0.value.owner != nil }.map(\.key)
        try #require(originals.count > 10)
        for original in originals {
            let id = original.originalTransactionID
            let checked = try await installation.run(["check", id])
            #expect(checked.status == 0 && !checked.output.contains("otherwise"), "\(id): \(checked)")
        }
        let now = StoreAPIStage.now
        for life in stage.lives {
            for customer in life.record.customers {
                let text = try await installation.rightful(
                    "entitlements", customer.customerID, "--at", "\(Timestamp(milliseconds: now))")
                let json = try JSONSerialization.jsonObject(with: Data(text.utf8)) as? [String: Any]
                let items = try #require(json?["entitlements"] as? [[String: Any]], "\(text)")
                let read = try items.map { try RecordAnswer(json: $0) }
                let truth = life.record.customer(customer).answer(at: now)
                #expect(
                    read.filter(\.givesAccess).map(HeldOnWeb.init) == truth.filter(\.givesAccess).map(HeldOnWeb.init),
                    "seed \(life.seed), \(customer)")
            }
        }
        let head = try await installation.rightful("events").split(separator: "\n").count
        for original in originals.prefix(6) {
            let again = try await installation.run(["check", original.originalTransactionID])
            #expect(again.status == 0 && again.output.contains("nothing was missing"), "\(again)")
        }
        #expect(try await installation.rightful("events").split(separator: "\n").count == head)
        #expect(try await installation.rightful("verify").contains("verified"))
        await stage.remove()
    }

    @Test("a Stripe that takes requests and never answers is waited for once and for half a minute, and then named")
    func hangs() async throws {
        let stage = try await StripeStage(seeds: 370..<376)
        let installation = stage.installation
        var bought: [String: [String]] = [:]
        for (original, story) in stage.lives.flatMap(\.record.web.stories) {
            if let owner = story.owner { bought[owner, default: []].append(original.originalTransactionID) }
        }
        let (customer, originals) = try #require(
            bought.filter { $0.value.count > 1 }.min { $0.key < $1.key }, "somebody who bought more than once")
        for id in originals { #expect(try await installation.run(["check", id]).status == 0) }
        let head = try await installation.rightful("events").split(separator: "\n").count
        stage.stripe.failAlways(.slow(milliseconds: 3_600_000))
        let start = ContinuousClock.now
        let (status, output, errors) = try await installation.run(["check", customer])
        let taken = start.duration(to: .now)
        #expect(taken > .seconds(15) && taken < .seconds(60), "\(taken)")
        #expect(status == 1 && output.isEmpty, "\(output)")
        let asked = originals.sorted()[0]
        #expect(errors.contains("\(asked), production: Stripe's API, GET /v1/"), "\(errors)")
        #expect(errors.contains("no answer: "), "\(errors)")
        let others = originals.sorted().dropFirst().joined(separator: ", ")
        #expect(errors.contains("not asked about any more: \(others)"), "\(errors)")
        #expect(!errors.contains(StripeStage.key))
        #expect(try await installation.rightful("events").split(separator: "\n").count == head)
        stage.stripe.failAlways(nil)
        #expect(try await installation.run(["check", customer]).status == 0)
        await stage.remove()
    }

    @Test("a customer of both stores is checked at both, and one store that cannot be asked hides nothing of the other")
    func both() async throws {
        let account = SimulatedStripe(.production, key: StripeStage.key, seed: 3, now: { StoreAPIStage.now })
        let server = try HTTPServerBox(account)
        let stage = try await StoreAPIStage(world: .standardOnWeb, settings: StripeStage.settings(at: server.url))
        let installation = stage.installation
        try StripeStage.writeSecrets(of: installation)
        try await installation.rightful("catalog", "apply", installation.catalogFile.path())
        let customer = "0f1d2e3c-4b5a-6978-8796-a5b4c3d2e1f0"
        let service = try await ServiceProcess.start(installation)
        defer { service.stop() }
        try await stage.awaitSweeps()
        let client = HTTPClient(service.url)
        let payload = try stage.production.send(
            "ONE_TIME_CHARGE", uuid: "n1",
            [
                "transactionId": .string("901"), "originalTransactionId": .string("901"),
                "bundleId": .string(installation.world.bundleID), "productId": .string("com.example.lifetime"),
                "type": .string("Non-Consumable"), "environment": .string("Production"),
                "appAccountToken": .string(customer), "purchaseDate": .integer(StoreAPIStage.now - Span.day),
                "signedDate": .integer(StoreAPIStage.now), "inAppOwnershipType": .string("PURCHASED"),
            ])
        #expect(try await client.notify(payload).status == 200)
        let form =
            "mode=subscription&line_items[0][price]=price_news_month&success_url=x"
            + "&subscription_data[metadata][rightful_customer_id]=\(customer)"
        let session = try await account.answer(
            SimulatedStripe.Request(
                method: "POST", path: ["v1", "checkout", "sessions"], authorization: "Bearer \(StripeStage.key)",
                body: Array(form.utf8)))
        let made = try JSONSerialization.jsonObject(with: Data(session.body)) as? [String: Any]
        let id = try #require(made?["id"] as? String)
        #expect(account.pay(id, by: .card) != nil)
        let subscription = try #require(account.session(id)?.subscription)
        let first = try await installation.run(["check", subscription])
        #expect(first.status == 0 && first.output.contains("\(subscription) (Stripe, production)"), "\(first)")
        #expect(first.output.contains("recorded now: event "), "\(first)")
        let unpaid = try await installation.run(["check", customer])
        #expect(
            unpaid.output.contains("\(subscription) (Stripe, production)"), "its invoice may not be paid: \(unpaid)")
        while !account.events().contains(where: { $0.type == "invoice.paid" }) {
            try await Task.sleep(for: .milliseconds(100))
        }
        account.act(.refund, on: subscription)
        let all = try await installation.run(["check", customer])
        #expect(all.status == 0 && all.output.contains("901 (com.example"), "\(all)")
        #expect(all.output.contains("\(subscription) (Stripe, production)") && all.output.contains("revoked"), "\(all)")
        account.failAlways(.status(401))
        let some = try await installation.run(["check", customer])
        #expect(some.status == 1 && some.output.contains("901 (com.example"), "\(some)")
        #expect(
            some.errors.contains("\(subscription), production: Stripe's API") && some.errors.contains("(401"), "\(some)"
        )
        #expect(!some.errors.contains(StripeStage.key))
        account.failAlways(nil)
        let unknown = try await installation.run(["check", "sub_nobody"])
        #expect(unknown.status == 1 && unknown.errors.contains("neither the ledger nor the store knows"), "\(unknown)")
        let other = try await installation.run(["check", "sub_nobody", "--environment", "sandbox"])
        #expect(other.status == 1 && other.errors.contains("no account of Stripe's is configured"), "\(other)")
        await stage.remove()
        await server.stop()
    }
}
