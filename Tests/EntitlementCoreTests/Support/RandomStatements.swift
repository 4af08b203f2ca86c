import SeededRandom

@testable import EntitlementCore

/// Random statements that collide on purpose: few ids, line items, products and dates, so that ties, re-spellings,
/// overlaps and gaps are common.
extension SplitMix64 {
    /// True in one of `count` draws.
    mutating func once(in count: Int) -> Bool { Int.random(in: 0..<count, using: &self) == 0 }

    mutating func maybe<Value>(_ oneIn: Int, _ value: (inout SplitMix64) -> Value) -> Value? {
        once(in: oneIn) ? value(&self) : nil
    }

    mutating func days(_ range: ClosedRange<Int>) -> Double { Double(Int.random(in: range, using: &self)) * 5 }

    /// Days, and now and then the ends of time.
    mutating func instant(_ range: ClosedRange<Int>) -> Timestamp {
        once(in: 150) ? pick([.earliest, .latest, day(0)]) : day(days(range))
    }

    mutating func identity() -> IdentityRef? { maybe(2) { IdentityRef(Int64.random(in: 1...4, using: &$0)) } }

    mutating func transaction(of originalID: String) -> TransactionFact {
        let number = Int.random(in: 0..<6, using: &self)
        let bought = once(in: 4) ? instant(0...20) : day(Double(number) * 30)
        let kind: Known<ProductKind>? =
            once(in: 12)
            ? pick([nil, .unknown("Rental"), .known(.nonRenewing), .known(.nonConsumable), .known(.consumable)])
            : .known(.autoRenewable)
        let product = once(in: 3) ? pick(["pro", "pro.yearly", "pro.max", "basic", "season", "lifetime"]) : "pro"
        var fact = TransactionFact(
            payloadHash: .zero, signedDate: maybe(8) { _ in day(0) } == nil ? instant(0...40) : nil,
            transactionID: "\(originalID)-\(number)", originalTransactionID: originalID,
            webOrderLineItemID: once(in: 5) ? pick([nil, "", "item-0", "item-1"]) : "item-\(number)",
            productID: product, bundleID: "com.example", kind: kind, purchaseDate: bought,
            expiresDate: once(in: 15) ? nil : once(in: 4) ? instant(0...40) : day(Double(number + 1) * 30),
            isUpgraded: once(in: 8), reason: number == 0 ? .known(.purchase) : .known(.renewal),
            ownership: maybe(2) { $0.pick([.known(.purchased), .known(.familyShared)]) },
            accountToken: identity(), appTransaction: identity(), offer: maybe(8) { Offer(type: $0.pick([1, 2])) })
        if once(in: 3) { fact.reason = pick([nil, .known(.purchase), .known(.renewal), .unknown("GIFT")]) }
        fact.revocation = maybe(4) {
            Revocation(
                date: $0.instant(0...40),
                kind: $0.pick([nil, .known(.refundFull), .known(.refundProrated), .known(.familyRevoke)]))
        }
        return fact.hashed()
    }

    mutating func renewal(of originalID: String) -> RenewalFact {
        RenewalFact(
            payloadHash: .zero, signedDate: once(in: 10) ? nil : instant(0...40), originalTransactionID: originalID,
            autoRenews: pick([nil, true, false]), isInBillingRetry: once(in: 3),
            graceEnd: maybe(3) { $0.instant(0...45) }, priceIncreaseStatus: pick([nil, nil, 0, 1]),
            isGraceWithoutEnd: once(in: 10)
        ).hashed()
    }

    /// Deliveries of statements about one original transaction, some of them repeated by other sources.
    mutating func deliveries(of originalID: String) -> [Statement] {
        var statements: [Statement] = []
        for _ in 0..<Int.random(in: 1...10, using: &self) {
            var fact = transaction(of: originalID)
            // A payload without a date of its own takes that of the notification it came in.
            if fact.signedDate == nil, once(in: 2) { fact.signedDate = instant(0...40) }
            statements.append(.transaction(fact, pick([.notification, .serverAPI, .device, .device])))
            if once(in: 3) { statements.append(.transaction(fact, pick([.notification, .device]))) }
        }
        for _ in 0..<Int.random(in: 0...8, using: &self) {
            var fact = renewal(of: originalID)
            statements.append(.renewal(fact, pick([.notification, .serverAPI, .device])))
            fact.isGraceWithoutEnd = once(in: 2)
            if once(in: 3) { statements.append(.renewal(fact, pick([.notification, .device]))) }
        }
        return statements.shuffled(using: &self)
    }

    mutating func policy() -> AccessPolicy {
        AccessPolicy(
            graceGivesAccess: !once(in: 4), billingRetryGivesAccess: once(in: 4),
            leewaySeconds: pick([0, 0, 86_400, 20 * 86_400]), proratedRefund: pick([.endsAccess, .keepsAccess]))
    }

    mutating func ownership(of originals: [String]) -> OwnershipMap {
        var map = OwnershipMap()
        for position in 0..<Int.random(in: 0...5, using: &self) {
            let (one, other) = (IdentityRef(Int64.random(in: 1...4, using: &self)), pick([alice, bob]))
            let fact = pick([
                link(one, to: other), claim(by: one, of: pick(originals)), transfer(to: one, of: pick(originals)),
            ])
            map.apply(fact, position: Int64(1001 + position), recordedAt: instant(0...40))
        }
        return map
    }

    /// A customer with a few originals, grants and events of ownership.
    mutating func given() -> Given {
        var given = Given()
        let originals = ["1000", "1001", "0999"].prefix(Int.random(in: 1...3, using: &self))
        given.originals = Dictionary(uniqueKeysWithValues: originals.map { ($0, deliveries(of: $0)) })
        given.policy = policy()
        given.ownership = ownership(of: Array(originals))
        given.customer = given.ownership.customer(of: pick([alice, bob]))
        given.grants = (0..<Int.random(in: 0...2, using: &self)).map {
            grant(
                "g\($0)", recorded: days(0...40), until: maybe(2) { $0.days(0...40) },
                revoked: maybe(3) { $0.days(0...40) }, to: pick([alice, bob]))
        }
        return given
    }
}
