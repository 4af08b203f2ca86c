import EntitlementCore
import Foundation
import Testing

@testable import EntitlementKit

@Suite("Kit, situations: files that others write, read or delete", .timeLimit(.minutes(1)))
struct SharedDiskTests {
    private static func coins(_ number: Int) -> SignedStatement {
        Statements.transaction(
            "\(number)", product: "coins", until: nil, signed: 0.001 * Double(number), type: "Consumable")
    }

    @Test("two processes that write at once lose nothing of each other's")
    func twoProcesses() async {
        let app = KitRig(server: { $0.mood = .unreachable })
        await app.launch()
        let widget = app.another(device: ScriptedStore { $0.appTransaction = nil })
        await widget.launch()
        // Both look at the same state of the file before either has written.
        let door = Door()
        await app.storage.setDoor(door)
        app.device.push(Statements.transaction("1"))
        widget.device.push(Statements.transaction("2", product: "lifetime", until: nil))
        await eventually("both are about to write") { await door.visitors >= 2 }
        await app.storage.setDoor(nil)
        await door.open()
        await app.waitUntilGives()
        await widget.waitUntilGives(true, "forever")
        for rig in [app, widget] { await rig.store.settled() }
        let next = await app.relaunched(device: ScriptedStore { $0.appTransaction = nil })
        await next.launch()
        #expect(await next.gives())
        #expect(await next.gives("forever"))
        await widget.store.stop()
    }

    @Test("what another process has written is known here at the next look, also who has logged in there")
    func learnsFromOthers() async {
        let app = KitRig()
        await app.launch()
        let widget = app.another(device: ScriptedStore { $0.appTransaction = nil })
        await widget.launch()
        app.device.push(Statements.transaction("1"))
        await app.waitUntilGives()
        await app.store.identify(customerID: "c-1", token: "t")
        await app.store.settled()
        #expect(await widget.store.current.customerID == "apple:A")
        _ = await widget.store.refresh()
        #expect(await widget.store.current.customerID == "c-1")
        #expect(await widget.gives())
        await widget.store.stop()
    }

    @Test("who logged in is not forgotten because another process writes what it knew before")
    func identityStays() async {
        let app = KitRig()
        await app.launch()
        let widget = app.another()
        await widget.launch()
        await app.store.identify(customerID: "c-1", token: "t")
        widget.device.push(Statements.transaction("1"))
        await widget.waitUntilGives()
        await widget.store.settled()
        await app.store.settled()
        let next = await app.relaunched()
        await next.launch()
        #expect(await next.store.current.customerID == "c-1")
        await widget.store.stop()
    }

    @Test("what the server told one process is not lost because another one writes what it was told")
    func answersStay() async {
        let app = KitRig(server: {
            $0.numbers["c-1"] = 77
            $0.grants = [GrantState.forever("vip", of: 77)]
        })
        await app.launch()
        let widget = app.another()
        await widget.launch()
        await app.store.identify(customerID: "c-1", token: "t")
        await app.store.settled()
        #expect(await app.gives("vip"))
        // It knows nothing of the login yet, and asks for whoever has this copy of the app.
        widget.device.push(Statements.transaction("1"))
        await eventually("posted") { widget.server.posts.contains(["1"]) }
        await widget.store.settled()
        await widget.store.stop()
        app.server.edit { $0.mood = .unreachable }
        let next = await app.relaunched(device: ScriptedStore())
        await next.launch()
        #expect(await next.store.current.customerID == "c-1")
        #expect(await next.gives("vip"))
    }

    @Test("an extension reads what the app knew, and writes, asks and finishes nothing")
    func reader() async {
        let rig = KitRig { $0.unfinished = [Statements.transaction("1")] }
        let reader = EntitlementReader(configuration: rig.configuration, storage: rig.storage, clock: rig.clock)
        #expect(await reader.current().kind == .loading)
        await rig.launch()
        await rig.store.identify(customerID: "c-1", token: "t")
        await rig.store.settled()
        let shown = await rig.store.current.all
        await rig.store.stop()
        let (files, requests) = (await rig.storage.files, rig.server.received.count)
        let read = await reader.current()
        #expect(read.givesAccess(to: "premium") && read.customerID == "c-1")
        #expect(read.kind == .offline(asOf: Statements.date(1), reason: .readOnly))
        #expect(read.all == shown)
        rig.clock.advance(days: 31)
        #expect(await !reader.current().givesAccess(to: "premium"))
        #expect(await rig.storage.files == files)
        #expect(rig.server.received.count == requests)
        await rig.storage.setLocked(true)
        #expect(await reader.current().kind == .loading)
    }

