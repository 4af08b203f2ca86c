import EntitlementKit
import Foundation
import SeededRandom
import StoreSimulator
import Testing

/// A life with devices, made up while it is lived: purchases, launches, deaths, bad weather and all that follows.
struct KitStory {
    private typealias Product = StoreWorld.ProductID

    let rig: KitRig
    let seed: UInt64
    var random: SplitMix64
    private(set) var step = 0
    private var trace: [String] = []
    /// Whom the app's server took an Apple account's owner to be.
    private(set) var logins: [Int: String] = [:]
    private(set) var loggedIn: Set<Int> = []
    private var calls: [Task<Void, Never>] = []
    /// The other Apple account that a device's store was signed in to, last.
    var visits: [Int: Int] = [:]
    /// Whose files a device got, by the Apple account.
    var strangers: [Int: Int] = [:]
    /// What each device had let go of when it was looked at last, by transaction.
    var letGo: [Int: Set<String>] = [:]
    /// The transactions that the server was seen to hold at any time.
    var held: Set<String> = []
    /// Whether the server was backed up in this story, and not restored since.
    var hasBackup = false
    /// Whether it was restored, and the store is yet to tell everything again.
    var wasRestored = false
    /// What forgers wrote onto disks, by original transaction.
    var forgeries: Set<String> = []

    init(_ service: KitService, seed: UInt64) throws {
        self.seed = seed
        rig = try KitRig(service, seed: seed, context: "seed \(seed)")
        random = SplitMix64(seed: seed)
    }

    mutating func live(steps: Int) async throws {
        try addDevice(account: nil)
        if random.chance(60) { try addDevice(account: 0) }
        if random.chance(30) { try addDevice(account: nil) }
        for number in 1...steps {
            step = number
            try await takeStep()
            rig.context = "seed \(seed), step \(step), after \(trace.joined(separator: "; "))"
            rig.expectNoViolation()
            await expectNothingOfOthers()
            try await expectOnlyNeedlessLetGo()
            if random.chance(5) { try await settle() }
        }
        try await settle()
    }

    /// At no time does a device give what is neither its Apple account's nor whose it says the customer is; one that
    /// verifies what it reads gives nothing forged either.
    private func expectNothingOfOthers() async {
        for device in rig.devices where device.wasLaunched {
            let state = await device.kit.current
            let account = rig.account(device)
            var accounts = Set([account] + logins.filter { $0.value == state.customerID }.map(\.key))
            if let visited = visits[device.number] { accounts.insert(visited) }
            if let stranger = strangers[device.number] { accounts.insert(stranger) }
            var owned = Set(
                rig.store.with { store in accounts.flatMap { store.originals(account: $0) } }.map(
                    \.originalTransactionID))
            if device.configuration.statementVerifier == nil { owned.formUnion(forgeries) }
            let others = state.all.filter { $0.givesAccess && !owned.contains($0.originalTransactionID ?? "") }
            #expect(others.isEmpty, "\(rig.context), device \(device.number) as \(state.customerID ?? "nobody")")
        }
    }

    /// A device whose app is configured as some apps are.
    private mutating func addDevice(account: Int?) throws {
        let (isGuarded, grants, asksForTokens) = (random.chance(30), random.chance(40), random.chance(50))
        // Instead of thousands.
        let limit = random.chance(50) ? Int(random.number(in: 0...6)) : nil
        // Some verify nothing, as before there was a way to; the server refuses what is forged all the same.
        let believesDisk = !isGuarded && random.chance(10)
        let service = rig.service
        let environment: SimulatedStoreEnvironment = random.chance(25) ? .sandbox : .production
        _ = rig.device(account: account, environment: environment) { configuration in
            if grants { configuration.acknowledgedKinds = [.consumable] }
            if asksForTokens {
                configuration.tokenProvider = { request in
                    CustomerToken(try await service.token(request.customerID))
                }
            }
            if let limit { configuration.transactionLimit = limit }
            if believesDisk { configuration.statementVerifier = nil }
            if isGuarded { service.guardAgainstForgers(&configuration) }
        }
        note(
            "\(rig.devices.map { rig.environment($0) }), guarded: \(isGuarded), believes its disk: \(believesDisk), grants: \(grants), asks for tokens: \(asksForTokens), keeps \(limit ?? 2000)"
        )
    }

    mutating func note(_ words: String) { trace.append("\(step) \(words)") }

    private mutating func takeStep() async throws {
        let device = random.pick(rig.devices)
        switch random.number(in: 0...99) {
        case 0..<18: await launch(device)
        case 18..<22:
            note("kill \(device.number)")
            await device.kill()
        case 22..<40: await call(device)
        case 40..<57: try happen(device)
        case 57..<66:
            let span = random.pick([Span.second, Span.minute, 3 * Span.hour, Span.day, 9 * Span.day])
            note("\(span / 1000) s pass")
            rig.service.clock.advance(by: span)
        case 66..<73:
            note("deliver")
            try await rig.deliver()
        case 73..<80:
            let weather = random.pick([
                KitProxy.Weather.fair, .fair, .down, .answerLost, .refusing(status: 500, retryAfter: nil),
                .refusing(status: 429, retryAfter: 3), .refusing(status: 401, retryAfter: nil),
                .refusing(status: 502, retryAfter: nil), .stuck,
            ])
            note("\(weather) on \(device.number)")
            device.proxy.weather = weather
        case 80..<83: misbehave(device)
        case 83..<86: changeTheStoresMood(device)
        case 86..<88: await grant(device)
        case 88..<90: try await copyFiles(to: device)
        case 90..<93: try await trouble(device)
        case 93..<96: try await troubleTheServer()
        default: try await logIn(device)
        }
    }

