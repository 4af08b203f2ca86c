import Foundation
import HTTPServer
import SeededRandom
import StoreSimulator
import StripePayloads
import TestSupport
import Testing

/// A simulated Stripe on a port.
final class HTTPServerBox: Sendable {
    private let server: HTTPServer
    let url: String

    init(_ stripe: SimulatedStripe) throws {
        server = stripe.makeServer()
        try server.start()
        url = "http://127.0.0.1:\(server.boundPort ?? 0)"
    }

    func stop() async { await server.stop(graceSeconds: 0) }
}

/// A customer base that Stripe alone knows, brought in from its lists.
@Suite("Import of a Stripe account", .serialized, .timeLimit(.minutes(10)))
struct StripeImportTests {
    private static let command = ["import", "--stripe", "--environment", "production"]

    @Test("import alone gives everybody what they have, however often it is killed and Stripe fails, and nobody twice")
    func killed() async throws {
        let stage = try await StripeStage(seeds: 300..<315)
        try #require(stage.lives.count > 8)
        let installation = stage.installation
        stage.stripe.limitPages(to: 20)
        stage.stripe.failAtRandom(percent: 8, seed: 5)
        var random = SplitMix64(seed: 5)
        for round in 0..<4 {
            let process = try await installation.start(Self.command)
            let target = stage.stripe.asked.count + Int(random.number(in: 3...18))
            let end = ContinuousClock.now + .seconds(60)
            while stage.stripe.asked.count < target, process.endStatus == nil, .now < end {
                try await Task.sleep(for: .milliseconds(5))
            }
            try #require(stage.stripe.asked.count >= target, "round \(round): it did not get there")
            kill(process.processIdentifier, SIGKILL)
            process.waitForEnd()
            try await installation.asOwner("UPDATE web_import SET heartbeat_at = heartbeat_at - interval '1 minute'")
        }
        let (status, output, errors) = try await installation.run(Self.command)
        #expect(status == 0 && output.contains(" objects read: "), "\(output) \(errors)")
        stage.stripe.failAtRandom(percent: 0, seed: 0)
        let events = try await installation.rightful("events").split(separator: "\n")
        #expect(events.contains { $0.contains("web_reading") })
        #expect(!errors.contains(StripeStage.key) && !output.contains(StripeStage.key))
        // What is done costs nothing but reading it.
        let (asked, start) = (stage.stripe.asked.count, ContinuousClock.now)
        let again = try await installation.run(Self.command)
        #expect(again.status == 0 && again.output.contains("this run read "), "\(again)")
        // A fifth of what Stripe allows an account, and what may be saved up in one second.
        let seconds = start.duration(to: .now) / .seconds(1)
        #expect(Double(stage.stripe.asked.count - asked) <= 20 * seconds + 20, "in \(seconds) s")
        #expect(again.output.contains(" and recorded 0\n"), "\(again.output)")
        #expect(try await installation.rightful("events").split(separator: "\n").count == events.count)
        #expect(try await installation.rightful("verify").contains("verified"))

        let key = try await installation.adminKey()
        let service = try await ServiceProcess.start(installation)
        let client = HTTPClient(service.url, key: key)
        try await stage.expectHeld(client, "imported")
        #expect(service.stop() == 0)
        await stage.remove()
    }