    @Test("what the system deletes to make room is learned again from store and server, and nothing is granted twice")
    func purged() async {
        var rig = KitRig {
            $0.current = [Statements.transaction("1")]
            $0.unfinished = [Self.coins(7)]
        } configuration: {
            $0.acknowledgedKinds = [.consumable]
        }
        await rig.launch()
        #expect(await rig.acknowledge("7"))
        await eventually("finished") { rig.device.state.finished.contains("7") }
        await rig.store.settled()
        await rig.storage.purge()
        rig = await rig.relaunched()
        await rig.launch()
        #expect(await rig.store.current.isLive)
        #expect(await rig.gives())
        #expect(rig.device.state.finished.filter { $0 == "7" }.count == 1)
        let all = rig.store.unacknowledgedPurchases
        await rig.store.stop()
        #expect(await all.reduce(0) { count, _ in count + 1 } == 0)
        // And what was purged while the app ran is written again.
        rig = await rig.relaunched()
        await rig.launch()
        await rig.storage.purge()
        await rig.store.applicationWillEnterForeground()
        await rig.store.settled()
        rig.server.edit { $0.mood = .unreachable }
        rig = await rig.relaunched(device: ScriptedStore { $0.appTransaction = nil })
        await rig.launch()
        #expect(await rig.gives())
    }

    @Test("a change costs as many bytes as it has, whatever else the customer has bought")
    func journal() async {
        let rig = KitRig {
            $0.all = (1...300).map { Self.coins($0) }
        } server: {
            $0.mood = .unreachable
        }
        await rig.launch()
        let whole = await rig.storage.files["statements.jsonl"]?.count ?? 0
        let (written, replaced) = (await rig.storage.written, await rig.storage.replacements["statements.jsonl"])
        rig.device.push(Self.coins(301))
        await eventually("it is on disk") {
            String(decoding: await rig.storage.files["statements.jsonl"] ?? Data(), as: UTF8.self).count > whole
        }
        await rig.store.settled()
        #expect(await rig.storage.replacements["statements.jsonl"] == replaced)
        let cost = await rig.storage.written - written
        #expect(whole > 100_000 && cost < whole / 3, "\(cost) bytes beside \(whole)")
    }

    @Test("the file does not grow with what is outdated")
    func compaction() async throws {
        var rig = KitRig(server: { $0.mood = .unreachable })
        await rig.launch()
        for number in 1...200 {
            let statement = Statements.transaction("1", until: 30, signed: 0.001 * Double(number))
            rig.device.push(statement)
            await eventually("statement \(number)") {
                await rig.store.ledger.book.transactions["1"]?.jws == statement.jws
            }
            await rig.store.settled()
        }
        let size = try #require(await rig.storage.files["statements.jsonl"]?.count)
        #expect(size < 100_000)
        rig = await rig.relaunched(device: ScriptedStore { $0.appTransaction = nil })
        await rig.launch()
        #expect(await rig.gives())
        #expect(await rig.storage.replacements["statements.jsonl"] ?? 0 < 10)
    }

    @Test("lines that another version wrote are kept when the file is rewritten")
    func unknownLines() async throws {
        var rig = KitRig(server: { $0.mood = .unreachable })
        await rig.launch()
        await rig.store.settled()
        let kept = await rig.storage.files["statements.jsonl"] ?? Data()
        let foreign = Data("{\"of the future\":\"\(String(repeating: "x", count: 200_000))\"}\n".utf8)
        await rig.storage.put(kept + foreign, as: "statements.jsonl")
        rig = await rig.relaunched()
        await rig.launch()
        rig.device.push(Statements.transaction("1"))
        await rig.waitUntilGives()
        await rig.store.settled()
        let aside = try #require(await rig.storage.files["statements.jsonl.unreadable"])
        #expect(String(decoding: aside, as: UTF8.self).contains("of the future"))
        rig = await rig.relaunched(device: ScriptedStore { $0.appTransaction = nil })
        await rig.launch()
        #expect(await rig.gives())
    }

    @Test("a file that is too large to be one of ours is set aside, and does not stop everything for good")
    func tooLarge() async throws {
        let directory = FileManager.default.temporaryDirectory.appendingPathComponent("kit-\(UUID().uuidString)")
        defer { try? FileManager.default.removeItem(at: directory) }
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        try Data(count: FileEntitlementStorage.sizeLimit + 1)
            .write(to: directory.appendingPathComponent("statements.jsonl"))
        let (clock, device) = (ManualClock(), ScriptedStore { $0.unfinished = [Statements.transaction("1")] })
        let store = EntitlementStore(
            configuration: EntitlementConfiguration(bundleID: Statements.bundleID), store: device,
            server: ScriptedServer(clock), storage: FileEntitlementStorage(directory: directory), clock: clock)
        await store.start()
        await eventually("finished") { device.state.finished == ["1"] }
        await store.stop()
    }

    @Test("who logged in here is not replaced by whom another process still takes for the customer")
    func newestLogin() async {
        let app = KitRig(server: { $0.mood = .unreachable })
        await app.launch()
        await app.store.identify(customerID: "ann")
        let helper = app.another()
        await helper.launch()
        #expect(await helper.store.current.customerID == "ann")
        await app.store.identify(customerID: "bob")
        await app.store.settled()
        // The helper learns what ann's purchases are signed with.
        await helper.store.noteAccountToken(UUID())
        await helper.store.settled()
        #expect(await helper.store.ledger.customerID == "bob")
        app.clock.advance(.seconds(60))
        await app.store.applicationWillEnterForeground()
        #expect(await app.store.current.customerID == "bob")
        await helper.store.stop()
    }

