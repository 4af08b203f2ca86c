import AppStorePayloads
import EntitlementAPI
import EntitlementCore
import Foundation

/// The facts of the server and of the device's own store, merged, to be read at any instant by the shared fold.
///
/// Where it was proven to the server whose device this is, its answer contains the facts that it folds, and what only
/// the device knows is joined to them. Otherwise the answer is used as it is, and the device's facts only for what the
/// answer does not mention.
struct DeviceFold: Sendable {
    let facts: CustomerFacts
    /// What the device's store has signed of the originals that ``answer`` tells of by itself, and who is the customer's by that.
    private let quoted: CustomerFacts
    /// What the server answered, where its facts cannot be joined.
    private let answer: ServerAnswer?
    /// By original transaction, the periods of which the store has told a refund that the answer does not know: from when until
    /// when they were paid for.
    private let refunded: [String: [Range<Timestamp>]]
    /// When each original transaction was last confirmed by server or store.
    let confirmedAt: [String: Timestamp]
    /// When the server last confirmed anything.
    let serverConfirmedAt: Timestamp?
    /// Subscriptions that give access beyond their end for now.
    private let extensions: [PeriodExtension]
    /// Originals that the server knows and does not give to the customer: shown only while the store confirms them.
    private let onlyWhileConfirmed: Set<String>
    /// What limits what is shown; `nil`: nothing.
    private let signed: SignedWord?

    /// The most that is believed of how long a server says that an end is put off, in seconds.
    private static let longestLeeway: Int64 = 31 * 86_400

    /// Whether the server's facts are all there is about the customer.
    private let hasAllFacts: Bool

    /// - Parameter leeway: ``EntitlementConfiguration/renewalLeeway``, in milliseconds.
    init(_ ledger: DeviceLedger, leeway: Int64 = 0) {
        let memory = ledger.memory
        var people = Numbers(memory?.answer.identities ?? [:])
        let me = memory?.facts?.customer ?? people.number(of: ledger.customerID?.value ?? "")
        // What was just bought with it is theirs before the server has seen it.
        for token in ledger.accountTokens { people.add(token.uuidString.lowercased(), me) }
        var facts =
            memory?.facts ?? CustomerFacts(customer: me, originals: [:], catalog: ledger.catalog)
        // The newest catalog there is, whomever it was answered to; what the app was built with where the server has
        // none.
        facts.catalog = ledger.completed(ledger.catalog)
        var confirmedAt: [String: Timestamp] = [:]
        if let instant = memory?.confirmedAt {
            for original in facts.originals.keys { confirmedAt[original] = instant }
        }
        let answer = memory.flatMap { $0.facts == nil ? $0.answer : nil }
        hasAllFacts = memory.map { $0.isProven && $0.facts != nil } ?? false
        let told = answer?.originalTransactionIDs ?? []
        var refunds: Set<String> = []
        var onlyWhileConfirmed: Set<String> = []

        var quoted = CustomerFacts(customer: me, originals: [:], catalog: facts.catalog)
        let groups = Dictionary(grouping: ledger.book.transactions.values.filter(ledger.isOurs)) {
            $0.payload.originalTransactionID
        }
        for (original, transactions) in groups {
            // The server's view of an original transaction rests on more statements than the device has, until there is
            // news.
            if told.contains(original), let memory, transactions.allSatisfy(memory.hasAnswered),
                (ledger.book.renewals[original] ?? []).allSatisfy(memory.hasAnswered)
            {
                // The store's own word still counts: that it lists it, and how it goes on at its end.
                confirmedAt[original] = max(
                    memory.confirmedAt ?? .earliest, ledger.book.confirmed[original] ?? .earliest)
                for transaction in transactions { quoted.quote(transaction) }
                for renewal in ledger.book.renewals[original] ?? [] {
                    quoted.originals[original, default: OriginalState()].join(
                        renewal.fact, source: .device, position: 0)
                }
                continue
            }
            switch ledger.standing(of: original, transactions) {
            case .counts: break
            case .countsWhileConfirmed: onlyWhileConfirmed.insert(original)
            case .isOfOthers: continue
            }
            for transaction in transactions
            where transaction.payload.revocation != nil && memory?.hasAnswered(transaction) != true {
                refunds.insert(transaction.payload.transactionID)
            }
            let transactions = transactions.sorted { $0.payload.transactionID < $1.payload.transactionID }
            for transaction in transactions {
                facts.join(
                    transaction, memory: memory, ownApp: ledger.appCustomer,
                    isOfAnotherAccount: ledger.isOfAnotherAccount(transaction),
                    isBoughtByCustomer: ledger.isBoughtByCustomer(transaction), people: &people)
            }
            for renewal in ledger.book.renewals[original] ?? [] {
                facts.originals[original, default: OriginalState()].join(renewal.fact, source: .device, position: 0)
            }
            if let seen = ledger.book.confirmed[original] {
                confirmedAt[original] = max(confirmedAt[original] ?? .earliest, seen)
            }
        }
        self.facts = facts
        self.answer = answer
        refunded = facts.originals.mapValues { $0.periods(of: refunds, facts.catalog) }
        signed = SignedWord(ledger, leeway: leeway)
        self.onlyWhileConfirmed = onlyWhileConfirmed
        self.confirmedAt = confirmedAt
        serverConfirmedAt = memory?.confirmedAt
        self.quoted = quoted
        // Beyond an end that the answer tells as well, and of which it knows no more.
        let serverLeeway = min(max(0, facts.catalog.policy.leewaySeconds), Self.longestLeeway) * 1000
        func prolonged(_ facts: CustomerFacts) -> [PeriodExtension] {
            PeriodExtension.all(
                of: facts, current: ledger.book.current, serverConfirmedAt: memory?.confirmedAt, leeway: leeway)
        }
        extensions =
            prolonged(facts)
            + prolonged(quoted).filter { period in
                let ends = period.begins...period.begins.adding(milliseconds: serverLeeway)
                return answer?.lets(period.originalTransactionID, runOutWithin: ends) ?? false
            }
    }

