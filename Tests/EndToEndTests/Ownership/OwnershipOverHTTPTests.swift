import Foundation
import StoreSimulator
import TestSupport
import Testing

/// Who owns what, over HTTP, against the simulator's own record.
@Suite("Ownership over HTTP against the simulator's record", .serialized)
struct OwnershipOverHTTPTests {
    @Test("every scenario comes to what the record says, step by step and in the end")
    func scenarios() async throws {
        let service = try await OwnershipService.start()
        defer { service.stop() }
        var drivers: [OwnershipDriver] = []
        for (index, scenario) in OwnershipScenario.all.enumerated() {
            var driver = try await OwnershipDriver(
                scenario.world(seed: UInt64(index + 1)), service, name: scenario.name)
            do {
                try await driver.drive()
                try await driver.expectRecord(limit: 20)
            } catch is ExpectationFailedError {
                continue
            }
            drivers.append(driver)
        }
        try await expectTheSameFromOtherViews(service, drivers)
    }

    @Test("random worlds, many in one ledger, come to what the record says")
    func randomWorlds() async throws {
        let service = try await OwnershipService.start()
        defer { service.stop() }
        var drivers: [OwnershipDriver] = []
        for seed in 1...UInt64(8 * Campaign.factor) {
            let isStoreFirst = seed % 3 == 0
            var driver = try await OwnershipDriver(
                .random(seed: seed, storeFirst: isStoreFirst), service,
                name: "seed \(seed)\(isStoreFirst ? " store first" : "")")
            do {
                try await driver.drive(comparingSteps: isStoreFirst, deletingViews: seed % 4 == 1)
                try await driver.expectRecord(limit: 40)
            } catch is ExpectationFailedError {
                // It is recorded; the next world has nothing to do with it.
                continue
            }
            drivers.append(driver)
        }
        try await expectTheSameFromOtherViews(service, drivers)
    }

    /// Without views, and with views made anew, every answer is what it was; and the whole ledger verifies.
    private func expectTheSameFromOtherViews(
        _ service: OwnershipService, _ drivers: [OwnershipDriver]
    ) async throws {
        var kept: [KeptAnswer] = []
        for driver in drivers { kept += try await driver.answers() }
        try await service.installation.deleteViews()
        for answer in kept { try await answer.expectAgain(service.admin, "without views") }
        try await service.installation.rightful("rebuild")
        for answer in kept { try await answer.expectAgain(service.admin, "after a rebuild") }
        for driver in drivers { try await driver.expectKeptAnswers() }
        #expect(try await service.installation.rightful("verify").hasPrefix("verified: "))
        #expect(!service.process.logText.contains("apple:"), "an identity stands in the log")
    }
}
