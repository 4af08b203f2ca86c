import Foundation
import FuzzTargets
import SeededRandom
import StoreSimulator
import Testing

/// A service under the inputs of strangers, over real sockets, and of people with a key who send nonsense.
///
/// `deploy/test --fuzz` sends many more than the few that every run of the tests does.
@Suite("A service under hostile input", .serialized)
struct ServiceFuzzTests {
    private static let environment = ProcessInfo.processInfo.environment
    private static let count = Int(environment["RIGHTFUL_TEST_REQUESTS"] ?? "") ?? 300
    private static let seed = UInt64(environment["RIGHTFUL_TEST_SEED"] ?? "") ?? 1
    private static let workers = 3
    /// How much the service's memory may grow, in bytes.
    private static let growth = 300 << 20

    @Test("strangers change nothing, and crash, stop and fill nothing")
    func strangers() async throws {
        let rig = try await HostileRig.make(seed: Self.seed)
        defer { rig.remove() }
        let before = try await rig.standing()
        let memory = try rig.residentBytes()
        let start = ContinuousClock.now
        let tally = try await Self.send(to: rig) { seed in
            var requests = HostileRequests(rig.material, seed: seed)
            return { requests.next() }
        }
        tell("strangers", tally, ContinuousClock.now - start)
        #expect(rig.service.isRunning)
        #expect(try await rig.standing() == before, "seed \(Self.seed): something was believed that nobody signed")
        #expect(try rig.residentBytes() < memory + Self.growth)
        #expect(tally.faults.isEmpty, "\(tally.faults.prefix(5).joined(separator: "\n"))")
        #expect(tally.statuses.keys.contains(401) && tally.statuses.keys.contains(400))
        try await rig.expectVerified()
    }

    @Test("nonsense of people with a key, and of the store itself, is refused or kept, and the log stays true")
    func insiders() async throws {
        let rig = try await HostileRig.make(seed: Self.seed)
        defer { rig.remove() }
        let memory = try rig.residentBytes()
        let start = ContinuousClock.now
        let tally = try await Self.send(to: rig) { seed in
            var requests = OddRequests(rig.material, rig.life, rig.installation.authority, seed: seed)
            return { (requests.next(), .atOnce) }
        }
        tell("people with a key", tally, ContinuousClock.now - start)
        #expect(rig.service.isRunning)
        #expect(try rig.residentBytes() < memory + Self.growth)
        #expect(tally.faults.isEmpty, "\(tally.faults.prefix(5).joined(separator: "\n"))")
        #expect(tally.statuses.keys.contains(200) && tally.statuses.keys.contains(400))
        try await rig.expectVerified()
    }

    private struct Tally: Sendable {
        var inputs = 0
        var statuses: [Int: Int] = [:]
        var faults: [String] = []

        mutating func add(_ other: Tally) {
            inputs += other.inputs
            statuses.merge(other.statuses, uniquingKeysWith: +)
            faults += other.faults
        }
    }

    private typealias Source = () -> (bytes: [UInt8], manner: HostileRequests.Manner)

    /// Sends all inputs, a few at a time.
    private static func send(
        to rig: HostileRig, _ source: @escaping @Sendable (UInt64) -> Source
    ) async throws -> Tally {
        try await withThrowingTaskGroup(of: Tally.self) { group in
            for worker in 0..<workers {
                group.addTask {
                    try await onThread {
                        var tally = Tally()
                        let next = source(seed &* 1000 &+ UInt64(worker))
                        for number in 0..<count / workers where tally.faults.count < 3 {
                            let (bytes, manner) = next()
                            tally.inputs += 1
                            let fault = HostileConnection.fault(
                                of: bytes, sent: manner, to: rig.service.url, statuses: &tally.statuses)
                            guard let fault else { continue }
                            tally.faults.append(
                                "seed \(seed), worker \(worker), input \(number): \(fault); \(manner): "
                                    + LastInput.hex(bytes))
                        }
                        return tally
                    }
                }
            }
            return try await group.reduce(into: Tally()) { $0.add($1) }
        }
    }

    private func tell(_ who: String, _ tally: Tally, _ duration: Duration) {
        guard Self.environment["RIGHTFUL_TEST_REQUESTS"] != nil else { return }
        let statuses = tally.statuses.sorted { $0.key < $1.key }.map { "\($0.key): \($0.value)" }
        let text =
            "\(who): \(tally.inputs) inputs in \(Int(duration / .seconds(1))) s, seed \(Self.seed), "
            + "\(tally.faults.count) faults; answers: \(statuses.joined(separator: ", "))\n"
        FileHandle.standardError.write(Data(text.utf8))
    }
}
