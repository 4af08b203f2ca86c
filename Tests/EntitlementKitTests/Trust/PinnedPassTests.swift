import AppStorePayloads
import EntitlementAPI
import EntitlementCore
import Foundation
import Testing

@testable import EntitlementKit

@Suite("Kit: what a pass limits where only signed answers count", .timeLimit(.minutes(1)))
struct PinnedPassTests {
    /// What somebody on the way writes into an honest answer beside its pass.
    enum Forgery: CaseIterable {
        /// What a cheap purchase of the customer gives, for ever.
        case product
        /// For how long what has run out goes on.
        case leeway
        /// A grant that begins right after the answer.
        case grant
        /// A period that begins where the one that the pass states ends.
        case period
        /// A purchase that lies on the device, and is somebody else's.
        case owner
        /// That the server has recorded such a one as the customer's.
        case results

        fileprivate func forge(_ answer: WireValue) -> WireValue {
            guard case .object(var members) = answer, let at = answer["at"]?.instant, answer["pass"]?.text != nil else {
                return answer
            }
            switch self {
            case .results:
                members["facts"] = nil
                members["results"] = .array(
                    (answer["results"]?.entries ?? []).map {
                        .object($0.members.merging(["status": .string("recorded")]) { $1 })
                    })
            case .product, .leeway:
                var catalog = members["catalog"]?.members ?? [:]
                let row: WireValue = .object([
                    "product_id": .string("coins"), "entitlements": .array([.string("forever")]),
                    "duration": .string("P900Y"),
                ])
                if self == .product { catalog["products"] = .array((catalog["products"]?.entries ?? []) + [row]) }
                var policy = catalog["policy"]?.members ?? [:]
                if self == .leeway { policy["leeway_seconds"] = .int(2_592_000) }
                catalog["policy"] = .object(policy)
                members["catalog"] = .object(catalog)
            case .grant, .period, .owner:
                guard var facts = answer["facts"]?.decoded(FactsCopy.self)?.facts else { return answer }
                var identities = answer["facts"]?["identities"]?.members.compactMapValues(\.number) ?? [:]
                switch self {
                case .grant:
                    let grant = GrantFact(
                        grantID: "g", customer: facts.customer, entitlementID: "forever", until: nil, reason: "")
                    facts.grants.append(
                        GrantState(fact: grant, position: 1, recordedAt: at.adding(milliseconds: 1)))
                case .period:
                    facts.add(Statements.transaction("2", original: "1", from: 30, until: 900, renewal: true))
                default: identities[PinnedPassTests.token.uuidString.lowercased()] = facts.customer.number
                }
                let copy = FactsCopy(facts, identities: identities)
                members["facts"] = (try? WireJSON.encode(copy)).flatMap {
                    try? WireJSON.decode(WireValue.self, from: $0)
                }
            }
            return .object(members)
        }
    }

    private let signer: PassSigner

    init() throws { signer = try PassSigner() }

    private func rig(
        day: Double = 1, bundled: Bool = true, _ forgery: Forgery? = nil,
        device: (inout ScriptedStore.Script) -> Void = { _ in },
        server: (inout ScriptedServer.Script) -> Void = { _ in }
    ) throws -> KitRig {
        let (keys, es256) = (try signer.keySet(), signer.es256())
        return KitRig(day: day, device: device) { [signer] in
            $0.translate = { answer in
                let signed = signer.signing(answer)
                return forgery?.forge(signed) ?? signed
            }
            server(&$0)
        } configuration: {
            ($0.passKeys, $0.es256) = (keys, es256)
            if !bundled { $0.bundledCatalog = [] }
        }
    }

    /// Of somebody else than this device's customer.
    fileprivate static let token = UUID()

    private static let coins = Statements.transaction(
        "7", product: "coins", from: 0.5, until: nil, type: "Consumable")

    /// What each forgery is to give.
    private static let wanted: [Forgery: String] = [
        .product: "forever", .leeway: "premium", .grant: "forever", .period: "premium", .owner: "forever",
        .results: "forever",
    ]

    @Test(
        "nothing that is written beside a pass gives anything beyond it, then or later, online, offline or at the next launch",
        arguments: Forgery.allCases)
    func forged(_ forgery: Forgery) async throws {
        let wanted = try #require(Self.wanted[forgery])
        let day: Double = forgery == .period ? 29.9 : 31
        var rig = try rig(day: day, forgery) {
            $0.all = [Statements.transaction("1"), Self.coins]
            // Somebody else's, which bears an account token as well.
            let theirs = Statements.transaction("8", product: "lifetime", until: nil, token: Self.token, app: "B")
            if [.owner, .results].contains(forgery) { $0.all.append(theirs) }
        }
        await rig.launch()
        await rig.store.refresh()
        #expect(await rig.store.current.isLive)
        #expect(await (rig.store.ledger.memory?.facts == nil) == (forgery == .results))
        rig.server.edit { $0.mood = .unreachable }
        rig.clock.advance(days: 0.2)
        await rig.store.refresh()
        #expect(await !rig.gives(wanted))
        rig.server.edit { $0.mood = .answers }
        await rig.store.refresh()
        #expect(await !rig.gives(wanted))
        rig = await rig.relaunched()
        rig.server.edit { $0.mood = .unreachable }
        await rig.launch()
        rig.clock.advance(days: 1)
        await rig.store.refresh()
        #expect(await !rig.gives(wanted))
        let reader = EntitlementReader(configuration: rig.configuration, storage: rig.storage, clock: rig.clock)
        #expect(await !reader.current().givesAccess(to: wanted))
    }

