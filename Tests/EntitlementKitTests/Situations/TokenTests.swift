import Foundation
import Synchronization
import Testing

@testable import EntitlementKit

@Suite("Kit, situations: customer tokens", .timeLimit(.minutes(1)))
struct TokenTests {
    /// An app's server that hands out tokens.
    private final class Tokens: Sendable {
        private struct State {
            var given = 0
            var isAway = false
            var life: Double?
        }

        private let state = Mutex(State())
        private let clock = Mutex<ManualClock?>(nil)

        var given: Int { state.withLock { $0.given } }

        func setAway(_ isAway: Bool) { state.withLock { $0.isAway = isAway } }

        /// Lets each token live for so many seconds by a clock.
        func expire(after seconds: Double, by clock: ManualClock) {
            state.withLock { $0.life = seconds }
            self.clock.withLock { $0 = clock }
        }

        var provider: EntitlementConfiguration.TokenProvider {
            { request in
                let now = self.clock.withLock { $0?.now() }
                return try self.state.withLock { state in
                    guard !state.isAway else { throw URLError(.notConnectedToInternet) }
                    state.given += 1
                    return CustomerToken(
                        "\(request.customerID)/\(state.given)",
                        expiresAt: state.life.flatMap { now?.addingTimeInterval($0) })
                }
            }
        }
    }

    private func rig(
        _ tokens: Tokens, server edit: (inout ScriptedServer.Script) -> Void = { _ in }
    ) -> KitRig {
        KitRig(server: { script in
            script.provesByAppTransaction = true
            script.appTransactionProves = false
            edit(&script)
        }) { $0.tokenProvider = tokens.provider }
    }

    @Test("after a launch the app is asked for a token, and what the customer holds elsewhere is told again")
    func launch() async {
        let tokens = Tokens()
        var rig = rig(tokens)
        await rig.launch()
        #expect(tokens.given == 0)
        await rig.store.identify(customerID: "c-1")
        await eventually("live") { await rig.store.current.isLive }
        rig = await rig.relaunched()
        await rig.launch()
        await eventually("live") { await rig.store.current.isLive }
        #expect(rig.server.received.last?.token == "c-1/2")
    }

    @Test("a token that is refused is replaced at once, without a word to the app's user")
    func refused() async {
        let tokens = Tokens()
        let rig = rig(tokens)
        await rig.store.identify(customerID: "c-1")
        await eventually("live") { await rig.store.current.isLive }
        let events = Collected(rig.store.syncEvents)
        await eventually("listening") { await rig.store.syncListenerCount == 1 }
        rig.server.edit { $0.refusedTokens = ["c-1/1"] }
        #expect(await rig.store.refresh().isLive)
        #expect(rig.server.received.last?.token == "c-1/2")
        #expect(await events.events.isEmpty)
    }

    @Test("a late refusal of an earlier token does the present one no harm")
    func lateRefusal() async {
        let rig = KitRig()
        await rig.launch()
        let door = Door()
        rig.server.edit {
            $0.refusedTokens = ["old"]
            $0.door = door
        }
        await rig.store.identify(customerID: "c-1", token: "old")
        await eventually("a request with it") { await door.visitors == 1 }
        rig.server.edit { $0.door = nil }
        await rig.store.identify(customerID: "c-1", token: "new")
        rig.device.push(Statements.transaction("1", app: nil))
        await eventually("answered") { rig.server.received.contains { $0.token == "new" } }
        await door.open()
        await rig.store.settled()
        _ = await rig.store.refresh()
        #expect(rig.server.received.last?.token == "new")
    }

    @Test("a token that has run out by its date is not sent any more")
    func expires() async {
        let tokens = Tokens()
        let rig = rig(tokens)
        tokens.expire(after: 3600, by: rig.clock)
        await rig.store.identify(customerID: "c-1")
        await eventually("live") { await rig.store.current.isLive }
        rig.clock.advance(.seconds(3500))
        _ = await rig.store.refresh()
        #expect(rig.server.received.last?.token == "c-1/1")
        rig.clock.advance(.seconds(100))
        _ = await rig.store.refresh()
        #expect(rig.server.received.last?.token == "c-1/2")
    }

