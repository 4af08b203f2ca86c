import EntitlementAPI
import Foundation
import Testing

@testable import EntitlementKit

#if canImport(FoundationNetworking)
import FoundationNetworking
#endif

@Suite("Kit: storage on disk", .timeLimit(.minutes(1)))
struct StorageTests {
    private func withDirectory(_ body: (URL) async throws -> Void) async throws {
        let directory = FileManager.default.temporaryDirectory.appendingPathComponent("kit-\(UUID().uuidString)")
        defer { try? FileManager.default.removeItem(at: directory) }
        try await body(directory)
    }

    @Test("a whole life survives on real files")
    func realFiles() async throws {
        try await withDirectory { directory in
            let clock = ManualClock()
            let server = ScriptedServer(clock)
            func launch(_ device: ScriptedStore) async -> Entitlements {
                let store = EntitlementStore(
                    configuration: EntitlementConfiguration(bundleID: Statements.bundleID), store: device,
                    server: server, storage: FileEntitlementStorage(directory: directory), clock: clock)
                await store.start()
                await store.settled()
                defer { Task { await store.stop() } }
                return await store.current
            }
            let first = await launch(ScriptedStore { $0.current = [Statements.transaction("1")] })
            #expect(first.isLive && first.givesAccess(to: "premium"))
            server.edit { $0.mood = .unreachable }
            let second = await launch(ScriptedStore { $0.appTransaction = nil })
            #expect(second.givesAccess(to: "premium"))
            #expect(second.customerID == "apple:A")
        }
    }

    @Test(
        "a damaged file is set aside, and takes nothing away that another one holds",
        arguments: ["statements.jsonl", "server.json", "queue.json", "identity.json", "clock.json"])
    func damaged(_ name: String) async {
        var rig = KitRig { $0.current = [Statements.transaction("1")] }
        await rig.launch()
        await rig.store.identify(customerID: "apple:A")
        await rig.store.settled()
        // The one file that would be missing: nothing was left to send.
        await rig.storage.damage(name)
        rig.server.edit { $0.mood = .unreachable }
        rig = await rig.relaunched(device: ScriptedStore())
        await rig.launch()
        #expect(await rig.gives())
        #expect(await rig.storage.aside == [name])
    }

    @Test("before the device is first unlocked nothing is written over, and afterwards both are joined")
    func locked() async {
        var rig = KitRig { $0.current = [Statements.transaction("1")] }
        await rig.launch()
        rig.server.edit { $0.mood = .unreachable }
        await rig.storage.setLocked(true)
        rig = await rig.relaunched(
            device: ScriptedStore {
                $0.unfinished = [Statements.transaction("2", product: "lifetime", until: nil)]
            })
        await rig.launch()
        #expect(rig.device.state.finished.isEmpty)
        await rig.storage.setLocked(false)
        _ = await rig.store.refresh()
        await rig.store.settled()
        _ = await rig.store.refresh()
        #expect(await rig.gives("forever"))
        #expect(await rig.gives("premium"))
        rig = await rig.relaunched(device: ScriptedStore())
        await rig.launch()
        #expect(await rig.gives("forever"))
        #expect(await rig.gives("premium"))
    }

    @Test("what waits to be sent survives a restart, also of a customer who has gone")
    func queue() async {
        var rig = KitRig {
            $0.current = [Statements.transaction("1")]
        } server: {
            $0.mood = .unreachable
        }
        await rig.launch()
        await rig.store.identify(customerID: "c-2", token: "t")
        await rig.store.settled()
        rig.server.edit { $0.mood = .answers }
        let before = rig.server.received.count
        rig = await rig.relaunched(device: ScriptedStore())
        await rig.launch()
        let posted = rig.server.received.dropFirst(before).filter { !$0.request.signedTransactions.isEmpty }
        #expect(Set(posted.map(\.customerID)) == ["apple:A", "c-2"])
    }

    @Test("a request names the customer in its path, whatever the id holds, and carries the right key")
    func request() throws {
        let base = try #require(URL(string: "https://example.com/ledger/"))
        let server = HTTPEntitlementServer(baseURL: base, publishableKey: "rightful_pk_1")
        let request = try server.request(customerID: "a/b c?ü", token: nil, body: Data("{}".utf8))
        #expect(
            request.url?.absoluteString
                == "https://example.com/ledger/v1/customers/a%2Fb%20c%3F%C3%BC/reconcile")
        #expect(request.httpMethod == "POST")
        #expect(request.value(forHTTPHeaderField: "Authorization") == "Bearer rightful_pk_1")
        let own = try server.request(customerID: "c", token: "t", body: Data())
        #expect(own.value(forHTTPHeaderField: "Authorization") == "Bearer t")
    }
}