    private mutating func launch(_ device: KitDevice) async {
        let dyingCall = random.chance(60) ? Int(random.number(in: 1...60)) : nil
        note("launch \(device.number)\(dyingCall.map { " dying at \($0)" } ?? "")")
        await device.launch(dyingAt: dyingCall)
        // Nobody is logged in before the app says so; what was said is on the disk.
    }

    /// The app asks for something, and the world goes on meanwhile, or waits for it.
    private mutating func call(_ device: KitDevice) async {
        guard device.wasLaunched else { return await launch(device) }
        let kit = device.kit
        let product = random.pick([
            Product.proMonthly, Product.proYearly, Product.newsMonthly, Product.plusMonthly, Product.lifetime,
            Product.coins, Product.season, Product.dayPass, Product.mystery,
        ])
        let call: @Sendable () async -> Void
        switch random.number(in: 0...10) {
        case 0...5:
            if random.chance(25) {
                let count = Int(random.number(in: 3...8))
                note("buy \(count) times coins on \(device.number)")
                call = buyingCoins(count, on: device)
                break
            }
            let times = random.chance(15) ? 2 : 1
            note("buy \(product) on \(device.number)\(times > 1 ? ", pressed twice" : "")")
            call = buying(product, on: device, times: times)
        case 6...7:
            note("refresh \(device.number)")
            call = { _ = await kit.refresh() }
        case 8:
            note("restore \(device.number)")
            call = { _ = await kit.restoreEntitlements() }
        case 9:
            note("many activations of \(device.number)")
            call = { for _ in 0..<20 { await kit.applicationWillEnterForeground() } }
        default:
            note("foreground and network on \(device.number)")
            call = {
                await kit.applicationWillEnterForeground()
                await kit.networkDidReturn()
            }
        }
        let task = Task { await call() }
        calls.append(task)
        if random.chance(50), device.proxy.weather != .stuck, device.condition.stalled.isEmpty { await task.value }
    }

    /// The store does something by itself, or people do outside the app.
    private mutating func happen(_ device: KitDevice) throws {
        let account = rig.account(device)
        if let request = rig.store.with({ $0.requests.first }) {
            let isApproved = random.chance(60)
            note(isApproved ? "approve" : "decline")
            try rig.store.perform { store in
                if isApproved { return try store.approve(request) }
                store.decline(request)
                return []
            }
            return
        }
        let originals = rig.store.with { $0.originals(account: account) }
        guard !originals.isEmpty, !random.chance(25) else {
            let product = random.pick([Product.proMonthly, Product.newsMonthly, Product.lifetime])
            if random.chance(30) {
                note("share \(product) with account \(account)")
                return try rig.store.perform { try $0.share(product, with: account) }
            }
            note("redeem \(product) on account \(account)")
            return try rig.store.perform { try $0.redeem(product, account: account) }
        }
        let key = random.pick(originals)
        let draw = random.number(in: 0...9)
        let word = try rig.store.tell { store -> (String, [DeviceUpdate]) in
            let isRefunded = store.isRefunded(key)
            guard store.isSubscription(key), draw > 2 else {
                if isRefunded { return ("reverse the refund", try store.reverseRefund(key)) }
                if store.isShared(key), draw > 0 { return ("end the sharing of", try store.endSharing(key)) }
                let part: Int64? = draw == 1 ? 40_000 : nil
                return ("refund \(part.map { "\($0 / 1000) % of" } ?? "")", try store.refund(key, prorated: part))
            }
            switch draw {
            case 3...6 where store.mayRenew(key): return ("renew", try store.renew(key))
            case 7 where store.hasRunOut(key) && !isRefunded:
                store.failToRenew(key, graceDays: 16)
                return ("fail to renew", [])
            case 8 where store.hasRunOut(key) && !isRefunded:
                store.expire(key)
                return ("expire", [])
            default:
                store.setAutoRenew(key, draw % 2 == 0)
                return ("auto-renew \(draw % 2 == 0)", [])
            }
        }
        if let id = rig.store.with({ $0.transactionIDs(of: key).last }) {
            for device in rig.devices { device.wallet.changed(id) }
        }
        note("\(word) \(key.originalTransactionID)")
    }

