import APIDescription
import EntitlementAPI
import EntitlementCore
import Foundation
import HTTPServer
import Ledger
import PostgresClient
import Testing

@testable import Service

/// Corners of the outside surface that programs run into.
@Suite("Rarely used parts of the HTTP surface", .serialized, .timeLimit(.minutes(5)))
struct SurfaceTests {
    @Test("a time whose plus was not percent-encoded reads as what was meant; one that no answer can have is refused")
    func instants() async throws {
        let rig = try await ServiceRig.make()
        for at in ["2026-02-01T02:00:00+01:00", "2026-02-01T02:00:00%2B01:00", "2026-02-01%2002:00:00+01:00"] {
            let answer = try await rig.get("/v1/customers/c-1/entitlements?at=\(at)")
            #expect(try answer.json["at"] == .string("2026-02-01T01:00:00.000Z"), "\(at): \(answer.text)")
        }
        let unusable = ["2026-02-01T02:00:00", "2026-02-01+", "+", "2026-02-01T02:00:00++01:00"]
        // Answers have no other years, so that these would be answered about an instant that nobody named.
        let beyond = ["0000-06-01T00:00:00Z", "9999-12-31T23:59:59-01:00"]
        for at in unusable + beyond {
            for name in ["at", "known_at"] {
                let answer = try await rig.get("/v1/customers/c-1/entitlements?\(name)=\(at)")
                #expect(answer.verdict == "400 malformed_request", "\(name)=\(at)")
                #expect(try answer.json["param"] == .string(name), "\(name)=\(at)")
            }
        }
        let grant = #"{"entitlement":"e","reason":"r","until":"9999-12-31T23:59:59-01:00"}"#
        #expect(try await rig.command("grant", "c-1", grant).verdict == "400 malformed_request")
        let known = try await rig.get("/v1/customers/c-1/entitlements?known_at=2026-02-01T02:00:00+01:00")
        #expect(known.status == 200, "\(known.text)")
    }

    @Test("a parameter that stands twice in the query is refused by name, and one that nobody knows is ignored")
    func repeatedParameters() async throws {
        let rig = try await ServiceRig.make()
        let at = "at=2026-02-01T02:00:00Z"
        let table = [
            ("/v1/customers/c-1/entitlements?\(at)&\(at)", "at"),
            ("/v1/customers/c-1/entitlements?environment=sandbox&\(at)&environment=production", "environment"),
            ("/v1/customers/c-1/entitlements?known_at=1&known%5fat=1", "known_at"),
            ("/v1/events?after=1&after=2", "after"),
            ("/v1/customers?transaction_id=1&transaction_id=", "transaction_id"),
            ("/v1/customers/c-1/timeline?entitlement=a&entitlement=b", "entitlement"),
        ]
        for (target, param) in table {
            let answer = try await rig.get(target)
            #expect(answer.verdict == "400 malformed_request", "\(target): \(answer.text)")
            #expect(try answer.json["param"] == .string(param), "\(target)")
        }
        let key = try await rig.keys.list()[0]
        for (query, isTaken) in [("\(at)&known_at=1", true), ("\(at)&\(at)", false), ("\(at)&x=1&x=1", false)] {
            let target = Array("/v1/customers/c-1/entitlements?\(query)".utf8)
            let read = target.withUnsafeBufferPointer { PastRead($0, key: key) }
            #expect((read != nil) == isTaken, "what is not plain goes the general way: \(query)")
        }
        for query in ["colour=red&colour=blue", "\(at)&colour=&AT=1&AT=2"] {
            #expect(try await rig.get("/v1/customers/c-1/entitlements?\(query)").status == 200, "\(query)")
        }
    }