    @Test("an import beside a service to which webhooks come changes nothing of what they tell, in whatever order")
    func beside() async throws {
        let stage = try await StripeStage(seeds: 330..<336)
        let installation = stage.installation
        let key = try await installation.adminKey()
        let service = try await ServiceProcess.start(installation)
        let client = HTTPClient(service.url, key: key)
        async let imported = installation.run(Self.command + ["--again"])
        for life in stage.lives {
            let events = life.events.filter { StripeEventType.isKnown($0.type) }
            let arrivals = WebDelivery.plan(events, .chaotic, seed: life.seed)
            for start in stride(from: 0, to: arrivals.count, by: 6) {
                try await withThrowingTaskGroup(of: Void.self) { group in
                    for arrival in arrivals[start...].prefix(6) {
                        group.addTask { try await stage.deliver(events[arrival.index], arrival.shape, to: client) }
                    }
                    try await group.waitForAll()
                }
            }
        }
        // The service reads the lists by itself, too: whoever comes second finds it at work, or nothing to do.
        let first = try await imported
        #expect(first.status == 0 || first.errors.contains("another process is reading"), "\(first)")
        let deadline = ContinuousClock.now + .seconds(120)
        var status = ""
        repeat {
            try await Task.sleep(for: .milliseconds(500))
            status = try await installation.rightful("status", "--json")
        } while ContinuousClock.now < deadline
            && !(status.contains(#""lookups_owed":0"#) && status.contains(#""gap":null"#))
        #expect(status.contains(#""lookups_owed":0"#) && status.contains(#""gap":null"#), "\(status)")
        try await stage.expectHeld(client, "beside webhooks")
        let second = try await installation.run(Self.command)
        #expect(second.status == 0 && second.output.contains(" and recorded 0\n"), "\(second)")
        let table = try await installation.rightful("status")
        #expect(table.contains("Stripe, production: what the store sent until "), "\(table)")
        #expect(try await installation.rightful("verify").contains("verified"))
        #expect(service.stop() == 0)
        await stage.remove()
    }

    @Test("the command says what is missing, what belongs to nobody and what to do, and what it does not take")
    func told() async throws {
        let stage = try await StripeStage(seeds: 340..<348)
        let installation = stage.installation
        for (arguments, words) in [
            (["--stripe"], "--stripe needs --environment"),
            (Self.command.dropFirst() + ["--app", "com.example.app"], "--app is for the App Store"),
            (Self.command.dropFirst() + ["--owner-metadata", "a[b"], "can be no key"),
            (
                ["--owner-metadata", "user_id", "--transaction-ids", "x", "--app", "b"],
                "--owner-metadata is for --stripe"
            ),
            (["--owners", "x"], "--app is missing"), (["--app", "b"], "--transaction-ids is missing"),
            (Self.command.dropFirst() + ["--unknown-to", "x"], "--unknown-to is for the App Store"),
        ] as [([String], String)] {
            let refused = try await installation.run(["import"] + arguments)
            #expect(refused.status == 2 && refused.errors.contains(words), "\(arguments): \(refused)")
        }
        let list = installation.directory.appending(path: "owners.csv").path()
        for (text, words) in [
            ("subscription,user\nsub_1,c-1\n", "line 1: 'subscription' is no subscription"),
            ("sub_1\n", "line 1: beside"),
            ("# Stripe's, ours\nsub_1,c-1\nsub_1,c-2\n", "line 3: 'sub_1' stands in the list before"),
            ("sub_1,c-1,com.example.lifetime\n", "line 1: 'sub_1' is too long, or a product"),
            ("pi_1;c-1;com.example.none\r\n", "line 1: no product of the catalog is called 'com.example.none'"),
            ("cus_1,\"c-1,c-2\n", "line 1: a quotation mark"), ("cus_1,\"c\"-1\n", "line 1: a quotation mark"),
            ("cus_1,\"c-1,c-2\"\ncus_1,c-1\n", "line 2: 'cus_1' stands in the list before"),
            ("\n# \"nothing\n", "names no customers"),
            (
                "sub_1,0f1d2e3c-4b5a-6978-8796-a5b4c3d2e1f0\nsub_2,0F1d2e3c-4b5a-6978-8796-a5b4c3d2e1f0\n",
                "'0F1d2e3c-4b5a-6978-8796-a5b4c3d2e1f0' in \(list), line 2, and '0f1d"
            ),
        ] {
            try text.write(toFile: list, atomically: true, encoding: .utf8)
            let refused = try await installation.run(Self.command + ["--owners", list])
            #expect(refused.status == 1 && refused.errors.contains(words), "\(text): \(refused)")
        }
        #expect(stage.stripe.asked.isEmpty)
        let missing = try await installation.run(Self.command + ["--owners", list + ".none"])
        #expect(missing.status == 1 && missing.errors.contains("cannot be read"), "\(missing)")
        let other = try await installation.run(["import", "--stripe", "--environment", "sandbox"])
        #expect(
            other.status == 1 && other.errors.contains("no account of Stripe's is configured for sandbox"), "\(other)")
        stage.stripe.failAlways(.status(401))
        let unauthorized = try await installation.run(Self.command)
        #expect(unauthorized.status == 1 && unauthorized.errors.contains("secret_key_path"), "\(unauthorized)")
        #expect(unauthorized.errors.contains("the same command goes on"), "\(unauthorized)")
        stage.stripe.failAlways(nil)
        let done = try await installation.run(Self.command)
        let nobodys = stage.lives.flatMap { $0.record.web.stories }.count { $0.value.owner == nil }
        #expect(done.status == 0, "\(done)")
        if nobodys > 0 {
            #expect(
                done.output.contains(" belong to nobody") && done.output.contains("--owner-metadata KEY"), "\(done)")
            #expect(done.output.contains("--owners FILE"), "\(done)")
            let names = done.output.split(separator: "\n").filter { $0.hasPrefix("nobody's: ") && !$0.contains("…") }
            let ids = names.map { $0.dropFirst("nobody's: ".count) }
            let lines = ids.map { "\"\($0)\";\"user of \($0)\"\r\n" }.joined()
            try lines.write(toFile: list, atomically: true, encoding: .utf8)
            let owned = try await installation.run(Self.command + ["--owners", list])
            #expect(owned.status == 0 && !owned.output.contains(" belong to nobody"), "\(owned)")
            for id in ids {
                let held = try await installation.rightful("explain", "user of \(id)")
                #expect(held.contains(id), "\(held)")
            }
            try (lines + "sub_none,c-9\r\n").write(toFile: list, atomically: true, encoding: .utf8)
            let unmet = try await installation.run(Self.command + ["--owners", list])
            #expect(unmet.status == 0, "\(unmet)")
            #expect(unmet.output.contains("1 entries of the list name subscriptions and payments that are not known"))
            let stories = stage.lives.flatMap { $0.record.web.stories }.filter { $0.value.owner != nil }
            let ownable = stories.map(\.key.originalTransactionID).filter { !$0.hasPrefix("cs_") }
            if let held = ownable.min() {
                try "\(held),somebody else\n".write(toFile: list, atomically: true, encoding: .utf8)
                let kept = try await installation.run(Self.command + ["--owners", list])
                #expect(kept.output.contains("keeps another owner: \(held)\n"), "\(kept)")
            }
            #expect(try await installation.rightful("verify").contains("verified"))
        }
        await stage.remove()
    }
}
