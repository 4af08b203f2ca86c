/// A device's claim that differed from the ledger, explained by rules in a fixed order from what is known up to some
/// event.
package struct DeviceDrift: Sendable {
    /// A purchase of somebody else's that the customer was found claiming.
    package struct Disputed: Hashable, Sendable {
        package let originalTransactionID: String
        package let bundleID: String
        package let products: Set<String>

        package init(originalTransactionID: String, bundleID: String, products: Set<String>) {
            self.originalTransactionID = originalTransactionID
            self.bundleID = bundleID
            self.products = products
        }
    }

    /// What is to be said of a difference after an event.
    package enum Verdict: Hashable, Sendable {
        case open(DriftCause)
        case ended(DriftCause, by: DriftEnd)
    }

    /// With more events than these about the product's original transactions nothing is compared.
    package static let historyLimit = 2000
    /// How many events are folded at most to look for when it was as the device says.
    private static let foldedLimit = 20_000
    /// The most earlier states that are looked at, of either kind.
    private static let earlierLimit = 50

    private let claim: DeviceClaim
    /// When it was recorded.
    private let at: Timestamp
    private let history: CustomerHistory
    private let elsewhere: CustomerHistory
    private let disputed: [Disputed]
    private let isTooLarge: Bool

    /// - Parameters:
    ///   - at: the claim's own recorded instant.
    ///   - history: what is known of the customer, up to the event that is looked at.
    ///   - elsewhere: the same of the store's other environment.
    ///   - disputed: the purchases that the customer's conflicts in `history` are about.
    ///   - isTooLarge: whether more is known than is compared, so that it was not read.
    package init(
        _ claim: DeviceClaim, at: Timestamp, history: CustomerHistory, elsewhere: CustomerHistory,
        disputed: [Disputed], isTooLarge: Bool = false
    ) {
        self.claim = claim
        self.at = at
        self.history = history
        self.elsewhere = elsewhere
        self.disputed = disputed
        self.isTooLarge = isTooLarge
    }

    // MARK: - Rules

    /// What is to be said when it is found, by what was known then.
    package func verdictWhenFound() -> Verdict {
        guard !isTooLarge else { return .open(.tooMuchKnown) }
        // Something may have come between the comparison and its record.
        if history.facts().agrees(with: claim, at: at),
            let last = history.events.last(where: { DriftTeller($0) != nil }),
            let teller = DriftTeller(last)
        {
            return .ended(teller.cause, by: teller.end)
        }
        return .open(explanation())
    }

    /// What is to be said after another event about the customer, which is the last of the history.
    ///
    /// - Parameter cause: what was said before.
    package func verdict(after event: HistoryEvent, _ cause: DriftCause) -> Verdict {
        switch event.fact {
        case .drift(let report):
            guard report.isAbout(claim), history.identities.contains(report.customer) else {
                return .open(cause)
            }
            guard report.isAgreement else { return .ended(cause, by: .newerReport) }
            let isUnexplained = cause.driftClass == .unexplained
            if event.statementSource == .serverAPI { return .open(isUnexplained ? .confirmedByStore : cause) }
            return .ended(isUnexplained ? .learned : cause, by: .agreement)
        case .forgetting(let fact):
            let isForgotten = fact.identities.contains(where: history.identities.contains)
            return isForgotten ? .ended(cause, by: .forgotten) : .open(cause)
        case .notification, .statements, .link, .claim, .transfer, .transferUndo, .conflict:
            break
        case .catalog, .grant, .grantRevocation, .access, .storeRequest, .web:
            // The store's products are compared, not entitlements.
            return .open(cause)
        }
        guard !isTooLarge else { return .open(cause == .none ? .tooMuchKnown : cause) }
        if let teller = DriftTeller(event), isTrue(after: event, teller) {
            // What happened after the claim does not show that the device was right.
            let isLater = teller.speaksOfItself && (event.occurredAt ?? .earliest) > at
            return .ended(isLater && cause.driftClass != .unexplained ? cause : teller.cause, by: teller.end)
        }
        return .open(cause.driftClass == .unexplained || isRevocationDisputed ? explanation() : cause)
    }

    /// Which purchase of the product it is about, as far as that is known; always one of the device's own app.
    ///
    /// A purchase of the other environment is named only where that is the cause: otherwise this environment would show
    /// it, and its store would be asked about a purchase that it cannot know.
    package func subject(of cause: DriftCause) -> String? {
        if let newest = purchases(in: history).newest
            ?? (cause == .heldElsewhere ? purchases(in: elsewhere).newest : nil)
        {
            return newest.originalTransactionID
        }
        return disputed.first(where: isAbout)?.originalTransactionID
    }

    private func purchases(in history: CustomerHistory) -> [TransactionFact] {
        history.events.flatMap(\.fact.transactions).filter {
            $0.productID == claim.productID && claim.app?.isOfApp($0) ?? true
        }
    }

    private func isAbout(_ disputed: Disputed) -> Bool {
        disputed.products.contains(claim.productID)
            && claim.app.map { $0.bundleID.utf8.elementsEqual(disputed.bundleID.utf8) } ?? true
    }

    /// Whether an event makes the claim true of its own instant: by all that is known now, or by what had happened then.
    ///
    /// A change of owners says nothing of the time before it, so the claim is read at that instant too.
    private func isTrue(after event: HistoryEvent, _ teller: DriftTeller) -> Bool {
        let facts = history.facts()
        if facts.agrees(with: claim, at: at) { return true }
        if teller == .ownership, facts.agrees(with: claim, at: max(at, event.recordedAt)) { return true }
        return history.facts(asOf: at).agrees(with: claim, at: at)
            && !history.facts(asOf: at, before: event.position).agrees(with: claim, at: at)
    }

    private func explanation() -> DriftCause {
        // A device that knows less needs no other reason.
        guard claim.state != .expired else { return .notHeardOf }
        let facts = history.facts()
        if facts.answer(to: claim, at: at)?.reading.reason == .ownedByAnother { return .heldByAnother }
        if disputed.contains(where: isAbout) { return .inConflict }
        if elsewhere.facts().agrees(with: claim, at: at) { return .heldElsewhere }
        // What the store may have taken back was true before, too.
        if isRevocationDisputed { return .disputed }
        if wasTrue { return .trueBefore }
        // A purchase of the product that only the other environment knows is what the device means, whatever it says of it.
        return purchases(in: history).isEmpty && !purchases(in: elsewhere).isEmpty ? .heldElsewhere : .none
    }

    /// Whether what the ledger says of the claim's instant rests on a revocation that the store may have taken back.
    private var isRevocationDisputed: Bool {
        history.facts().answer(to: claim, at: at)?.reading.needsStoreCheck ?? false
    }

    /// Whether some part of what is known, as the ledger or the device could have known it once, gives the claim at its
    /// instant or at an earlier one.
    private var wasTrue: Bool {
        let limit = max(2, min(Self.earlierLimit, Self.foldedLimit / max(1, history.events.count)))
        let positions = history.events.map(\.position)
        for position in positions.suffix(limit).reversed() {
            let believed = Set(positions.prefix { $0 <= position })
            if history.facts(believing: believed).everAgreed(with: claim, by: at) { return true }
        }
        let dates = history.events.flatMap { event in
            [event.occurredAt] + event.fact.transactions.flatMap { [$0.purchaseDate, $0.signedDate] }
        }
        let instants = Set(dates.compactMap(\.self).filter { $0 < at } + [at]).sorted()
        return instants.suffix(limit).reversed().contains { instant in
            history.facts(asOf: instant).everAgreed(with: claim, by: at)
        }
    }
}

