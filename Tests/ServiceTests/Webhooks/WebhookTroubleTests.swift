import EntitlementAPI
import EntitlementCore
import Foundation
import HTTPServer
import Ledger
import PostgresClient
import TestSupport
import Testing

@testable import Service

@Suite("Webhooks: receivers in trouble", .timeLimit(.minutes(1)))
struct WebhookTroubleTests {
    private static let grant = #"{"entitlement":"premium","reason":"r"}"#

    @Test("a receiver that has too much is sent nothing at all until then, about whomever", arguments: [429, 503])
    func hold(status: Int) async throws {
        let rig = try await ServiceRig.make()
        let receiver = try Receiver { _, number in
            number == 0 ? .answer(status, headers: ["Retry-After: 3"], "") : .answer(200, "")
        }
        let made = try await rig.endpoint(receiver, #","types":["entitlements.changed"]"#)
        let path = "/v1/webhook_endpoints/\(try ServiceRig.id(made))"
        _ = try await rig.command("grant", "c-1", Self.grant)
        try await rig.telling {
            var held: WireValue?
            while held == nil || held == .null {
                try await Task.sleep(for: .milliseconds(5))
                held = try await rig.get(path).json["held_until"]
            }
            guard case .string(let text)? = held else { return #expect(Bool(false), "no instant") }
            let until = try instant(text)
            _ = try await rig.command("grant", "c-2", Self.grant)
            try await receiver.wait("both") { $0.count == 2 }
            // The database's clock and this one are the same machine's.
            #expect(Date().timeIntervalSince1970 * 1000 >= Double(until.milliseconds))
        }
        #expect(receiver.requests.count == 3)
        #expect(try await rig.get(path).json["held_until"] == .null)
    }

    @Test("a receiver that asked to be left alone is sent what there is at once when somebody resumes it")
    func resumedHold() async throws {
        let rig = try await ServiceRig.make()
        let receiver = try Receiver { _, number in
            number == 0 ? .answer(503, headers: ["Retry-After: 21600"], "") : .answer(200, "")
        }
        let path = "/v1/webhook_endpoints/\(try ServiceRig.id(try await rig.endpoint(receiver, "")))"
        _ = try await rig.command("grant", "c-1", Self.grant)
        try await rig.telling {
            while try await rig.get(path).json["held_until"] == .null { try await Task.sleep(for: .milliseconds(5)) }
            let resumed = try await rig.send("POST", path + "/actions/resume", key: rig.admin)
            #expect(resumed.status == 200, "\(resumed.text)")
            try await receiver.wait("the message again") { $0.count >= 2 }
        }
        #expect(try await rig.get(path).json["held_until"] == .null)
        let head = try await rig.get("/v1/ledger").json["position"]
        #expect(try await rig.send("POST", path + "/actions/resume", key: rig.admin).status == 200)
        #expect(try await rig.get("/v1/ledger").json["position"] == head, "nothing held it up")
    }

    @Test("messages of one customer that were not taken are sent at once when somebody resumes the endpoint")
    func resumedForOne() async throws {
        let rig = try await ServiceRig.make()
        let receiver = try Receiver { _, number in
            number == 0 ? .answer(500, headers: ["Retry-After: 21600"], "") : .answer(200, "")
        }
        let made = try await rig.endpoint(receiver, #","types":["entitlements.changed"]"#)
        let path = "/v1/webhook_endpoints/\(try ServiceRig.id(made))"
        _ = try await rig.command("grant", "c-1", Self.grant)
        try await rig.telling {
            while try await rig.get(path + "/deliveries").text.contains("status 500") == false {
                try await Task.sleep(for: .milliseconds(5))
            }
            _ = try await rig.command("grant", "c-2", Self.grant)
            try await receiver.wait("another customer's") { $0.count == 1 }
            #expect(try await rig.get(path).json["held_until"] == .null)
            #expect(try await rig.send("POST", path + "/actions/resume", key: rig.admin).status == 200)
            try await receiver.wait("the first again") { $0.count == 2 }
        }
        #expect(receiver.requests[2].body.contains("c-1"))
    }

    @Test("whoever asks to be left alone for longer than a number can say is left alone for six hours")
    func longHold() async throws {
        let rig = try await ServiceRig.make()
        let receiver = try Receiver { _, _ in .answer(503, headers: ["Retry-After: 999999999999999999999"], "") }
        let path = "/v1/webhook_endpoints/\(try ServiceRig.id(try await rig.endpoint(receiver, "")))"
        _ = try await rig.command("grant", "c-1", Self.grant)
        try await rig.telling {
            var held: WireValue?
            while held == nil || held == .null {
                try await Task.sleep(for: .milliseconds(5))
                held = try await rig.get(path).json["held_until"]
            }
            guard case .string(let text)? = held else { return #expect(Bool(false), "no instant") }
            let hours = (Double(try instant(text).milliseconds) / 1000 - Date().timeIntervalSince1970) / 3600
            #expect(hours > 5.9 && hours < 6.1)
        }
    }

    @Test("an endpoint may name test messages alone, by the name of its format, and is sent nothing else")
    func testsAlone() async throws {
        let rig = try await ServiceRig.make()
        for (format, name) in [("standard", "test"), ("revenuecat", "TEST")] {
            let receiver = try Receiver()
            let made = try await rig.endpoint(receiver, #","format":"\#(format)","types":["\#(name)"]"#)
            _ = try await rig.command("grant", "c-\(format)", Self.grant)
            let tried = try await rig.send(
                "POST", "/v1/webhook_endpoints/\(try ServiceRig.id(made))/actions/test", key: rig.admin)
            #expect(tried.status == 200)
            try await rig.telling { try await receiver.wait("the test") { $0.count == 1 } }
            #expect(receiver.requests[0].body.contains(#""\#(name)""#))
        }
    }

    @Test(
        "the log has one line when a receiver has taken nothing for a while, one when it is well, and one for what is given up"
    )
    func told() async throws {
        let rig = try await ServiceRig.make()
        let isWell = Tally(0)
        let receiver = try Receiver { _, _ in isWell.isUp ? .answer(200, "") : .answer(500, "") }
        let made = try await rig.endpoint(receiver, #","types":["entitlements.changed"]"#)
        let path = "/v1/webhook_endpoints/\(try ServiceRig.id(made))"
        func lines(_ words: String) -> [String] { rig.log.lines.filter { $0.contains(words) } }
        func wait(_ words: String) async throws {
            let end = ContinuousClock.now + .seconds(20)
            while lines(words).isEmpty {
                guard ContinuousClock.now < end else {
                    let listed = try await rig.get(path + "/deliveries").text
                    Issue.record("\(words): \(rig.log.lines.filter { $0.contains("webhook") }) \(listed)")
                    throw CancellationError()
                }
                try await Task.sleep(for: .milliseconds(5))
            }
        }
        _ = try await rig.command("grant", "c-1", Self.grant)
        try await rig.telling {
            while try await rig.get(path).json["failing_since"] == .null {
                try await Task.sleep(for: .milliseconds(5))
            }
            #expect(lines("takes nothing").isEmpty, "a short failure is no news")
            rig.wait(seconds: 60)
            _ = try await rig.command("grant", "c-2", Self.grant)
            try await wait("takes nothing")
            _ = try await rig.command("grant", "c-3", Self.grant)
            func attempts(_ index: Int) async throws -> WireValue? {
                try await rig.get(path + "/deliveries").json["items"]?[index]?["attempts"]
            }
            while [nil, .int(0)].contains(try await attempts(2)) { try await Task.sleep(for: .milliseconds(5)) }
            isWell.put(1)
            _ = try await rig.command("grant", "c-4", Self.grant)
            try await wait("takes messages again")
            try await receiver.wait("all") { $0.count == 4 }
            isWell.put(0)
            _ = try await rig.command("grant", "c-5", Self.grant)
            while [nil, .int(0)].contains(try await attempts(4)) { try await Task.sleep(for: .milliseconds(5)) }
            rig.clock.now = rig.clock.now.adding(milliseconds: DeliverySchedule.patience)
            try await rig.pool.withConnection { connection in
                _ = try connection.query("UPDATE webhook_delivery SET due_at = clock_timestamp() WHERE state = 1")
                _ = try connection.query("UPDATE webhook_endpoint SET due_at = clock_timestamp()")
            }
            try await wait("is given up")
        }
        #expect(lines("takes messages again").count == 1)
        for line in lines("takes nothing") + lines("is given up") {
            #expect(line.contains("status 500") && line.contains("http://127.0.0.1") && !line.contains("/hook"))
        }
    }

    @Test("of each kind of line there are no more than twenty a minute, and the next says how many were left out")
    func budget() {
        var budget = NoticeBudget()
        let begin = Timestamp(milliseconds: Int64(1_800_000_000_000))
        for second in 0..<50 {
            #expect(budget.take(at: begin.adding(milliseconds: Int64(second) * 1000)) == (second < 20 ? 0 : nil))
        }
        #expect(budget.take(at: begin.adding(milliseconds: 60_000)) == 30)
        #expect(budget.take(at: begin.adding(milliseconds: 61_000)) == 0)
    }

    @Test("one order to send again names one thing, and one message or a span of time is enough")
    func redelivery() async throws {
        let rig = try await ServiceRig.make()
        let receiver = try Receiver()
        let made = try await rig.endpoint(receiver, #","types":["event.recorded"]"#)
        let path = "/v1/webhook_endpoints/\(try ServiceRig.id(made))"
        func redeliver(_ body: String) async throws -> HTTPResponse {
            try await rig.send("POST", path + "/actions/redeliver", key: rig.admin, body: Array(body.utf8))
        }
        func idle() async throws {
            while try await rig.get(path).json["waiting"] != .int(0) { try await Task.sleep(for: .milliseconds(5)) }
        }
        try await rig.telling {
            for number in 1...3 {
                _ = try await rig.command("grant", "c-\(number)", Self.grant)
                try await receiver.wait("each") { $0.count == number }
                rig.wait(seconds: 10)
            }
            try await idle()
            let (second, third) = (receiver.messages[1], receiver.messages[2])
            let one = try await redeliver(#"{"webhook_id":"\#(second.id)"}"#).json
            #expect(one["deliveries"] == .int(1) && one["has_more"] == .bool(false) && one["next_after"] == .null)
            try await receiver.wait("the one") { $0.count == 4 }
            #expect(receiver.messages.last?.text == second.text)
            try await idle()
            guard case .string(let since)? = third.data["recorded_at"] else { return #expect(Bool(false)) }
            #expect(try await redeliver(#"{"since":"\#(since)"}"#).json["deliveries"] == .int(1))
            try await receiver.wait("the last") { $0.count == 5 }
            #expect(receiver.messages.last?.id == third.id)
            try await idle()
            #expect(try await redeliver(#"{"since":"\#(since)","until":"\#(since)"}"#).json["deliveries"] == .int(0))
        }
        for bad in [
            #"{"from":1,"failed":true}"#, #"{"from":1,"to":2,"since":"2026-01-01T00:00:00Z"}"#,
            #"{"failed":true,"webhook_id":"msg_1"}"#, #"{"until":"2026-01-01T00:00:00Z"}"#, #"{"failed":false}"#,
        ] {
            #expect(try await redeliver(bad).status == 400, "\(bad)")
        }
        for strange in ["msg_1", "msg_" + String(repeating: "0", count: 32)] {
            #expect(try await redeliver(#"{"webhook_id":"\#(strange)"}"#).status == 404)
        }
    }
}
