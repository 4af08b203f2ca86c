import EntitlementAPI
import EntitlementCore
import Foundation
import Testing

@testable import EntitlementKit

@Suite("Kit, situations: forged disks and proxies", .timeLimit(.minutes(1)))
struct ForgedDiskTests {
    private static let forged = Statements.transaction("9", product: "lifetime", until: nil)

    private func add(_ row: [String: Any], to rig: KitRig) async throws {
        let kept = await rig.storage.files["statements.jsonl"] ?? Data()
        let line = try JSONSerialization.data(withJSONObject: row) + Data("\n".utf8)
        await rig.storage.put(kept + line, as: "statements.jsonl")
    }

    @Test("a statement that somebody wrote onto the disk stops counting when the server refuses it, for good")
    func forgedTransaction() async throws {
        var rig = KitRig {
            $0.current = [Statements.transaction("1")]
        } server: {
            $0.refused = ["9"]
        }
        await rig.launch()
        await rig.store.stop()
        try await add(["transaction": Self.forged.jws], to: rig)
        try await add(["confirmed": ["9": "2026-01-02T00:00:00.000Z"]], to: rig)
        rig.server.edit { $0.mood = .unreachable }
        rig = await rig.relaunched()
        let events = rig.store.syncEvents
        await rig.launch()
        #expect(await rig.gives("forever"))
        rig.server.edit { $0.mood = .answers }
        await rig.store.refresh()
        await rig.waitUntilGives(false, "forever")
        await rig.store.settled()
        #expect(await rig.gives())
        rig.server.edit { $0.mood = .unreachable }
        let posts = rig.server.posts.filter { $0.contains("9") }.count
        rig = await rig.relaunched()
        var told: [SyncEvent] = []
        for await event in events { told.append(event) }
        #expect(told.contains { $0.kind == .unverified })
        await rig.launch()
        #expect(await !rig.gives("forever"))
        #expect(await rig.gives())
        #expect(rig.server.posts.filter { $0.contains("9") }.count == posts && rig.device.state.finished == [])
    }

    @Test("what stops counting while the file is written without another statement is not left in it")
    func distrustedMeanwhile() async throws {
        let other = Statements.transaction("8", product: "lifetime", until: nil)
        let rig = KitRig(server: { $0.mood = .unreachable })
        for statement in [Self.forged, other] { try await add(["transaction": statement.jws], to: rig) }
        await rig.launch()
        let (store, door) = (rig.store, Door())
        let kept = await store.ledger.book.transactions
        await rig.storage.setDoor(door)
        #expect(await store.distrust(try #require(kept["9"]), ""))
        async let first = store.persist()
        await eventually("the file is about to be replaced") { await door.visitors > 0 }
        #expect(await store.distrust(try #require(kept["8"]), ""))
        await rig.storage.setDoor(nil)
        await door.open()
        #expect(await first)
        #expect(await store.persist())
        let file = String(decoding: await rig.storage.files["statements.jsonl"] ?? Data(), as: UTF8.self)
        #expect(!file.contains(Self.forged.jws) && !file.contains(other.jws))
    }

    @Test("what the store itself shows goes on counting when the server distrusts it, since the server may be mistaken")
    func mistakenServer() async {
        var rig = KitRig {
            $0.current = [Statements.transaction("1")]
        } server: {
            $0.refused = ["1"]
        }
        await rig.launch()
        #expect(await rig.gives())
        rig = await rig.relaunched()
        await rig.launch()
        await rig.store.refresh()
        #expect(await rig.gives())
        rig.server.edit { $0.refused = [] }
        await rig.store.refresh()
        await rig.store.settled()
        #expect(await rig.gives())
    }

    @Test("a forged signature around the store's own words is replaced by the store's")
    func forgedSignature() async throws {
        let statement = Statements.transaction("1")
        var rig = KitRig {
            $0.current = [statement]
        } server: {
            $0.mood = .unreachable
        }
        let bad = statement.jws.split(separator: ".").dropLast().joined(separator: ".") + ".Zm9yZ2Vk"
        try await add(["transaction": bad], to: rig)
        await rig.launch()
        rig.server.edit { $0.mood = .answers }
        await rig.store.refresh()
        let posted = rig.server.received.map(\.request.signedTransactions).filter { !$0.isEmpty }
        #expect(posted.last == [statement.jws])
        rig = await rig.relaunched(device: ScriptedStore())
        await rig.launch()
        #expect(await rig.store.ledger.book.transactions["1"]?.jws == statement.jws)
    }