/// The way in which the ledger learned something that claims are compared with.
package enum DriftTeller: Hashable, Sendable {
    case notification
    case storeNotification
    case storeStatements
    case device
    case ownership

    /// `nil` for what changes nothing that is compared.
    package init?(_ event: HistoryEvent) {
        switch (event.fact, event.statementSource) {
        case (.notification, .notification), (.statements, .notification): self = .notification
        case (.notification, .serverAPI): self = .storeNotification
        case (.statements, .serverAPI): self = .storeStatements
        case (.notification, .device), (.statements, .device): self = .device
        case (.link, _), (.claim, _), (.transfer, _), (.transferUndo, _): self = .ownership
        case (.catalog, _), (.conflict, _), (.grant, _), (.grantRevocation, _), (.drift, _), (.forgetting, _),
            (.access, _), (.storeRequest, _), (.web, _):
            return nil
        }
    }

    var cause: DriftCause {
        switch self {
        case .notification: .notifiedLater
        case .storeNotification, .storeStatements: .toldWhenAsked
        case .device: .postedLater
        case .ownership: .ownedLater
        }
    }

    var end: DriftEnd {
        switch self {
        case .notification: .notification
        case .storeNotification, .storeStatements: .storeAnswer
        case .device: .device
        case .ownership: .ownership
        }
    }

    /// Whether its date is that of what happened; the store signs anew what it is asked about.
    fileprivate var speaksOfItself: Bool {
        switch self {
        case .notification, .storeNotification: true
        case .storeStatements, .device, .ownership: false
        }
    }
}

extension [TransactionFact] {
    fileprivate var newest: TransactionFact? {
        self.max { $0.isBought(before: $1) }
    }
}
