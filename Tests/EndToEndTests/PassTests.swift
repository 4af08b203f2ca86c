import EntitlementAPI
import EntitlementCore
import Foundation
import OpenSSLCrypto
import Service
import TestSupport
import Testing

@testable import rightful

/// Passes, as somebody who trusts nothing but the published keys sees them.
@Suite("Passes", .serialized)
struct PassTests {
    private static var now: Timestamp { Timestamp(milliseconds: Int64(Date().timeIntervalSince1970 * 1000)) }

    /// A fresh key.
    private static func key(_ id: String) throws -> PassKeyRing.Key {
        try PassKeyRing.Key(PrivateKey.generate(.p256), id: id, notBefore: nil)
    }

    /// A pass for a customer with one grant.
    private static func pass(
        _ ring: PassKeyRing, issued now: Timestamp = now, until: Timestamp? = nil, ttl: Duration = .seconds(3600)
    ) throws -> String {
        let grant = GrantState(
            fact: GrantFact(
                grantID: "g", customer: IdentityRef(1), entitlementID: "premium", until: until, reason: "test"),
            position: 1, recordedAt: .earliest)
        let facts = CustomerFacts(customer: IdentityRef(1), originals: [:], grants: [grant], catalog: .empty)
        let pass = try ring.pass(
            customer: #require(CustomerID("c-1")), audience: "com.example.app", environment: .production,
            answers: facts.answers(at: now),
            position: 1, now: now, ttl: ttl)
        return try #require(pass)
    }

    private static func keySet(_ ring: PassKeyRing) throws -> String {
        String(decoding: try WireJSON.encode(ring.keySet), as: UTF8.self)
    }

    /// The text with each character but the last exchanged in turn, and the signature's last byte: some of the last
    /// character's bits stand for nothing, so that readers may overlook them.
    private static func alterations(of pass: String) throws -> [String] {
        let characters = Array(pass)
        var altered = characters.indices.dropLast().map { index in
            var copy = characters
            copy[index] = copy[index] == "A" ? "B" : "A"
            return String(copy)
        }
        let parts = pass.split(separator: ".")
        var signature = try #require(Base64.decodeURL(parts[2].utf8))
        signature[63] ^= 1
        altered.append("\(parts[0]).\(parts[1]).\(Base64.encodeURL(signature))")
        return altered
    }

    @Test("the documentation's recipe takes a pass for its own customer, app and environment alone, while it lives")
    func recipe() async throws {
        let page = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent().appending(path: "docs/http.md")
        let text = try String(contentsOf: page, encoding: .utf8)
        let recipe = try #require(text.firstMatch(of: /```python\n((?:.|\n)*?)```/)).1
        let ring = PassKeyRing([try Self.key("k")])
        let now = Self.now
        let live = try Self.pass(ring, issued: now)
        let old = try Self.pass(ring, issued: now.adding(milliseconds: -7_200_000))
        let table: [(pass: String, asked: [String], isGood: Bool)] = [
            (live, ["c-1", "com.example.app", "production"], true),
            (live, ["c-2", "com.example.app", "production"], false),
            (live, ["c-1", "com.example.other", "production"], false),
            (live, ["c-1", "com.example.app", "sandbox"], false),
            (old, ["c-1", "com.example.app", "production"], false),
            (String(live.dropLast(8)) + "AAAAAAAA", ["c-1", "com.example.app", "production"], false),
        ]
        let verdicts = try await JOSEReader.run(
            String(recipe), on: table.map { [$0.pass] + $0.asked }, keySet: Self.keySet(ring))
        for (row, verdict) in zip(table, verdicts) {
            #expect((verdict == "premium") == row.isGood, "\(row.asked): \(verdict)")
        }
    }

    @Test("with the published keys alone anybody verifies a pass, and refuses it after a change of any byte")
    func published() async throws {
        let installation = try await Installation()
        defer { installation.remove() }
        let service = try await ServiceProcess.start(installation)
        let answer = try await HTTPClient(service.url).send("GET", "/.well-known/rightful-keys")
        #expect(answer.status == 200)
        let file = installation.dataDirectory.appending(path: PassKeyFiles.keptName).path()
        let mode = try FileManager.default.attributesOfItem(atPath: file)[.posixPermissions] as? NSNumber
        #expect(mode?.intValue == 0o600)

        let ring = try PassKeyFiles(keptIn: installation.dataDirectory.path()).ring
        let pass = try Self.pass(ring, until: Self.now.adding(milliseconds: 60_000))
        let altered = try Self.alterations(of: pass)
        #expect(altered.count > 400 && !altered.contains(pass))
        let verdicts = try await JOSEReader.read([pass] + altered, keySet: answer.text)
        let payload = try #require(Base64.decodeURL(pass.split(separator: ".")[1].utf8))
        #expect(verdicts.first == .claims(String(decoding: payload, as: UTF8.self)))
        for (verdict, text) in zip(verdicts.dropFirst(), altered) {
            #expect(!verdict.isVerified, "believed: \(text) in place of \(pass)")
        }

        // The key stays the same, and is pointed out once it lies open, or may not sign yet.
        #expect(service.stop() == 0)
        #expect(!service.logText.contains(PassKeyFiles.keptName))
        try FileManager.default.setAttributes([.posixPermissions: 0o644], ofItemAtPath: file)
        let ended = try CertificateAuthority.selfSigned(.root(commonName: "Ended", notBefore: 0, notAfter: 86_400_000))
        let root = installation.directory.appending(path: "ended.pem")
        try Data(ended.certificate.pem().utf8).write(to: root)
        try installation.configure([
            "root_certificates": [root.path()],
            "pass_keys": [
                ["key_id": ring.facts[0].keyID, "private_key_path": file, "not_before": "2100-01-01T00:00:00Z"]
            ],
        ])
        let again = try await ServiceProcess.start(installation)
        #expect(try await HTTPClient(again.url).send("GET", "/.well-known/rightful-keys").text == answer.text)
        #expect(again.stop() == 0)
        #expect(again.logText.contains("every user of this machine may read or change \(file)"))
        #expect(again.logText.contains("pass_keys: none may sign before 2100-01-01T00:00:00.000Z"))
        #expect(again.logText.contains("root_certificates: none is valid now"))
        let notice = "\(file) is not listed with the key_id \(ring.facts[0].keyID), as which it signed passes"
        #expect(!again.logText.contains(notice))

        // Under another name it is another key to whoever has its passes, or pins it.
        try installation.configure(["pass_keys": [["key_id": "old", "private_key_path": file]]])
        let renamed = try await ServiceProcess.start(installation)
        #expect(renamed.stop() == 0)
        #expect(renamed.logText.contains(notice), "\(renamed.logText)")
    }

