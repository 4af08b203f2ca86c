import EntitlementAPI
import EntitlementCore
import Foundation
import FoundationNetworking
import HTTPServer
import Ledger
import PostgresClient
import StoreSimulator
import Synchronization
import TestSupport
import Testing

@testable import Service

@Suite("A database that is frozen", .serialized, .timeLimit(.minutes(3)))
struct FrozenDatabaseTests {
    @Test("everybody is told in time, health is answered throughout, and all goes on when it does")
    func frozen() async throws {
        let rig = try await EntitlementsTests.rig()
        var configuration = HTTPServerConfiguration(port: 0)
        configuration.handlerDeadline = .seconds(2)
        configuration.maxHandlersInFlight = 64
        let server = rig.application.makeServer(configuration)
        try server.start()
        let client = Client(port: try #require(server.boundPort), key: rig.admin)
        #expect(try await client.get(EntitlementsTests.path).status == 200)
        let notifications = try (0..<10).map { number in
            try SimulatedAuthority.requestBody(
                Purchase().renewed(uuid: "3838df56-31ab-4e2d-9f44-\(100_000_000_000 + number)").signed(by: rig.store))
        }

        let processes = try await ServerProcesses(of: rig.database)
        processes.signal(SIGSTOP)
        defer { processes.signal(SIGCONT) }
        let (answers, probes) = try await withThrowingTaskGroup(of: Client.Answer.self) { group in
            for number in 0..<150 {
                let target = number.isMultiple(of: 2) ? EntitlementsTests.path : "/v1/events?after=\(number)"
                group.addTask { try await client.get(target) }
            }
            for body in notifications { group.addTask { try await client.notify(body) } }
            group.addTask { try await client.get("/readyz") }
            let isOver = Flag()
            let probing = Task {
                var probes: [Client.Answer] = []
                while !isOver.isSet {
                    probes.append(try await client.get("/healthz"))
                    try? await Task.sleep(for: .milliseconds(50))
                }
                return probes
            }
            let answers = try await group.reduce(into: []) { $0.append($1) }
            isOver.set()
            return (answers, try await probing.value)
        }
        for answer in answers {
            #expect(answer.status == 503 && answer.retryAfter != nil, "\(answer)")
            #expect(answer.duration < .seconds(8), "\(answer)")
        }
        #expect(probes.count > 10)
        for probe in probes { #expect(probe.status == 200 && probe.duration < .seconds(2), "\(probe)") }

        processes.signal(SIGCONT)
        // What was refused may have been recorded all the same; the store sends it again.
        for body in notifications {
            #expect(try await client.untilServed { try await client.notify(body) }.status == 200)
        }
        #expect(try await client.untilServed { try await client.get(EntitlementsTests.path) }.status == 200)
        let position = try await client.get("/v1/events?limit=1000").body.ranges(of: "\"position\":").count
        #expect(position >= 12, "\(position)")
        #expect(try await rig.get("/v1/ledger").json["position"] == .int(13), "each is one event")
        await server.stop(graceSeconds: 1)
    }

    @Test("the metrics are told within two seconds: what the process counts by itself, and that the database is away")
    func metrics() async throws {
        var limits = Application.Limits()
        // So that the key is looked up anew each time.
        limits.keyLifetime = .zero
        let rig = try await EntitlementsTests.rig(limits: limits)
        let server = rig.application.makeServer(HTTPServerConfiguration(port: 0))
        try server.start()
        let client = Client(port: try #require(server.boundPort), key: rig.admin)
        // On a busy machine a database that runs may take longer than metrics wait for it.
        var before = ""
        for _ in 0..<20 where !before.contains("rightful_database_up 1") {
            before = try await client.get("/metrics").body
        }
        #expect(before.contains("rightful_database_up 1") && before.contains("rightful_ledger_head_position"))
        let processes = try await ServerProcesses(of: rig.database)
        processes.signal(SIGSTOP)
        defer { processes.signal(SIGCONT) }
        // They hold every connection that there is.
        let waiting = (0..<20).map { _ in Task { try await client.get(EntitlementsTests.path) } }
        for _ in 0..<3 {
            let answer = try await client.get("/metrics")
            #expect(answer.status == 200 && answer.duration < .seconds(3), "\(answer)")
            #expect(answer.body.contains("\nrightful_database_up 0\n") && answer.body.contains("rightful_build_info"))
            #expect(answer.body.contains("rightful_http_requests_total"))
            #expect(!answer.body.contains("rightful_ledger_head_position"), "nobody knows how it stands now")
        }
        processes.signal(SIGCONT)
        for task in waiting { _ = try await task.value }
        let after = try await client.untilServed { try await client.get("/metrics") }
        #expect(after.body.contains("rightful_ledger_head_position"))
        await server.stop(graceSeconds: 1)
    }

    private final class Flag: Sendable {
        private let value = Atomic(false)

        var isSet: Bool { value.load(ordering: .relaxed) }

        func set() { value.store(true, ordering: .relaxed) }
    }

    /// Reads and posts with one key, and measures.
    private struct Client: Sendable {
        struct Answer: Sendable, CustomStringConvertible {
            let target: String
            let status: Int
            let retryAfter: String?
            let body: String
            let duration: Duration

            var description: String { "\(target): \(status) after \(duration), Retry-After \(retryAfter ?? "-")" }
        }

        let base: String
        let key: String
        let session: URLSession

        init(port: UInt16, key: String) {
            base = "http://127.0.0.1:\(port)"
            self.key = key
            let configuration = URLSessionConfiguration.ephemeral
            configuration.urlCache = nil
            configuration.httpMaximumConnectionsPerHost = 256
            session = URLSession(configuration: configuration)
        }

        func get(_ target: String) async throws -> Answer { try await send(target, nil) }

        func notify(_ body: [UInt8]) async throws -> Answer { try await send("/v1/notifications/appstore", body) }

        /// Asks again as a client does that was told to come back.
        func untilServed(_ ask: () async throws -> Answer) async throws -> Answer {
            var answer = try await ask()
            for _ in 0..<100 where answer.status == 503 {
                try await Task.sleep(for: .milliseconds(200))
                answer = try await ask()
            }
            return answer
        }

        private func send(_ target: String, _ body: [UInt8]?) async throws -> Answer {
            var request = URLRequest(url: try #require(URL(string: base + target)))
            request.setValue("Bearer " + key, forHTTPHeaderField: "Authorization")
            if let body {
                request.httpMethod = "POST"
                request.httpBody = Data(body)
            }
            let start = ContinuousClock.now
            let (data, response) = try await session.data(for: request)
            let answer = try #require(response as? HTTPURLResponse)
            return Answer(
                target: target, status: answer.statusCode, retryAfter: answer.value(forHTTPHeaderField: "Retry-After"),
                body: String(decoding: data, as: UTF8.self), duration: start.duration(to: .now))
        }
    }

    /// All processes of the PostgreSQL that holds a database.
    private struct ServerProcesses: Sendable {
        let ids: [pid_t]

        init(of database: TestDatabase) async throws {
            let owner = try await database.owner()
            let parent = try Self.parent(of: pid_t(await owner.serverProcessID))
            let all = try FileManager.default.contentsOfDirectory(atPath: "/proc").compactMap { pid_t($0) }
            ids = [parent] + all.filter { (try? Self.parent(of: $0)) == parent }
        }

        func signal(_ number: Int32) { for id in ids { kill(id, number) } }

        private static func parent(of id: pid_t) throws -> pid_t {
            let text = try String(contentsOfFile: "/proc/\(id)/stat", encoding: .utf8)
            // Behind the name, which may hold anything, and the state.
            let fields = text[(text.lastIndex(of: ")") ?? text.startIndex)...].split(separator: " ")
            return try #require(pid_t(fields[2]))
        }
    }
}
