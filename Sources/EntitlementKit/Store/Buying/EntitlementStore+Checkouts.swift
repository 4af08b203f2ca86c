import EntitlementAPI
import EntitlementCore
public import Foundation

// What became of pages that were opened.
extension EntitlementStore {
    // MARK: The return

    /// Takes the address that a page of the web checkout has led back to, such as a universal link.
    ///
    ///     .onOpenURL { url in Task { await store.handle(url) } }
    ///
    /// From then on the server is asked, at ever longer intervals, until what was bought is seen. The address proves nothing:
    /// whoever makes one up gains nothing by it. Where it fits both ``WebCheckout/successURL`` and ``WebCheckout/cancelURL``, the
    /// one that says more counts, and of two that say as much the latter.
    ///
    /// - Returns: whether it is one of ``WebCheckout/successURL`` and ``WebCheckout/cancelURL``; anything else is your app's.
    @discardableResult
    public func handle(_ url: URL) async -> Bool {
        guard let web = configuration.webCheckout else { return false }
        guard let isCompleted = web.saysPaid(url) else { return false }
        await ready()
        let awaited = checkouts.all.filter(\.isAwaited)
        let words = Set(
            URLComponents(url: url, resolvingAgainstBaseURL: true)?.queryItems?.compactMap(\.value) ?? [])
        // One that names none is about the page that was opened last.
        guard let checkout = awaited.last(where: { words.contains($0.id) }) ?? awaited.last(where: isOurs) else {
            return true
        }
        if checkouts.returned(checkout.id, cancelled: !isCompleted, at: now) {
            disk.note(.checkouts)
            perform { _ = await $0.persist() }
        }
        await pages[checkout.id]?.give(isCompleted ? .completed : .cancelled)
        watchCheckouts()
        return true
    }

    /// How long it is waited for what a page has sold before its purchase is told to be pending.
    private static func patience(_ how: CheckoutReturn) -> Duration {
        switch how {
        case .completed: .seconds(10)
        // Somebody may have paid, and closed the page before it led back.
        case .cancelled, .left: .seconds(3)
        case .notOpened: .zero
        }
    }

    /// What became of a page that was left.
    func outcome(of id: String, _ how: CheckoutReturn) async -> PurchaseOutcome {
        switch how {
        case .completed: _ = checkouts.returned(id, cancelled: false, at: now)
        case .cancelled: _ = checkouts.returned(id, cancelled: true, at: now)
        case .left, .notOpened: break
        }
        disk.note(.checkouts)
        perform { _ = await $0.persist() }
        watchCheckouts()
        publish()
        if checkouts.checkouts[id]?.state != .seen {
            let seen = FirstAnswer<Bool>()
            seeing[id] = seen
            _ = await bounded(Self.patience(how)) { await seen.wait() }
            await seen.give(false)
            if seeing[id] === seen { seeing[id] = nil }
        }
        guard let checkout = checkouts.checkouts[id] else { return .pending }
        switch checkout.state {
        case .seen:
            let original = checkout.original ?? checkout.id
            return .success(
                Purchase(
                    transactionID: original, originalTransactionID: original, productID: checkout.productID,
                    entitlements: entitlements))
        case .cancelled: return .userCancelled
        case .open, .completed, .lost: return .pending
        }
    }

    // MARK: Waiting for what was sold

    /// Whether a checkout is the present customer's.
    func isOurs(_ checkout: Checkout) -> Bool {
        guard checkout.environment == ledger.storeEnvironment?.rawValue, let customerID = ledger.customerID else {
            return false
        }
        return checkout.customerID == customerID || checkout.adoptedBy == customerID
    }

    /// Whether there is nothing left to wait for, by a clock that nobody here can set.
    private func isOver(_ checkout: Checkout) -> Bool { clockGuard.isTold && checkout.end <= now }

    /// The customer's checkouts that may still sell a product, or something that gives the same.
    func unfinishedCheckouts(overlapping productID: String, _ given: [String]) -> [Checkout] {
        checkouts.all.filter {
            isOurs($0) && $0.mayStillSell && !isOver($0) && $0.overlaps(productID, given)
        }
    }

    /// Asks what became of the customer's checkouts, now and at ever longer intervals.
    func watchCheckouts(_ watch: CheckoutWatch = CheckoutWatch()) {
        checkoutWatch = watch
        scheduleCheckoutWatch()
    }

    private func scheduleCheckoutWatch() {
        let awaited = checkouts.all.filter { isOurs($0) && $0.isAwaited && !isOver($0) }
        guard server != nil, !awaited.isEmpty,
            let delay = checkoutWatch.next(isExpected: awaited.contains(where: \.mayStillSell))
        else { return schedule(&checkoutTimer, due: nil) { _ in } }
        schedule(&checkoutTimer, due: uptime + delay) { store in
            store.checkoutTimer = nil
            store.ask()
            store.scheduleCheckoutWatch()
        }
    }

