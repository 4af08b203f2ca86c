import EntitlementAPI
import Foundation
import FoundationNetworking
import Glibc
import HTTPServer
import PostgresClient
import StoreSimulator
import TestSupport
import Testing

@testable import Service

@Suite("The service over a socket", .serialized, .timeLimit(.minutes(5)))
struct SocketTests {
    @Test("requests and refusals alike are answered by the service")
    func socket() async throws {
        let rig = try await ServiceRig.make()
        let server = rig.application.makeServer(HTTPServerConfiguration(port: 0))
        try server.start()
        let base = "http://127.0.0.1:\(try #require(server.boundPort))"

        let notification = try SimulatedAuthority.requestBody(Purchase().signed(by: rig.store))
        let posted = try await send("POST", base + "/v1/notifications/appstore", body: notification)
        #expect(posted.status == 200)
        let read = try await send("GET", base + "/v1/events/2", key: rig.admin)
        #expect(read.status == 200)
        #expect(read.position == "2")

        let tooLarge = try await send(
            "POST", base + "/v1/notifications/appstore", body: [UInt8](repeating: 32, count: 1 << 20 + 1))
        #expect(tooLarge.code == "too_large")
        let badTarget = try await send("GET", base + "/v1/customers/a?at=%ff", key: rig.admin)
        #expect(badTarget.code == "malformed_request")
        for method in ["GET", "HEAD"] {
            var request = URLRequest(url: try #require(URL(string: base + "/healthz")))
            request.httpMethod = method
            let health = try await URLSession.shared.data(for: request).1 as? HTTPURLResponse
            #expect(health?.value(forHTTPHeaderField: "Cache-Control") == "no-store", "\(method)")
        }
        await server.stop(graceSeconds: 1)
    }

    @Test(
        "an exchange is counted and logged once, also where the server answers before its handler, or its client has gone",
        arguments: [false, true])
    func countedOnce(isAbandoned: Bool) async throws {
        var limits = Application.Limits()
        limits.positionWait = .seconds(3)
        let rig = try await ServiceRig.make(limits: limits)
        var configuration = HTTPServerConfiguration(port: 0)
        configuration.handlerDeadline = .milliseconds(300)
        let server = rig.application.makeServer(configuration)
        try server.start()
        let port = try #require(server.boundPort)
        let target = "/v1/customers/c-1/entitlements?min_position=1000"
        var answer: HTTPURLResponse?
        if isAbandoned {
            Self.ask(target, key: rig.admin, of: port)
        } else {
            var request = URLRequest(url: try #require(URL(string: "http://127.0.0.1:\(port)\(target)")))
            request.setValue("Bearer " + rig.admin, forHTTPHeaderField: "Authorization")
            answer = try await URLSession.shared.data(for: request).1 as? HTTPURLResponse
            #expect(answer?.statusCode == 503)
        }
        var lines: [String] { rig.log.lines.filter { $0.contains(#""message":"request""#) } }
        while lines.isEmpty { try await Task.sleep(for: .milliseconds(5)) }
        // Long enough for a handler that does not hear that it was given up.
        try await Task.sleep(for: limits.positionWait + .milliseconds(500))
        await server.stop(graceSeconds: 1)
        let line = try #require(lines.first)
        #expect(lines.count == 1, "\(lines)")
        let told = [#""route":"/v1/customers/{id}/entitlements""#, #""status":503"#, "took too long"]
        for text in told { #expect(line.contains(text), "\(line)") }
        if let answer { #expect(line.contains(try #require(answer.value(forHTTPHeaderField: "X-Request-Id")))) }
        let counted = try await rig.get("/metrics").text.split(whereSeparator: \.isNewline).filter {
            $0.hasPrefix("rightful_http_requests_total{")
        }
        #expect(counted == [#"rightful_http_requests_total{route="/v1/customers/{id}/entitlements",status="503"} 1"#])
    }

    @Test("a command whose answer comes too late is said to be in doubt, as it is, and a read is not")
    func lateCommand() async throws {
        let rig = try await ServiceRig.make()
        var configuration = HTTPServerConfiguration(port: 0)
        configuration.handlerDeadline = .milliseconds(300)
        let server = rig.application.makeServer(configuration)
        try server.start()
        let base = "http://127.0.0.1:\(try #require(server.boundPort))/v1/customers/c-1/"
        let owner = try await rig.database.owner()
        try await owner.execute(script: "BEGIN; SELECT FROM ledger_head FOR UPDATE")
        let grant = try await send(
            "POST", base + "actions/grant", key: rig.admin, body: Array(#"{"entitlement":"pro","reason":"r"}"#.utf8))
        let read = try await send("GET", base + "entitlements?min_position=1000", key: rig.admin)
        #expect(grant.status == 503 && grant.detail.contains("the same Idempotency-Key"), "\(grant)")
        #expect(read.status == 503 && !read.detail.contains("Idempotency-Key"), "\(read)")
        try await owner.execute(script: "COMMIT")
        while try await rig.holdings("c-1").isEmpty { try await Task.sleep(for: .milliseconds(5)) }
        await server.stop(graceSeconds: 1)
    }

    /// Asks for something, and goes without waiting for the answer.
    private static func ask(_ target: String, key: String, of port: UInt16) {
        let client = Glibc.socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        defer { close(client) }
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        let isConnected = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(client, $0, socklen_t(MemoryLayout<sockaddr_in>.size)) == 0
            }
        }
        #expect(isConnected)
        let request = Array("GET \(target) HTTP/1.1\r\nHost: test\r\nAuthorization: Bearer \(key)\r\n\r\n".utf8)
        #expect(Glibc.send(client, request, request.count, 0) == request.count)
    }

    private struct Answer {
        let status: Int
        let position: String?
        let code: String?
        let detail: String
    }

    private func send(_ method: String, _ url: String, key: String? = nil, body: [UInt8]? = nil) async throws -> Answer
    {
        var request = URLRequest(url: try #require(URL(string: url)))
        request.httpMethod = method
        request.httpBody = body.map { Data($0) }
        if let key { request.setValue("Bearer " + key, forHTTPHeaderField: "Authorization") }
        let (data, response) = try await URLSession.shared.data(for: request)
        let answer = try #require(response as? HTTPURLResponse)
        let problem = try? WireJSON.decode(ProblemDocument.self, from: Array(data))
        return Answer(
            status: answer.statusCode, position: answer.value(forHTTPHeaderField: "Ledger-Position"),
            code: problem?.code, detail: problem?.detail ?? "")
    }
}