    /// The originals that were bought on the web and have a period of a product.
    func webOriginals(of productID: String) -> Set<String> {
        let told = (answer?.timelines ?? []).flatMap(\.intervals).filter {
            $0.productID == productID && $0.source == EntitlementOrigin.webCheckout.rawValue
        }
        let own = facts.originals.filter { _, state in
            state.web != nil
                && state.chains(facts.catalog).contains { $0.periods.contains { $0.fact.productID == productID } }
        }
        return Set(told.compactMap(\.originalTransactionID)).union(own.keys)
    }

    /// Whether the server tells anything of an original; `nil` where it does not tell of all.
    func knowsOriginal(_ id: String?) -> Bool? {
        guard hasAllFacts, let id else { return nil }
        return facts.originals[id] != nil
    }

    /// The subscriptions that give access beyond their end for now, of those that somebody has confirmed of late.
    func prolonged(at now: Timestamp, bound: Int64?) -> [PeriodExtension] {
        extensions.filter { isConfirmed(confirmedAt[$0.originalTransactionID], at: now, bound: bound) }
    }

    private func isConfirmed(_ instant: Timestamp?, at now: Timestamp, bound: Int64?) -> Bool {
        bound.map { now <= (instant ?? .earliest).adding(milliseconds: $0) } ?? true
    }

    /// The facts without what may be another person's: the server does not give it to the customer, and the store has not
    /// confirmed it for longer than `bound`, in milliseconds.
    func facts(at now: Timestamp, bound: Int64?) -> CustomerFacts {
        var facts = facts
        for original in onlyWhileConfirmed where !isConfirmed(confirmedAt[original], at: now, bound: bound) {
            facts.originals[original] = nil
        }
        return facts
    }

