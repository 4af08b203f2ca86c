import EntitlementAPI
import EntitlementCore
import Foundation
import Testing

@testable import EntitlementKit

@Suite("Kit: identity and login", .timeLimit(.minutes(1)))
struct IdentityTests {
    @Test("before login the customer is apple:<appTransactionId>, the same on two devices")
    func appCustomer() async {
        let first = KitRig { $0.current = [Statements.transaction("1")] }
        await first.launch()
        #expect(await first.store.current.customerID == "apple:A")
        #expect(await first.store.current.environment == .production)
        // The other device's store shows nothing.
        let second = await first.relaunched(device: ScriptedStore())
        await second.storage.damageEverything()
        await second.launch()
        #expect(await second.gives())
        #expect(await second.store.current.customerID == "apple:A")
    }

    @Test("what TestFlight's app has kept does not rule the App Store's, though the store is slow to say whose it is")
    func fromTestFlight() async {
        var rig = KitRig {
            $0.appTransaction = Statements.appTransaction(environment: "Sandbox")
            $0.current = [Statements.transaction("1", signed: 0.9, environment: "Sandbox")]
        } server: {
            $0.mood = .unreachable
        }
        await rig.launch()
        #expect(await rig.store.current.environment == .sandbox)
        let sent = rig.server.received.count
        rig.device.edit { script in
            script.appTransaction = nil
            script.current = []
        }
        rig = await rig.relaunched()
        await rig.launch()
        // Nothing says anything else yet.
        #expect(await rig.store.current.environment == .sandbox)
        rig.device.push(Statements.transaction("7", product: "lifetime", until: nil))
        await rig.waitUntilGives(true, "forever")
        #expect(await rig.store.current.environment == .production)
        #expect(await !rig.gives())
        // The next process is shown it again.
        rig = await rig.relaunched()
        await rig.launch()
        await rig.waitUntilGives(true, "forever")
        #expect(await rig.store.current.environment == .production)
        #expect(await !rig.gives())
        rig.server.edit { $0.mood = .answers }
        rig.device.edit { $0.appTransaction = Statements.appTransaction("B") }
        rig.clock.advance(.seconds(61))
        await rig.store.networkDidReturn()
        await eventually("the app is asked about anew") { await rig.store.current.customerID == "apple:B" }
        await rig.store.settled()
        let posted = rig.server.received.dropFirst(sent).filter { $0.request.environment?.named != .sandbox }
        #expect(posted.contains { $0.request.signedTransactions.count == 1 })
        #expect(posted.allSatisfy { $0.request.signedTransactions.count <= 1 })
        // What TestFlight gave stays out, also where the store goes on saying nothing.
        rig.device.edit { $0.appTransaction = nil }
        rig = await rig.relaunched()
        await rig.launch()
        #expect(await rig.gives("forever"))
        #expect(await !rig.gives())
        #expect(await rig.store.current.environment == .production)
    }

    @Test("a slow app transaction keeps nothing on the device waiting, and is posted once it is there")
    func slowAppTransaction() async {
        let door = Door()
        let rig = KitRig {
            $0.doors[.appTransaction] = door
            $0.unfinished = [Statements.transaction("1", app: nil)]
        }
        await rig.store.start()
        await rig.waitUntilGives()
        #expect(rig.server.received.isEmpty)
        await door.open()
        await eventually("finished") { rig.device.state.finished == ["1"] }
        #expect(rig.server.received.allSatisfy { $0.customerID == "apple:A" && $0.request.appTransaction != nil })
    }

    @Test("a login takes nothing away until the server answers, and then its answer counts")
    func login() async {
        let rig = KitRig { $0.current = [Statements.transaction("1")] }
        await rig.launch()
        rig.server.edit { $0.mood = .unreachable }
        #expect(await rig.store.identify(customerID: "c-1", token: "t"))
        await rig.store.settled()
        #expect(await rig.gives())
        #expect(await rig.store.current.customerID == "c-1")
        #expect(rig.server.received.last?.customerID == "c-1")
        #expect(rig.server.received.last?.token == "t")
        // The app's server has linked the two.
        rig.server.edit { script in
            script.mood = .answers
            script.numbers["c-1"] = 77
            script.ownership.apply(
                .link(LinkFact(identity: IdentityRef(script.numbers["apple:A"] ?? 0), customer: IdentityRef(77))),
                position: 50, recordedAt: Timestamp(milliseconds: Statements.start))
        }
        #expect(await rig.store.refresh().givesAccess(to: "premium"))
        #expect(await rig.store.current.isLive)
    }

