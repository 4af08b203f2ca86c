import Foundation
import SeededRandom
import TestSupport
import Testing

/// Three services on one database, killed and paused at random under load, and readers that ask them in turn.
@Suite("Readers that alternate between instances", .serialized)
struct AlternatingReadersTests {
    private static let writers = 4
    private static let readers = 8

    @Test(
        "no answer lacks what any instance acknowledged before, and none is older than the one before it",
        arguments: 1...UInt64(Campaign.factor))
    func alternating(seed: UInt64) async throws {
        let installation = try await Installation()
        defer { installation.remove() }
        let key = try await installation.adminKey()
        let fleet = try await InstanceFleet.start(3, on: installation)
        defer { fleet.signalAll(SIGKILL) }
        let truth = Acknowledgements(customers: InstanceLoad.customers.count)
        let load = InstanceLoad(fleet: fleet, key: key, truth: truth, seed: seed)
        try await load.begin()

        let disturbance = Task { try await fleet.disturb(SplitMix64(seed: seed)) }
        let end = ContinuousClock.now + .seconds(8)
        let outcome = await Task { try await Self.run(load, until: end) }.result
        disturbance.cancel()
        try await disturbance.value
        let answers = try outcome.get()
        #expect(answers > 200, "seed \(seed): nothing was tested")
        #expect(fleet.kills > 1, "seed \(seed): nothing was killed")
        #expect(await truth.operations > 100, "seed \(seed): nothing was written")
        try await expectMemoryUsed(load, fleet)
        for index in 0..<fleet.count { #expect(fleet.service(index).stop() == 0, "seed \(seed)") }
        #expect(try await installation.rightful("verify").hasPrefix("verified: "), "seed \(seed)")
    }

    /// Writes and reads for a while; returns how many answers the readers had.
    private static func run(_ load: InstanceLoad, until end: ContinuousClock.Instant) async throws -> Int {
        try await withThrowingTaskGroup(of: Int.self) { group in
            for number in 0..<writers {
                group.addTask {
                    try await load.write(as: number, while: { ContinuousClock.now < end })
                    return 0
                }
            }
            for number in 0..<readers {
                group.addTask {
                    var reader = AlternatingReader(load, number: number)
                    return try await reader.read(while: { ContinuousClock.now < end })
                }
            }
            return try await group.reduce(0, +)
        }
    }

    /// When all is quiet, each instance has every answer right, and the readers have met the answers kept in memory.
    private func expectMemoryUsed(_ load: InstanceLoad, _ fleet: InstanceFleet) async throws {
        for number in 0..<fleet.count {
            var reader = AlternatingReader(load, number: 100 + number)
            for _ in 0..<60 { try await reader.ask(number) }
            #expect(reader.answers > 30, "seed \(load.seed)")
            let client = HTTPClient(fleet.service(number).url, key: load.key)
            let metrics = try await client.send("GET", "/metrics").text
            for family in ["immediate_reads", "repeated_launches"] {
                let sample = "rightful_\(family)_total{source=\"memory\"} "
                let line = metrics.split(separator: "\n").first { $0.hasPrefix(sample) }
                let count = line.flatMap { Int($0.dropFirst(sample.count)) } ?? 0
                #expect(count > 0, "seed \(load.seed): \(sample)\(count)")
            }
        }
    }
}
