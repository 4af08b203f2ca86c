import EntitlementKit
import Foundation
import StoreSimulator
import Testing

/// What the other tests of the device rely on: that their death is death, and their complaints are made.
@Suite("Kit end to end: the simulated device", .serialized, .timeLimit(.minutes(2)))
struct KitHarnessTests {
    private func connection(_ device: KitDevice, _ process: KitProcess) -> KitConnection {
        KitConnection(process: process, proxy: device.proxy)
    }

    private func body(_ statements: [String]) throws -> Data {
        Data(try bytes(["signed_transactions": statements]))
    }

    @Test("a killed device process reads, writes and sends nothing")
    func death() async throws {
        let rig = try KitRig(try await KitService.start())
        let device = rig.device()
        let account = rig.account(device)
        try rig.store.perform { try $0.redeem(StoreWorld.ProductID.lifetime, account: account) }
        let bought = try rig.id(StoreWorld.ProductID.lifetime, device)
        // It dies as its second write comes back: what was written is written.
        let process = KitProcess(dyingAt: 4)
        let disk = KitDisk(process, device.directory)
        let one = try #require(try await disk.save(.replace(Data("one".utf8)), as: "file", over: .nothing))
        for word in ["two", "three"] {
            await #expect(throws: KitProcess.Killed.self) {
                try await disk.save(.replace(Data(word.utf8)), as: "file", over: one)
            }
        }
        #expect(process.isDead && process.deathPlace == "after write file")
        let store = KitDeviceStore(device: device.number, process: process, store: rig.store, proxy: device.proxy)
        #expect(await store.unfinishedTransactions().isEmpty)
        _ = await store.finish(transactionID: bought)
        #expect(rig.store.with { $0.finishCalls.isEmpty })
        await #expect(throws: KitProcess.Killed.self) {
            try await connection(device, process).reconcile(customerID: "c", token: nil, body: body([]))
        }
        #expect(device.proxy.requestCount == 0)
        let next = KitDisk(KitProcess(), device.directory)
        #expect(try await next.read("file").data == Data("two".utf8))
        await rig.close()
        await rig.service.stop()
    }

    @Test("finishing what no answer listed counts as a violation, also when the answer was lost")
    func finishing() async throws {
        let rig = try KitRig(try await KitService.start())
        let device = rig.device()
        let account = rig.account(device)
        try rig.store.perform { try $0.redeem(StoreWorld.ProductID.lifetime, account: account) }
        let process = KitProcess()
        let store = KitDeviceStore(device: device.number, process: process, store: rig.store, proxy: device.proxy)
        let connection = connection(device, process)
        let app = try #require(await store.appTransaction()).jws
        let statement = try #require(await store.unfinishedTransactions().first).jws
        let id = try rig.id(StoreWorld.ProductID.lifetime, device)
        let body = Data(try bytes(["signed_transactions": [statement], "app_transaction": app]))
        let customer = rig.customer(device)
        device.proxy.weather = .answerLost
        await #expect(throws: URLError.self) {
            try await connection.reconcile(customerID: customer, token: nil, body: body)
        }
        try await rig.expectServer(customer)
        _ = await store.finish(transactionID: id)
        #expect(rig.store.violations.count == 1 && !device.proxy.lists(id))
        device.proxy.weather = .fair
        #expect(try await connection.reconcile(customerID: customer, token: nil, body: body).status == 200)
        _ = await store.finish(transactionID: id)
        #expect(rig.store.violations.count == 1 && device.proxy.lists(id))
        await rig.close()
        await rig.service.stop()
    }

    @Test("the first listener of a launch gets what was never finished, the next one only what is new")
    func updates() async throws {
        let rig = try KitRig(try await KitService.start())
        let device = rig.device()
        let account = rig.account(device)
        try rig.store.perform { try $0.redeem(StoreWorld.ProductID.lifetime, account: account) }
        let store = KitDeviceStore(device: device.number, process: KitProcess(), store: rig.store, proxy: device.proxy)
        let (first, second) = (store.updates(), store.updates())
        try rig.store.perform { try $0.redeem(StoreWorld.ProductID.newsMonthly, account: account) }
        rig.store.close()
        var counts: [Int] = []
        for stream in [first, second] { counts.append(await stream.reduce(0) { count, _ in count + 1 }) }
        #expect(counts == [2, 1])
        await rig.close()
        await rig.service.stop()
    }
}
