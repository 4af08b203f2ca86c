import EntitlementAPI
import EntitlementCore
import Foundation
import Testing

@testable import EntitlementKit

@Suite("Kit, situations: a server, or a disk, of another version", .timeLimit(.minutes(1)))
struct OtherVersionsTests {
    /// What a server of a later version answers, word for word: nothing of this may change.
    private static let futureAnswer = """
        {"object":"reconciliation","customer_id":"apple:A","environment":"production","position":90,"fold_version":7,
        "at":"2026-01-02T00:00:00.000Z","proof":"device_attestation","ledger_id":"led_1","mood":{"deep":[1,null,"x"]},
        "entitlements":[{"id":"premium","gives_access":true,"state":"paused_by_choice","since":"2026-01-01T00:00:00.000Z",
        "until":null,"product_id":"monthly","source":"play_store","ownership":"lent","original_transaction_id":"g-1",
        "will_renew":true,"offer":{"type":"loyalty","discount":"half","of":3},"reason":{"code":"kindness","positions":[88]},
        "colour":"blue"},7,{"id":9}],
        "timeline":[{"id":"premium","intervals":[{"from":"2026-01-01T00:00:00.000Z","until":null,"state":"paused_by_choice",
        "gives_access":true,"product_id":"monthly","source":"play_store","original_transaction_id":"g-1","positions":[88]},
        {"from":"soon","gives_access":true}]},"nonsense",
        {"id":"archive","intervals":[{"from":"2026-01-01T00:00:00.000Z","until":"2027-01-01T00:00:00.000Z",
        "state":"suspended","gives_access":false,"product_id":null,"source":"barter","original_transaction_id":null}]}],
        "catalog":{"object":"catalog","position":3,"products":[{"product_id":"lifetime","entitlements":["forever"]},
        {"product_id":"odd","entitlements":["odd"],"duration":"while it rains"},{"no":"id"}],
        "policy":{"grace_gives_access":true,"prorated_refund":"by_the_hour","leeway_seconds":0,"tips":"yes"}},
        "finish":["1","2"],"results":[{"transaction_id":"1","status":"recorded","note":"thanks"},
        {"transaction_id":"2","status":"held_for_review","code":"new_code"}],"renewal_results":[],
        "app_transaction":{"status":"shrugged"},"drift":[{"product_id":"x","claimed":"floating"}],"pass":17,
        "facts":{"encoded":"AAAA","identities":{"apple:A":1,"x":"y"},"key":2}}
        """

    private static func future() throws -> WireValue {
        try WireJSON.decode(WireValue.self, from: Array(futureAnswer.utf8))
    }

    @Test("a later server's words and members fail no answer, and an unknown state goes by gives_access")
    func futureServer() async throws {
        let future = try Self.future()
        var rig = KitRig(server: { $0.translate = { _ in future } })
        await rig.launch()
        for _ in 0..<2 {
            let state = await rig.store.current
            #expect(state["premium"]?.givesAccess == true)
            #expect(state["premium"]?.state.rawValue == "paused_by_choice")
            #expect(state["premium"]?.source.rawValue == "play_store")
            #expect(state["premium"]?.ownership?.rawValue == "lent")
            #expect(state["premium"]?.offer == PurchaseOffer(type: "loyalty", discount: "half"))
            #expect(state["archive"]?.givesAccess == false)
            #expect(state["archive"]?.state.rawValue == "suspended")
            // From the disk it reads the same.
            rig.server.edit { $0.mood = .unreachable }
            rig = await rig.relaunched()
            await rig.launch()
        }
    }

    @Test("a statement whose fate is not understood fails alone, and is not finished although the server lists it")
    func unknownStatus() async throws {
        let rig = KitRig {
            $0.unfinished = [
                Statements.transaction("1", product: "lifetime", until: nil),
                Statements.transaction("2", product: "monthly"),
            ]
        } server: {
            $0.translate = { answer in
                guard case .object(var members) = answer else { return answer }
                members["results"] = .array(
                    answer["results"]?.entries.map { row in
                        row["transaction_id"]?.text == "2"
                            ? .object(["transaction_id": .string("2"), "status": .string("held_for_review")]) : row
                    } ?? [])
                return .object(members)
            }
        }
        let events = Collected(rig.store.syncEvents)
        await eventually("listening") { await rig.store.syncListenerCount == 1 }
        await rig.launch()
        await eventually("the one is finished") { rig.device.state.finished == ["1"] }
        await eventually("the other has failed") {
            await events.events.contains { $0.kind == .failed && $0.transactionIDs == ["2"] }
        }
        #expect(await rig.store.current.isLive)
        #expect(await rig.gives())
        rig.server.edit { $0.translate = nil }
        await rig.store.networkDidReturn()
        await eventually("both are finished") { rig.device.state.finished == ["1", "2"] }
    }

