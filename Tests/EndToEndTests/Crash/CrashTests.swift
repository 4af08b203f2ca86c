import Foundation
import SeededRandom
import StoreSimulator
import TestSupport
import Testing

/// Kills the service, and its database, at random moments.
@Suite("Crashes of service and database", .serialized)
struct CrashTests {
    @Test("kill -9 at any moment loses nothing acknowledged and writes nothing twice", arguments: [UInt64(1)])
    func killed(seed: UInt64) async throws {
        let installation = try await Installation()
        defer { installation.remove() }
        let key = try await installation.adminKey()
        let life = StoreLife.random(seed: seed, world: installation.world, customers: 12 * Campaign.factor)
        let signed = try life.notifications.map { try installation.authority.sign($0) }
        var random = SplitMix64(seed: seed)
        var acknowledged: [Int: Int64] = [:]
        let rounds = 5
        for round in 0...rounds {
            let service = try await ServiceProcess.start(installation)
            let client = HTTPClient(service.url, key: key)
            var pending = signed.indices.filter { acknowledged[$0] == nil }
            // Some that were acknowledged come again: they must be known.
            pending += Array(acknowledged.keys.sorted().prefix(5))
            pending = random.shuffled(pending)
            let isLast = round == rounds
            let share = isLast ? pending.count : pending.count / 3
            let killer = Task { [millis = 20 + random.next() % 400] in
                try await Task.sleep(for: .milliseconds(millis))
                if !isLast { service.killWithoutWarning() }
            }
            for (index, position) in await deliver(pending.prefix(share).map { $0 }, signed, to: client) {
                #expect(acknowledged[index] ?? position == position, "seed \(seed): \(index) moved")
                acknowledged[index] = position
            }
            _ = try? await killer.value
            if isLast {
                try await expectExactLog(life, acknowledged, client, seed: seed)
                #expect(service.stop() == 0)
                #expect(installation.postmaster == nil, "the last to leave stops the database")
            } else if round % 2 == 1, let postmaster = installation.postmaster {
                kill(postmaster, SIGKILL)
            }
        }
    }

    /// What was acknowledged; failures are the point of the exercise.
    private func deliver(_ indices: [Int], _ signed: [String], to client: HTTPClient) async -> [(Int, Int64)] {
        await withTaskGroup(of: (Int, Int64)?.self) { group in
            var acknowledged: [(Int, Int64)] = []
            for (started, index) in indices.enumerated() {
                if started >= 8, let result = await group.next(), let result { acknowledged.append(result) }
                group.addTask {
                    guard let answer = try? await client.notify(signed[index]), answer.status == 200,
                        let position = (answer.json["position"] as? NSNumber)?.int64Value
                    else { return nil }
                    return (index, position)
                }
            }
            for await result in group { if let result { acknowledged.append(result) } }
            return acknowledged
        }
    }

    private func expectExactLog(
        _ life: StoreLife, _ acknowledged: [Int: Int64], _ client: HTTPClient, seed: UInt64
    ) async throws {
        #expect(acknowledged.count == life.notifications.count, "seed \(seed)")
        let events = try await client.events()
        #expect(events.map { ($0["position"] as? NSNumber)?.intValue } == Array(1...events.count), "seed \(seed)")
        let uuids = events.map { ($0["notification"] as? [String: Any])?["uuid"] as? String }
        let recorded = uuids.compactMap(\.self)
        #expect(
            recorded.count == life.notifications.count && Set(recorded).count == recorded.count, "seed \(seed)")
        for (index, position) in acknowledged {
            #expect(uuids[Int(position) - 1] == life.notifications[index].uuid.lowercased(), "seed \(seed)")
        }
        var previous = String(repeating: "0", count: 64)
        for event in events {
            #expect(event["previous_hash"] as? String == previous, "seed \(seed)")
            previous = event["hash"] as? String ?? ""
        }
    }
}
