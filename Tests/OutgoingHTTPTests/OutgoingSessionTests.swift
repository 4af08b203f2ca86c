import Foundation
import OutgoingHTTP
import Synchronization
import TestSupport
import Testing

@Suite("Requests to other servers", .timeLimit(.minutes(1)))
struct OutgoingSessionTests {
    /// Sends one request to a server that does this.
    private static func send(
        _ reply: HostileServer.Reply, timeout: TimeInterval = 20, answerLimit: Int = 1 << 20
    ) async throws -> (Result<OutgoingAnswer, any Error>, [HostileServer.Request]) {
        let server = try HostileServer { _, _ in reply }
        defer { server.stop() }
        let session = OutgoingSession(timeout: timeout, answerLimit: answerLimit)
        let request = OutgoingRequest(
            "POST", try #require(URL(string: server.url + "/v1/things?a%5Bb%5D=c")),
            headers: [(name: "Authorization", value: "Bearer secret")], body: Array("x=1".utf8))
        do {
            return (.success(try await session.send(request)), server.requests)
        } catch {
            return (.failure(error), server.requests)
        }
    }

    private static func failure(_ result: Result<OutgoingAnswer, any Error>) -> URLError.Code? {
        guard case .failure(let error as URLError) = result else { return nil }
        return error.code
    }

    @Test("what is sent arrives as it is, and what is answered comes with its headers")
    func exchange() async throws {
        let (result, requests) = try await Self.send(.answer(429, headers: ["Retry-After: 7"], "{}"))
        let answer = try result.get()
        #expect(answer.status == 429 && answer.body == Array("{}".utf8) && answer.header("retry-after") == "7")
        let request = try #require(requests.first)
        #expect(request.method == "POST" && request.target == "/v1/things?a%5Bb%5D=c" && request.body == "x=1")
        #expect(request.headers["authorization"] == "Bearer secret")
    }

    @Test("what answers in no HTTP that is read is told so, and each failure of TLS in words that say what to mend")
    func otherProtocols() async throws {
        // The first frame of a server that speaks HTTP/2 alone.
        let (frames, _) = try await Self.send(.raw("\0\0\u{6}\u{4}\0\0\0\0\0\0\u{3}\0\0\0d"))
        #expect(Self.failure(frames) == .badServerResponse)
        let words: [(URLError.Code, String)] = [
            (.badServerResponse, "HTTP/2 over TLS"), (.secureConnectionFailed, "speaks it"),
            (.serverCertificateUntrusted, "certificate is not trusted here"), (.cannotOpenFile, "this machine's list"),
        ]
        for (code, word) in words { #expect(URLError(code).words.contains(word), "\(URLError(code).words)") }
    }

    @Test("a redirection is not followed: what proves the sender is for one server")
    func redirection() async throws {
        let other = try HostileServer { _, _ in .answer(200, "{}") }
        defer { other.stop() }
        let (result, _) = try await Self.send(.answer(302, headers: ["Location: \(other.url)/v1/things"], ""))
        #expect(try result.get().status == 302)
        #expect(other.requests.isEmpty)
    }

    @Test("a request ends when its time is up, whether nothing comes or a byte now and then")
    func slow() async throws {
        for reply in [HostileServer.Reply.drip, .silence] {
            let start = ContinuousClock.now
            let (result, _) = try await Self.send(reply, timeout: 1)
            #expect(Self.failure(result) == .timedOut)
            #expect(start.duration(to: .now) < .seconds(10))
        }
    }

    @Test("no more is taken than is wanted, and an answer that is cut off is none")
    func size() async throws {
        let (endless, _) = try await Self.send(.endless, answerLimit: 1 << 20)
        #expect(throws: AnswerTooLarge(part: .body, limit: 1 << 20)) { try endless.get() }
        let (cut, _) = try await Self.send(.cut("{"))
        #expect(Self.failure(cut) != nil)
        for (limit, size) in [(64 << 10, "64 KiB"), (1 << 20, "1 MiB"), (4 << 20, "4 MiB")] {
            #expect("\(AnswerTooLarge(part: .body, limit: limit))".hasSuffix(" than \(size)"))
        }
        let (reset, _) = try await Self.send(.reset)
        #expect(Self.failure(reset) != nil)
    }

    @Test("no more of a head is taken than is wanted, and what is no ASCII is not read")
    func head() async throws {
        let marks = String(repeating: "\u{315}", count: 5000) + String(repeating: "\u{334}", count: 5000)
        let (odd, _) = try await Self.send(
            .answer(503, headers: ["I\(marks): x", "Retry-After: \(marks)", "X-Plain: 1"], "{}"))
        let answer = try odd.get()
        #expect(answer.status == 503 && answer.header("Retry-After") == nil && answer.header("X-Plain") == "1")
        let lines = (0..<20).map { "X-\($0): " + String(repeating: "a", count: 4000) }
        let (large, _) = try await Self.send(.answer(200, headers: lines, "{}"))
        #expect(throws: AnswerTooLarge(part: .head, limit: 64 << 10)) { try large.get() }
    }

    @Test("an address that is not allowed is not connected to, whatever name leads to it")
    func addresses() async throws {
        let server = try HostileServer { _, _ in .answer(200, "{}") }
        defer { server.stop() }
        let asked = Mutex<[OutgoingAddress]>([])
        let session = OutgoingSession(timeout: 20, answerLimit: 1 << 10) { address in
            asked.withLock { $0.append(address) }
            return false
        }
        let port = try #require(URL(string: server.url)?.port)
        for host in ["127.0.0.1", "localhost", "2130706433", "0x7f.1"] {
            let url = try #require(URL(string: "http://\(host):\(port)/"))
            await #expect(throws: AddressRefused.self, "\(host)") {
                try await session.send(OutgoingRequest("POST", url, headers: [], body: []))
            }
        }
        #expect(server.requests.isEmpty)
        #expect(asked.withLock { $0.contains(OutgoingAddress(bytes: [127, 0, 0, 1])) })
    }