    /// The same with what the device's store has signed of what the answer tells by itself.
    func known(at now: Timestamp, bound: Int64?) -> CustomerFacts {
        var facts = facts(at: now, bound: bound)
        facts.originals.merge(quoted.originals) { own, _ in own }
        return facts
    }

    /// The same facts without what nobody has confirmed for longer than `bound`, in milliseconds.
    private func confirmed(at now: Timestamp, bound: Int64) -> CustomerFacts {
        var facts = facts
        facts.originals = facts.originals.filter { isConfirmed(confirmedAt[$0.key], at: now, bound: bound) }
        if !isConfirmed(serverConfirmedAt, at: now, bound: bound) { facts.grants = [] }
        return facts
    }

    /// What the customer holds, and held, at an instant.
    ///
    /// - Parameter bound: how long what nobody confirms still gives access, in milliseconds; `nil`: for ever.
    func entitlements(at now: Timestamp, bound: Int64?) -> [Entitlement] {
        let told = toldEntitlements(at: now, bound: bound)
        return signed?.limit(told, at: now, bound: bound) ?? told
    }

    private func toldEntitlements(at now: Timestamp, bound: Int64?) -> [Entitlement] {
        let (facts, prolonged) = (facts(at: now, bound: bound), prolonged(at: now, bound: bound))
        let renewing = facts.renewing(at: now, prolonged)
        func entitlement(_ answer: EntitlementAnswer, _ state: Entitlement.State? = nil) -> Entitlement {
            Entitlement(answer, facts, state: state, renewing[answer.entitlementID] ?? [])
        }
        var shown = Self.byID(facts.answers(at: now).map { entitlement($0) })
        if let bound {
            let confirmed = Self.byID(confirmed(at: now, bound: bound).answers(at: now).map { entitlement($0) })
            for (id, entitlement) in shown where entitlement.givesAccess {
                shown[id] = confirmed[id].flatMap { $0.givesAccess ? $0 : nil } ?? entitlement.unconfirmed
            }
        }
        for period in prolonged {
            for answer in period.answers(at: now) {
                let entitlement = entitlement(answer, period.state).goingOn(until: period.ends.date)
                shown[entitlement.id] = shown[entitlement.id].map { $0.givesAccess ? $0 : entitlement } ?? entitlement
            }
        }
        for entitlement in answer?.entitlements(at: now) ?? [] {
            // Of what was refunded since the store's word is the newer one.
            if entitlement.givesAccess, isRefunded(entitlement, at: now) { continue }
            let seen = entitlement.originalTransactionID.flatMap { confirmedAt[$0] } ?? serverConfirmedAt
            let isStated = !entitlement.givesAccess || isConfirmed(seen, at: now, bound: bound)
            let stated = isStated ? entitlement : entitlement.unconfirmed
            shown[stated.id] = shown[stated.id].map { $0.isShown(before: stated) ? $0 : stated } ?? stated
        }
        return shown.values.sorted { $0.id < $1.id }
    }

    /// Whether what the answer shows rests on a period that was refunded: it lies in that, or in the grace or retry that follows.
    private func isRefunded(_ entitlement: Entitlement, at now: Timestamp) -> Bool {
        guard let original = entitlement.originalTransactionID, let periods = refunded[original], !periods.isEmpty
        else { return false }
        let paid = answer?.lastPaid(entitlement.id, byOriginal: original, at: now) ?? now
        return periods.contains { $0.contains(paid) }
    }

    /// The next instant after `now` at which the entitlements may read otherwise by themselves.
    func nextBoundary(after now: Timestamp, bound: Int64?) -> Timestamp? {
        var instants = facts.timelines().flatMap { $0.readings.flatMap { [$0.start, $0.end] } }
        instants += extensions.flatMap { [$0.begins, $0.ends] }
        instants += (answer?.timelines ?? []).flatMap { $0.intervals.flatMap { [$0.from, $0.until ?? .endless] } }
        if let bound {
            let confirmations = Array(confirmedAt.values) + [serverConfirmedAt].compactMap(\.self)
            // It still holds at the end of the bound, and not after it.
            instants += confirmations.map { $0.adding(milliseconds: bound).adding(milliseconds: 1) }
        }
        instants += [signed?.nextBoundary(after: now, bound: bound)].compactMap(\.self)
        return instants.filter { $0 > now && $0 < .latest }.min()
    }

