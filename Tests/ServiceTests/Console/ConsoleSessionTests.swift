import EntitlementAPI
import EntitlementCore
import HTTPServer
import Ledger
import PostgresClient
import Testing

@testable import Service

/// Signing in to the console, and what a session may.
@Suite("Sessions of the console", .serialized, .timeLimit(.minutes(5)))
struct ConsoleSessionTests {
    /// A browser that is signed in.
    private struct Visitor {
        let cookie: String
        let token: String
        let answer: HTTPResponse

        /// With the cookie alone.
        var read: [(String, String)] { [("Cookie", "other=1; \(cookie)")] }
        /// As the page sends commands.
        var command: [(String, String)] { read + [("Console-Token", token), ("Sec-Fetch-Site", "same-origin")] }
    }

    private func post(
        _ rig: ServiceRig, _ body: String, headers: [(String, String)] = [], type: String? = "application/json"
    ) async throws -> HTTPResponse {
        let headers = headers + (type.map { [("Content-Type", $0)] } ?? [])
        return try await rig.send("POST", "/console/session", headers: headers, body: Array(body.utf8))
    }

    private func signIn(_ rig: ServiceRig, _ secret: String) async throws -> Visitor {
        let answer = try await post(rig, #"{"key":"\#(secret)"}"#)
        try #require(answer.status == 200, "\(answer.text)")
        let field = try #require(answer.header("Set-Cookie"))
        let session = try #require(try WireJSON.decode(ConsoleDocument.self, from: answer.body).session)
        return Visitor(
            cookie: String(field.prefix { $0 != ";" }), token: session.token, answer: answer)
    }

    private func isSignedIn(_ rig: ServiceRig, _ visitor: Visitor) async throws -> Bool {
        let answer = try await rig.send("GET", "/console/session", headers: visitor.read)
        let told = try WireJSON.decode(ConsoleDocument.self, from: answer.body).session
        let read = try await rig.send("GET", "/v1/ledger", headers: visitor.read)
        #expect(read.verdict == (told == nil ? "401 unauthenticated" : "200 -"))
        return told != nil
    }

    @Test("a secret key becomes a session, whose cookie no script reads and no other site sends")
    func signingIn() async throws {
        let rig = try await ServiceRig.make()
        let secret = try await rig.keys.create(name: "support", scopes: [.customersRead, .eventsRead]).secret
        let visitor = try await signIn(rig, secret)
        let field = try #require(visitor.answer.header("Set-Cookie"))
        #expect(field.contains("; HttpOnly") && field.contains("; SameSite=Strict") && field.contains("; Path=/;"))
        #expect(!field.contains("Secure"))
        #expect(visitor.answer.header("Cache-Control") == "no-store")
        #expect(!visitor.answer.text.contains(secret) && !field.contains(secret))
        let session = try #require(try WireJSON.decode(ConsoleDocument.self, from: visitor.answer.body).session)
        #expect(session.key.name == "support" && session.key.scopes == ["customers:read", "events:read"])
        #expect(session.idleEndsAt.description == "2026-11-20T12:30:00.000Z")
        #expect(session.endsAt.description == "2026-11-21T00:00:00.000Z")
        #expect(try await isSignedIn(rig, visitor))
        #expect(try await rig.send("GET", "/v1/catalog", headers: visitor.read).status == 200)
        let stored = try await rig.pool.withConnection { connection in
            try connection.query("SELECT token_sha256::text, key_secret_sha256::text FROM console_session").rows
                .map { try $0.text(0) + (try $0.text(1)) }.joined()
        }
        #expect(!stored.contains(visitor.cookie.dropFirst(17)) && !stored.contains(secret))
    }

    @Test(
        "nobody signs in with a publishable key, a revoked one, none, or both a key and a link; nor from another site")
    func refused() async throws {
        let rig = try await ServiceRig.make()
        let publishable = try await rig.publishableKey()
        let (key, revoked) = try await rig.keys.create(name: "k", scopes: [.admin])
        #expect(try await rig.keys.revoke(key.id))
        for secret in [publishable, revoked, "rightful_sk_wrong", "x"] {
            let answer = try await post(rig, #"{"key":"\#(secret)"}"#)
            #expect(answer.verdict == "401 unauthenticated" && answer.header("Set-Cookie") == nil)
        }
        for body in ["", "{}", #"{"key":"a","link":"b"}"#, #"{"key":1}"#, #"{"key":"a","path":"/x"}"#] {
            #expect(try await post(rig, body).verdict == "400 malformed_request", "\(body)")
        }
        for path in ["/x; Domain=example.com/", "x/", "/ö/", "/a b/"] {
            let answer = try await post(rig, #"{"key":"\#(rig.admin)","path":"\#(path)"}"#)
            #expect(answer.verdict == "400 malformed_request", "\(path)")
        }
        let foreign = try await post(
            rig, #"{"key":"\#(rig.admin)"}"#, headers: [("Sec-Fetch-Site", "cross-site")])
        #expect(foreign.verdict == "403 forbidden" && foreign.header("Set-Cookie") == nil)
        // What a form of any site can send, or a script without asking.
        for type in ["text/plain", "application/x-www-form-urlencoded", "text/plain;application/json", "", nil] {
            let answer = try await post(rig, #"{"key":"\#(rig.admin)"}"#, type: type)
            #expect(answer.verdict == "400 malformed_request" && answer.header("Set-Cookie") == nil, "\(type ?? "-")")
        }
        let spoken = try await post(rig, #"{"key":"\#(rig.admin)"}"#, type: "Application/JSON; charset=utf-8")
        #expect(spoken.status == 200)
    }

    @Test(
        "a command of a session needs its token, and is refused to other sites; one with an API key goes on as it was")
    func commands() async throws {
        let rig = try await ServiceRig.make()
        let visitor = try await signIn(rig, rig.admin)
        let other = try await signIn(rig, rig.admin)
        let path = "/v1/customers/c-1/actions/grant"
        let body = Array(#"{"entitlement":"premium","reason":"made good"}"#.utf8)
        func send(_ headers: [(String, String)]) async throws -> HTTPResponse {
            try await rig.send("POST", path, headers: headers, body: body)
        }
        let head = try await rig.context.reader.status().position
        #expect(try await send(visitor.read).verdict == "403 forbidden")
        #expect(try await send(visitor.read + [("Console-Token", "")]).verdict == "403 forbidden")
        #expect(try await send(visitor.read + [("Console-Token", other.token)]).verdict == "403 forbidden")
        for site in ["cross-site", "same-site"] {
            let headers = visitor.read + [("Console-Token", visitor.token), ("Sec-Fetch-Site", site)]
            #expect(try await send(headers).verdict == "403 forbidden")
        }
        #expect(try await rig.context.reader.status().position == head)
        #expect(try await send(visitor.command).status == 200)
        // Beside a key the cookie says nothing.
        let withKey = try await send([("Authorization", "Bearer \(rig.admin)")] + visitor.read)
        #expect(withKey.status == 200)
        let wrongKey = try await send([("Authorization", "Bearer rightful_sk_wrong")] + visitor.command)
        #expect(wrongKey.verdict == "401 unauthenticated")
    }

    @Test("what a session orders bears the name of its key, as what the key orders does")
    func actor() async throws {
        let rig = try await ServiceRig.make()
        _ = try await rig.put(ServiceRig.proCatalog)
        try await rig.notify(Purchase())
        let secret = try await rig.keys.create(name: "Mia at support", scopes: [.customersWrite]).secret
        let visitor = try await signIn(rig, secret)
        let answer = try await rig.send(
            "POST", "/v1/customers/\(Purchase.customer)/actions/transfer", headers: visitor.command,
            body: Array(#"{"original_transaction_id":"2000000123456780","to":"c-2","reason":"asked by mail"}"#.utf8))
        guard case .int(let position)? = try answer.json["position"] else {
            Issue.record("\(answer.text)")
            return
        }
        let facts = try await rig.get("/v1/events/\(position)").json["facts"]
        #expect(facts?["actor"] == .string("Mia at support"))
        #expect(rig.log.lines.contains { $0.contains("actions/transfer") && $0.contains("\"key_id\"") })
    }

    @Test("a session may what its key may, in its environment and app, and nothing more")
    func bounds() async throws {
        let rig = try await ServiceRig.make()
        let key = try await rig.keys.create(
            name: "sandbox", scopes: [.customersRead], environment: .sandbox, bundleID: ServiceRig.bundleID)
        let visitor = try await signIn(rig, key.secret)
        func verdict(_ target: String) async throws -> String {
            try await rig.send("GET", target, headers: visitor.read).verdict
        }
        let path = "/v1/customers/c-1/entitlements"
        #expect(try await rig.send("GET", path, headers: visitor.read).json["environment"] == .string("sandbox"))
        #expect(try await verdict("\(path)?environment=production") == "403 forbidden")
        #expect(try await verdict("/v1/events") == "403 forbidden")
        #expect(try await verdict("/metrics") == "403 forbidden")
        let grant = try await rig.send(
            "POST", "/v1/customers/c-1/actions/grant", headers: visitor.command,
            body: Array(#"{"entitlement":"premium","reason":"made good"}"#.utf8))
        #expect(grant.verdict == "403 forbidden")
    }

    @Test("a session ends unused, at its latest, when somebody signs out, and with its key, at once")
    func ends() async throws {
        let rig = try await ServiceRig.make()
        let start = rig.clock.now
        func later(_ minutes: Int64) { rig.clock.now = start.adding(milliseconds: minutes * 60_000) }
        let idle = try await signIn(rig, rig.admin)
        later(29)
        #expect(try await isSignedIn(rig, idle))
        later(58)
        #expect(try await isSignedIn(rig, idle), "it was used since")
        later(58 + 30)
        #expect(try await !isSignedIn(rig, idle))

        rig.clock.now = start
        let busy = try await signIn(rig, rig.admin)
        for minutes in stride(from: Int64(20), to: 720, by: 20) {
            later(minutes)
            #expect(try await rig.send("GET", "/v1/ledger", headers: busy.read).status == 200)
        }
        later(720)
        #expect(try await !isSignedIn(rig, busy))

        rig.clock.now = start
        let leaving = try await signIn(rig, rig.admin)
        #expect(try await rig.send("DELETE", "/console/session", headers: leaving.read).verdict == "403 forbidden")
        let left = try await rig.send("DELETE", "/console/session?path=/r/", headers: leaving.command)
        #expect(left.header("Set-Cookie")?.contains("Max-Age=0") == true)
        #expect(left.header("Set-Cookie")?.contains("Path=/r/") == true)
        #expect(try await !isSignedIn(rig, leaving))

        let (key, secret) = try await rig.keys.create(name: "k", scopes: [.admin])
        let revoked = try await signIn(rig, secret)
        #expect(try await isSignedIn(rig, revoked))
        #expect(try await rig.keys.revoke(key.id))
        #expect(try await !isSignedIn(rig, revoked))
    }

    @Test("a link signs in once, for ten minutes, and ends with its key")
    func links() async throws {
        let rig = try await ServiceRig.make()
        let sessions = try #require(rig.application.console.sessions)
        let (key, secret) = try await rig.keys.create(name: "k", scopes: [.eventsRead])
        let found = try #require(try await rig.keys.find(id: key.id))
        #expect(try await rig.keys.find(id: "key_none") == nil)
        func link() async throws -> String {
            try await sessions.makeLink(for: found.key, secretHash: found.secretHash, now: rig.clock.now)
        }
        func follow(_ link: String) async throws -> HTTPResponse { try await post(rig, #"{"link":"\#(link)"}"#) }
        let first = try await link()
        let answer = try await follow(first)
        #expect(try WireJSON.decode(ConsoleDocument.self, from: answer.body).session?.key.name == "k")
        #expect(try await follow(first).verdict == "401 unauthenticated")
        let old = try await link()
        let young = try await link()
        rig.clock.now = rig.clock.now.adding(milliseconds: 600_000 - 1)
        #expect(try await follow(young).status == 200)
        rig.clock.now = rig.clock.now.adding(milliseconds: 1)
        #expect(try await follow(old).verdict == "401 unauthenticated")
        let last = try await link()
        #expect(try await rig.keys.revoke(key.id))
        #expect(try await follow(last).verdict == "401 unauthenticated")
        #expect(try await follow(secret).verdict == "401 unauthenticated", "a key is no link")
        #expect(try await rig.keys.find(id: key.id) == nil)
    }

    @Test("one browser has one session; one key has a hundred, of which the one unused longest ends first")
    func most() async throws {
        let rig = try await ServiceRig.make()
        let first = try await signIn(rig, rig.admin)
        let again = try await post(rig, #"{"key":"\#(rig.admin)"}"#, headers: first.read)
        #expect(again.status == 200)
        #expect(try await !isSignedIn(rig, first))
        var visitors: [Visitor] = []
        for _ in 0...ConsoleSessions.mostOfKey {
            rig.clock.now = rig.clock.now.adding(milliseconds: 1)
            visitors.append(try await signIn(rig, rig.admin))
        }
        #expect(try await !isSignedIn(rig, visitors[0]))
        #expect(try await isSignedIn(rig, visitors[1]))
    }

    @Test("the cookie is Secure where the browser came by TLS, as it says itself or a trusted proxy does")
    func secure() async throws {
        let rig = try await ServiceRig.make(trustedProxies: [try #require(NetworkRange("127.0.0.1"))])
        let body = #"{"key":"\#(rig.admin)","path":"/rightful/"}"#
        func field(_ headers: [(String, String)]) async throws -> String {
            try #require(try await post(rig, body, headers: headers).header("Set-Cookie"))
        }
        #expect(try await field([("Origin", "https://example.com")]).hasSuffix("; Secure"))
        #expect(try await field([("X-Forwarded-Proto", "https")]).hasSuffix("; Secure"))
        let plain = try await field([("Origin", "http://example.com")])
        #expect(!plain.contains("Secure") && plain.contains("Path=/rightful/;"))
        let other = try await ServiceRig.make()
        let untrusted = try await post(
            other, #"{"key":"\#(other.admin)"}"#, headers: [("X-Forwarded-Proto", "https")])
        #expect(untrusted.header("Set-Cookie")?.contains("Secure") == false)
    }

    @Test("whoever guesses keys, links or sessions has as many guesses as others have; who is right pays nothing")
    func guesses() async throws {
        var limits = Application.Limits()
        limits.rates.address = RateLimit(perSecond: 1, burst: 4)
        let rig = try await ServiceRig.make(limits: limits)
        for _ in 0..<8 { #expect(try await post(rig, #"{"key":"\#(rig.admin)"}"#).status == 200) }
        let visitor = try await signIn(rig, rig.admin)
        #expect(try await isSignedIn(rig, visitor))
        let guess = [("Cookie", "rightful_session=rightful_cs_wrong")]
        // A second gives one guess back, so a slow machine has a few more.
        func isRefused(_ guess: () async throws -> HTTPResponse) async throws -> Bool {
            for _ in 0..<200 {
                let answer = try await guess()
                if answer.verdict == "429 rate_limited" { return answer.header("Retry-After") != nil }
                #expect([200, 401].contains(answer.status))
            }
            return false
        }
        #expect(try await isRefused { try await post(rig, #"{"key":"rightful_sk_wrong"}"#) })
        #expect(try await isRefused { try await post(rig, #"{"link":"rightful_cl_wrong"}"#) })
        #expect(try await isRefused { try await rig.send("GET", "/console/session", headers: guess) })
        #expect(try await isRefused { try await rig.send("GET", "/v1/ledger", headers: guess) })
        // Whoever was signed in before goes on, whatever strangers at the same address try.
        for _ in 0..<8 { #expect(try await isSignedIn(rig, visitor)) }
    }

    @Test("where there is no console, neither page nor session is, and a cookie is no credential")
    func off() async throws {
        let rig = try await ServiceRig.make(hasConsole: false)
        for target in ["/console", "/console/assets/1/main.js", "/console/session"] {
            #expect(try await rig.send("GET", target).verdict == "404 not_found")
        }
        #expect(try await post(rig, #"{"key":"\#(rig.admin)"}"#).verdict == "404 not_found")
        let answer = try await rig.send(
            "GET", "/v1/ledger", headers: [("Cookie", "rightful_session=rightful_cs_wrong")])
        #expect(answer.verdict == "401 unauthenticated")
    }

    @Test(
        "the page's files forbid scripts of others and frames, and say what they are; the page is asked for each time, and its files are kept"
    )
    func files() async throws {
        let rig = try await ServiceRig.make()
        let page = String(decoding: try await rig.send("GET", "/console").body, as: UTF8.self)
        let addresses = page.matches(of: /"console\/assets\/([0-9a-f]{32})\/[a-z]+\.[a-z]+"/)
        let version = try #require(addresses.first).1
        #expect(addresses.count > 15 && addresses.allSatisfy { $0.1 == version })
        #expect(page.matches(of: /assets/).count == addresses.count)
        for (target, type) in [
            ("/console", "text/html; charset=utf-8"),
            ("/console/assets/\(version)/main.js", "text/javascript; charset=utf-8"),
            ("/console/assets/\(version)/console.css", "text/css; charset=utf-8"),
            ("/console/assets/\(version)/icon.svg", "image/svg+xml; charset=utf-8"),
            ("/console/assets/another/main.js", "text/javascript; charset=utf-8"),
        ] {
            let answer = try await rig.send("GET", target)
            #expect(answer.status == 200 && answer.header("Content-Type") == type, "\(target)")
            #expect(
                answer.header("Content-Security-Policy") == """
                    default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
                    frame-ancestors 'none'; base-uri 'none'; form-action 'self'
                    """)
            #expect(answer.header("X-Content-Type-Options") == "nosniff")
            #expect(answer.header("Referrer-Policy") == "no-referrer")
            let isKept = target.contains(version)
            #expect(
                answer.header("Cache-Control") == (isKept ? "public, max-age=31536000, immutable" : "no-cache"),
                "\(target)")
            let tag = try #require(answer.header("ETag"))
            let again = try await rig.send("GET", target, headers: [("If-None-Match", tag)])
            #expect(again.status == 304 && again.body.isEmpty && again.header("ETag") == tag)
        }
        for name in ["none.js", "..", "ConsoleAssets.swift", "%2e%2e%2fmain.js"] {
            #expect(try await rig.send("GET", "/console/assets/\(version)/\(name)").verdict == "404 not_found")
        }
    }
}