    @Test("a name that leads to an address that is allowed, and to one that is not, is refused for neither alone")
    func severalAddresses() async throws {
        let server = try HostileServer { _, _ in .answer(200, "{}") }
        let port = try #require(URL(string: server.url)?.port)
        // Nobody listens there any more.
        server.stop()
        let url = try #require(URL(string: "http://localhost:\(port)/"))
        // To libcurl, localhost is 127.0.0.1 and ::1, where the machine has that.
        for count in [4, 16] {
            let wasAllowed = Mutex(false)
            let session = OutgoingSession(timeout: 20, answerLimit: 1 << 10) { address in
                let isAllowed = address.bytes.count == count
                if isAllowed { wasAllowed.withLock { $0 = true } }
                return isAllowed
            }
            let error = await #expect(throws: (any Error).self) {
                try await session.send(OutgoingRequest("GET", url, headers: []))
            }
            let isOfAddress = error is AddressRefused
            #expect(isOfAddress != wasAllowed.withLock(\.self), "\(count): \(String(describing: error))")
        }
    }

    @Test("a request that is cancelled ends at once, and the others go on")
    func cancelled() async throws {
        let server = try HostileServer { request, _ in request.target == "/slow" ? .silence : .answer(200, "{}") }
        defer { server.stop() }
        let session = OutgoingSession(timeout: 20, answerLimit: 1 << 10)
        let slow = try #require(URL(string: server.url + "/slow"))
        let waiting = Task { try await session.send(OutgoingRequest("GET", slow, headers: [])) }
        while server.requests.isEmpty { try await Task.sleep(for: .milliseconds(5)) }
        let start = ContinuousClock.now
        waiting.cancel()
        await #expect(throws: CancellationError.self) { try await waiting.value }
        #expect(start.duration(to: .now) < .seconds(5))
        let quick = try #require(URL(string: server.url + "/quick"))
        for _ in 0..<20 {
            #expect(try await session.send(OutgoingRequest("GET", quick, headers: [])).status == 200)
        }
    }

    @Test("many requests at once are all answered, over a bounded number of connections")
    func many() async throws {
        let server = try HostileServer { _, _ in .answer(200, "{}") }
        defer { server.stop() }
        let session = OutgoingSession(timeout: 30, answerLimit: 1 << 10, connections: 8, hostConnections: 8)
        let url = try #require(URL(string: server.url + "/"))
        let statuses = try await withThrowingTaskGroup(of: Int.self) { group in
            for _ in 0..<300 {
                group.addTask { try await session.send(OutgoingRequest("POST", url, headers: [], body: [65])).status }
            }
            return try await group.reduce(into: []) { $0.append($1) }
        }
        #expect(statuses == Array(repeating: 200, count: 300))
        #expect(server.requests.count == 300)
    }
}