    @Test("without a link what was bought here stays with who uses the app, and is reported as a conflict")
    func notLinked() async {
        let rig = KitRig { $0.current = [Statements.transaction("1")] }
        await rig.launch()
        let events = Collected(rig.store.syncEvents)
        await eventually("listening") { await rig.store.syncListenerCount == 1 }
        await rig.store.identify(customerID: "c-1", token: "t")
        await eventually("told") { await events.kinds.contains(.conflict) }
        await rig.store.settled()
        #expect(await rig.gives())
        #expect(await rig.store.current.customerID == "c-1")
        await rig.store.signOut()
        await rig.store.settled()
        #expect(await rig.gives())
        #expect(await rig.store.current.customerID == "apple:A")
    }

    @Test("a login survives a restart, its token does not")
    func restart() async {
        var rig = KitRig()
        await rig.launch()
        await rig.store.identify(customerID: "C0FFEE00-0000-4000-8000-000000000001", token: "t")
        await rig.store.settled()
        rig = await rig.relaunched()
        await rig.launch()
        #expect(await rig.store.current.customerID == "c0ffee00-0000-4000-8000-000000000001")
        #expect(rig.server.received.last?.token == nil)
    }

    @Test("a customer whose id is a UUID has purchases signed with it")
    func accountToken() async throws {
        let id = try #require(UUID(uuidString: "C0FFEE00-0000-4000-8000-000000000001"))
        let rig = KitRig { $0.purchase = .success(.success(Statements.transaction("1", token: id))) }
        await rig.store.identify(customerID: id.uuidString)
        #expect(await rig.store.purchase("monthly").purchase?.entitlements.givesAccess(to: "premium") == true)
        #expect(rig.device.state.purchases.map(\.appAccountToken) == [id])
    }

    @Test("a token that is refused is told, and what was posted goes with the app's own key")
    func refusedToken() async {
        let rig = KitRig()
        await rig.launch()
        let events = Collected(rig.store.syncEvents)
        await eventually("listening") { await rig.store.syncListenerCount == 1 }
        rig.server.edit { $0.mood = .problem(401) }
        await rig.store.identify(customerID: "c-1", token: "stale")
        await eventually("told") { await events.kinds.contains(.tokenRejected) }
        rig.server.edit { $0.mood = .answers }
        _ = await rig.store.refresh()
        #expect(rig.server.received.last?.token == nil)
    }

    @Test("a sign-out says whether it is on disk, and holds at the next launch once it is")
    func signOutOnDisk() async {
        var rig = KitRig()
        await rig.launch()
        await rig.store.identify(customerID: "ann", token: "t")
        await rig.storage.setFull(true)
        #expect(await !rig.store.signOut())
        #expect(await rig.store.current.customerID == "apple:A")
        await rig.storage.setFull(false)
        #expect(await rig.store.signOut())
        rig = await rig.relaunched()
        await rig.launch()
        #expect(await rig.store.current.customerID == "apple:A")
    }

    @Test("a sign-out is on disk although the writing that went on when it came has failed")
    func signOutDuringFailure() async {
        let rig = KitRig()
        await rig.launch()
        await rig.store.settled()
        let (store, door) = (rig.store, Door())
        await rig.storage.setDoor(door)
        await rig.storage.setFullOnce()
        let login = Task { await store.identify(customerID: "ann", token: "t") }
        await eventually("the login is about to be written") { await door.visitors > 0 }
        async let isOnDisk = store.signOut()
        await eventually("signed out") { await store.current.customerID == "apple:A" }
        await rig.storage.setDoor(nil)
        await door.open()
        #expect(await isOnDisk)
        _ = await login.value
    }

    @Test(
        "an id that no customer can have is refused, and leaves nobody with what the customer before holds",
        arguments: ["", ".", "..", "a\nb"])
    func invalid(_ id: String) async {
        var rig = KitRig(server: { $0.grants = [.forever("premium", of: $0.number(of: "ann").number)] })
        await rig.launch()
        await rig.store.identify(customerID: "ann", token: "t")
        await rig.waitUntilGives()
        #expect(!(await rig.store.identify(customerID: id)))
        #expect(await rig.store.current.customerID == "apple:A")
        #expect(await !rig.gives())
        rig = await rig.relaunched()
        await rig.launch()
        #expect(await rig.store.current.customerID == "apple:A")
    }

    @Test("naming the same customer at every launch costs nothing")
    func namedAgain() async {
        var rig = KitRig()
        await rig.launch()
        await rig.store.identify(customerID: "ann", token: "t")
        await rig.store.settled()
        rig = await rig.relaunched()
        let before = rig.server.received.count
        #expect(await rig.store.identify(customerID: "ann"))
        await rig.store.settled()
        #expect(rig.server.received.count == before + 1)
        #expect(await rig.store.current.customerID == "ann")
    }