    @Test(
        "a header field that says two things is refused by name, one that says the same again is taken; lists are joined"
    )
    func repeatedFields() async throws {
        let rig = try await ServiceRig.make()
        _ = try await rig.put(ServiceRig.proCatalog)
        for (second, verdict) in [("b", "400 malformed_request"), ("a", "200 -")] {
            let answer = try await rig.send(
                "POST", "/v1/customers/c-1/actions/grant", key: rig.admin,
                headers: [("Idempotency-Key", "a"), ("idempotency-key", second)],
                body: Array(#"{"entitlement":"e","reason":"r"}"#.utf8))
            #expect(answer.verdict == verdict, "\(answer.text)")
            if verdict != "200 -" { #expect(try answer.json["param"] == .string("Idempotency-Key")) }
        }
        let subscriber = try await rig.get(
            "/revenuecat/v1/subscribers/x", headers: [("X-Is-Sandbox", "true"), ("X-Is-Sandbox", "false")])
        #expect(subscriber.status == 400, "\(subscriber.text)")
        let tag = try #require(try await rig.get("/v1/catalog").header("ETag"))
        for tags in [["\"x\"", tag], [tag, "\"x\""]] {
            let headers = tags.map { ("If-None-Match", $0) }
            #expect(try await rig.get("/v1/catalog", headers: headers).status == 304)
        }
        let chart = try await rig.get(
            "/v1/charts/active", headers: [("Accept", "application/json;q=0.5"), ("Accept", "text/csv")])
        #expect(chart.header("Content-Type")?.hasPrefix("text/csv") == true)
    }

    @Test("an idempotency key of 255 long characters is too long, not our fault, and described as it is taken")
    func idempotencyKeyLength() async throws {
        let rig = try await ServiceRig.make()
        let family = "\u{1F468}\u{200D}\u{1F469}\u{200D}\u{1F467}\u{200D}\u{1F466}"
        let table = [
            (String(repeating: family, count: 255), "400 malformed_request"),
            (String(repeating: "\u{1F468}", count: 255), "200 -"), (String(repeating: "k", count: 255), "200 -"),
            (String(repeating: "k", count: 256), "400 malformed_request"), ("a\u{85}b", "400 malformed_request"),
        ]
        guard case .text(let described) = Parameter.idempotencyKey.schema, let pattern = described.pattern else {
            throw TestFailure("its description does not say what it may be")
        }
        let form = try NSRegularExpression(pattern: pattern)
        for (key, verdict) in table {
            let answer = try await rig.put(ServiceRig.proCatalog, headers: [("Idempotency-Key", key)])
            #expect(answer.verdict == verdict, "\(key.prefix(4)) \(answer.text)")
            let whole = NSRange(key.startIndex..., in: key)
            #expect((form.firstMatch(in: key, range: whole) != nil) == (verdict == "200 -"), "\(key.prefix(4))")
        }
    }

    @Test("also_in says where the customer was known at known_at")
    func alsoIn() async throws {
        let rig = try await ServiceRig.make()
        _ = try await rig.put(ServiceRig.proCatalog)
        try await rig.notify(Purchase(environment: "Sandbox"))
        let path = "/v1/customers/\(Purchase.customer)/entitlements?known_at="
        #expect(try await rig.get(path + "2").json["also_in"] == nil)
        #expect(try await rig.get(path + "3").json["also_in"] == .array([.string("sandbox")]))
    }

    @Test("a database that hangs is not ready, and the probe is told so in time")
    func hangingDatabase() async throws {
        let rig = try await ServiceRig.make()
        var limits = Application.Limits()
        limits.readinessWait = .milliseconds(50)
        let (never, continuation) = AsyncStream<Never>.makeStream()
        let hanging = Application(
            ServiceContext(
                reader: rig.context.reader, limits: limits, metrics: rig.context.metrics, logger: rig.context.logger,
                sha256: rig.context.sha256, now: rig.context.now),
            ledger: LedgerAccess(
                writer: rig.ledger.writer, keys: rig.keys, tokens: rig.ledger.tokens,
                commandKeys: rig.ledger.commandKeys,
                schemaRefusal: {
                    for await _ in never {}
                    return nil
                }), trust: rig.trust)
        let answer = await hanging.handle(try .init(head: .init(method: "GET", target: "/readyz")))
        #expect(answer.verdict == "503 unavailable")
        #expect(answer.header("Retry-After") != nil)
        continuation.finish()
    }

    @Test("metrics say that the database is away to a key known before, and to no other")
    func metricsInOutage() async throws {
        var limits = Application.Limits()
        limits.keyLifetime = .zero
        let rig = try await ServiceRig.make(limits: limits)
        let other = try await rig.keys.create(name: "other", scopes: [.admin]).secret
        #expect(try await rig.get("/metrics").status == 200)
        await rig.pool.close()
        #expect(try await rig.get("/metrics").text.contains("\nrightful_database_up 0\n"))
        #expect(try await rig.get("/v1/ledger").verdict == "503 unavailable")
        #expect(try await rig.send("GET", "/metrics", key: other).verdict == "503 unavailable")
    }

    @Test("whoever waited to append records the instant at which the wait was over")
    func recordedUnderTheLock() async throws {
        let rig = try await ServiceRig.make()
        let later = "2026-11-20T12:00:30.000Z"
        let arrival = try await rig.pool.withConnection { connection in
            try connection.execute(script: "BEGIN; SELECT position FROM ledger_head FOR UPDATE")
            let arrival = Task { try await rig.notify(Purchase()) }
            let waitsForUs = "SELECT FROM pg_locks WHERE NOT granted AND pg_backend_pid() = ANY (pg_blocking_pids(pid))"
            let begun = ContinuousClock.now
            while try connection.query(waitsForUs).isEmpty {
                try #require(begun.duration(to: .now) < .seconds(20), "nobody waits to append")
            }
            rig.clock.now = try instant(later)
            try connection.execute(script: "COMMIT")
            return arrival
        }
        #expect(try await arrival.value.status == 200)
        #expect(try await rig.get("/v1/events/2").json["recorded_at"] == .string(later))
    }

    @Test("the page about HTTP names every code that an answer may have, with its status")
    func documentedCodes() throws {
        let page = try String(
            contentsOf: URL(filePath: #filePath).deletingLastPathComponent().appending(path: "../../docs/http.md"),
            encoding: .utf8)
        let rows = page.split(separator: "\n").filter { $0.hasPrefix("| `") }
        for code in ProblemCode.allCases {
            let row = rows.first { $0.contains("`\(code.rawValue)`") && $0.contains("\(code.status)") }
            #expect(row != nil, "\(code.rawValue) \(code.status)")
        }
    }
}
