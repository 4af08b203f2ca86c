import EntitlementCore
import Ledger
import PostgresClient
import TestSupport
import Testing

@testable import Service

@Suite("Reads that the lease proves fresh", .serialized, .timeLimit(.minutes(5)))
struct LeasedReadsTests {
    private static let ann = Purchase.customer

    /// Reads until the lease proves it, and returns that answer.
    private static func leased(
        _ instance: ServedInstance, _ rig: ServiceRig, query: String = "", tag: String? = nil
    ) async throws -> ServedInstance.Answer {
        let end = ContinuousClock.now + .seconds(60)
        while ContinuousClock.now < end {
            let before = instance.readsProvenByLease
            let read = try await instance.read(ann, query: query, tag: tag, key: rig.admin)
            if instance.readsProvenByLease > before { return read }
        }
        throw Unproven()
    }

    private struct Unproven: Error {}

    @Test("the log is not asked for, and whoever appends is seen at once", arguments: [true, false])
    func appends(byItself: Bool) async throws {
        let rig = try await EntitlementsTests.rig()
        let instance = try await ServedInstance.start(on: rig)
        let writer = (byItself ? instance.application : rig.application).reconcile.writer
        for round in 0..<4 {
            let before = try await Self.leased(instance, rig)
            rig.wait(seconds: 1)
            let position = try await writer.append(Self.grant("lent-\(round)", to: Self.ann)).position
            rig.wait(seconds: 1)
            let read = try await instance.read(Self.ann, key: rig.admin)
            #expect(read.position == position && position > before.position, "round \(round)")
            #expect(read.body.contains("lent-\(round)"), "round \(round): \(read)")
            #expect(read == (try await instance.generalAnswer(Self.ann, key: rig.admin)), "round \(round)")
            if byItself {
                let again = try await Self.leased(instance, rig)
                #expect(again.position == position && again.body.contains("lent-\(round)"), "round \(round)")
            } else {
                try await rig.database.owner().execute(
                    script: "UPDATE ledger_head SET lease_free_at = clock_timestamp()")
            }
        }
        await instance.stop()
    }

    @Test("reads of the past and unchanged answers need no question either")
    func others() async throws {
        let rig = try await EntitlementsTests.rig()
        let instance = try await ServedInstance.start(on: rig)
        let head = try await rig.head
        for query in ["", "?known_at=\(head)", "?at=2026-11-19T00:00:00Z", "?environment=sandbox"] {
            for tag in [nil, "W/\"another\""] {
                let expected = try await instance.generalAnswer(Self.ann, query: query, tag: tag, key: rig.admin)
                #expect(try await Self.leased(instance, rig, query: query, tag: tag) == expected, "\(query)")
                let unchanged = try await Self.leased(instance, rig, query: query, tag: expected.headers["ETag"])
                #expect(unchanged.status == 304, "\(query)")
            }
        }
        await instance.stop()
    }

    @Test("a database that stands still proves nothing for longer than the lease")
    func frozen() async throws {
        let rig = try await EntitlementsTests.rig()
        let instance = try await ServedInstance.start(on: rig)
        _ = try await Self.leased(instance, rig)
        let owner = try await rig.database.owner()
        try await owner.execute(script: "BEGIN; LOCK TABLE ledger_head IN ACCESS EXCLUSIVE MODE")
        try await Task.sleep(for: .milliseconds(250))
        let before = instance.readsProvenByLease
        async let read = instance.read(Self.ann, key: rig.admin)
        try await Task.sleep(for: .milliseconds(300))
        try await owner.execute(script: "ROLLBACK")
        #expect(try await read.status == 200)
        #expect(instance.readsProvenByLease == before)
        await instance.stop()
    }

    private static func grant(_ entitlement: String, to customer: String) -> EventDraft {
        EventDraft(
            environment: .production, source: .api, occurredAt: nil,
            fact: .grant(
                GrantFact(
                    grantID: "g-\(entitlement)", customer: IdentityRef(0), entitlementID: entitlement, until: nil,
                    reason: "test")),
            identities: [customer], deduplication: .unique)
    }
}
