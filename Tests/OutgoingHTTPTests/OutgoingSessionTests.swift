import Foundation
import OutgoingHTTP
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
        #expect(Self.failure(endless) == .dataLengthExceedsMaximum)
        let (cut, _) = try await Self.send(.cut("{"))
        #expect(Self.failure(cut) != nil)
        let (reset, _) = try await Self.send(.reset)
        #expect(Self.failure(reset) != nil)
    }
}