    @Test("who has just logged in is shown no paywall until the server has answered, for two seconds at most")
    func noPaywallAtLogin() async {
        let door = Door()
        let rig = KitRig(server: {
            $0.numbers["ann"] = 7
            $0.grants = [.forever("premium", of: 7)]
            $0.doorsByCustomer["ann"] = door
        })
        await rig.launch()
        #expect(await rig.store.current.access(to: "premium") == .denied(nil))
        await rig.store.identify(customerID: "ann", token: "t")
        #expect(await rig.store.current.access(to: "premium") == .loading)
        #expect(await rig.store.current.customerID == "ann")
        await eventually("the end of patience") { rig.clock.alarms.contains(.seconds(2)) }
        rig.clock.advance(.seconds(2))
        await eventually("denied") { await rig.store.current.access(to: "premium") == .denied(nil) }
        await door.open()
        await rig.waitUntilGives()
        // Whom the server has answered about before is not waited for.
        await rig.store.signOut()
        rig.server.edit { $0.mood = .unreachable }
        await rig.store.identify(customerID: "ann")
        #expect(await rig.gives())
    }

    @Test("what the customer before held is not left standing while the first answer about the next one is waited for")
    func leftStanding() async {
        let (ann, bob, door) = (UUID(), UUID(), Door())
        let rig = KitRig(day: 29.9, device: { $0.appTransaction = nil })
        await rig.launch()
        rig.device.push(Statements.transaction("1", until: 30, token: ann, app: nil))
        rig.device.push(Statements.transaction("2", until: 30.05, token: bob, app: nil))
        await eventually("known") { await rig.store.ledger.book.transactions.count == 2 }
        // Nobody says yet whether they have been renewed.
        rig.server.edit { $0.door = door }
        rig.device.edit { $0.doors[.currentEntitlements] = door }
        rig.clock.advance(days: 0.3)
        await rig.store.identify(customerID: ann.uuidString, token: "a")
        await rig.store.identify(customerID: bob.uuidString, token: "b")
        #expect(await rig.store.current.customerID == bob.uuidString.lowercased())
        await door.open()
    }
}

@Suite("Kit: products and history", .timeLimit(.minutes(1)))
struct CatalogueTests {
    @Test("a product says of every place whether it can be bought there")
    func products() async {
        let device = ScriptedStore {
            $0.products = [StoreProduct(id: "monthly", displayName: "Monthly", displayPrice: "$9.99")]
        }
        let store = EntitlementStore(
            configuration: EntitlementConfiguration(
                bundleID: Statements.bundleID, productIDs: ["lifetime", "monthly"],
                bundledCatalog: [.init(productID: "monthly", entitlements: ["premium"])]),
            store: device, server: nil, storage: InMemoryEntitlementStorage())
        let products = await store.products()
        #expect(
            products == [
                EntitlementProduct(
                    id: "lifetime", displayName: nil, entitlements: [], storeKitAvailable: false, appStorePrice: nil,
                    webPrice: nil, webUnavailability: .notConfigured),
                EntitlementProduct(
                    id: "monthly", displayName: "Monthly", entitlements: ["premium"], storeKitAvailable: true,
                    appStorePrice: "$9.99", webPrice: nil, webUnavailability: .notConfigured,
                    storeProduct: StoreProduct(id: "monthly", displayName: "Monthly", displayPrice: "$9.99")),
            ])
        device.edit { $0.mayPay = false }
        #expect(await store.products().allSatisfy { !$0.storeKitAvailable })
        #expect(await store.purchase("monthly") == .failed(PurchaseError(.notAllowed, of: "monthly")))
        await store.stop()
    }

    @Test("history keeps trials and offers that the store no longer shows")
    func history() async {
        let trial = Statements.transaction("1", offer: ["offerType": 1, "offerDiscountType": "FREE_TRIAL"])
        let paid = Statements.transaction("2", original: "1", from: 30, until: 60, renewal: true)
        let rig = KitRig(day: 31) { $0.all = [trial, paid] }
        await rig.launch()
        rig.device.edit { $0.all = [] }
        _ = await rig.store.refresh()
        let history = await rig.store.history()
        #expect(history.map(\.transactionID) == ["2", "1"])
        #expect(history.map(\.isTrial) == [false, true])
        #expect(history.map(\.isRenewal) == [true, false])
        #expect(history.map(\.isSynced) == [true, true])
        #expect(history.last?.offer == PurchaseOffer(type: "introductory", discount: "free_trial"))
    }
}

extension ScriptedStorage {
    func damageEverything() { for name in files.keys { damage(name) } }
}