    private static func byID(_ entitlements: [Entitlement]) -> [String: Entitlement] {
        Dictionary(entitlements.map { ($0.id, $0) }, uniquingKeysWith: { first, _ in first })
    }
}

extension OriginalState {
    /// From when until when some of its transactions have paid.
    fileprivate func periods(of transactionIDs: Set<String>, _ catalog: Catalog) -> [Range<Timestamp>] {
        guard !transactionIDs.isEmpty else { return [] }
        return chains(catalog).flatMap(\.periods).filter { transactionIDs.contains($0.fact.transactionID) }.map {
            $0.start..<max($0.start, $0.fact.expiresDate ?? .endless)
        }
    }
}

/// Numbers for customer ids, byte for byte: the server's, and for those it did not name numbers that nobody has.
private struct Numbers {
    private var numbers: [[UInt8]: Int64] = [:]

    init(_ known: [String: Int64]) {
        for (id, number) in known { numbers[Array(id.utf8)] = number }
    }

    /// Uses a person's number for a customer id that the server did not name.
    mutating func add(_ customerID: String, _ person: IdentityRef) {
        if numbers[Array(customerID.utf8)] == nil { numbers[Array(customerID.utf8)] = person.number }
    }

    mutating func number(of customerID: String) -> IdentityRef {
        let id = Array(customerID.utf8)
        if let known = numbers[id] { return IdentityRef(known) }
        let number = -1 - Int64(numbers.count)
        numbers[id] = number
        return IdentityRef(number)
    }
}

extension CustomerFacts {
    /// Joins what the device's store signed of an original that the server has said to be the customer's.
    fileprivate mutating func quote(_ transaction: DeviceTransaction) {
        var ids = IdentityList()
        var fact = transaction.fact(&ids)
        (fact.accountToken, fact.appTransaction) = (nil, customer)
        originals[transaction.payload.originalTransactionID, default: OriginalState()]
            .join(fact, source: .device, position: 0)
    }

    /// Joins what the device's store signed.
    ///
    /// Until the server has answered about a transaction, one that bears this copy's app transaction, or no identity at
    /// all, counts as the present customer's: they used the app when it was bought. So does one that was bought here
    /// with another Apple account, as long as nobody is logged in, or where the customer was as they bought it.
    fileprivate mutating func join(
        _ transaction: DeviceTransaction, memory: ServerMemory?, ownApp: CustomerID?, isOfAnotherAccount: Bool,
        isBoughtByCustomer: Bool, people: inout Numbers
    ) {
        let original = transaction.payload.originalTransactionID
        var ids = IdentityList()
        var fact = transaction.fact(&ids).replacingIdentities { people.number(of: ids.customerIDs[Int($0.number)]) }
        let answered = memory?.answered[transaction.payload.transactionID]
        let isConflict = answered?.isConflict ?? false
        let ownAppNumber = ownApp.map { people.number(of: $0.value) }
        let isBoughtHere =
            fact.accountToken == nil && fact.appTransaction != nil
            && (fact.appTransaction == ownAppNumber || isBoughtByCustomer)
        // That the Apple account is another than the app's is no news of what the customer has bought with it.
        let known: [ConflictReason] = isBoughtByCustomer ? [.notLinked, .anotherAppleAccount] : [.notLinked]
        if isOfAnotherAccount {
            fact.appTransaction = customer
        } else if isBoughtHere, answered == nil || (isConflict && isUnexplained(fact, answered, but: known)) {
            fact.appTransaction = customer
        } else if answered != nil, memory?.facts == nil {
            // Somebody else's, or the customer's by a link, and this version cannot see why.
            guard !isConflict else { return }
            (fact.accountToken, fact.appTransaction) = (nil, customer)
        }
        let isNobodys = fact.accountToken == nil && fact.appTransaction == nil && ownership.claim(of: original) == nil
        if isNobodys, !isConflict {
            ownership.apply(
                .claim(ClaimFact(originalTransactionID: original, customer: customer)), position: 0,
                recordedAt: .earliest)
        }
        originals[original, default: OriginalState()].join(fact, source: .device, position: 0)
    }
}

