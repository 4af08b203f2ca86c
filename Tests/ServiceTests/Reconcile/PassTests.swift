import EntitlementAPI
import EntitlementCore
import HTTPServer
import OpenSSLCrypto
import Testing

@testable import Service

@Suite("Passes and their keys", .serialized, .timeLimit(.minutes(5)))
struct PassTests {
    private static func key(_ id: String, from notBefore: String? = nil) throws -> PassKeyRing.Key {
        let pair = try PrivateKey.generate(.p256)
        let point = try pair.publicKey.p256Point()
        return PassKeyRing.Key(
            id: id, notBefore: try notBefore.map(instant), x: point.x, y: point.y, sign: { try pair.signES256($0) })
    }

    private static func pass(_ ring: PassKeyRing, at now: String = ServiceRig.noon) throws -> String? {
        try ring.pass(
            customer: #require(CustomerID("c-1")), audience: "com.example.app", environment: .sandbox, answers: [],
            position: 5,
            now: instant(now), ttl: .seconds(600))
    }

    @Test(
        "the newest valid key signs, of several as new the one listed last",
        arguments: [
            ("2025-12-31T23:59:59.999Z", "always"), ("2026-01-01T00:00:00Z", "january"),
            ("2026-05-31T23:59:59Z", "january"), ("2026-06-01T00:00:00Z", "june, listed last"),
            ("2030-01-01T00:00:00Z", "june, listed last"),
        ])
    func signer(at now: String, id: String) throws {
        let ring = PassKeyRing([
            try Self.key("june", from: "2026-06-01T00:00:00Z"), try Self.key("always, listed first"),
            try Self.key("always"), try Self.key("june, listed last", from: "2026-06-01T00:00:00Z"),
            try Self.key("january", from: "2026-01-01T00:00:00Z"),
        ])
        #expect(ring.signer(at: try instant(now))?.id == id)
    }

    @Test("without a valid key there is no pass")
    func noKey() throws {
        #expect(try Self.pass(.empty) == nil)
        let ring = PassKeyRing([try Self.key("later", from: "2026-11-20T12:00:00.001Z")])
        #expect(try Self.pass(ring) == nil)
        #expect(try Self.pass(ring, at: "2026-11-20T12:00:00.001Z") != nil)
        let start = try instant("2026-11-20T12:00:00.001Z")
        #expect(try ring.start(after: instant("2026-11-20T12:00:00Z")) == start)
        #expect(ring.start(after: start) == nil && PassKeyRing.empty.start(after: start) == nil)
    }

    @Test("a pass is a compact JWS whose header names the key, over exactly its claims")
    func form() throws {
        let pair = try PrivateKey.generate(.p256)
        let ring = PassKeyRing([
            PassKeyRing.Key(id: "k/1+ü", notBefore: nil, x: [], y: [], sign: { try pair.signES256($0) })
        ])
        let parts = try #require(try Self.pass(ring)).split(separator: ".", omittingEmptySubsequences: false)
        try #require(parts.count == 3)
        // Strict: without padding, in the alphabet for URLs.
        let header = try #require(Base64.decodeURL(parts[0].utf8))
        let claims = try #require(Base64.decodeURL(parts[1].utf8))
        let signature = try #require(Base64.decodeURL(parts[2].utf8))
        #expect(String(decoding: header, as: UTF8.self) == #"{"alg":"ES256","kid":"k/1+ü","typ":"JWT"}"#)
        let document = try WireJSON.decode(PassDocument.self, from: claims)
        #expect(document.customerID == "c-1" && document.environment == .sandbox && document.position == 5)
        #expect(document.expiresAt - document.issuedAt == 600)
        let message = Array("\(parts[0]).\(parts[1])".utf8)
        #expect(pair.publicKey.isValidES256(signature: signature, message: message))
    }

    @Test("a key that cannot sign is an error, and not a missing pass")
    func signingFails() throws {
        let ring = PassKeyRing([
            PassKeyRing.Key(id: "k", notBefore: nil, x: [], y: [], sign: { _ in throw TestFailure("no") })
        ])
        #expect(throws: TestFailure.self) { try Self.pass(ring) }
    }

    @Test("all keys are published to anybody, those not valid yet included")
    func keySet() async throws {
        let keys = [try Self.key("now"), try Self.key("later", from: "2030-01-01T00:00:00Z")]
        let application = try await ServiceRig.make(passKeys: PassKeyRing(keys)).application
        let head = HTTPRequestHead(method: "GET", target: "/.well-known/rightful-keys")
        let answer = await application.handle(try HTTPRequest(head: head))
        #expect(answer.status == 200)
        #expect(answer.header("Content-Type") == "application/json")
        #expect(answer.header("Cache-Control") == "public, max-age=300")
        let expected = keys.map { key in
            #"{"alg":"ES256","crv":"P-256","kid":"\#(key.id)","kty":"EC","use":"sig","#
                + #""x":"\#(Base64.encodeURL(key.x))","y":"\#(Base64.encodeURL(key.y))"}"#
        }
        #expect(answer.text == #"{"keys":[\#(expected.joined(separator: ","))]}"#)
    }

    @Test("whoever has the keys already is told so, until they change")
    func unchangedKeySet() async throws {
        func get(_ ring: PassKeyRing, _ headers: [(String, String)] = []) async throws -> HTTPResponse {
            try await ServiceRig.make(passKeys: ring).send("GET", "/.well-known/rightful-keys", headers: headers)
        }
        let ring = PassKeyRing([try Self.key("a")])
        let tag = try #require(try await get(ring).header("ETag"))
        let again = try await get(ring, [("If-None-Match", tag)])
        #expect(again.status == 304 && again.header("ETag") == tag && again.header("Cache-Control") != nil)
        let changed = try await get(PassKeyRing([try Self.key("a")]), [("If-None-Match", tag)])
        #expect(changed.status == 200 && changed.header("ETag") != tag)
    }

    @Test("a service without keys publishes an empty set")
    func noKeys() async throws {
        let rig = try await ServiceRig.make()
        let answer = try await rig.send("GET", "/.well-known/rightful-keys")
        #expect(answer.status == 200 && answer.text == #"{"keys":[]}"#)
    }
}