    private mutating func misbehave(_ device: KitDevice) {
        let number = device.number
        let draw = random.number(in: 0...9)
        note("quirk \(draw) of \(number)")
        if draw == 9 { return switchAccount(device) }
        if draw == 6 {
            try? rig.store.perform { [try $0.forge(StoreWorld.ProductID.studioMonthly, on: number)] }
            return
        }
        rig.store.with { store in
            store.change(number) { device in
                switch draw {
                case 0: device.asksToBuy.toggle()
                case 1: device.distrustsAll.toggle()
                case 2: device.readsNothing.toggle()
                case 3: device.isOffline.toggle()
                case 7: device.isUnready.toggle()
                case 8: device.losesItsConnection.toggle()
                default: device.omission = draw == 4 ? 100 : 50
                }
            }
        }
    }

    /// Somebody logs in whom the app's server knows, and who is from then on the owner of the Apple account.
    private mutating func logIn(_ device: KitDevice) async throws {
        // Testers have no account with the app here.
        guard device.wasLaunched, rig.environment(device) == .production else { return }
        let account = rig.account(device)
        // Whose Apple account is used on another device has no login here, and such a device has none meanwhile.
        guard !visits.values.contains(account), !isVisiting(device) else { return }
        if loggedIn.contains(device.number), random.chance(50) {
            note("sign out on \(device.number)")
            loggedIn.remove(device.number)
            await device.kit.signOut()
            return
        }
        let customer = logins[account] ?? (random.chance(50) ? random.uuid() : "c-\(seed)-\(account)")
        // Token and app transaction together link the two by themselves; or the app's server does, before or after.
        let linksFirst = random.chance(50)
        note("log in as \(customer) on \(device.number), linked first: \(linksFirst)")
        let isNew = logins[account] == nil
        if isNew {
            if linksFirst {
                try await rig.service.link(appTransactionID: rig.appTransactionID(device), to: customer)
            }
            rig.store.with { store in
                _ = store.link(account: account, to: CustomerKey(.production, customer))
            }
            logins[account] = customer
        }
        await identify(device, as: customer)
        if isNew, try await !rig.service.isLinked(appTransactionID: rig.appTransactionID(device), to: customer) {
            note("the app's server links the two")
            try await rig.service.link(appTransactionID: rig.appTransactionID(device), to: customer)
        }
    }

    mutating func identify(_ device: KitDevice, as customer: String) async {
        guard let token = try? await rig.service.token(customer) else { return }
        loggedIn.insert(device.number)
        let kit = device.kit
        let task = Task { _ = await kit.identify(customerID: customer, token: token) }
        calls.append(task)
        if device.proxy.weather != .stuck { await task.value }
    }
}

extension KitStory {
    /// Everything is delivered and answered: then device, server and record are one, and there is nothing left to say.
    private mutating func settle() async throws {
        note("settle")
        rig.context = "seed \(seed), step \(step), after \(trace.joined(separator: "; "))"
        for device in rig.devices {
            device.proxy.weather = .fair
            rig.store.with { store in
                store.change(device.number) { device in
                    (device.distrustsAll, device.readsNothing, device.isOffline) = (false, false, false)
                    (device.isUnready, device.losesItsConnection) = (false, false)
                    // What it leaves out by chance, it would show by chance after everything is settled.
                    if device.omission < 100 { device.omission = 0 }
                }
            }
            device.condition.isLocked = false
            device.condition.stall([])
            (device.condition.purchases, device.wallet.manner) = (.made, .atOnce)
            await device.killWidget()
        }
        for call in calls { await call.value }
        calls = []
        if wasRestored { try await expectDevicesToTell() }
        try letStrangersFilesRunOut()
        try await rig.deliver()
        for device in rig.devices {
            signInAgain(device)
            let kit = await device.launch()
            let login = logins[rig.account(device)]
            if let login, loggedIn.contains(device.number) { await identify(device, as: login) }
            _ = await kit.refresh()
            await rig.store.waitForAllFinished(on: device.number, rig.context)
        }
        // Whatever one device reported, the others are told when they ask again.
        for device in rig.devices { _ = await device.kit.refresh() }
        // What came of that, such as renewal information that the answer came before, is told, too.
        for device in rig.devices { await device.kit.settled() }
        let head = try await rig.service.admin.head()
        for device in rig.devices {
            let customer = logins[rig.account(device)] ?? rig.customer(device)
            if let visited = visits[device.number], !loggedIn.contains(device.number) {
                try expectVisitor(device, await device.kit.refresh(), as: customer, on: visited)
            } else {
                try rig.expectDevice(device, await device.kit.refresh(), as: customer)
            }
            try await rig.expectServer(customer, in: rig.environment(device))
        }
        for device in rig.devices where device.condition.clockOffset == 0 {
            // What an extension reads is what the app shows.
            let (shown, read) = (await device.kit.current.all, await device.read().all)
            #expect(read.map { KitLine($0) } == shown.map { KitLine($0) }, "\(rig.context), device \(device.number)")
        }
        for device in rig.devices {
            expectGranted(device)
            await expectNoStorm(device)
        }
        let news = try await rig.service.admin.events(after: head)
        #expect(news.isEmpty, "\(rig.context): \(news.map { "\($0["type"] ?? "") \($0["facts"] ?? "")" })")
        rig.expectNoViolation()
    }
}
