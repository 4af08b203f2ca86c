import EntitlementCore
import Foundation
import OpenSSLCrypto
import Synchronization
import TestSupport
import Testing

/// The receivers of docs/receivers, told by a service.
///
/// Python's verifies with the library of Standard Webhooks from PyPI. Node's and Go's run where these are installed.
@Suite("Receivers of the documentation", .serialized)
struct ReceiverExampleTests {
    private struct Rig {
        let installation: Installation
        let service: ServiceProcess
        let client: HTTPClient
        let readingKey: String
        let endpoint: String
        let secret: String
        let port: UInt16

        func grant(
            _ customer: String, _ entitlement: String, until: Timestamp? = nil, _ environment: String = "production"
        ) async throws {
            var members: [String: Any] = ["entitlement": entitlement, "reason": "a test", "environment": environment]
            members["until"] = until.map { "\($0)" }
            let answer = try await client.send(
                "POST", "/v1/customers/\(customer)/actions/grant", body: bytes(members))
            try #require(answer.status == 200, "\(answer.text)")
        }

        /// What a customer is entitled to, as JSON.
        func held(_ customer: String) async throws -> String {
            let answer = try await client.send(
                "GET", "/v1/customers/\(customer)/entitlements", query: ["environment": "production"])
            let items = try #require(answer.json["entitlements"], "\(answer.text)")
            return String(decoding: try JSONSerialization.data(withJSONObject: items), as: UTF8.self)
        }

        /// What gives a customer access now.
        func open(_ line: ToldLines.Line) async throws -> [String] {
            let answer = try await client.send(
                "GET", "/v1/customers/\(line.customer)/entitlements", query: ["environment": line.environment])
            let items = try #require(answer.json["entitlements"] as? [[String: Any]], "\(answer.text)")
            return items.filter { $0["gives_access"] as? Bool == true }.compactMap { $0["id"] as? String }.sorted()
        }
    }