    @Test("a product of the catalog that is not understood takes no other with it, and no access away")
    func unknownCatalog() async {
        let rig = KitRig {
            $0.current = [Statements.transaction("1")]
        } server: {
            $0.translate = { answer in
                guard case .object(var members) = answer, case .object(var catalog)? = members["catalog"],
                    case .array(var products)? = catalog["products"]
                else { return answer }
                products = products.map { row in
                    guard row["product_id"]?.text == "monthly", case .object(var product) = row else { return row }
                    product["duration"] = .string("as long as it takes")
                    return .object(product)
                }
                catalog["products"] = .array(products)
                members["catalog"] = .object(catalog)
                return .object(members)
            }
        }
        await rig.launch()
        #expect(await rig.store.current.isLive)
        #expect(await rig.gives())
        rig.server.edit { $0.mood = .unreachable }
        rig.device.push(Statements.transaction("2", product: "lifetime", until: nil))
        await rig.waitUntilGives(true, "forever")
        #expect(await rig.gives())
    }

    @Test("an answer that does not tell what became of what was posted finishes nothing", arguments: [0, 1, 3])
    func missingResults(_ count: Int) async {
        let rig = KitRig {
            $0.unfinished = [Statements.transaction("1"), Statements.transaction("2", product: "lifetime", until: nil)]
        } server: {
            $0.translate = { answer in
                guard case .object(var members) = answer, let row = answer["results"]?.entries.first else {
                    return answer
                }
                members["results"] = .array(Array(repeating: row, count: count))
                return .object(members)
            }
        }
        await rig.launch()
        #expect(rig.device.state.finished.isEmpty)
        #expect(await rig.gives())
    }

    @Test("what is on disk is read row by row: what another version wrote otherwise takes nothing else with it")
    func otherDisk() async throws {
        var rig = KitRig { $0.current = [Statements.transaction("1")] }
        await rig.launch()
        await rig.store.settled()
        let rows = [
            #"{"transaction":{"jws":"new form"}}"#, #"{"transaction":"a.b.c"}"#, "7",
            #"{"confirmed":{"1":"yesterday"}}"#,
            #"{"more":true}"#,
        ]
        let kept = await rig.storage.files["statements.jsonl"] ?? Data()
        await rig.storage.put(Data(rows.joined(separator: "\n").utf8) + Data("\n".utf8) + kept, as: "statements.jsonl")
        try await rig.storage.rewrite("server.json") { file in
            let memories = (file["memories"] as? [[String: Any]] ?? []).map { memory in
                memory.merging(["answered": ["1": "new form"], "answeredRenewals": [1]]) { $1 }
            }
            file["memories"] = [["answer": ["customer_id": 1]], "x"] + memories
            file["catalog"] = 3
        }
        try await rig.storage.rewrite("queue.json") { $0["pending"] = [["customerID": 1], 3] }
        try await rig.storage.rewrite("clock.json") { $0["told"] = 5 }
        try await rig.storage.rewrite("identity.json") { $0["customerID"] = 5 }
        rig.server.edit { $0.mood = .unreachable }
        rig = await rig.relaunched(device: ScriptedStore { $0.appTransaction = nil })
        await rig.launch()
        #expect(await rig.gives())
        #expect(await rig.store.current.kind == .offline(asOf: Statements.date(1), reason: .unreachable))
        #expect(await rig.storage.aside.isEmpty)
    }

    @Test("a server without a catalog of its own takes nothing away that the app was built to give")
    func noCatalog() async {
        let rig = KitRig {
            $0.current = [Statements.transaction("1")]
        } server: {
            $0.catalog = Catalog(products: [])
            $0.translate = { answer in
                guard case .object(var members) = answer, case .object(var catalog)? = members["catalog"] else {
                    return answer
                }
                catalog["position"] = .int(0)
                members["catalog"] = .object(catalog)
                return .object(members)
            }
        }
        await rig.launch()
        #expect(await rig.store.refresh().givesAccess(to: "premium"))
        await rig.store.settled()
        #expect(await rig.gives())
        #expect(await rig.store.current.isLive)
    }
}

extension ScriptedStorage {
    /// Changes what a file holds, as another version of the app might have written it.
    fileprivate func rewrite(_ name: String, _ edit: (inout [String: Any]) -> Void) throws {
        var file = try files[name].map { try JSONSerialization.jsonObject(with: $0) as? [String: Any] ?? [:] } ?? [:]
        edit(&file)
        put(try JSONSerialization.data(withJSONObject: file), as: name)
    }
}
