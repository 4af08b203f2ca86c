import EntitlementAPI
import Foundation
import Synchronization
import Testing

@testable import EntitlementKit

@Suite("Kit: what tells the time where only signed answers count", .timeLimit(.minutes(1)))
struct PassTimeTests {
    enum Forgery: CaseIterable {
        /// An old instant in an answer that bears no pass.
        case unsigned
        /// An answer of long ago, as it came.
        case replayed
        /// An instant far ahead.
        case ahead
    }

    private let signer: PassSigner

    init() throws { signer = try PassSigner() }

    private func rig(day: Double = 1) throws -> KitRig {
        let (keys, es256) = (try signer.keySet(), signer.es256())
        return KitRig(
            day: day, bound: .seconds(90 * 86_400), server: { [signer] in $0.translate = { signer.signing($0) } },
            configuration: { ($0.passKeys, $0.es256) = (keys, es256) })
    }

    @Test("an answer that nobody signed, or an old one that is sent again, moves no clock", arguments: Forgery.allCases)
    func forged(_ forgery: Forgery) async throws {
        let rig = try rig()
        let first = Mutex<WireValue?>(nil)
        rig.server.edit { [signer] in
            $0.translate = { answer in
                let signed = signer.signing(answer)
                first.withLock { $0 = signed }
                return signed
            }
        }
        await rig.launch()
        rig.device.push(Statements.transaction("1"))
        await rig.waitUntilGives()
        await rig.store.refresh()
        await rig.store.settled()
        let recorded = try #require(first.withLock { $0 })
        // The subscription has run out, and the server has signed since that nothing gives access; or not yet.
        let isOver = forgery != .ahead
        rig.server.edit { [signer] in $0.translate = { signer.signing($0) } }
        rig.clock.advance(days: isOver ? 60 : 2)
        if isOver { await rig.waitUntilGives(false) }
        await rig.store.refresh()
        #expect(await rig.gives() != isOver)
        rig.server.edit {
            $0.translate = { answer in
                guard forgery != .replayed else { return recorded }
                var members = answer.members
                members["pass"] = .null
                members["at"] = isOver ? recorded["at"] : .string("2036-01-01T00:00:00Z")
                return .object(members)
            }
        }
        for _ in 0..<3 {
            await rig.store.refresh()
            await rig.store.settled()
            #expect(await rig.gives() != isOver)
        }
        // Nor does the next process take it from the disk.
        let next = await rig.relaunched()
        await next.launch()
        await next.store.refresh()
        #expect(await next.gives() != isOver)
    }

    @Test("an answer that is signed again and again stands no longer than its pass, however often it is sent")
    func replayedWithinItsTime() async throws {
        let rig = try rig(day: 30.9)
        await rig.launch()
        rig.device.push(Statements.transaction("1", until: 31))
        await rig.waitUntilGives()
        await rig.store.refresh()
        await rig.store.settled()
        let recorded = Mutex<WireValue?>(nil)
        rig.server.edit { [signer] in
            $0.translate = { answer in
                recorded.withLock { kept in
                    if kept == nil { kept = signer.signing(answer) }
                    return kept ?? answer
                }
            }
        }
        // A day of replays, each of which says that it is as early as ever.
        for _ in 0..<80 {
            rig.clock.advance(.seconds(1200))
            await rig.store.refresh()
            await rig.store.settled()
        }
        await rig.waitUntilGives(false)
    }
}
