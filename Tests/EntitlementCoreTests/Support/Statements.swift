@testable import EntitlementCore

/// The instant `days` after the tests' beginning of time, 2026-01-01T00:00:00Z.
func day(_ days: Double) -> Timestamp {
    Timestamp(milliseconds: 1_767_225_600_000 + Int64(days * 86_400_000))
}

/// A digest that is the same for the same bytes, and practically never for others; the core only compares them.
func digest(of bytes: [UInt8]) -> Digest {
    var lanes: [UInt64] = [0xcbf2_9ce4_8422_2325, 0x9e37_79b9_7f4a_7c15, 0xbf58_476d_1ce4_e5b9, 0x94d0_49bb_1331_11eb]
    for byte in bytes {
        for lane in lanes.indices { lanes[lane] = (lanes[lane] ^ UInt64(byte)) &* 0x100_0000_01b3 &+ UInt64(lane) }
    }
    return Digest(lanes.flatMap { lane in (0..<8).map { UInt8(truncatingIfNeeded: lane >> (8 * $0)) } }) ?? .zero
}

/// One signed statement about the original transaction a test is about, and who delivered it.
enum Statement: Hashable {
    case transaction(TransactionFact, StatementSource)
    case renewal(RenewalFact, StatementSource = .notification)

    /// The same payload as a device would hand it in.
    var fromDevice: Statement {
        switch self {
        case .transaction(let fact, _): .transaction(fact, .device)
        case .renewal(let fact, _): .renewal(fact, .device)
        }
    }

    /// The same payload, changed before it was signed.
    func with(_ change: (inout TransactionFact) -> Void) -> Statement {
        guard case .transaction(var fact, let source) = self else { return self }
        change(&fact)
        return .transaction(fact.hashed(), source)
    }
}

extension TransactionFact {
    /// Gives the statement the hash its content calls for.
    func hashed() -> TransactionFact {
        var fact = self
        fact.payloadHash = .zero
        var writer = CanonicalWriter()
        var texts = StatementTexts(areWrittenOnce: false)
        writer.transaction(fact, &texts)
        fact.payloadHash = digest(of: writer.bytes)
        return fact
    }
}

extension RenewalFact {
    /// Gives the statement the hash its signed content calls for; the delivery's label is not signed with it.
    func hashed() -> RenewalFact {
        var fact = self
        fact.payloadHash = .zero
        fact.isGraceWithoutEnd = false
        var writer = CanonicalWriter()
        var texts = StatementTexts(areWrittenOnce: false)
        writer.renewal(fact, &texts)
        fact.payloadHash = digest(of: writer.bytes)
        fact.isGraceWithoutEnd = isGraceWithoutEnd
        return fact
    }
}

let alice = IdentityRef(1)
let bob = IdentityRef(2)
let carol = IdentityRef(3)
let dave = IdentityRef(4)

/// A period of a subscription, signed when it was bought unless the test says otherwise.
///
/// Days are days; the line item defaults to the transaction id.
func subscription(
    _ id: String, _ product: String = "pro", from bought: Double, to expiry: Double, signed: Double? = nil,
    _ reason: TransactionReason? = .purchase, revoked: Double? = nil, _ kind: RevocationKind? = .refundFull,
    upgraded: Bool = false, lineItem: String? = nil, of owner: IdentityRef? = alice
) -> Statement {
    let fact = TransactionFact(
        payloadHash: .zero, signedDate: day(signed ?? bought), transactionID: id, originalTransactionID: "1000",
        webOrderLineItemID: lineItem ?? "item-\(id)", productID: product, bundleID: "com.example",
        kind: .known(.autoRenewable), purchaseDate: day(bought), expiresDate: day(expiry),
        revocation: revoked.map { Revocation(date: day($0), kind: kind.map { .known($0) }) }, isUpgraded: upgraded,
        reason: reason.map { .known($0) }, ownership: .known(.purchased), accountToken: owner)
    return .transaction(fact.hashed(), .notification)
}

/// A one-time purchase of any kind.
func oneTime(
    _ id: String, _ product: String, _ kind: ProductKind?, at bought: Double, signed: Double? = nil,
    revoked: Double? = nil, of owner: IdentityRef? = alice
) -> Statement {
    let fact = TransactionFact(
        payloadHash: .zero, signedDate: day(signed ?? bought), transactionID: id, originalTransactionID: "1000",
        productID: product, bundleID: "com.example", kind: kind.map { .known($0) }, purchaseDate: day(bought),
        revocation: revoked.map { Revocation(date: day($0), kind: .known(.refundFull)) },
        reason: .known(.purchase), ownership: .known(.purchased), accountToken: owner)
    return .transaction(fact.hashed(), .notification)
}

/// What one renewal information says; nothing about grace or retry unless the test says so.
func renewalInfo(
    signed: Double?, graceEnd: Double? = nil, retry: Bool = false, renews: Bool? = nil, labelledGrace: Bool = false,
    intent: Int64? = nil, as product: String? = nil, priceIncrease: Int64? = nil
) -> Statement {
    .renewal(
        RenewalFact(
            payloadHash: .zero, signedDate: signed.map { day($0) }, originalTransactionID: "1000",
            autoRenewProductID: product, autoRenews: renews, isInBillingRetry: retry,
            graceEnd: graceEnd.map { day($0) }, expirationIntent: intent, priceIncreaseStatus: priceIncrease,
            isGraceWithoutEnd: labelledGrace
        ).hashed())
}