    private static func start() async throws -> Rig {
        let installation = try await Installation(settings: ["webhooks": ["allow_private_addresses": true]])
        let admin = try await installation.adminKey()
        let readingKey = try await installation.rightful("keys", "create", "--name", "r", "--scopes", "customers:read")
            .trimmingCharacters(in: .whitespacesAndNewlines)
        let service = try await ServiceProcess.start(installation)
        let client = HTTPClient(service.url, key: admin)
        let port = try DocumentationPage.freePort()
        let made = try await client.send(
            "POST", "/v1/webhook_endpoints",
            body: bytes(["url": "http://127.0.0.1:\(port)/hook", "types": ["entitlements.changed"]]))
        return Rig(
            installation: installation, service: service, client: client, readingKey: readingKey,
            endpoint: try #require(made.json["id"] as? String, "\(made.text)"),
            secret: try #require(made.json["secret"] as? String), port: port)
    }

    private static let people = ["c-1", "c-2", "somebody else"].flatMap { name in
        ["production", "sandbox"].map { ToldLines.Line(customer: name, environment: $0) }
    }

    @Test(
        "it keeps what the service tells, refuses forgeries and what is old, ignores what it has, and reads where it missed something",
        .timeLimit(.minutes(5)), arguments: ReceiverExample.Language.allCases.filter(\.isInstalled))
    func receives(_ language: ReceiverExample.Language) async throws {
        let rig = try await Self.start()
        defer { rig.installation.remove() }
        let directory = rig.installation.directory.appending(path: "receiver-\(language.rawValue)")
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        try await ReceiverExample.prepare(language, in: directory)
        func start(_ secret: String) async throws -> ReceiverExample {
            try await ReceiverExample.start(
                language, in: directory, port: rig.port, secret: secret, url: rig.service.url, key: rig.readingKey)
        }
        let receiver = try await start(rig.secret)
        defer { receiver.stop() }

        let soon = Timestamp(milliseconds: WebhookWorld.now + 1500)
        for line in Self.people {
            try await rig.grant(line.customer, "premium", line.environment)
            try await rig.grant(line.customer, "vip", until: soon, line.environment)
        }
        // Premium, vip, and vip's end.
        try await expectKept(receiver, rig) { kept in
            Self.people.allSatisfy { line in kept.filter { $0.line == line }.map(\.sequence) == [1, 2, 3] }
        }
        #expect(try receiver.kept.allSatisfy { !$0.isRead }, "\(language)")
        try await expectRefusals(receiver, rig)
        try await expectRepetitionsAndHoles(receiver, rig)
        try await expectBreaksRefused(receiver)
        try await expectOthersGoOn(language, in: directory, rig.secret)

        // Both secrets sign, so a receiver with either goes on.
        let answer = try await rig.client.send("POST", "/v1/webhook_endpoints/\(rig.endpoint)/actions/rotate_secret")
        let rolled = try #require(answer.json["secret"] as? String, "\(answer.text)")
        try await rig.grant("c-1", "old-secret")
        try await expectKept(receiver, rig) { $0.contains { $0.open.contains("old-secret") } }
        receiver.stop()
        let next = try await start(rolled)
        defer { next.stop() }
        try await rig.grant("c-1", "new-secret")
        try await expectKept(next, rig) { $0.contains { $0.open.contains("new-secret") } }
        // What keeps it on the disk goes on, whoever forgot reads.
        #expect(try next.kept.map(\.isRead) == [language != .python])
        #expect(rig.service.stop() == 0)
    }

    /// Waits until the receiver keeps what is told, and holds what it keeps to what the service answers.
    private func expectKept(
        _ receiver: ReceiverExample, _ rig: Rig, until isMet: ([ReceiverExample.Kept]) -> Bool
    ) async throws {
        let end = ContinuousClock.now + .seconds(60)
        while try !isMet(receiver.kept), ContinuousClock.now < end { try await Task.sleep(for: .milliseconds(20)) }
        let kept = try receiver.kept
        #expect(isMet(kept), "\(kept) \(receiver.complaints)")
        for line in Set(kept.map(\.line)) {
            let last = kept.last { $0.line == line }
            #expect(try await last?.open == rig.open(line), "\(line)")
        }
    }

    // MARK: - Messages of the test's own

    private struct Forgery {
        var id = "msg_1000"
        var time = WebhookWorld.now / 1000
        /// In place of a signature by the endpoint's secret.
        var signature: String?
        var text = ReceiverExampleTests.message(endpoint: "we_forged", sequence: 1000)

        func send(to receiver: ReceiverExample, _ secret: String) async throws -> Int {
            var headers = ["webhook-id": id, "webhook-timestamp": "\(time)", "content-type": "application/json"]
            headers["webhook-signature"] = signature ?? Self.signature(id, time, text, secret)
            return try await HTTPClient(try receiver.url).send(
                "POST", "/hook", body: Array(text.utf8), headers: headers
            ).status
        }

        static func signature(_ id: String, _ time: Int64, _ text: String, _ secret: String) -> String {
            let key = Base64.decode(String(secret.dropFirst(6))) ?? [0]
            return "v1," + Base64.encode(HMACSHA256.code(of: Array("\(id).\(time).\(text)".utf8), key: key))
        }
    }

    private static func message(
        _ customer: String = "c-1", endpoint: String, sequence: Int64, before: String = "[]",
        after: String = #"[{"id":"forged","gives_access":true,"state":"active"}]"#, isForgottenNotice: Bool = false
    ) -> String {
        """
        {"type":"entitlements.changed","timestamp":"2026-11-20T13:00:00.000Z","data":{"customer_id":"\(customer)",\
        "endpoint":"\(endpoint)","environment":"production","sequence":\(sequence),"position":4,\
        "cause":{"kind":"time","positions":[]},"before":\(before),"after":\(after)\(isForgottenNotice ? #","forgotten":true"# : "")}}
        """
    }

    /// Nothing that the endpoint's secret did not sign just now is taken.
    private func expectRefusals(_ receiver: ReceiverExample, _ rig: Rig) async throws {
        let before = try receiver.kept
        let other = "whsec_" + Base64.encode([UInt8](repeating: 7, count: 32))
        let good = Forgery()
        let right = Forgery.signature(good.id, good.time, good.text, rig.secret)
        var forgeries: [String: Forgery] = [:]
        forgeries["by another secret"] = Forgery(signature: Forgery.signature(good.id, good.time, good.text, other))
        forgeries["of six minutes ago"] = Forgery(time: good.time - 360)
        forgeries["of the future"] = Forgery(time: good.time + 360)
        forgeries["without a signature"] = Forgery(signature: "")
        forgeries["with nonsense"] = Forgery(signature: "nonsense")
        forgeries["with more nonsense"] = Forgery(signature: "v1,=== v1 ,")
        forgeries["of another version"] = Forgery(signature: "v2" + right.dropFirst(2))
        forgeries["with another id"] = Forgery(id: "msg_1", signature: right)
        forgeries["with another body"] = Forgery(
            signature: right, text: Self.message("c-2", endpoint: "we_forged", sequence: 1000))
        forgeries["cut"] = Forgery(signature: String(right.dropLast(5)))
        for (what, forgery) in forgeries {
            let status = try await forgery.send(to: receiver, rig.secret)
            #expect(status == 400, "\(what) was answered \(status)")
        }
        #expect(try receiver.kept == before)
        // The same, had it been signed.
        let unknown = #"{"type":"something.new","data":{"sequence":"?"}}"#
        #expect(try await (200..<300).contains(Forgery(text: unknown).send(to: receiver, rig.secret)))
        #expect(try receiver.kept == before, "what it does not know changes nothing")
    }

    /// What did not come whole is not taken, as where a proxy has lost its client.
    private func expectBreaksRefused(_ receiver: ReceiverExample) async throws {
        let url = try receiver.url
        for message in [
            "Content-Length: 100\r\n\r\n{\"type\":", "Transfer-Encoding: chunked\r\n\r\nzz\r\n{\"type\":",
        ] {
            let answer = try await onThread {
                let socket = try RawSocket(url)
                try socket.send("POST /hook HTTP/1.1\r\nHost: x\r\n\(message)".utf8)
                socket.endSending()
                return socket.receive()
            }
            #expect(answer.status.map { $0 >= 400 } ?? answer.isEnded, "\(message): \(answer.text)")
        }
    }

    /// While what holds of one customer is read, messages of others are taken; two spellings of one character are two customers.
    private func expectOthersGoOn(
        _ language: ReceiverExample.Language, in directory: URL, _ secret: String
    ) async throws {
        let people = ["beside-1", "beside-2", "beside-jos\u{E9}", "beside-jose\u{301}"]
        // Nobody is answered before all have asked.
        let asked = Mutex(0)
        let all = DispatchSemaphore(value: 0)
        let service = try HostileServer { _, _ in
            let count = asked.withLock { asked in
                asked += 1
                return asked
            }
            if count == people.count { for _ in people { all.signal() } }
            _ = all.wait(timeout: .now() + 30)
            return .answer(200, #"{"entitlements":[]}"#)
        }
        defer { service.stop() }
        let url = try #require(URL(string: service.url))
        let receiver = try await ReceiverExample.start(
            language, in: directory, port: try DocumentationPage.freePort(), secret: secret, url: url, key: "k")
        defer { receiver.stop() }
        let statuses = try await withThrowingTaskGroup(of: Int.self) { group in
            for (number, person) in people.enumerated() {
                let text = Self.message(person, endpoint: "we_beside", sequence: 7)
                group.addTask { try await Forgery(id: "msg_b\(number)", text: text).send(to: receiver, secret) }
            }
            return try await group.reduce(into: []) { $0.append($1) }
        }
        #expect(statuses.allSatisfy { $0 == 204 }, "\(language): \(statuses) \(receiver.complaints)")
        #expect(asked.withLock(\.self) == people.count, "\(language)")
    }

    /// What came is not taken again; whatever is not the next message, it reads what holds.
    private func expectRepetitionsAndHoles(_ receiver: ReceiverExample, _ rig: Rig) async throws {
        let before = try receiver.kept
        let held = try await rig.held("c-2")
        let again = Self.message("c-2", endpoint: rig.endpoint, sequence: 3, after: held)
        try await Self.tell(receiver, rig, Forgery(text: again))
        #expect(try receiver.kept == before, "the last one came twice")
        func own(
            _ sequence: Int64, before: String = "[]", after: String? = nil, isForgottenNotice: Bool = false
        ) -> String {
            let forged = #"[{"id":"forged","gives_access":true,"state":"active"}]"#
            return Self.message(
                "c-2", endpoint: rig.endpoint, sequence: sequence, before: before, after: after ?? forged,
                isForgottenNotice: isForgottenNotice)
        }
        let messages: [(what: String, text: String, isRead: Bool)] = [
            ("an older one", own(1), true),
            ("one of an endpoint that was made again", Self.message("c-2", endpoint: "we_again", sequence: 1), true),
            (
                "one of an endpoint that was made again, which goes on from what is held",
                Self.message("c-2", endpoint: "we_once_more", sequence: 2, before: held), true
            ),
            ("one after a hole", own(7, before: held), true),
            ("the next one", own(8, before: held, after: held), false),
            ("the same number with something else, as after a restored backup", own(8), true),
            (
                "a notice of forgetting that came after somebody was back",
                own(9, before: held, after: "[]", isForgottenNotice: true), true
            ),
            ("the next number on what is not held, as after a restored backup", own(10), true),
            ("the next one again", own(11, before: held, after: held), false),
        ]
        for (number, (what, text, isRead)) in messages.enumerated() {
            var message = Forgery(id: "msg_\(number)", text: text)
            // Two signatures, of which the second is the receiver's.
            let right = Forgery.signature(message.id, message.time, message.text, rig.secret)
            message.signature = "v1," + Base64.encode([UInt8](repeating: 1, count: 32)) + " " + right
            try await Self.tell(receiver, rig, message)
            try await expectKept(receiver, rig) { $0.count == before.count + number + 1 }
            let last = try #require(try receiver.kept.last)
            #expect(last.isRead == isRead && last.open == ["premium"], "\(what): \(last)")
        }
    }

    /// Sends a message until it is taken: whoever cannot read just then, on a busy machine, says so, and is sent it again.
    private static func tell(_ receiver: ReceiverExample, _ rig: Rig, _ message: Forgery) async throws {
        let end = ContinuousClock.now + .seconds(30)
        var status = try await message.send(to: receiver, rig.secret)
        while !(200..<300).contains(status), ContinuousClock.now < end {
            try await Task.sleep(for: .milliseconds(200))
            status = try await message.send(to: receiver, rig.secret)
        }
        #expect((200..<300).contains(status), "\(message.text)")
    }
}
