import EntitlementAPI
import EntitlementCore
import Foundation
import HTTPServer
import Ledger
import PostgresClient
import TestSupport
import Testing

@testable import Service

@Suite("Health, metrics, problems and the log", .serialized, .timeLimit(.minutes(5)))
struct OperationTests {
    @Test("health needs no key; ready means that the ledger can be read")
    func health() async throws {
        var limits = Application.Limits()
        limits.readinessLifetime = .zero
        let rig = try await ServiceRig.make(limits: limits)
        #expect(try await rig.send("GET", "/healthz").text == #"{"status":"ok"}"#)
        #expect(try await rig.send("GET", "/readyz").text == #"{"status":"ready"}"#)
        await rig.pool.close()
        #expect(try await rig.send("GET", "/healthz").status == 200)
        #expect(try await rig.send("GET", "/readyz").verdict == "503 unavailable")
    }

    @Test("metrics count requests by route, and notifications by what became of them")
    func metrics() async throws {
        let rig = try await ServiceRig.make()
        _ = try await rig.put(ServiceRig.proCatalog)
        let signed = try Purchase().signed(by: rig.store)
        for _ in 0..<2 { _ = try await rig.deliver(signed) }
        _ = try await rig.get("/v1/customers/a/entitlements")
        _ = try await rig.get("/v1/customers/b/entitlements")
        let answer = try await rig.get("/metrics")
        #expect(answer.header("Content-Type") == "text/plain; version=0.0.4; charset=utf-8")
        for line in [
            #"rightful_http_requests_total{route="/v1/customers/{id}/entitlements",status="200"} 2"#,
            #"rightful_http_request_duration_seconds_count{route="/v1/customers/{id}/entitlements"} 2"#,
            #"rightful_notification_verdicts_total{verdict="accepted"} 1"#,
            #"rightful_notification_verdicts_total{verdict="duplicate"} 1"#,
            #"rightful_notifications_total{type="subscribed"} 1"#,
            #"rightful_notification_verification_duration_seconds_count 2"#,
            #"rightful_append_batch_events_count 4"#,
            "rightful_ledger_head_position 3",
            "rightful_database_up 1",
            #"rightful_build_info{version="0.0.0",fold_version="1"} 1"#,
        ] {
            let isThere = answer.text.contains("\n" + line + "\n")
            #expect(isThere, "\(line)")
        }
    }

    @Test("an orderly end waits for a log that is read, and five seconds for one that is not")
    func unreadLog() async throws {
        let pipe = Pipe()
        let log = LogWriter(descriptor: pipe.fileHandleForWriting.fileDescriptor)
        let end = Timestamp.earliest
        log.write(lines: Array("read\n".utf8), count: 1, time: end)
        await log.flush()
        #expect(pipe.fileHandleForReading.availableData == Data("read\n".utf8))
        // More than fits into a pipe.
        log.write(lines: Array(repeating: UInt8(ascii: "x"), count: 1 << 20), count: 1, time: end)
        let begin = ContinuousClock.now
        // As a service ends that a signal told to.
        let ending = Task { await log.flush() }
        ending.cancel()
        await ending.value
        #expect((.seconds(5)..<(.seconds(20))).contains(begin.duration(to: .now)))
        // Whoever writes is let go, for the pipe must not close under them.
        var left = 1 << 20
        while left > 0 { left -= pipe.fileHandleForReading.availableData.count }
        await log.flush()
    }

    @Test("a standard error that never blocks loses no line, however slowly it is read")
    func impatientLog() async throws {
        let pipe = Pipe()
        let descriptor = pipe.fileHandleForWriting.fileDescriptor
        #expect(fcntl(descriptor, F_SETFL, O_NONBLOCK) == 0)
        let log = LogWriter(descriptor: descriptor)
        for number in 0..<2000 {
            log.write(lines: Array("\(number) \(String(repeating: "x", count: 100))\n".utf8), count: 1, time: .earliest)
        }
        // The pipe is full meanwhile.
        try await Task.sleep(for: .milliseconds(300))
        async let read = pipe.fileHandleForReading.untilEnd()
        await log.flush()
        try pipe.fileHandleForWriting.close()
        let lines = String(decoding: try await read, as: UTF8.self).split(separator: "\n")
        // With their types, because the compiler takes seconds to find them out.
        let begun: [String] = lines.map { (line: Substring) -> String in String(line.prefix { $0 != " " }) }
        let expected: [String] = (0..<2000).map { (number: Int) -> String in String(number) }
        #expect(begun == expected)
    }

