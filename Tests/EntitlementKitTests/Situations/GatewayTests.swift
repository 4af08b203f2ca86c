import EntitlementCore
import Foundation
import Testing

@testable import EntitlementKit

@Suite("Kit, situations: somebody before the server answers, or the server fails", .timeLimit(.minutes(1)))
struct GatewayTests {
    @Test("a gateway's page takes no token away, and what the server itself says does", arguments: [401, 403])
    func tokenStays(_ status: Int) async {
        for isServers in [false, true] {
            let rig = KitRig()
            await rig.launch()
            let events = Collected(rig.store.syncEvents)
            await eventually("listening") { await rig.store.syncListenerCount == 1 }
            await rig.store.identify(customerID: "ann", token: "t")
            await rig.store.settled()
            rig.server.edit { $0.mood = isServers ? .problem(status) : .status(status) }
            _ = await rig.store.refresh()
            rig.server.edit { $0.mood = .answers }
            _ = await rig.store.refresh()
            #expect(rig.server.received.last?.token == (isServers ? nil : "t"))
            if isServers {
                await eventually("told") { await events.kinds.contains(.tokenRejected) }
            } else {
                #expect(await !events.kinds.contains(.tokenRejected))
            }
        }
    }

    @Test("nor does one that answers a purchase on the web")
    func tokenStaysOnTheWeb() async throws {
        let payer = Payer()
        let rig = KitRig.web(payer)
        await rig.launch()
        await rig.store.identify(customerID: "ann", token: "t")
        await rig.store.settled()
        rig.server.shop { $0.mood = .status(403) }
        let url = try #require(URL(string: "https://app.example.com/back"))
        await #expect(throws: PurchaseError.self) { try await rig.store.managementURL(returningTo: url) }
        _ = await rig.store.refresh()
        #expect(rig.server.received.last?.token == "t")
    }

    @Test("without a network nothing reads as live, and what was known goes on giving access")
    func lostNetwork() async {
        let rig = KitRig { $0.current = [Statements.transaction("1")] }
        await rig.launch()
        #expect(await rig.store.current.isLive)
        await rig.store.networkWasLost()
        #expect(await rig.store.current.kind == .offline(asOf: Statements.date(1), reason: .unreachable))
        #expect(await rig.gives())
        await rig.store.networkDidReturn()
        await eventually("live") { await rig.store.current.isLive }
    }

    @Test(
        "an hour of patience is the server's own to ask for, and a portal's is over in a minute",
        arguments: [true, false])
    func patience(_ isServers: Bool) async {
        let rig = KitRig(server: {
            $0.mood = isServers ? .problem(503, retryAfter: 3600) : .status(503, retryAfter: 3600)
        })
        await rig.launch()
        rig.server.edit { $0.mood = .answers }
        rig.clock.advance(.seconds(59))
        await rig.store.networkDidReturn()
        await rig.store.settled()
        #expect(rig.server.received.count == 1)
        rig.clock.advance(.seconds(11))
        await rig.store.applicationWillEnterForeground()
        await rig.store.settled()
        #expect(rig.server.received.count > 1 || isServers)
        #expect(await rig.store.current.isLive != isServers)
    }

    @Test("a server that fails is asked no more often for that", arguments: [500, 502, 503])
    func failureIsAbsence(_ status: Int) async {
        let rig = KitRig {
            $0.all = (1...150).map { Statements.transaction("\(1000 + $0)", product: "lifetime", until: nil) }
        } server: {
            $0.mood = .problem(status)
        }
        await rig.launch()
        for _ in 0..<3 {
            rig.clock.advance(.seconds(60))
            await rig.store.settled()
        }
        let failed = rig.server.posts.map(\.count)
        #expect(failed.allSatisfy { $0 >= 49 }, "\(failed)")
        rig.server.edit { $0.mood = .answers }
        let before = rig.server.posts.count
        _ = await rig.store.refresh()
        await rig.store.settled()
        #expect(rig.server.posts.count - before <= 3)
    }
}
