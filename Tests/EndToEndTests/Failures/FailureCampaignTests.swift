import Foundation
import SeededRandom
import StoreSimulator
import Testing

/// The real service with its embedded PostgreSQL under load, and everything around it failing at random.
///
/// `deploy/test --failures 300` inflicts that many faults; without it there are a few.
@Suite("A campaign of failures", .serialized)
struct FailureCampaignTests {
    private static let environment = ProcessInfo.processInfo.environment
    private static let faults = Int(environment["RIGHTFUL_TEST_FAILURES"] ?? "") ?? 4
    private static let isLong = environment["RIGHTFUL_TEST_FAILURES"] != nil
    private static let seed = UInt64(environment["RIGHTFUL_TEST_SEED"] ?? "") ?? 1
    /// Faults of one installation: then its log is verified and compared, and another one begins.
    private static let faultsOfChapter = 11

    private static let writers = 2
    private static let readers = 2

    @Test("nothing acknowledged is lost, answers stay right, and the service recovers by itself")
    func campaign() async throws {
        var tally = FailureTally()
        var seed = Self.seed
        while tally.faults < Self.faults {
            try await chapter(seed: seed, rounds: min(Self.faultsOfChapter, Self.faults - tally.faults), &tally)
            Self.tell("seed \(seed) is over: \(tally.faults) faults")
            seed += 1
        }
        Self.tell("\(tally.text)\nseeds \(Self.seed) to \(seed - 1)")
        #expect(tally.health.faults.isEmpty, "\(tally.health.faults.prefix(20))")
        #expect(tally.health.answers > 20 && tally.answers > 50 && tally.operations > 20, "nothing was tested")
    }

    private func chapter(seed: UInt64, rounds: Int, _ tally: inout FailureTally) async throws {
        let stage = try await FailureStage.make(seed: seed)
        defer { stage.remove() }
        if stage.disk == nil { Self.tell("skipped: disk full; this process may not mount a small one") }
        let truth = Acknowledgements(customers: InstanceLoad.customers.count)
        let load = InstanceLoad(
            fleet: stage.fleet, key: stage.key, truth: truth, seed: seed,
            alsoSold: Self.products(of: stage.installation))
        try await load.begin()
        let isOver = Flag()
        // Not cut short by a failure of the other: what is under way then would look like a failure of its own.
        let work = Task { try await Self.run(load, stage.delivery) { !isOver.isSet } }
        let outcome = await Task { () -> [(faults: [Fault], recovery: Duration)] in
            var random = SplitMix64(seed: seed)
            var history: [(faults: [Fault], recovery: Duration)] = []
            for round in 0..<rounds {
                let first = Int(seed) &* Self.faultsOfChapter &+ round
                let faults = Fault.draw(first, of: stage.faults, &random)
                let happened = try await Self.inflict(faults, on: stage, &random)
                let recovery = try await stage.recover()
                history.append((happened, recovery))
                if Self.isLong { Self.tell("seed \(seed): \(happened.map(\.rawValue)): \(recovery)") }
                try? await Task.sleep(for: .milliseconds(random.number(in: 0...800)))
            }
            return history
        }.result
        isOver.set()
        // Said at once, for without a service the work takes long to end.
        if case .failure(let failure) = outcome { Self.tell("seed \(seed): \(failure)") }
        let answers = await work.result
        for (faults, recovery) in try outcome.get() { tally.add(faults, recovery: recovery) }
        tally.answers += try answers.get()
        tally.operations += await truth.operations
        tally.refusals += stage.fleet.refusals
        try await expectEverything(stage, load, &tally)
    }

    /// Prints at once, for a campaign takes long.
    private static func tell(_ text: String) { FileHandle.standardError.write(Data((text + "\n").utf8)) }

    /// Lets faults happen at the same time; returns those that did.
    private static func inflict(
        _ faults: [Fault], on stage: FailureStage, _ random: inout SplitMix64
    ) async throws -> [Fault] {
        try await withThrowingTaskGroup(of: Fault?.self) { group in
            for fault in faults {
                let random = SplitMix64(seed: random.next())
                group.addTask { try await stage.inflict(fault, random) ? fault : nil }
            }
            return try await group.reduce(into: []) { if let fault = $1 { $0.append(fault) } }
        }
    }

    /// Writes, reads and delivers for as long as that is wanted; returns how many answers were held against the truth.
    private static func run(
        _ load: InstanceLoad, _ delivery: StoreDelivery, while isWanted: @escaping @Sendable () -> Bool
    ) async throws -> Int {
        try await withThrowingTaskGroup(of: Int.self) { group in
            for number in 0..<writers {
                group.addTask {
                    try await load.write(as: number, while: isWanted)
                    return 0
                }
            }
            for number in 0..<readers {
                group.addTask {
                    var reader = AlternatingReader(load, number: number)
                    return try await reader.read(while: isWanted)
                }
            }
            group.addTask {
                try await delivery.deliver(while: isWanted)
                return 0
            }
            return try await group.reduce(0, +)
        }
    }

    /// When all is quiet: the log is exact, the answers are the store's own record, and the log proves itself.
    private func expectEverything(
        _ stage: FailureStage, _ load: InstanceLoad, _ tally: inout FailureTally
    ) async throws {
        try await stage.delivery.finish()
        tally.delivered += await stage.delivery.positions.count
        tally.brokenOff += await stage.delivery.brokenOff
        var reader = AlternatingReader(load, number: 100)
        for _ in 0..<40 { try await reader.ask(0) }
        #expect(reader.answers > 20, "seed \(load.seed)")
        let client = HTTPClient(stage.fleet.service(0).url, key: stage.key)
        let events = try await client.events()
        tally.events += events.count
        await stage.delivery.expectExactLog(events)
        for customer in stage.delivery.record.customers {
            try await client.expectRecord(
                stage.delivery.record.customer(customer), of: customer, limit: 3, "seed \(load.seed)")
        }
        tally.add(await stage.probe.end())
        #expect(stage.fleet.service(0).stop() == 0, "seed \(load.seed)")
        #expect(stage.installation.postmaster == nil, "seed \(load.seed): the last to leave stops the database")
        #expect(try await stage.installation.rightful("verify").hasPrefix("verified: "), "seed \(load.seed)")
    }

    /// What the simulated world sells, for the catalog.
    private static func products(of installation: Installation) -> [[String: any Sendable]] {
        installation.world.mappings.map { mapping in
            var product: [String: any Sendable] = [
                "product_id": mapping.productID, "entitlements": mapping.entitlements,
            ]
            product["duration"] = mapping.duration
            return product
        }
    }
}