    @Test(
        "an app that has no token now is asked again by itself, and meanwhile statements are recorded by the app's key")
    func providerAway() async {
        let tokens = Tokens()
        tokens.setAway(true)
        let rig = rig(tokens)
        await rig.store.identify(customerID: "c-1")
        rig.device.push(Statements.transaction("1"))
        await eventually("recorded") { rig.server.state.states["1"] != nil }
        #expect(await !rig.store.current.isLive)
        tokens.setAway(false)
        await eventually("another attempt") { rig.clock.alarms.contains(.seconds(30)) }
        rig.clock.advance(.seconds(30))
        await eventually("live") { await rig.store.current.isLive }
    }

    @Test("tokens that are all refused are not asked for without end")
    func allRefused() async {
        let tokens = Tokens()
        let rig = rig(tokens) { $0.refusesAllTokens = true }
        let events = Collected(rig.store.syncEvents)
        await eventually("listening") { await rig.store.syncListenerCount == 1 }
        await rig.store.identify(customerID: "c-1")
        await eventually("told") { await events.kinds.contains(.tokenRejected) }
        await rig.store.settled()
        #expect(tokens.given == 3)
        #expect(rig.server.received.count <= 6)
        // However often the app has another one, it is asked less and less often.
        for (seconds, given) in [(30, 6), (300, 9), (3600, 12)] {
            await eventually("waiting \(seconds) s") { rig.clock.alarms.contains(.seconds(seconds)) }
            rig.clock.advance(.seconds(seconds))
            await eventually("asked again") { tokens.given == given }
            await rig.store.settled()
        }
    }

    @Test("a customer whose id is no UUID buys with the account token that the server issued, and it is kept")
    func accountToken() async throws {
        let issued = try #require(UUID(uuidString: "C0FFEE00-0000-4000-8000-000000000009"))
        let asked = Mutex<[CustomerTokenRequest]>([])
        var rig = KitRig {
            $0.purchase = .success(.success(Statements.transaction("1", token: issued, app: "B")))
        } configuration: {
            $0.tokenProvider = { request in
                asked.withLock { $0.append(request) }
                return CustomerToken("t", appAccountToken: request.customerID == "c-1" ? issued : nil)
            }
        }
        await rig.launch()
        rig.server.edit { $0.mood = .unreachable }
        await rig.store.identify(customerID: "c-1")
        #expect(await rig.store.purchase("monthly").purchase?.entitlements.givesAccess(to: "premium") == true)
        #expect(rig.device.state.purchases.map(\.appAccountToken) == [issued])
        #expect(asked.withLock { $0.first } == CustomerTokenRequest(customerID: "c-1", environment: "production"))
        rig = await rig.relaunched()
        await rig.store.start()
        #expect(await rig.store.appAccountToken() == issued)
        await rig.waitUntilGives()
        await rig.store.identify(customerID: "c-2", token: "other")
        #expect(await rig.store.appAccountToken() == nil, "it is one customer's own")
        await rig.store.signOut()
        #expect(await rig.store.appAccountToken() == nil)
    }

    @Test("the account token that the app named last is what is bought with, also one that it named before")
    func namedLast() async {
        let (first, second) = (UUID(), UUID())
        var rig = KitRig(server: { $0.mood = .unreachable })
        await rig.launch()
        for token in [first, second] { await rig.store.identify(customerID: "ann", appAccountToken: token) }
        await rig.store.settled()
        rig = await rig.relaunched()
        await rig.launch()
        await rig.store.identify(customerID: "ann", appAccountToken: first)
        #expect(await rig.store.appAccountToken() == first)
    }

    @Test("an app whose server does not answer buys all the same")
    func purchaseWithoutToken() async throws {
        let door = Door()
        let rig = KitRig {
            $0.purchase = .success(.success(Statements.transaction("1")))
        } configuration: {
            $0.tokenProvider = { _ in
                await door.pass()
                return CustomerToken("late")
            }
        }
        await rig.launch()
        await rig.store.identify(customerID: "c-1")
        let purchase = Task { [store = rig.store] in await store.purchase("monthly") }
        let outcome = await whileTimePasses(on: rig.clock) { await purchase.value }
        #expect(outcome.purchase?.entitlements.givesAccess(to: "premium") == true)
        #expect(rig.device.state.purchases.map(\.appAccountToken) == [nil])
        await door.open()
    }