    @Test("whoever forges the app's own purchase becomes nobody else")
    func forgedApp() async throws {
        var rig = KitRig {
            $0.current = [Statements.transaction("1")]
        } server: {
            $0.translate = { answer in
                guard case .object(var members) = answer, answer["customer_id"]?.text == "apple:B" else {
                    return answer
                }
                members["app_transaction"] = .object([
                    "status": .string("refused"), "code": .string("untrusted_signature"),
                ])
                members["proof"] = .string("none")
                return .object(members)
            }
        }
        await rig.launch()
        await rig.store.stop()
        try await add(["app": Statements.appTransaction("B", signed: 900).jws], to: rig)
        rig = await rig.relaunched()
        await rig.launch()
        await eventually("the store's word") { await rig.store.current.customerID == "apple:A" }
        await rig.waitUntilGives()
    }

    private struct Refusing: SignedStatementVerifier {
        let forged: String

        func isSignedByStore(_ jws: String) -> Bool { jws != forged }
    }

    @Test("an app that verifies statements by itself believes no forged one, also where no server can be asked")
    func verifier() async throws {
        let rig = KitRig {
            $0.current = [Statements.transaction("1")]
        } server: {
            $0.mood = .unreachable
        } configuration: {
            $0.statementVerifier = Refusing(forged: Self.forged.jws)
        }
        try await add(["transaction": Self.forged.jws], to: rig)
        try await add(["confirmed": ["9": "2026-01-02T00:00:00.000Z"]], to: rig)
        await rig.launch()
        #expect(await !rig.gives("forever"))
        #expect(await rig.gives())
        let reader = EntitlementReader(configuration: rig.configuration, storage: rig.storage, clock: rig.clock)
        #expect(await !reader.current().givesAccess(to: "forever"))
    }

    // MARK: Pinned keys

    private func pinned(
        _ signer: PassSigner, proxy: (@Sendable (WireValue) -> WireValue)? = nil
    ) throws -> KitRig {
        let (keys, es256) = (try signer.keySet(), signer.es256())
        return KitRig(
            server: { $0.translate = proxy ?? { signer.signing($0) } },
            configuration: { configuration in
                configuration.passKeys = keys
                configuration.es256 = es256
            })
    }

    /// The ledger holds something of this device's customer that only it knows.
    private func boughtElsewhere(_ rig: KitRig) throws {
        let transaction = try DeviceTransaction(Statements.transaction("5", product: "lifetime", until: nil))
        rig.server.edit { _ = $0.hold(transaction, source: .notification) }
    }

    @Test("with pinned keys an answer counts that a pass vouches for, and survives on the disk")
    func pinnedAnswer() async throws {
        var rig = try pinned(try PassSigner())
        try boughtElsewhere(rig)
        await rig.launch()
        #expect(await rig.store.current.isLive)
        #expect(await rig.gives("forever"))
        await rig.store.settled()
        rig.server.edit { $0.mood = .unreachable }
        rig = await rig.relaunched()
        await rig.launch()
        #expect(await rig.gives("forever"))
        rig.clock.advance(days: 8)
        await rig.waitUntilGives(false, "forever")
    }

    @Test(
        "with pinned keys a proxy gives nothing by itself: without a pass, with another's, with an older one, or with more",
        arguments: ["none", "another key", "another customer", "another time", "more"])
    func pinnedProxy(_ lie: String) async throws {
        let (signer, other) = (try PassSigner(), try PassSigner())
        let rich = try pinned(signer)
        try boughtElsewhere(rich)
        await rich.launch()
        let rights = try #require(await rich.store.ledger.memory?.answer.kept.members)
        let rig = try pinned(signer) { answer in
            var members = answer.members
            for name in ["facts", "timeline", "entitlements", "catalog", "proof"] { members[name] = rights[name] }
            switch lie {
            case "none": return .object(members)
            case "another key": return other.signing(.object(members))
            case "another customer":
                let theirs = members.merging(["customer_id": .string("apple:B")]) { $1 }
                members["pass"] = signer.signing(.object(theirs))["pass"]
                return .object(members)
            case "another time":
                let before = answer["at"]?.instant.map { $0.adding(milliseconds: -86_400_000).description }
                let older = members.merging(["at": before.map { .string($0) } ?? .null]) { $1 }
                members["pass"] = signer.signing(.object(older))["pass"]
                return .object(members)
            default:
                // The pass of somebody who does not hold it.
                members["pass"] = signer.signing(answer)["pass"]
                return .object(members)
            }
        }
        await rig.launch()
        await rig.store.refresh()
        #expect(await !rig.gives("forever"))
        #expect(rig.server.received.count > 0)
    }

