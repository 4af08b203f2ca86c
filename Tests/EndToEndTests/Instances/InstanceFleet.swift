import EmbeddedPostgres
import Foundation
import PostgresClient
import SeededRandom
import StoreSimulator
import Synchronization

/// Some services on one database, each of which is replaced when it is killed.
final class InstanceFleet: Sendable {
    let installation: Installation
    private let services: Mutex<[ServiceProcess]>
    private let killed = Mutex(0)
    private let refused = Mutex(0)

    var count: Int { services.withLock(\.count) }
    /// How often a service was killed.
    var kills: Int { killed.withLock { $0 } }

    /// How many requests were answered 503, or not at all.
    var refusals: Int { refused.withLock { $0 } }

    fileprivate func noteRefusal() { refused.withLock { $0 += 1 } }

    static func start(_ count: Int, on installation: Installation) async throws -> InstanceFleet {
        let services = try await withThrowingTaskGroup(of: ServiceProcess.self) { group in
            for _ in 0..<count { group.addTask { try await ServiceProcess.start(installation) } }
            return try await group.reduce(into: []) { $0.append($1) }
        }
        return InstanceFleet(installation, services)
    }

    private init(_ installation: Installation, _ services: [ServiceProcess]) {
        self.installation = installation
        self.services = Mutex(services)
    }

    func service(_ index: Int) -> ServiceProcess { services.withLock { $0[index] } }

    func signalAll(_ number: Int32) {
        for service in services.withLock({ $0 }) { service.signal(number) }
    }

    /// Ends a service by a signal and starts another in its place, as whoever watches over services does: again and again,
    /// for a minute, where it does not start.
    ///
    /// - Returns: the status with which the service ended.
    @discardableResult
    func replace(_ index: Int, after signal: Int32) async throws -> Int32 {
        let status = service(index).end(by: signal)
        if signal == SIGKILL { killed.withLock { $0 += 1 } }
        let end = ContinuousClock.now + .seconds(60)
        while true {
            do {
                // The wait is not cut short by the end of the test.
                let replacement = try await Task { [installation] in
                    try await ServiceProcess.start(installation)
                }.value
                services.withLock { $0[index] = replacement }
                return status
            } catch let failure as CommandFailure where ContinuousClock.now < end {
                let text = "started again, for it ended: \(failure.errors.suffix(300))\n"
                FileHandle.standardError.write(Data(text.utf8))
                try await Task.sleep(for: .milliseconds(500))
            }
        }
    }

    /// Kills, and in between pauses or cuts off, until it is cancelled; leaves everything running.
    func disturb(_ random: SplitMix64) async throws {
        var random = random
        var count = 0
        while !Task.isCancelled {
            try? await Task.sleep(for: .milliseconds(random.number(in: 200...1200)))
            count += 1
            let index = Int(random.number(in: 0...Int64(self.count - 1)))
            switch random.number(in: 0...4) {
            case _ where count % 2 == 1:
                try await replace(index, after: SIGKILL)
            case 0...3:
                let service = service(index)
                service.signal(SIGSTOP)
                try? await Task.sleep(for: .milliseconds(random.number(in: 100...2000)))
                service.signal(SIGCONT)
            default:
                try? await Task { [installation] in try await Self.endSessions(installation) }.value
            }
        }
    }

    private static func endSessions(_ installation: Installation) async throws {
        let cluster = try await EmbeddedCluster.acquire(dataDirectory: installation.dataDirectory.path())
        do {
            let owner = try await PostgresConnection.connect(cluster.ownerConninfo)
            try await owner.run { connection in
                _ = try connection.query(
                    """
                    SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                    WHERE usename = 'rightful_serve' AND random() < 0.6
                    """)
            }
            try await cluster.release()
        } catch {
            try await cluster.release()
            throw error
        }
    }
}

/// One client of every instance of a fleet, over connections that it keeps.
struct FleetClient {
    private let fleet: InstanceFleet
    private let key: String
    private var clients: [URL: HTTPClient] = [:]

    init(_ fleet: InstanceFleet, key: String) {
        self.fleet = fleet
        self.key = key
    }

    /// Sends to the instance of this number as it is now; `nil` where that gave no answer, or said that it cannot.
    mutating func send(
        to index: Int, _ method: String, _ path: String, query: [String: String] = [:], body: [UInt8]? = nil,
        headers: [String: String] = [:]
    ) async -> HTTPClient.Answer? {
        let url = fleet.service(index).url
        let client = clients[url] ?? HTTPClient(url, key: key, attempts: 1)
        clients[url] = client
        let answer = try? await client.send(method, path, query: query, body: body, headers: headers)
        guard let answer, answer.status != 503 else {
            fleet.noteRefusal()
            return nil
        }
        return answer
    }
}
