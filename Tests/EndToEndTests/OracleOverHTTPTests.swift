import Foundation
import StoreSimulator
import TestSupport
import Testing

/// The whole service, from signature to answer, against the simulator's record.
@Suite("The service against the simulator's record", .serialized)
struct OracleOverHTTPTests {
    @Test("random lives, delivered in any order, at once and repeatedly, with the views deleted in between")
    func randomLives() async throws {
        let installation = try await Installation()
        defer { installation.remove() }
        let key = try await installation.adminKey()
        let service = try await ServiceProcess.start(installation)
        defer { service.stop() }
        let client = HTTPClient(service.url, key: key)
        try await installation.rightful("catalog", "apply", installation.catalogFile.path())

        for seed in 1...UInt64(4 * Campaign.factor) {
            let life = StoreLife.random(seed: seed, world: installation.world, customers: 3)
            let style = DeliveryStyle.allCases[Int(seed) % 5]
            let arrivals = Delivery.plan(life.notifications, style, seed: seed)
            let signed = try life.notifications.map { try installation.authority.sign($0) }
            let half = arrivals.count / 2
            try await deliver(arrivals[..<half].map { signed[$0.index] }, to: client, seed: seed)
            try await installation.deleteViews()
            try await deliver(arrivals[half...].map { signed[$0.index] }, to: client, seed: seed)
            if seed % 2 == 0 { try await installation.deleteViews() }
            for customer in life.record.customers {
                try await client.expectRecord(life.record.customer(customer), of: customer, "seed \(seed) \(style)")
            }
        }
        #expect(!service.logText.contains("apple:"), "an identity stands in the log")
    }

    /// Eight at a time, whatever their order.
    private func deliver(_ payloads: [String], to client: HTTPClient, seed: UInt64) async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            for (index, payload) in payloads.enumerated() {
                if index >= 8 { try await group.next() }
                group.addTask {
                    let answer = try await client.notify(payload)
                    #expect(answer.status == 200, "seed \(seed): \(answer.text)")
                }
            }
            try await group.waitForAll()
        }
    }
}