    @Test("who is named once more is the customer, although another process has named somebody else meanwhile")
    func namedOnceMore() async {
        let app = KitRig(server: { $0.mood = .unreachable })
        await app.launch()
        await app.store.identify(customerID: "bob")
        await app.store.settled()
        let helper = app.another()
        await helper.launch()
        await helper.store.identify(customerID: "ann")
        await helper.store.settled()
        await app.store.identify(customerID: "bob")
        await app.store.settled()
        await app.store.applicationWillEnterForeground()
        #expect(await app.store.current.customerID == "bob")
        await helper.store.stop()
    }

    @Test("who logs in while the file about it is being read is not replaced by what was read before")
    func namedWhileRead() async {
        let app = KitRig(server: { $0.mood = .unreachable })
        await app.launch()
        let helper = app.another()
        await helper.launch()
        await helper.store.identify(customerID: "ann")
        await helper.store.settled()
        let door = Door()
        await app.storage.setReadDoor(door, of: "identity.json")
        let looking = Task { await app.store.applicationWillEnterForeground() }
        await eventually("ann is read") { await door.visitors > 0 }
        await app.store.identify(customerID: "bob")
        await door.open()
        await looking.value
        #expect(await app.store.ledger.identified == "bob")
        await helper.store.stop()
    }

    @Test(
        "who has logged in by another process's word is asked for with a token of their own", arguments: [true, false])
    func tokenAfterOthersLogin(_ isAskedForMeanwhile: Bool) async {
        let door = Door(isOpen: !isAskedForMeanwhile)
        let app = KitRig(configuration: {
            $0.tokenProvider = { request in
                if request.customerID == "ann" { await door.pass() }
                return CustomerToken("token of " + request.customerID)
            }
        })
        await app.launch()
        let helper = app.another()
        await helper.launch()
        await app.store.identify(customerID: "ann")
        await eventually("ann's token is asked for") { await door.visitors > 0 }
        if !isAskedForMeanwhile { await app.store.settled() }
        await helper.store.identify(customerID: "bob", token: "b")
        await helper.store.settled()
        await helper.store.stop()
        let before = app.server.received.count
        let looking = Task { await app.store.applicationWillEnterForeground() }
        await eventually("bob") { await app.store.ledger.identified == "bob" }
        await door.open()
        await looking.value
        await app.store.settled()
        await app.store.refresh()
        let sent = app.server.received.dropFirst(before).filter { $0.customerID == "bob" }.map(\.token)
        #expect(!sent.isEmpty && sent.allSatisfy { $0 == "token of bob" }, "\(sent)")
    }

    @Test("what was told and not acknowledged before another process named a customer is told again to them")
    func toldBeforeOthersLogin() async {
        let ann = UUID()
        let app = KitRig(configuration: { $0.acknowledgedKinds = [.consumable] })
        await app.launch()
        let helper = app.another()
        await helper.launch()
        var told = app.store.unacknowledgedPurchases.makeAsyncIterator()
        app.device.push(Statements.transaction("1", product: "coins", until: nil, token: ann, type: "Consumable"))
        #expect(await told.next()?.transactionID == "1")
        await helper.store.identify(customerID: ann.uuidString, token: "a")
        await helper.store.settled()
        await app.store.applicationWillEnterForeground()
        #expect(await told.next()?.transactionID == "1")
        await helper.store.stop()
    }

    @Test("a file that has to be written anew is there until it is, also where the disk is full")
    func fullWhileReplacing() async throws {
        var rig = KitRig(sync: false) { $0.all = [Statements.transaction("1", product: "lifetime", until: nil)] }
        await rig.launch()
        await rig.store.settled()
        let kept = try #require(await rig.storage.files["statements.jsonl"])
        await rig.storage.put(kept + Data("{\"cut\": \n".utf8), as: "statements.jsonl")
        rig = await rig.relaunched(device: ScriptedStore())
        await rig.launch()
        #expect(await rig.gives("forever"))
        await rig.store.settled()
        await rig.storage.setFull(true)
        await rig.store.markStatementsForReplacement()
        #expect(await !rig.store.persist())
        rig = await rig.relaunched(device: ScriptedStore())
        await rig.launch()
        #expect(await rig.gives("forever"))
    }

    @Test("what was acknowledged in another process is acknowledged in this one")
    func acknowledgedElsewhere() async {
        let rig = KitRig {
            $0.unfinished = [Statements.transaction("7", product: "coins", until: nil, type: "Consumable")]
        } server: {
            $0.mood = .unreachable
        } configuration: {
            $0.acknowledgedKinds = [.consumable]
        }
        await rig.launch()
        let other = rig.another()
        await other.launch()
        #expect(await rig.acknowledge("7"))
        await rig.store.settled()
        #expect(await other.store.gate.unacknowledged == ["7"])
        await other.store.refresh()
        #expect(await other.store.gate.unacknowledged.isEmpty)
    }
}

extension EntitlementStore {
    /// Something in the file of statements has become wrong.
    fileprivate func markStatementsForReplacement() {
        disk.note(.statements)
        disk.mustReplaceRows = true
    }
}