extension CustomerFacts {
    /// Whether nothing tells why a purchase of this copy of the app is not the customer's: nobody else is linked to it, it
    /// was handed to nobody, and the server gave no reason but those that are known, such as that nobody linked the
    /// two.
    ///
    /// It is shown then to whoever uses the app where it was bought. Somebody who logs in after buying has done nothing
    /// that ends it, and whether the two are one person only the app's own server can say.
    fileprivate func isUnexplained(
        _ fact: TransactionFact, _ answered: ServerMemory.Answered?, but known: [ConflictReason]
    ) -> Bool {
        guard answered?.reason.map({ known.map(\.rawValue).contains($0) }) ?? true else { return false }
        return ownership.currentOwner(of: fact).map { $0 == fact.appTransaction } ?? true
    }
}

extension ServerAnswer {
    /// The original transactions it tells of.
    var originalTransactionIDs: Set<String> {
        Set(timelines.flatMap { $0.intervals.compactMap(\.originalTransactionID) })
    }

    /// Whether an original gives something until an instant, and simply runs out then.
    fileprivate func lets(_ originalTransactionID: String, runOutWithin ends: ClosedRange<Timestamp>) -> Bool {
        timelines.contains { timeline in
            let last = timeline.intervals.lastIndex {
                $0.originalTransactionID == originalTransactionID && $0.givesAccess
            }
            guard let last, let until = timeline.intervals[last].until, ends.contains(until) else { return false }
            let next = timeline.intervals[(last + 1)...].first
            return next.map { $0.givesAccess || $0.state == EntitlementState.expired.rawValue } ?? true
        }
    }

    /// The last instant up to `now` that is paid for, as an entitlement reads at `now` by an original: before the grace or billing
    /// retry that it is in, else `now` itself.
    fileprivate func lastPaid(_ id: String, byOriginal original: String, at now: Timestamp) -> Timestamp {
        let past = timelines.first { $0.id == id }?.intervals.prefix { $0.from <= now } ?? []
        let unpaid = past.reversed().prefix {
            $0.originalTransactionID == original && $0.state != EntitlementState.active.rawValue
        }
        return unpaid.last?.from.adding(milliseconds: -1) ?? now
    }

    /// The entitlements as they read at an instant, by the answer itself.
    fileprivate func entitlements(at now: Timestamp) -> [Entitlement] {
        timelines.compactMap { timeline in
            let intervals = timeline.intervals
            guard let index = intervals.lastIndex(where: { $0.from <= now }) else { return nil }
            let interval = intervals[index]
            let run = intervals[index...].prefix { $0.givesAccess == interval.givesAccess }
            let before = intervals[...index].reversed().prefix { $0.givesAccess == interval.givesAccess }
            let told = entitlements.first {
                $0.id == timeline.id && $0.originalTransactionID == interval.originalTransactionID
                    && $0.productID == interval.productID
            }
            let isOver = [EntitlementState.expired, .revoked].map(\.rawValue).contains(interval.state)
            return Entitlement(
                id: timeline.id, givesAccess: interval.givesAccess,
                state: Entitlement.State(rawValue: interval.state),
                since: (before.last ?? interval).from.date, until: (run.last ?? interval).until?.date,
                productID: interval.productID, source: Entitlement.Source(rawValue: interval.source),
                ownership: told?.ownership.map { Entitlement.Ownership(rawValue: $0) },
                originalTransactionID: interval.originalTransactionID,
                willRenew: isOver ? told?.willRenew.map { _ in false } : told?.willRenew,
                offer: told?.offer)
        }
    }
}
