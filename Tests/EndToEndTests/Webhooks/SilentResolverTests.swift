import Foundation
import StoreSimulator
import TestSupport
import Testing

/// Endpoints whose names are asked about in vain: nobody says that there are none, and every look-up hangs.
///
/// The service runs where `/etc/resolv.conf` names a server of the test's own, which takes the right to mount.
@Suite("Webhooks to names that nobody answers for", .serialized, .timeLimit(.minutes(3)))
struct SilentResolverTests {
    private static let known = "well.rightful.test"
    private static let silent = 40

    /// Far less than a look-up hangs, and far more than a delivery takes.
    private static let patience = Duration.seconds(8)

    @Test("look-ups that hang delay no message to another endpoint, whose name is looked up beside them")
    func silence() async throws {
        guard geteuid() == 0, let names = SilentNameServer(known: Self.known) else {
            return print("SilentResolverTests: not without the rights to mount and to answer at port 53")
        }
        defer { names.stop() }
        let receiver = try HostileServer { _, _ in .answer(200, "") }
        defer { receiver.stop() }
        let installation = try await Installation(settings: [
            "webhooks": ["allow_private_addresses": true] as [String: any Sendable]
        ])
        defer { installation.remove() }
        let resolver = installation.directory.appending(path: "resolv.conf")
        try Data("nameserver \(SilentNameServer.address)\noptions timeout:30 attempts:1\n".utf8).write(to: resolver)
        chmod(resolver.path(), 0o644)
        let admin = try await installation.adminKey()
        let service = try await ServiceProcess.start(
            installation,
            through: [
                "/usr/bin/env", "unshare", "--mount", "sh", "-c",
                #"mount --bind "$0" /etc/resolv.conf && exec "$@""#, resolver.path(),
            ])
        let client = HTTPClient(service.url, key: admin)
        func endpoint(_ url: String) async throws -> String {
            let body = #"{"url":"\#(url)","types":["entitlements.changed"]}"#
            let answer = try await client.send("POST", "/v1/webhook_endpoints", body: Array(body.utf8))
            return try #require(answer.json["id"] as? String, "\(answer.text)")
        }
        func grant(_ customer: String) async throws {
            let body = Array(#"{"entitlement":"premium","reason":"r"}"#.utf8)
            let answer = try await client.send("POST", "/v1/customers/\(customer)/actions/grant", body: body)
            try #require(answer.status == 200, "\(answer.text)")
        }
        var dead: [String] = []
        for number in 0..<Self.silent {
            dead.append(try await endpoint("http://silent-\(number).rightful.test:1/hook"))
        }
        _ = try await endpoint("http://\(Self.known):\(receiver.port)/hook")
        try await grant("first")
        try await wait("the look-ups") { names.swallowed.count == Self.silent && receiver.requests.count == 1 }
        var longest = Duration.zero
        // Longer than an attempt takes, so that look-ups are given up, and begun again, in between.
        let end = ContinuousClock.now + .seconds(20)
        var count = 1
        while ContinuousClock.now < end {
            count += 1
            let start = ContinuousClock.now
            try await grant("c-\(count)")
            try await wait("message \(count)") { receiver.requests.count == count }
            longest = max(longest, start.duration(to: .now))
            try await Task.sleep(for: .milliseconds(200))
        }
        print("SilentResolverTests: \(count) messages beside \(Self.silent) silent names, the longest took \(longest)")
        #expect(longest < Self.patience)
        let first = try #require(dead.first)
        let deliveries = try await client.send("GET", "/v1/webhook_endpoints/\(first)/deliveries")
        let items = try #require(deliveries.json["items"] as? [[String: Any]])
        #expect(items.contains { $0["failure"] as? String == "the time was up" }, "\(deliveries.text)")
        let threads = try Self.threads(of: service.processID)
        #expect(threads < 4 * Self.silent + 100, "\(threads) threads: look-ups that were given up end, too")
        let stop = ContinuousClock.now
        #expect(service.stop() == 0)
        #expect(stop.duration(to: .now) < .seconds(20), "nobody waits for look-ups")
    }

    private func wait(_ what: Comment, until isMet: () -> Bool) async throws {
        let end = ContinuousClock.now + .seconds(40)
        while !isMet() {
            try #require(ContinuousClock.now < end, what)
            try await Task.sleep(for: .milliseconds(5))
        }
    }

    private static func threads(of process: pid_t) throws -> Int {
        try FileManager.default.contentsOfDirectory(atPath: "/proc/\(process)/task").count
    }
}