    @Test("what a full disk took of the log is told once there is room, on a line of its own")
    func fullLog() async throws {
        let (before, after) = (Pipe(), Pipe())
        let descriptor = dup(before.fileHandleForWriting.fileDescriptor)
        let full = open("/dev/full", O_WRONLY)
        defer { for number in [descriptor, full] { close(number) } }
        #expect(fcntl(descriptor, F_SETFL, O_NONBLOCK) == 0)
        let log = LogWriter(descriptor: descriptor)
        // More than fits: a part of the second line is written, and the writer waits for its reader.
        let long = [UInt8](repeating: UInt8(ascii: "x"), count: 100_000)
        log.write(lines: Array("whole\n".utf8) + long + Array("\n".utf8), count: 2, time: .earliest)
        var waiting: Int32 = 0
        while waiting < 65_536 {
            _ = ioctl(before.fileHandleForReading.fileDescriptor, UInt(FIONREAD), &waiting)
            try await Task.sleep(for: .milliseconds(5))
        }
        try await Task.sleep(for: .milliseconds(100))
        dup2(full, descriptor)
        #expect(before.fileHandleForReading.availableData.starts(with: Array("whole\nxxx".utf8)))
        await log.flush()
        log.write(lines: Array("lost\n".utf8), count: 1, time: .earliest)
        await log.flush()
        dup2(after.fileHandleForWriting.fileDescriptor, descriptor)
        log.write(lines: Array("last\n".utf8), count: 1, time: .earliest)
        await log.flush()
        let text = String(decoding: after.fileHandleForReading.availableData, as: UTF8.self)
        let lines = text.split(separator: "\n", omittingEmptySubsequences: false)
        #expect(lines.count == 4 && lines[0].isEmpty && lines[2] == "last", "\(text)")
        let told = try WireValue(json: String(lines[1]))
        #expect(told["dropped"] == .int(2), "\(text)")
        #expect(
            told["message"] == .string("log lines dropped: they could not be written (No space left on device)"),
            "\(text)")
    }

    @Test("the labels of one family are bounded")
    func cardinality() {
        let metrics = Metrics(version: "1", foldVersion: 1)
        for number in 0..<(Metrics.combinationLimit + 10) { metrics.count(.remarks, ["kind\(number)"]) }
        #expect(metrics.text(isDatabaseUp: true).contains(#"{kind="other"} 10"#))
    }

    @Test("a problem names itself, says whether to try again, and bears the id that the log bears")
    func problems() async throws {
        let rig = try await ServiceRig.make()
        let answer = try await rig.get("/v1/subscriptions/1")
        let problem = try WireJSON.decode(ProblemDocument.self, from: answer.body)
        #expect(answer.header("Content-Type") == "application/problem+json")
        #expect(problem.status == 404)
        #expect(problem.type == "urn:rightful:problem:not_found")
        #expect(problem.param == "original_transaction_id")
        #expect(!problem.retryable)
        #expect(answer.header("X-Request-Id") == problem.requestID)
        #expect(rig.log.lines.last?.contains(problem.requestID) == true)
    }

    @Test("what the server turns away reads like any other problem")
    func refusals() async throws {
        let rig = try await ServiceRig.make()
        let head = HTTPRequestHead(method: "POST", target: "/v1/customers/secret-customer")
        let table: [(HTTPRefusal, String)] = [
            (.malformed(reason: "x"), "400 malformed_request"), (.bodyTooLarge(limit: 1), "413 too_large"),
            (.targetTooLong(limit: 1), "414 target_too_long"), (.headersTooLarge(limit: 1), "431 headers_too_large"),
            (.unsupportedTransferCoding, "501 not_implemented"), (.overloaded(retryAfterSeconds: 1), "503 unavailable"),
            (.shuttingDown(retryAfterSeconds: 1), "503 unavailable"),
            (.unsendableResponse(reason: "x"), "500 internal"),
        ]
        for (refusal, verdict) in table { #expect(rig.application.refuse(refusal, head).verdict == verdict) }
        #expect(rig.application.refuse(.overloaded(retryAfterSeconds: 7), head).header("Retry-After") == "7")
        #expect(!rig.log.lines.joined().contains("secret-customer"))
    }

    @Test("codes keep the statuses that the contract gives them")
    func codes() {
        let contract = [
            "malformed_request": 400, "malformed_jws": 400, "untrusted_signature": 401, "unauthenticated": 401,
            "forbidden": 403, "unknown_app": 403, "wrong_environment": 403, "not_found": 404,
            "method_not_allowed": 405, "position_not_reached": 409, "idempotency_conflict": 409, "too_large": 413,
            "inconsistent_payload": 422, "unprocessable": 422, "unavailable": 503,
        ]
        for (code, status) in contract { #expect(ProblemCode(rawValue: code)?.status == status, "\(code)") }
    }

    @Test("our own faults are never the client's, and say nothing of what they choked on")
    func faults() {
        let unexpected = Problem(TestFailure("secret"))
        #expect(unexpected.code == .internalError)
        #expect(!unexpected.detail.contains("secret"))
        #expect(unexpected.cause?.contains("secret") == false)
        #expect(Problem(LedgerError(.corrupt, "a row")).code == .internalError)
        #expect(Problem(LedgerError(.invalid, "a row")).code == .internalError)
        let tooMuch = Problem(LedgerError(.tooMuch, "This customer has too many events."))
        #expect(tooMuch.code == .unprocessable && tooMuch.detail == "This customer has too many events.")
        for code in [LedgerError.Code.unavailable, .schema] {
            let problem = Problem(LedgerError(code, "the database is away"))
            #expect(problem.code == .unavailable)
            #expect(!problem.detail.contains("database"))
            #expect(problem.headers.contains { $0.0 == "Retry-After" })
        }
        #expect(Problem(CancellationError()).code == .unavailable)
    }

    @Test("the log has a line for each request, whole JSON, without identities, secrets or payloads")
    func log() async throws {
        let rig = try await EntitlementsTests.rig()
        let signed = try Purchase().signed(by: rig.store)
        _ = try await rig.deliver(signed)
        _ = try await rig.deliver(signed + "x")
        let targets = [
            "/v1/customers/\(Purchase.customer)/entitlements", "/v1/customers/\(Purchase.customer)/timeline",
            "/v1/customers/\(Purchase.customer)/events", "/v1/customers?app_account_token=\(Purchase.customer)",
            "/v1/customers?app_transaction_id=704000001", "/v1/customers/\(Purchase.customer)/entitlements?at=x",
            "/v1/subscriptions/2000000123456780", "/v1/\(Purchase.customer)", "/v1/events",
        ]
        for target in targets { _ = try await rig.get(target) }
        let lines = rig.log.lines
        #expect(lines.filter { $0.contains(#""message":"request""#) }.count == 4 + targets.count)
        for line in lines {
            #expect(line.hasSuffix("}\n"))
            let json = try WireValue(json: line)
            #expect(json["time"] == .string(ServiceRig.noon))
            for secret in [
                Purchase.customer, "704000001", "2000000123456780", rig.admin, signed.prefix(40).description,
            ] {
                #expect(!line.lowercased().contains(secret.lowercased()), "\(line)")
            }
        }
    }

    @Test("the line of a request that a key may not send names the key")
    func refusedKey() async throws {
        let rig = try await ServiceRig.make()
        let reading = try await rig.keys.create(name: "r", scopes: [.customersRead])
        let shipped = try await rig.keys.create(
            name: "p", scopes: [], isPublishable: true, bundleID: ServiceRig.bundleID)
        for key in [reading, shipped] {
            #expect(try await rig.send("GET", "/v1/events", key: key.secret).verdict == "403 forbidden")
            #expect(try WireValue(json: try #require(rig.log.lines.last))["key_id"] == .string(key.key.id))
        }
    }

    @Test("a log line escapes what would break it")
    func escaping() throws {
        let record = LogRecord(
            time: .earliest, level: .info, message: "a\"b\\c\nd\u{7F}é\u{9B}\"\u{301}",
            fields: [("n", 1), ("f", .number(.infinity)), ("b", .boolean(true)), ("s", "x")])
        let line = String(decoding: record.line, as: UTF8.self)
        #expect(line.count(where: \.isNewline) == 1)
        let json = try WireValue(json: line)
        #expect(json["message"] == .string("a\"b\\c\nd\u{7F}é\u{9B}\"\u{301}"))
        #expect(line.contains(#"é\u009b"#))
        #expect(json["f"] == .null)
    }

    @Test("a label's value is escaped, whatever stands behind a mark")
    func labels() {
        var page = PrometheusPage()
        page.sample("m", [("app", "a\"\u{301}\\\u{301}\n")], "1")
        #expect(Array(page.text.utf8) == Array("m{app=\"a\\\"\u{301}\\\\\u{301}\\n\"} 1\n".utf8))
    }

    @Test("lines of many tasks never mix")
    func wholeLines() async throws {
        let pipe = Pipe()
        let writer = LogWriter(descriptor: pipe.fileHandleForWriting.fileDescriptor)
        let logger = Logger(level: .info, now: { .earliest }, sink: { writer.write($0) })
        async let read = pipe.fileHandleForReading.untilEnd()
        await withTaskGroup(of: Void.self) { group in
            for task in 0..<8 {
                group.addTask { for _ in 0..<50 { logger.log(.info, String(repeating: "\(task)", count: 500)) } }
            }
        }
        logger.log(.debug, "not this one")
        await writer.flush()
        try pipe.fileHandleForWriting.close()
        let text = String(decoding: try await read, as: UTF8.self)
        let lines = text.split(separator: "\n")
        #expect(lines.count == 400)
        for line in lines { _ = try WireValue(json: String(line)) }
    }
}