    @Test("a pass verifies as long as its key is published, and with no other key of that name")
    func rotation() async throws {
        let (old, new) = (try Self.key("old"), try Self.key("new"))
        let before = try Self.pass(PassKeyRing([old]))
        let after = try Self.pass(PassKeyRing([old, new]))
        let both = try await JOSEReader.read([before, after], keySet: Self.keySet(PassKeyRing([old, new])))
        #expect(both.map(\.isVerified) == [true, true])
        let removed = try await JOSEReader.read([before, after], keySet: Self.keySet(PassKeyRing([new])))
        #expect(removed.first == .refused("JWTMissingKey"))
        #expect(removed.last?.isVerified == true)
        let replaced = try Self.keySet(PassKeyRing([Self.key("old")]))
        #expect(try await JOSEReader.read([before], keySet: replaced) == [.refused("InvalidJWSSignature")])
        #expect(try await JOSEReader.read([before], keySet: Self.keySet(.empty)) == [.refused("JWTMissingKey")])
    }

    @Test("a pass is refused once its time, or that of what it states, is over")
    func expiry() async throws {
        let ring = PassKeyRing([try Self.key("k")])
        let twoMinutesAgo = Self.now.adding(milliseconds: -120_000)
        let verdicts = try await JOSEReader.read(
            [
                try Self.pass(ring, issued: twoMinutesAgo, ttl: .seconds(60)),
                try Self.pass(ring, issued: twoMinutesAgo, until: Self.now.adding(milliseconds: -2000)),
            ], keySet: Self.keySet(ring))
        #expect(verdicts == [.refused("JWTExpired"), .refused("JWTExpired")])
        let valid = try Self.pass(ring, issued: twoMinutesAgo, until: Self.now.adding(milliseconds: 60_000))
        #expect(try await JOSEReader.read([valid], keySet: Self.keySet(ring)).first?.isVerified == true)
    }

    @Test("of several who make the data directory's key at once, all end with the same")
    func makingAtOnce() async throws {
        for _ in 0..<10 {
            let directory = ScratchSpace.directory.appending(path: "rightful-\(UUID().uuidString)")
            try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
            defer { try? FileManager.default.removeItem(at: directory) }
            let sets = try await withThrowingTaskGroup(of: PassKeySetDocument.self) { group in
                for _ in 0..<8 {
                    group.addTask { try PassKeyFiles(keptIn: directory.path()).ring.keySet }
                }
                return try await group.reduce(into: Set()) { $0.insert($1) }
            }
            #expect(sets.count == 1)
            #expect(try FileManager.default.contentsOfDirectory(atPath: directory.path()) == [PassKeyFiles.keptName])
        }
    }

    @Test("serve refuses a pass key that could not sign, by its name in the configuration")
    func unusableKeys() async throws {
        let installation = try await Installation()
        defer { installation.remove() }
        let directory = installation.directory
        try Data("no key".utf8).write(to: directory.appending(path: "text.pem"))
        try Data(PrivateKey.generate(.p384).pem().utf8).write(to: directory.appending(path: "p384.pem"))
        try Data(PrivateKey.generate(.p256).publicKey.derBytes()).write(to: directory.appending(path: "public.der"))
        try Data(PrivateKey.generate(.p256).pem().utf8).write(to: directory.appending(path: "good.pem"))
        let cases: [(files: [(id: String, file: String)], complaint: String)] = [
            ([("k1", "good.pem"), ("k2", "absent.pem")], "pass_keys.private_key_path of k2: cannot be read"),
            ([("k1", ".")], "pass_keys.private_key_path of k1: cannot be read"),
            ([("k1", "text.pem")], "pass_keys.private_key_path of k1: is not a private key in PEM"),
            ([("k1", "public.der")], "pass_keys.private_key_path of k1: is not a private key in PEM"),
            ([("k1", "p384.pem")], "pass_keys.private_key_path of k1: the private key is not on the curve P-256"),
            ([("k1", "good.pem"), ("k1", "good.pem")], "pass_keys[1].key_id"),
        ]
        for item in cases {
            try installation.configure([
                "pass_keys": item.files.map { ["key_id": $0.id, "private_key_path": $0.file] }
            ])
            let (status, _, errors) = try await installation.run(["serve"])
            #expect(status == 1 && errors.contains(item.complaint), "\(errors)")
            #expect(errors.split(separator: "\n").count == 1, "\(errors)")
        }
        #expect(installation.postmaster == nil, "refused before a database was made")
    }
}