    @Test("a catalog that came before the purchase gives no more, nor does one that somebody writes onto the disk")
    func catalogBefore() async throws {
        var rig = try rig(.product)
        await rig.launch()
        await rig.store.refresh()
        rig.server.edit { $0.mood = .unreachable }
        rig.device.push(Self.coins)
        await eventually("known") { await rig.store.ledger.book.transactions["7"] != nil }
        await rig.store.refresh()
        #expect(await !rig.gives("forever"))
        let file = String(decoding: try #require(await rig.storage.files["server.json"]), as: UTF8.self)
        #expect(file.contains("P900Y"))
        rig = await rig.relaunched()
        await rig.launch()
        #expect(await !rig.gives("forever"))
    }

    @Test("what begins later takes nothing from the rest of its answer, and is given once the server signs it")
    func beginsLater() async throws {
        let rig = try rig {
            $0.all = [Statements.transaction("1")]
        } server: { script in
            let me = script.number(of: "apple:A")
            let grant = GrantFact(grantID: "g", customer: me, entitlementID: "forever", until: nil, reason: "")
            script.grants = [
                GrantState(fact: grant, position: 1, recordedAt: Timestamp(milliseconds: Statements.instant(3)))
            ]
        }
        await rig.launch()
        await rig.store.refresh()
        #expect(await rig.gives())
        #expect(await rig.store.ledger.memory?.facts?.grants.count == 1)
        rig.server.edit { $0.mood = .unreachable }
        rig.clock.advance(days: 2.5)
        await rig.store.refresh()
        #expect(await rig.gives())
        #expect(await rig.store.current["forever"]?.state == .unconfirmed)
        rig.server.edit { $0.mood = .answers }
        await rig.store.refresh()
        #expect(await rig.gives("forever"))
    }

    @Test("a renewal that the store charged early is given to its end by the pass from before")
    func earlyRenewal() async throws {
        let renewal = Statements.transaction("2", original: "1", from: 30, until: 60, renewal: true)
        let rig = try rig(
            day: 29.5,
            server: { script in
                for statement in [Statements.transaction("1"), renewal] {
                    guard let transaction = try? DeviceTransaction(statement) else { continue }
                    script.hold(transaction, source: .notification)
                }
            })
        await rig.launch()
        await rig.store.refresh()
        #expect(await rig.store.current["premium"]?.until == Statements.date(60))
        rig.server.edit { $0.mood = .unreachable }
        rig.clock.advance(days: 3)
        await rig.store.refresh()
        #expect(await rig.gives())
    }

    @Test("a renewal that only the store has told of counts, by what a pass has stated that its product gives")
    func storeAlone() async throws {
        let rig = try rig(day: 29.5, bundled: false) { $0.current = [Statements.transaction("1")] }
        await rig.launch()
        await rig.store.refresh()
        #expect(await rig.store.current["premium"]?.until == Statements.date(30))
        rig.server.edit { $0.mood = .unreachable }
        rig.device.push(Statements.transaction("2", original: "1", from: 30, until: 60, renewal: true))
        await eventually("known") { await rig.store.ledger.book.transactions["2"] != nil }
        rig.clock.advance(days: 3)
        await rig.store.refresh()
        #expect(await rig.gives())
        rig.device.edit { ($0.current, $0.all) = ([], []) }
        rig.clock.advance(days: 30)
        await rig.waitUntilGives(false)
    }

    @Test("after a login that took the purchases along, what the store tells goes on counting while the server is away")
    func loggedIn() async throws {
        let rig = try rig(day: 29.5) {
            $0.current = [Statements.transaction("1")]
        } server: { script in
            let (ann, device) = (script.number(of: "ann"), script.number(of: "apple:A"))
            script.ownership.apply(
                .link(LinkFact(identity: device, customer: ann, cause: .login)), position: 2,
                recordedAt: Timestamp(milliseconds: Statements.start))
        }
        await rig.launch()
        await rig.store.identify(customerID: "ann", token: "t")
        await rig.store.refresh()
        #expect(await rig.gives())
        rig.server.edit { $0.mood = .unreachable }
        // The store still lists it after its end: it is in grace, or about to be renewed.
        rig.clock.advance(days: 0.7)
        await rig.store.refresh()
        #expect(await rig.store.current["premium"]?.state == .inGracePeriod)
        rig.device.push(Statements.transaction("2", original: "1", from: 30, until: 60, renewal: true))
        rig.clock.advance(days: 3)
        await rig.store.refresh()
        #expect(await rig.store.current["premium"]?.state == .active)
    }
}

extension CustomerFacts {
    /// Adds what nobody has signed, as though it bore nobody's name, and were the customer's by a claim.
    fileprivate mutating func add(_ statement: SignedStatement) {
        guard let transaction = try? DeviceTransaction(statement) else { return }
        var ids = IdentityList()
        var fact = transaction.fact(&ids)
        (fact.accountToken, fact.appTransaction) = (customer, nil)
        originals[fact.originalTransactionID, default: OriginalState()].join(fact, source: .notification, position: 9)
    }
}
