import Foundation
import TestSupport
import Testing

/// Services that may have few open files, as where a container's limit is low.
@Suite("Services with few descriptors", .serialized, .timeLimit(.minutes(3)))
struct ScarceDescriptorsTests {
    private static func limited(to count: Int) -> [String] {
        ["/bin/sh", "-c", "ulimit -n \(count) && exec \"$@\"", "sh"]
    }

    /// What the kernel gave the process so far.
    private static func openFiles(_ process: pid_t) throws -> Int {
        try FileManager.default.contentsOfDirectory(atPath: "/proc/\(process)/fd").count
    }

    private static func health(_ url: URL) throws -> Int? {
        let socket = try RawSocket(url, limit: HealthProbe.limit)
        try socket.send("GET /healthz HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n".utf8)
        return socket.receive(until: RawSocket.isResponse).status
    }

    @Test("more half-sent requests than there are descriptors keep nobody's health from being told, and end nothing")
    func crowd() async throws {
        let installation = try await Installation()
        defer { installation.remove() }
        let service = try await ServiceProcess.start(installation, through: Self.limited(to: 256))
        defer { service.stop() }
        let words = try #require(
            service.logText.firstMatch(of: /may have 256 open files here, so ([0-9]+) connections are served at once/),
            "\(service.logText)")
        #expect(try #require(Int(words.1)) > 64)
        let key = try await installation.adminKey()
        let client = HTTPClient(service.url, key: key)
        let grant = Array(#"{"entitlement":"premium","reason":"r"}"#.utf8)
        let (url, process) = (service.url, service.processIdentifier)
        let (answers, most) = try await onThread {
            // From several addresses, so that all connections together are too many and not only one address's.
            var crowd: [RawSocket] = []
            var (answers, most): ([Int?], Int) = ([], 0)
            for round in 0..<8 {
                for number in 0..<100 {
                    let socket = try RawSocket(url, from: "127.0.0.\(2 + number % 5)")
                    try? socket.send("GET /healthz HTTP/1.1\r\nHost: test\r\n".utf8)
                    crowd.append(socket)
                }
                most = max(most, try Self.openFiles(process))
                if round.isMultiple(of: 2) { answers.append(try Self.health(url)) }
            }
            return withExtendedLifetime(crowd) { (answers, most) }
        }
        #expect(answers.allSatisfy { $0 == 200 }, "\(answers): \(service.logText)")
        #expect(most > 100 && most < 256, "\(most)")
        #expect(try await client.send("POST", "/v1/customers/c-1/actions/grant", body: grant).status == 200)
        #expect(service.stop() == 0)
    }

    @Test("where there are fewer than a service needs, it says so in one line and does not start")
    func tooFew() async throws {
        let installation = try await Installation(isFresh: true)
        defer { installation.remove() }
        let (status, output, errors) = try await installation.run(["serve"], through: Self.limited(to: 64))
        #expect(status == 1 && output.isEmpty)
        #expect(errors.split(separator: "\n").count == 1 && errors.contains("64 open files"), "\(errors)")
    }

    @Test("as few as a service needs are enough to serve with")
    func fewest() async throws {
        let installation = try await Installation()
        defer { installation.remove() }
        let errors = try await installation.run(["serve"], through: Self.limited(to: 64)).errors
        let fewest = try #require(errors.firstMatch(of: /needs ([0-9]+)/).flatMap { Int($0.1) }, "\(errors)")
        let service = try await ServiceProcess.start(installation, through: Self.limited(to: fewest))
        defer { service.stop() }
        let key = try await installation.adminKey()
        let client = HTTPClient(service.url, key: key)
        #expect(try await client.send("GET", "/v1/customers/c-1/entitlements").status == 200)
        #expect(service.stop() == 0)
    }
}
