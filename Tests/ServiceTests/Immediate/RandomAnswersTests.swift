import EntitlementCore
import Foundation
import SeededRandom
import TestSupport
import Testing

@testable import Service

/// Holds the event loop's answers to those of the general path of another instance, which keeps none.
@Suite("Random worlds answered on the event loop", .serialized, .timeLimit(.minutes(60)))
struct RandomAnswersTests {
    /// One world in the ordinary suite, in a campaign four for each time that it is longer.
    private static let worlds = UInt64(Campaign.factor > 1 ? 4 * Campaign.factor : 1)

    @Test(
        "whatever happens, each answer of the event loop is the general path's, byte for byte",
        arguments: 1...worlds)
    func sameBytes(seed: UInt64) async throws {
        var limits = Application.Limits()
        limits.rates.address = RateLimit(perSecond: RateLimit.greatest, burst: RateLimit.greatest)
        let proofs = DeviceTrust.AppTransactionProof.allCases
        let trust = DeviceTrust(appTransactionProof: proofs[Int(seed - 1) % proofs.count])
        let rig = try await ServiceRig.withCatalog(limits: limits, trust: trust)
        let instance = try await ServedInstance.start(on: rig, limits: limits)
        var world = try await RandomWorld(rig, seed: seed)
        var told: [String] = []
        for step in 0..<40 {
            told.append(try await world.step())
            let place = "seed \(seed), step \(step): \(told.suffix(3))"
            // Everybody each time, so that all that is kept is held to what has just happened.
            for customer in RandomWorld.people {
                let query = world.random.chance(25) ? "?environment=sandbox" : ""
                try await Self.compareRead(instance, world, customer, query, place)
            }
            for _ in 0..<6 {
                let newcomer = world.random.pick(RandomWorld.newcomers)
                try await Self.compareRead(
                    instance, world, newcomer, world.random.chance(25) ? "?environment=sandbox" : "", place)
                let query = world.query(head: try await rig.head)
                try await Self.compareRead(instance, world, world.random.pick(RandomWorld.people), query, place)
            }
            for _ in 0..<3 where !world.launches.isEmpty { try await Self.compareLaunch(instance, &world, place) }
        }
        #expect(instance.readsFromMemory > 80, "seed \(seed)")
        // Where the clock jumps far at once, all tokens run out, and few devices are left whose launch can be repeated.
        #expect(instance.repeatedLaunches > 10 || seed > 1, "seed \(seed): \(told)")
        await instance.stop()
    }

    private static func compareRead(
        _ instance: ServedInstance, _ world: RandomWorld, _ customer: String, _ query: String, _ place: String
    ) async throws {
        let rig = world.rig
        let read = try await instance.read(customer, query: query, key: rig.admin)
        let expected = try await instance.generalAnswer(customer, query: query, key: rig.admin, by: rig.application)
        #expect(read.isSame(as: expected), "\(place)\n\(customer)\(query)\n\(read)\n\(expected)")
    }

    /// Another instance is asked second, so that it does not record what this one should have noticed.
    private static func compareLaunch(
        _ instance: ServedInstance, _ world: inout RandomWorld, _ place: String
    ) async throws {
        let rig = world.rig
        let launch = world.random.pick(world.launches)
        for round in 0..<2 {
            let head = try await rig.head
            let remembered = instance.repeatedLaunches
            let answer = try await instance.reconcile(
                launch.customer, query: launch.query, launch.body, key: launch.key)
            let isFromMemory = instance.repeatedLaunches > remembered
            let headBetween = try await rig.head
            let expected = try await instance.generalReconciliation(
                launch.customer, query: launch.query, launch.body, key: launch.key, by: rig.application)
            let headAfter = try await rig.head
            let told = "\(place)\nround \(round) of \(launch.customer), from memory: \(isFromMemory)"
            #expect(headAfter == headBetween, "\(told)\nleft something to record\n\(answer)\n\(expected)")
            #expect(head == headBetween || !isFromMemory, "\(told)")
            // What was recorded just now is known the next time.
            if head == headAfter { #expect(answer.isSame(as: expected), "\(told)\n\(answer)\n\(expected)") }
        }
    }
}

extension ServedInstance.Answer {
    /// Whether it is the same answer; refusals name the request, so those are compared by status and code.
    func isSame(as other: ServedInstance.Answer) -> Bool {
        guard status >= 400 else { return self == other }
        func code(_ body: String) -> String? {
            (try? JSONSerialization.jsonObject(with: Data(body.utf8)) as? [String: Any])?["code"] as? String
        }
        return status == other.status && code(body) == code(other.body)
    }
}