    /// Notes what the customer's checkouts have sold, by what is known now.
    func noteCheckouts(_ fold: DeviceFold, _ shown: [Entitlement]) {
        guard !checkouts.isEmpty, !disk.unread.contains(.checkouts) else { return }
        var isNews = clockGuard.isTold && checkouts.prune(at: now)
        var taken = Set(checkouts.all.filter { $0.state == .seen }.compactMap(\.original))
        let order: [Checkout.State] = [.seen, .lost, .completed, .open, .cancelled]
        let ours = order.flatMap { state in checkouts.all.filter { isOurs($0) && $0.state == state } }
        for checkout in ours {
            let known = fold.knowsOriginal(checkout.original)
            switch checkout.state {
            case .seen:
                guard known == false else { continue }
                isNews = checkouts.note(checkout.id, .lost, original: checkout.original, at: now) || isNews
            case .lost:
                guard known == true else { continue }
                isNews = checkouts.note(checkout.id, .seen, original: checkout.original, at: now) || isNews
            case .open, .completed, .cancelled:
                let sold = fold.webOriginals(of: checkout.productID).subtracting(checkout.known).subtracting(taken)
                let held =
                    checkout.wasHeldOnWeb
                    ? nil : shown.first { checkout.entitlements.contains($0.id) && $0.isSold(by: checkout, taken) }
                guard let original = sold.min() ?? held.map({ $0.originalTransactionID ?? "" }) else { continue }
                taken.insert(original)
                isNews =
                    checkouts.note(checkout.id, .seen, original: original.isEmpty ? nil : original, at: now) || isNews
                tellSeen(checkout.id)
            }
        }
        guard isNews else { return }
        disk.note(.checkouts)
        perform { _ = await $0.persist() }
        if checkouts.all.contains(where: { isOurs($0) && $0.state == .lost }) { resumeWatch() }
    }

    private func tellSeen(_ id: String) {
        log(.info, .purchase, "what was bought on the web is known to the server")
        let (page, waiter) = (pages[id], seeing[id])
        Task {
            await waiter?.give(true)
            await page?.give(.completed)
        }
    }

    /// Begins to ask where nothing is being asked yet: after a launch, and where something was lost.
    func resumeWatch() { if checkoutTimer == nil { watchCheckouts() } }

    /// Whoever logs in takes over what was begun before the login, as they do with what was bought.
    func adoptCheckouts() {
        guard let customerID = ledger.identified, let before = ledger.appCustomer else { return }
        if checkouts.adopt(from: before, by: customerID, at: now) { disk.note(.checkouts) }
    }

    // MARK: What an app may ask

    /// The pages that were opened, and of which it is not known yet what became; the oldest first.
    ///
    /// What was paid on one of them becomes part of the published state by itself.
    public func unfinishedCheckouts() async -> [UnfinishedCheckout] {
        await ready()
        return checkouts.all.filter { isOurs($0) && $0.mayStillSell && !isOver($0) }.map(UnfinishedCheckout.init)
    }

    /// The customer does not want to pay on the pages that keep them from buying a product, and says so: from then on those keep
    /// nobody from buying anything.
    ///
    /// These are the pages of the product itself, and of others that give some of the same, as after
    /// ``PurchaseError/Reason/checkoutUnfinished``. A page itself stays as it is: should they pay on it after all, they hold
    /// that, too. So of one that says that it was paid (``UnfinishedCheckout/isCompleted``) ask them twice.
    ///
    /// - Parameter productID: what is to be bought, such as the error's ``PurchaseError/productID``.
    /// - Returns: whether there was such a page.
    @discardableResult
    public func abandonCheckout(of productID: String) async -> Bool {
        await ready()
        let given = entitlements(of: productID)
        let begun = checkouts.all.filter {
            isOurs($0) && $0.mayStillSell && $0.overlaps(productID, given)
        }
        for checkout in begun { _ = checkouts.note(checkout.id, .cancelled, original: checkout.original, at: now) }
        guard !begun.isEmpty else { return false }
        disk.note(.checkouts)
        _ = await persist()
        return true
    }

    private static let portalPatience = Duration.seconds(15)

    /// A page on which the customer manages what they bought on the web: their card, their plan, and its end.
    ///
    /// It is good for a short time, and for whoever has it: open it at once. Ask ``refresh()`` when they are back.
    ///
    /// - Parameter url: where it leads when they are done.
    /// - Throws: ``PurchaseError/Reason/webUnavailable``, with the error's ``PurchaseError/webUnavailability``:
    ///   ``WebUnavailability/nothingBought`` where it is not known that this customer paid for anything on the web.
    public func managementURL(returningTo url: URL) async throws(PurchaseError) -> URL {
        await ready()
        guard isIdentityKnown, let customerID = ledger.customerID, let environment = ledger.storeEnvironment else {
            throw Self.noPortal(ServerRefusal(reason: .customerUnknown))
        }
        let request = PortalRequest(returnURL: url.absoluteString, proof: proof(in: environment))
        let answer = await post(customerID, request, Self.portalPatience) { server, token, body in
            try await server.portal(customerID: customerID.value, token: token, body: body)
        }
        switch answer {
        case .success(let wire):
            if customerID == ledger.customerID, let page = wire["url"]?.text.flatMap(CheckoutAnswer.page) {
                return page
            }
            throw Self.noPortal(ServerRefusal(reason: .refused, detail: "the answer is no page that can be opened"))
        case .failure(let refusal):
            // A server that does not know the path has no sentence about this customer's purchases.
            let isNothing = refusal.reason == .notOffered && refusal.isSentence
            throw Self.noPortal(isNothing ? ServerRefusal(reason: .nothingBought, detail: refusal.detail) : refusal)
        }
    }

    private static func noPortal(_ refusal: ServerRefusal) -> PurchaseError {
        let said = [refusal.reason.rawValue, refusal.detail].filter { !$0.isEmpty }.joined(separator: "; ")
        return PurchaseError(.webUnavailable, detail: said, webUnavailability: refusal.reason)
    }
}

extension Entitlement {
    /// Whether it can be what a checkout sold, where only the server's reading of it is known.
    fileprivate func isSold(by checkout: Checkout, _ taken: Set<String>) -> Bool {
        givesAccess && source == .webCheckout && (productID == nil || productID == checkout.productID)
            && originalTransactionID.map { !taken.contains($0) && !checkout.known.contains($0) } ?? true
    }
}
