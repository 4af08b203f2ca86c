import AppStorePayloads
import EntitlementAPI
import EntitlementCore
import Foundation
import Testing

@testable import EntitlementKit

@Suite("Kit, situations: an app that was installed long ago", .timeLimit(.minutes(1)))
struct OldInstallTests {
    private static let lifetime = Statements.transaction("1", product: "lifetime", until: nil)

    /// A server for which an app transaction that was signed before a day is too old to prove anything.
    private func takes(_ rig: KitRig, from day: Double) {
        let server = rig.server
        server.edit {
            $0.translate = { answer in
                let posted = server.received.last?.request.appTransaction
                let app = posted.flatMap { try? DeviceAppTransaction(SignedStatement(jws: $0)) }
                let signed = app?.payload.signedDate?.date ?? .distantPast
                guard signed < Statements.date(day), case .object(var members) = answer else { return answer }
                members["app_transaction"] = .object([
                    "status": .string("refused"), "code": .string("forbidden"), "detail": .string("it is too old"),
                ])
                members["proof"] = .string("none")
                members["facts"] = nil
                return .object(members)
            }
        }
    }

    @Test(
        "a newer statement of the app's own purchase proves what the one on the disk is too old for", arguments: [1, 2])
    func newerProves(_ launches: Int) async {
        var rig = KitRig(day: 1) { $0.current = [Self.lifetime] }
        await rig.launch()
        #expect(await rig.store.current.isLive)
        takes(rig, from: 300)
        rig.clock.advance(days: 400)
        rig = await rig.relaunched()
        await rig.launch()
        #expect(await rig.store.current.kind == .offline(asOf: Statements.date(1), reason: .unproven))
        let newer = Statements.appTransaction("A", signed: 399)
        rig.device.edit { $0.appTransaction = newer }
        for launch in 1...launches {
            rig = await rig.relaunched()
            await rig.launch()
            await eventually("launch \(launch)") { await rig.store.current.isLive }
            #expect(rig.server.received.last?.request.appTransaction == newer.jws)
        }
        // It is on the disk, too.
        rig.device.edit { $0.appTransaction = nil }
        rig = await rig.relaunched()
        await rig.launch()
        #expect(await rig.store.current.isLive)
    }

    @Test("a newer one that comes while a request with the older one is under way is asked about once more")
    func newerComesMeanwhile() async {
        var rig = KitRig(day: 1) { $0.current = [Self.lifetime] }
        await rig.launch()
        takes(rig, from: 300)
        rig.clock.advance(days: 400)
        let (app, server) = (Door(), Door())
        rig.device.edit {
            $0.appTransaction = Statements.appTransaction("A", signed: 399)
            $0.doors[.appTransaction] = app
        }
        rig.server.edit { $0.door = server }
        rig = await rig.relaunched()
        await rig.store.start()
        await eventually("asked with the older one") { await server.visitors == 1 }
        await app.open()
        let newest = Statements.appTransaction("A", signed: 399).jws
        await eventually("the newer one is known") { [store = rig.store] in
            await store.ledger.appTransaction?.jws == newest
        }
        await server.open()
        await eventually("live") { await rig.store.current.isLive }
    }

    @Test("restoring sends the newest statement of the app's own purchase")
    func restoringSendsIt() async {
        let rig = KitRig(day: 1) { $0.current = [Self.lifetime] }
        await rig.launch()
        takes(rig, from: 300)
        rig.clock.advance(days: 400)
        _ = await rig.store.refresh()
        #expect(await rig.store.current.kind == .offline(asOf: Statements.date(1), reason: .unproven))
        rig.device.edit { $0.appTransaction = Statements.appTransaction("A", signed: 399) }
        _ = await rig.store.restoreEntitlements()
        await eventually("live") { await rig.store.current.isLive }
    }
}