    @Test("a sale to somebody who is logged in and of whom no account token is known is made, and logged as an error")
    func saleWithoutAccountToken() async {
        let notebook = LogNotebook()
        let rig = KitRig {
            $0.purchase = .success(.success(Statements.transaction("1")))
        } configuration: {
            $0.logger = notebook
        }
        await rig.launch()
        func warningsAfterSale() async -> Int {
            #expect(
                await rig.store.purchase("monthly", options: PurchaseOptions(evenIfOwned: true)).purchase != nil)
            return notebook.lines.count {
                $0.hasPrefix("error purchase: monthly is bought without an account token") && $0.contains("identify")
            }
        }
        #expect(await warningsAfterSale() == 0, "nobody is logged in")
        await rig.store.identify(customerID: "c-1", token: "t")
        #expect(await warningsAfterSale() == 1)
        await rig.store.identify(customerID: "c-1", token: "t", appAccountToken: UUID())
        #expect(await warningsAfterSale() == 1)
        await rig.store.identify(customerID: UUID().uuidString, token: "t")
        #expect(await warningsAfterSale() == 1)
        #expect(rig.device.state.purchases.map { $0.appAccountToken == nil } == [true, true, false, false])
    }

    @Test("a token is read from the server's own answer")
    func decoding() throws {
        let answer = """
            {"object":"customer_token","token":"rc_1","customer_id":"c-1","environment":"production",
             "expires_at":"2026-11-20T13:00:00.000Z","app_account_token":"c0ffee00-0000-4000-8000-000000000009","more":1}
            """
        let token = try JSONDecoder().decode(CustomerToken.self, from: Data(answer.utf8))
        #expect(token.value == "rc_1" && token.expiresAt == Date(timeIntervalSince1970: 1_795_179_600))
        #expect(token.appAccountToken?.uuidString == "C0FFEE00-0000-4000-8000-000000000009")
        #expect(throws: DecodingError.self) { try JSONDecoder().decode(CustomerToken.self, from: Data("{}".utf8)) }
    }

    @Test("an app that never answers when asked for a token keeps nobody waiting")
    func providerHangs() async {
        let door = Door()
        let rig = KitRig {
            $0.current = [Statements.transaction("1")]
        } configuration: {
            $0.tokenProvider = { _ in
                await door.pass()
                return CustomerToken("late")
            }
        }
        await rig.store.identify(customerID: "c-1")
        await eventually("asked") { await door.visitors == 1 }
        await rig.waitUntilGives()
        let refresh = Task { [store = rig.store] in await store.refresh() }
        #expect(await whileTimePasses(on: rig.clock) { await refresh.value }.givesAccess(to: "premium"))
        #expect(rig.server.received.last?.token == nil)
        await door.open()
    }

    @Test("what is told of a customer does not lapse while the device is online", arguments: 0..<3)
    func doesNotLapse(_ seed: Int) async {
        let tokens = Tokens()
        let rig = rig(tokens) { script in
            script.numbers["c-1"] = 1
            script.grants = [.forever("gift", of: 1)]
        }
        tokens.expire(after: 900, by: rig.clock)
        await rig.store.identify(customerID: "c-1")
        await rig.waitUntilGives(true, "gift")
        for _ in 0..<(10 * 4) {
            rig.clock.advance(.seconds(6 * 3600))
            await rig.store.settled()
        }
        #expect(await rig.gives("gift"))
        await eventually("still live") { await rig.store.current.isLive }
    }

    @Test("a token without an account token does not keep the app from being asked for one before a purchase")
    func asksForAccountToken() async throws {
        let issued = UUID()
        let rig = KitRig {
            $0.purchase = .success(.success(Statements.transaction("1", token: issued)))
        } configuration: {
            $0.tokenProvider = { _ in CustomerToken("p", appAccountToken: issued) }
        }
        await rig.launch()
        await rig.store.identify(customerID: "ann", token: "t")
        await rig.store.settled()
        _ = await rig.store.purchase("monthly")
        #expect(rig.device.state.purchases.map(\.appAccountToken) == [issued])
    }

    @Test("an app that had no token for an older question takes away none that it gave meanwhile")
    func olderQuestion() async {
        let door = Door()
        let rig = KitRig(configuration: {
            $0.tokenProvider = { _ in
                await door.pass()
                throw URLError(.timedOut)
            }
        })
        await rig.launch()
        await rig.store.identify(customerID: "ann")
        await eventually("the app is asked") { await door.visitors == 1 }
        await rig.store.identify(customerID: "ann", token: "fresh")
        await door.open()
        await rig.store.settled()
        await eventually("sent") { rig.server.received.last?.token == "fresh" }
        #expect(await rig.store.tokens.current?.value == "fresh")
    }
}