extension OriginalState {
    /// Joins statements in the order given, at positions 1, 2, 3…, unless others are given.
    init(_ statements: [Statement], positions: [Int64]? = nil) {
        self.init()
        for (index, statement) in statements.enumerated() {
            join(statement, position: positions?[index] ?? Int64(index + 1))
        }
    }

    mutating func join(_ statement: Statement, position: Int64) {
        switch statement {
        case .transaction(let fact, let source): join(fact, source: source, position: position)
        case .renewal(let fact, let source): join(fact, source: source, position: position)
        }
    }
}

/// Products whose names say what they give.
let products = [
    CatalogProduct(productID: "basic", entitlements: ["basic"]),
    CatalogProduct(productID: "pro", entitlements: ["premium"]),
    CatalogProduct(productID: "pro.yearly", entitlements: ["premium"]),
    CatalogProduct(productID: "pro.max", entitlements: ["max", "premium"]),
    CatalogProduct(productID: "lifetime", entitlements: ["premium"]),
    CatalogProduct(
        productID: "season", entitlements: ["premium"], duration: CalendarDuration(iso8601: "P90D")),
    CatalogProduct(productID: "coins", entitlements: ["premium"]),
]

/// What the log says about one customer, and how it reads.
struct Given {
    var originals: [String: [Statement]] = [:]
    var grants: [GrantState] = []
    var ownership = OwnershipMap()
    var policy = AccessPolicy()
    var customer = alice

    init(_ statements: Statement..., policy: AccessPolicy = AccessPolicy()) {
        originals = ["1000": statements]
        self.policy = policy
    }

    /// Adds another original transaction, of which the statements are taken to be.
    func and(_ originalID: String, _ statements: Statement...) -> Given {
        var given = self
        given.originals[originalID] = statements.map { $0.with { $0.originalTransactionID = originalID } }.map {
            guard case .renewal(var fact, let source) = $0 else { return $0 }
            fact.originalTransactionID = originalID
            return .renewal(fact.hashed(), source)
        }
        return given
    }

    func with(_ change: (inout Given) -> Void) -> Given {
        var given = self
        change(&given)
        return given
    }

    var facts: CustomerFacts {
        CustomerFacts(
            customer: customer, originals: originals.mapValues { OriginalState($0) }, grants: grants,
            ownership: ownership, catalog: Catalog(products: products, policy: policy))
    }

    /// The intervals of one entitlement, one text each: `0..30 active pro`.
    func timeline(_ entitlementID: String = "premium") -> [String] {
        intervals(entitlementID).map { "\(span($0)) \($0.state.rawValue) \($0.productID ?? "-")" }
    }

    /// The same with the source in place of the product.
    func origins(_ entitlementID: String = "premium") -> [String] {
        intervals(entitlementID).map { "\(span($0)) \($0.state.rawValue) \($0.originalTransactionID ?? "grant")" }
    }

    /// The readings of one entitlement with their reasons: `0..30 active paid_period`.
    func reasons(_ entitlementID: String = "premium") -> [String] {
        let timeline = facts.timelines().first { $0.entitlementID == entitlementID }
        return (timeline?.readings ?? []).map { "\(span($0)) \($0.state.rawValue) \($0.reason.rawValue)" }
    }

    func answer(at instant: Double, _ entitlementID: String = "premium") -> EntitlementAnswer? {
        facts.answers(at: day(instant)).first { $0.entitlementID == entitlementID }
    }

    private func intervals(_ entitlementID: String) -> [Reading] {
        facts.timelines().first { $0.entitlementID == entitlementID }?.intervals ?? []
    }
}

private func span(_ reading: Reading) -> String {
    "\(label(reading.start))..\(reading.end == .endless ? "" : label(reading.end))"
}

/// A day as the tests write it: `30`, `30.5`; anything finer as its timestamp.
func label(_ instant: Timestamp) -> String {
    let halfDays = Double(instant.milliseconds - day(0).milliseconds) / 43_200_000
    guard halfDays == halfDays.rounded(), abs(halfDays) < 1_000_000 else { return instant.description }
    return halfDays.truncatingRemainder(dividingBy: 2) == 0 ? "\(Int(halfDays / 2))" : "\(halfDays / 2)"
}

extension OwnershipMap {
    /// Applies facts at positions 101, 102, 103…, recorded on the days given.
    init(_ facts: (LedgerFact, recorded: Double)...) {
        self.init()
        for (index, item) in facts.enumerated() {
            apply(item.0, position: Int64(101 + index), recordedAt: day(item.recorded))
        }
    }
}

func link(_ identity: IdentityRef, to customer: IdentityRef) -> LedgerFact {
    .link(LinkFact(identity: identity, customer: customer))
}

func claim(by customer: IdentityRef, of originalID: String = "1000") -> LedgerFact {
    .claim(ClaimFact(originalTransactionID: originalID, customer: customer))
}

func transfer(to customer: IdentityRef, of originalID: String = "1000") -> LedgerFact {
    .transfer(TransferFact(originalTransactionID: originalID, customer: customer))
}

func grant(
    _ id: String = "g1", _ entitlementID: String = "premium", recorded: Double, until: Double? = nil,
    revoked: Double? = nil, to customer: IdentityRef = alice
) -> GrantState {
    let fact = GrantFact(
        grantID: id, customer: customer, entitlementID: entitlementID, until: until.map { day($0) }, reason: "goodwill")
    var state = GrantState(fact: fact, position: 201, recordedAt: day(recorded))
    state.revokedAt = revoked.map { day($0) }
    state.revokedPosition = revoked.map { _ in 202 }
    return state
}
