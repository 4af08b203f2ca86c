import EntitlementCore
import Foundation
import SeededRandom
import Testing

@testable import EntitlementKit

/// Some weeks of people who buy on the web and in the store, on three devices, and what the truth of it is.
///
/// The first two devices are one person's, the third somebody else's. What was charged, and when, is written down here and
/// nowhere looked up.
actor WebLife {
    /// One charge, and everything that decides what it is worth.
    struct Charge: Sendable {
        let account: String
        let productID: String
        /// In days of the story.
        let from: Double
        /// The page it was paid on; `nil` in the store.
        let pageID: String?
        var isKnown: Bool
        var isRefunded = false

        var entitlement: String { productID == "lifetime" ? "forever" : "premium" }

        func isInForce(at day: Double) -> Bool {
            !isRefunded && (productID == "lifetime" || day < from + 30)
        }
    }

    /// A page that was shown on a device.
    struct Shown: Sendable {
        let id: String
        let device: Int
        let productID: String
        let until: Double
        /// The person said that they do not want it.
        var isGivenUp = false
        /// The page led back as paid.
        var saysPaid = false
        var paidAt: Double?
    }

    let clock = ManualClock()
    let server: ScriptedServer
    private(set) var devices: [KitRig] = []
    private var payers: [Payer] = []
    private var random: SplitMix64
    private var charges: [Charge] = []
    private var shown: [Shown] = []
    private var story: [String] = []
    private var transactions = 0
    private let door = Door()
    private var killed: [Task<Void, Never>] = []
    /// What was found wrong.
    private(set) var faults: [String] = []

    private static let accounts = ["A", "A", "B"]

    init(seed: UInt64) {
        random = SplitMix64(seed: seed)
        server = ScriptedServer(clock) {
            $0.sellsOnWeb()
            $0.provesByAppTransaction = true
        }
    }

    private var day: Double { clock.uptime() / .seconds(86_400) + 1 }

    private func say(_ text: String) { story.append("day \((day * 1000).rounded() / 1000): \(text)") }

    private func fault(_ text: String) { faults.append(text + "\n" + story.suffix(60).joined(separator: "\n")) }

    // MARK: Living

    func live(_ steps: Int) async {
        for (index, account) in Self.accounts.enumerated() {
            let payer = Payer()
            payers.append(payer)
            devices.append(
                KitRig.web(payer, beside: (clock, server)) {
                    $0.appTransaction = Statements.appTransaction(account)
                })
            await devices[index].launch()
        }
        for _ in 0..<steps where faults.isEmpty { await step() }
        await end()
    }

    private func step() async {
        let index = Int(random.number(in: 0...2))
        switch random.number(in: 0...15) {
        case 0...5: await buy(on: index)
        case 6: await payLater()
        case 7, 8: hear()
        case 9: refund()
        case 10: await relaunch(index)
        case 11: trouble()
        case 12:
            say("device \(index) comes to the front")
            await devices[index].store.applicationWillEnterForeground()
        case 13: await appear()
        default:
            let minutes = random.pick([1, 20, 300, 1500, 12_000] as [Int64])
            say("\(minutes) minutes pass")
            clock.advance(.seconds(minutes * 60))
        }
        await settle()
    }

    /// Lets everybody do what they do by themselves.
    private func settle() async {
        for rig in devices {
            await whileTimePasses(on: clock) { await rig.store.settled() }
        }
    }

    // MARK: Buying

    private func buy(on index: Int) async {
        let productID = random.pick(["monthly", "lifetime"])
        let channel = random.pick([PurchaseChannel.web, .webFirst, .webFirst, .storeKit])
        let evenIfGivenUp = random.chance(10)
        if evenIfGivenUp, await devices[index].store.abandonCheckout(of: productID) {
            say("device \(index) gives up the page for \(productID)")
            for other in shown.indices where shown[other].device == index && shown[other].productID == productID {
                shown[other].isGivenUp = true
            }
        }
        let act = random.pick([
            "pays", "pays", "pays and closes", "pays and cancels", "cancels", "leaves", "dies", "fails",
        ])
        let buysInStore = random.chance(70)
        transactions += 1
        let id = "\(transactions)"
        let now = day
        let statement = Statements.transaction(
            id, product: productID, from: now, until: productID == "lifetime" ? nil : now + 30,
            app: Self.accounts[index])
        devices[index].device.edit { $0.purchase = .success(buysInStore ? .success(statement) : .userCancelled) }
        let sheets = devices[index].device.state.purchases.count
        await payers[index].set { [weak self] page in await self?.visit(page, on: index, act) ?? .left }
        let shownBefore = shown.count
        say("device \(index) buys \(productID) via \(channel), and on a page \(act)")
        let store = devices[index].store
        let pagesBefore = await payers[index].pages.count
        let buying = Task { await store.purchase(productID, via: channel) }
        let report: PurchaseReport? = await whileTimePasses(on: clock) {
            guard act == "dies" else { return await buying.value }
            // The process ends with the page open, if there is one.
            let end = Door()
            let waiting = Task {
                _ = await buying.value
                await end.open()
            }
            await eventually("a page or an end") {
                if await self.payers[index].pages.count > pagesBefore { return true }
                return await end.isOpen
            }
            waiting.cancel()
            return nil
        }
        if act == "dies" { await relaunch(index) }
        say("  it comes to \(report.map { "\($0)" } ?? "an end"), pages \(shown.count - shownBefore)")
        if devices[index].device.state.purchases.count > sheets {
            check(productID, on: index, page: nil)
            if buysInStore { boughtInStore(statement, productID, index) }
        }
        if let report, case .success = report.outcome,
            !(await devices[index].gives(productID == "lifetime" ? "forever" : "premium"))
        {
            fault("a success gives nothing")
        }
    }

    private func boughtInStore(_ statement: SignedStatement, _ productID: String, _ index: Int) {
        charges.append(
            Charge(account: Self.accounts[index], productID: productID, from: day, pageID: nil, isKnown: true))
        // The same Apple account's other device hears of it by itself.
        for other in devices.indices where other != index && Self.accounts[other] == Self.accounts[index] {
            devices[other].device.push(statement)
        }
    }

    /// A page or a sheet opens: nobody may be about to pay twice, as far as this device or the server can know.
    private func check(_ productID: String, on index: Int, page: String?) {
        let entitlement = productID == "lifetime" ? "forever" : "premium"
        let isOnline = isReachable
        for charge in charges where charge.account == Self.accounts[index] && charge.entitlement == entitlement {
            guard charge.isInForce(at: day) else { continue }
            // The store charges nobody twice for the same product.
            if page == nil, charge.pageID == nil { continue }
            if charge.isKnown, isOnline { fault("device \(index) opens \(page ?? "a sheet") for what is owned") }
        }
        for other in shown where other.device == index && other.productID == productID && other.id != page {
            let isOpen = day < other.until || other.saysPaid && day < (other.paidAt ?? 0) + 7
            let isSettled = charges.contains { $0.pageID == other.id && $0.isKnown }
            if isOpen, !other.isGivenUp, !isSettled {
                fault("device \(index) opens \(page ?? "a sheet") beside the page \(other.id)")
            }
        }
    }

    private func visit(_ page: CheckoutPage, on index: Int, _ act: String) async -> CheckoutReturn {
        check(page.productID, on: index, page: page.checkoutID)
        if let known = shown.firstIndex(where: { $0.id == page.checkoutID }) {
            shown[known].isGivenUp = false
        } else if act != "fails" {
            shown.append(Shown(id: page.checkoutID, device: index, productID: page.productID, until: day + 1))
        }
        switch act {
        case "pays":
            let isPaid = pay(page.checkoutID)
            if isPaid { note(page.checkoutID) { $0.saysPaid = true } }
            if random.chance(50) { hear(page.checkoutID) }
            return isPaid ? .completed : .left
        case "pays and closes":
            pay(page.checkoutID)
            return .left
        case "pays and cancels":
            pay(page.checkoutID)
            note(page.checkoutID) { $0.isGivenUp = true }
            return .cancelled
        case "cancels":
            note(page.checkoutID) { $0.isGivenUp = true }
            return .cancelled
        case "fails":
            note(page.checkoutID) { $0.isGivenUp = true }
            return .notOpened
        case "dies":
            if random.chance(50) { pay(page.checkoutID) }
            await door.pass()
            return .left
        default: return .left
        }
    }

    private func note(_ pageID: String, _ change: (inout Shown) -> Void) {
        if let index = shown.firstIndex(where: { $0.id == pageID }) { change(&shown[index]) }
    }

    @discardableResult
    private func pay(_ pageID: String) -> Bool {
        guard let index = shown.firstIndex(where: { $0.id == pageID }), server.pay(pageID) else { return false }
        shown[index].paidAt = day
        charges.append(
            Charge(
                account: Self.accounts[shown[index].device], productID: shown[index].productID, from: day,
                pageID: pageID, isKnown: false))
        say("  \(pageID.suffix(4)) is paid")
        return true
    }

    /// Somebody pays on a page that they have left open.
    private func payLater() async {
        let open = shown.filter { $0.paidAt == nil && !$0.isGivenUp }
        guard !open.isEmpty else { return }
        let page = random.pick(open)
        // What the person has bought meanwhile they would not pay again by themselves.
        let owned = charges.contains {
            $0.account == Self.accounts[page.device] && $0.isInForce(at: day) && $0.productID == page.productID
        }
        guard !owned else { return }
        say("somebody pays on a page of device \(page.device)")
        guard pay(page.id), random.chance(50) else { return }
        note(page.id) { $0.saysPaid = true }
        await devices[page.device].store.handle(devices[page.device].paidURL(page.id))
    }

    // MARK: The world

    private func hear(_ pageID: String? = nil) {
        let unheard = charges.indices.filter { charges[$0].pageID != nil && !charges[$0].isKnown }
        guard
            let index = pageID.map({ id in charges.firstIndex { $0.pageID == id } })
                ?? (unheard.isEmpty ? nil : random.pick(unheard)),
            let id = charges[index].pageID
        else { return }
        server.hear(id)
        charges[index].isKnown = true
        say("  the server hears of \(id.suffix(4))")
    }

    private func refund() {
        let paid = charges.indices.filter {
            charges[$0].pageID != nil && charges[$0].isKnown && !charges[$0].isRefunded
        }
        guard !paid.isEmpty else { return }
        let index = random.pick(paid)
        server.refund(charges[index].pageID ?? "")
        charges[index].isRefunded = true
        say("a refund")
    }

    private func relaunch(_ index: Int) async {
        say("device \(index) is started anew")
        let device = devices[index]
        await device.store.stop()
        devices[index] = device.another()
        await devices[index].store.start()
    }

    private var isReachable = true

    private func trouble() {
        let mood = random.pick([ScriptedServer.Mood.answers, .answers, .unreachable, .status(503)])
        if case .answers = mood { isReachable = true } else { isReachable = false }
        say(isReachable ? "the server answers" : "the server is away")
        server.edit { $0.mood = mood }
    }

    /// What was paid, and what the server has heard of, appears on the device that began it, whatever nobody does.
    private func appear() async {
        guard isReachable else { return }
        let due = charges.filter { charge in
            charge.isKnown && charge.isInForce(at: day + 0.1)
                && shown.contains { $0.id == charge.pageID && $0.saysPaid && day < ($0.paidAt ?? 0) + 0.8 }
        }
        guard let charge = due.first, let page = shown.first(where: { $0.id == charge.pageID }) else { return }
        // An hour at most, in the steps in which a device wakes.
        for _ in 0..<240 {
            if await devices[page.device].gives(charge.entitlement) { return }
            clock.advance(.seconds(15))
            await devices[page.device].caughtUp()
            await settle()
        }
        fault("what was paid on device \(page.device) did not appear")
    }

    /// In the end everybody hears of everything, and each device says what is true.
    private func end() async {
        server.edit { $0.mood = .answers }
        isReachable = true
        for charge in charges where !charge.isKnown { hear(charge.pageID) }
        for index in devices.indices {
            await relaunch(index)
            let rig = devices[index]
            _ = await whileTimePasses(on: clock) { await rig.store.refresh() }
            for entitlement in ["premium", "forever"] {
                let owned = charges.contains {
                    $0.account == Self.accounts[index] && $0.entitlement == entitlement && $0.isInForce(at: day)
                }
                if await rig.gives(entitlement) != owned {
                    fault("device \(index) says that \(entitlement) is \(owned ? "not " : "")held")
                }
            }
            let waits = await rig.store.unfinishedCheckouts().filter { unfinished in
                charges.contains { $0.pageID == unfinished.id }
            }
            if !waits.isEmpty { fault("device \(index) waits for what the server has told") }
            await rig.store.stop()
        }
        await door.open()
    }
}
