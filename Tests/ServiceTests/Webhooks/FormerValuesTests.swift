import EntitlementAPI
import EntitlementCore
import HTTPServer
import Ledger
import OpenSSLCrypto
import PostgresClient
import TestSupport
import Testing

@testable import Service

@Suite("Webhooks: former addresses and secrets", .timeLimit(.minutes(1)))
struct FormerValuesTests {
    @Test(
        "a secret is erased when it signs no more, an address when the endpoint is elsewhere, and never what is needed")
    func erased() async throws {
        let rig = try await ServiceRig.make()
        let (old, new) = (try Receiver(), try Receiver())
        let made = try await rig.send(
            "POST", "/v1/webhook_endpoints", key: rig.admin, headers: [("Idempotency-Key", "make")],
            body: Array(#"{"url":"\#(old.url)","types":["stream.silent"]}"#.utf8)
        ).json
        let path = "/v1/webhook_endpoints/\(try ServiceRig.id(made))"
        func rotate(_ body: String) async throws -> WireValue? {
            try await rig.send(
                "POST", path + "/actions/rotate_secret", key: rig.admin, body: Array(body.utf8)
            ).json["secret"]
        }
        func move(to receiver: Receiver) async throws {
            let body = Array(#"{"url":"\#(receiver.url)"}"#.utf8)
            #expect(try await rig.send("PATCH", path, key: rig.admin, body: body).status == 200)
        }
        let register = EndpointRegister(pool: rig.pool, writer: LedgerWriter(pool: rig.pool, now: { rig.clock.now }))
        func erase() async throws -> Int { try await register.eraseFormer(now: rig.clock.now) }
        try await move(to: new)
        let second = try await rotate(#"{"keep_old_seconds":3600}"#)
        #expect(try await erase() == 0, "a row may be one that an event is about to make count")
        #expect(try await rig.values().count == 4)
        try await rig.ageValues()
        #expect(try await erase() == 1)
        let kept = try await rig.values()
        #expect(!kept.contains(old.url) && kept.contains(new.url) && kept.count == 3, "both secrets sign")
        rig.wait(seconds: 3601)
        #expect(try await erase() == 1)
        #expect(try await rig.values() == [new.url, rig.hex(second)].sorted())
        // What is sent is signed with the one that is left, and goes to where the endpoint is.
        try await rig.telling {
            #expect(try await rig.send("POST", path + "/actions/test", key: rig.admin).status == 200)
            try await new.wait("the test") { $0.count == 1 }
        }
        #expect(new.messages[0].headers["webhook-signature"]?.split(separator: " ").count == 1)
        #expect(old.messages.isEmpty)
        let third = try await rotate(#"{"keep_old_seconds":0}"#)
        #expect(
            try await rig.values() == [new.url, rig.hex(third)].sorted(), "one that is ended at once is gone at once")
        let again = try await rig.send(
            "POST", "/v1/webhook_endpoints", key: rig.admin, headers: [("Idempotency-Key", "make")],
            body: Array(#"{"url":"\#(old.url)","types":["stream.silent"]}"#.utf8))
        #expect(again.verdict == "404 not_found", "its secret is gone, and no second endpoint is made")
        #expect(try await erase() == 0)
    }

    @Test("how long a former secret signs is counted by the clock, though the log is dated ahead of that")
    func logAhead() async throws {
        let rig = try await ServiceRig.make()
        let id = try ServiceRig.id(try await rig.createEndpoint(#""url":"http://127.0.0.1:1/""#).json)
        let now = rig.clock.now
        rig.wait(seconds: 40 * 86_400)
        #expect(try await rig.command("grant", "c-1", #"{"entitlement":"premium","reason":"r"}"#).status == 200)
        rig.clock.now = now
        let rotation = try await rig.send(
            "POST", "/v1/webhook_endpoints/\(id)/actions/rotate_secret", key: rig.admin,
            body: Array(#"{"keep_old_seconds":60}"#.utf8))
        #expect(rotation.status == 200)
        let register = EndpointRegister(pool: rig.pool, writer: LedgerWriter(pool: rig.pool, now: { rig.clock.now }))
        try await register.refresh()
        #expect(register.target(id, now: rig.clock.now)?.secrets.count == 2)
        rig.wait(seconds: 59)
        #expect(register.target(id, now: rig.clock.now)?.secrets.count == 2)
        #expect(try await register.eraseFormer(now: rig.clock.now) == 0)
        rig.wait(seconds: 1)
        #expect(register.target(id, now: rig.clock.now)?.secrets.count == 1)
        #expect(try await register.eraseFormer(now: rig.clock.now) == 1)
    }

    @Test("an address that an endpoint goes back to stays, and what no event ever bore out goes when it is old")
    func leftovers() async throws {
        let rig = try await ServiceRig.make()
        let (first, second) = ("http://127.0.0.1:1/first", "http://127.0.0.1:1/second")
        let made = try await rig.createEndpoint(#""url":"\#(first)""#).json
        let path = "/v1/webhook_endpoints/\(try ServiceRig.id(made))"
        func move(to url: String) async throws {
            let body = Array(#"{"url":"\#(url)"}"#.utf8)
            #expect(try await rig.send("PATCH", path, key: rig.admin, body: body).status == 200)
        }
        let register = EndpointRegister(pool: rig.pool, writer: LedgerWriter(pool: rig.pool, now: { rig.clock.now }))
        try await move(to: second)
        try await rig.ageValues()
        // As if its event were not in the log yet.
        try await rig.pool.withConnection { connection in
            _ = try connection.query(
                "UPDATE webhook_secret SET kept_at = clock_timestamp() WHERE value = $1", [.bytes(Array(first.utf8))])
        }
        #expect(try await register.eraseFormer(now: rig.clock.now) == 0)
        try await move(to: first)
        try await rig.ageValues()
        try await rig.pool.withConnection { connection in
            _ = try connection.query(
                """
                INSERT INTO webhook_secret (ledger_id, endpoint, hash, value, made_at, kept_at)
                SELECT 1, 'we_never', sha256(value), value, clock_timestamp(), clock_timestamp() - age * interval '1 h'
                FROM (VALUES ('\\x01'::bytea, 0), ('\\x02', 2)) AS left_over (value, age)
                """)
        }
        #expect(try await register.eraseFormer(now: rig.clock.now) == 2)
        let values = try await rig.values()
        #expect(values.contains(first) && !values.contains(second) && values.contains("01") && !values.contains("02"))
        #expect(values.count == 3)
        #expect(try await rig.get(path).json["url"] == .string(first))
    }
}

extension ServiceRig {
    /// What the database holds of endpoints: addresses as texts, anything else in hexadecimal digits.
    fileprivate func values() async throws -> [String] {
        try await pool.withConnection { connection in
            try connection.query("SELECT value FROM webhook_secret").rows.map { row in
                let bytes = try row.bytes(0)
                return bytes.starts(with: Array("http".utf8)) ? String(decoding: bytes, as: UTF8.self) : Self.hex(bytes)
            }.sorted()
        }
    }

    /// As the database holds a secret that was told.
    fileprivate func hex(_ secret: WireValue?) -> String {
        guard case .string(let text)? = secret else { return "none" }
        return Self.hex(Base64.decode(String(text.dropFirst(EndpointRegister.secretPrefix.count))) ?? [])
    }

    private static func hex(_ bytes: [UInt8]) -> String {
        bytes.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
    }

    /// Lets everything that is kept be older than an append may take.
    fileprivate func ageValues() async throws {
        try await pool.withConnection { connection in
            _ = try connection.query("UPDATE webhook_secret SET kept_at = kept_at - interval '2 h'")
        }
    }
}
