import Foundation
import Testing

@testable import EntitlementKit

@Suite("Kit, situations: a store that says very much", .timeLimit(.minutes(1)))
struct ManyStatementsTests {
    @Test("updates that come while others are joined are joined together")
    func updatesTogether() async {
        let rig = KitRig(server: { $0.mood = .unreachable })
        await rig.launch()
        let door = Door()
        await rig.storage.setDoor(door)
        func push(_ number: Int) {
            rig.device.push(Statements.transaction("\(number)", product: "lifetime", until: nil))
        }
        push(1000)
        await eventually("the first is being written") { await door.visitors > 0 }
        let before = await rig.storage.replacements["queue.json"] ?? 0
        for number in 1001...1300 { push(number) }
        // What gathers them is not kept by the disk.
        try? await Task.sleep(for: .milliseconds(200))
        await door.open()
        await eventually("all came") { await rig.store.ledger.book.transactions.count == 301 }
        await rig.store.settled()
        let written = (await rig.storage.replacements["queue.json"] ?? 0) - before
        #expect(written < 30, "each would be written by itself")
    }

    @Test("a store that signs everything anew at each look fills no memory, and is not held to have shown nothing")
    func signsAnew() async {
        func all(_ look: Int) -> [SignedStatement] {
            (1...100).map {
                Statements.transaction("\($0)", product: "lifetime", until: nil, signed: 1 + Double(look) * 0.001)
            }
        }
        let rig = KitRig { $0.all = all(0) }
        await rig.launch()
        for look in 1...8 {
            rig.device.edit { $0.all = all(look) }
            rig.clock.advance(.seconds(90))
            await rig.store.refresh()
        }
        #expect(await rig.store.shown.count <= 2 * 101 + ShownStatements.freeCount)
        let (book, shown) = (await rig.store.ledger.book, await rig.store.shown)
        #expect(book.texts.count == 101 && book.texts.allSatisfy(shown.contains))
    }
}