    @Test("a pass that the server made for a launch a moment ago vouches for this one, too")
    func repeatedPass() async throws {
        let signer = try PassSigner()
        let rig = try pinned(signer) { answer in
            var members = answer.members
            let before = answer["at"]?.instant.map { $0.adding(milliseconds: -5000).description }
            let older = members.merging(["at": before.map { .string($0) } ?? .null]) { $1 }
            members["pass"] = signer.signing(.object(older))["pass"]
            return .object(members)
        }
        try boughtElsewhere(rig)
        await rig.launch()
        #expect(await rig.store.current.isLive)
        #expect(await rig.gives("forever"))
    }

    @Test("with pinned keys what somebody writes into the server's answers on the disk gives nothing")
    func pinnedDisk() async throws {
        let signer = try PassSigner()
        let rich = try pinned(try PassSigner())
        try boughtElsewhere(rich)
        await rich.launch()
        await rich.store.settled()
        let file = await rich.storage.files["server.json"]
        var rig = try pinned(signer)
        await rig.launch()
        await rig.store.settled()
        rig.server.edit { $0.mood = .unreachable }
        await rig.storage.put(file, as: "server.json")
        rig = await rig.relaunched()
        await rig.launch()
        #expect(await !rig.gives("forever"))
    }

    // MARK: The clock

    /// Writes something else into the server's file about when it answered last; `nil`: nothing, as earlier versions did.
    private func setHeardAt(_ instant: String?, in rig: KitRig) async throws {
        let kept = try #require(await rig.storage.files["server.json"])
        var file = try #require(JSONSerialization.jsonObject(with: kept) as? [String: Any])
        file["heardAt"] = instant
        await rig.storage.put(try JSONSerialization.data(withJSONObject: file), as: "server.json")
    }

    /// Has something that ran out while the server answered.
    private func runOut(_ rig: KitRig) async {
        await rig.launch()
        rig.device.push(Statements.transaction("1"))
        await rig.waitUntilGives()
        rig.clock.advance(days: 31)
        await rig.waitUntilGives(false)
        await rig.store.refresh()
    }

    @Test(
        "a clock that is set back gives nothing back, also where the file about clocks was deleted",
        arguments: [true, false])
    func clockFile(_ isOfEarlierVersion: Bool) async throws {
        var rig = KitRig()
        await runOut(rig)
        rig.server.edit { $0.mood = .unreachable }
        await rig.storage.put(nil, as: "clock.json")
        if isOfEarlierVersion { try await setHeardAt(nil, in: rig) }
        rig.clock.set(day: 5)
        rig = await rig.relaunched(device: ScriptedStore())
        await rig.launch()
        #expect(await !rig.gives())
    }

    @Test("with pinned keys no clock is set back by what somebody writes of when the server answered last")
    func pinnedClock() async throws {
        var rig = try pinned(try PassSigner())
        await runOut(rig)
        await rig.store.stop()
        rig.server.edit { $0.mood = .unreachable }
        await rig.storage.put(nil, as: "clock.json")
        try await setHeardAt("2026-01-05T00:00:00.000Z", in: rig)
        rig.clock.set(day: 5)
        rig = await rig.relaunched(device: ScriptedStore())
        await rig.launch()
        #expect(await !rig.gives())
    }

    @Test("a confirmation that the disk dates after the present confirms nothing")
    func confirmedInTheFuture() async throws {
        var rig = KitRig { $0.current = [Statements.transaction("1", until: 300)] }
        await rig.launch()
        rig.server.edit { $0.mood = .unreachable }
        await rig.store.stop()
        try await add(["confirmed": ["1": "2030-01-01T00:00:00.000Z"]], to: rig)
        rig.clock.advance(days: 8)
        rig = await rig.relaunched(device: ScriptedStore())
        await rig.launch()
        #expect(await !rig.gives())
        #expect(await rig.store.current["premium"]?.state == .unconfirmed)
    }
}
