import EntitlementCore
import Ledger
import SeededRandom
import StoreSimulator

/// One subscriber's life, made up from its number: the same number always gives the same life.
///
/// A subscription that renews month after month; one in eight meets a billing problem with a grace period, one in
/// twenty is refunded at the end, and half of the others cancel and expire.
struct SubscriberLife: Sendable {
    private static let month: Int64 = 30 * Timestamp.millisecondsPerDay
    /// When the last periods begin: the lives end about now.
    private static let lastMonth: Int64 = 1_790_000_000_000

    let number: Int
    /// The account token, and so the customer's id.
    let token: String
    /// How many months are paid.
    private let periods: Int
    private let bits: UInt64
    private let start: Int64

    /// - Parameter periods: how many months are paid; drawn from the range by the number.
    init(_ number: Int, periods: ClosedRange<Int>) {
        var random = SplitMix64(seed: UInt64(number) &* 0x9E37_79B9_7F4A_7C15)
        self.number = number
        token = random.uuid()
        bits = random.next()
        self.periods = periods.lowerBound + Int(bits >> 32) % periods.count
        start = Self.lastMonth + Int64(bits % 2_592_000) * 1000 - Int64(self.periods) * Self.month
    }

    /// The period before whose renewal a charge fails.
    private var failsAt: Int? { bits & 7 == 0 && periods > 1 ? 1 + Int(bits >> 8 & 0xFF) % (periods - 1) : nil }
    private var isRefunded: Bool { (bits >> 16) % 20 == 0 }
    private var expires: Bool { !isRefunded && bits >> 24 & 1 == 0 }

    /// How many notifications tell it.
    var count: Int { periods + (failsAt == nil ? 0 : 1) + (isRefunded ? 1 : expires ? 2 : 0) }

    /// A number as wide as the store's own.
    private var original: String { Self.digits(2_000_000_000_000_000 + number * 1000) }

    private static func digits(_ number: Int) -> String { String(number) }

    /// The notification of that step, with somebody else's evidence: as many bytes as its own would be.
    func draft(_ step: Int, evidence: JWSParts) -> EventDraft {
        let event = event(step)
        let begin = start + Int64(event.period) * Self.month
        let signed = Timestamp(milliseconds: event.signed(begin: begin, month: Self.month))
        let uuid = uuid(step)
        var identities = IdentityIndices()
        let transaction = TransactionFact(
            payloadHash: digest(step, 1), signedDate: signed,
            transactionID: Self.digits(2_000_000_000_000_000 + number * 1000 + event.period),
            originalTransactionID: original,
            webOrderLineItemID: Self.digits(3_000_000_000_000_000 + number * 1000 + event.period),
            productID: StoreWorld.ProductID.proMonthly, bundleID: Self.bundleID, kind: .known(.autoRenewable),
            purchaseDate: Timestamp(milliseconds: begin), expiresDate: Timestamp(milliseconds: begin + Self.month),
            revocation: event.kind == .refund
                ? Revocation(date: signed, reason: 1, kind: .known(.refundFull), percentage: 100_000) : nil,
            reason: .known(event.period == 0 ? .purchase : .renewal), ownership: .known(.purchased),
            accountToken: identities.next(), appTransaction: identities.next())
        let hasFailed = event.kind == .fail
        let renewal = RenewalFact(
            payloadHash: digest(step, 2), signedDate: signed, originalTransactionID: original,
            autoRenewProductID: StoreWorld.ProductID.proMonthly,
            autoRenews: event.kind != .cancel && event.kind != .expire, isInBillingRetry: hasFailed,
            graceEnd: hasFailed ? Timestamp(milliseconds: begin + Self.month + 16 * Timestamp.millisecondsPerDay) : nil,
            expirationIntent: event.kind == .expire ? 1 : nil)
        let hash = digest(step, 0)
        let fact = NotificationFact(
            type: event.kind.type, subtype: event.kind.subtype, uuid: uuid, signedDate: signed, payloadHash: hash,
            bundleID: Self.bundleID, transaction: transaction, renewal: renewal, remarks: [])
        return EventDraft(
            environment: .production, source: .notification, type: event.kind.label, occurredAt: signed,
            fact: .notification(fact), identities: [token, "apple:7" + original.dropFirst()],
            deduplication: LedgerFact.notification(fact).deduplication(in: .production),
            evidence: .verified([evidence]))
    }

    private static let bundleID = StoreWorld.standard.bundleID

    // MARK: - Steps

    private enum Kind {
        case subscribe, renew, fail, cancel, expire, refund

        var type: String {
            switch self {
            case .subscribe: "SUBSCRIBED"
            case .renew: "DID_RENEW"
            case .fail: "DID_FAIL_TO_RENEW"
            case .cancel: "DID_CHANGE_RENEWAL_STATUS"
            case .expire: "EXPIRED"
            case .refund: "REFUND"
            }
        }

        var subtype: String? {
            switch self {
            case .subscribe: "INITIAL_BUY"
            case .fail: "GRACE_PERIOD"
            case .cancel: "AUTO_RENEW_DISABLED"
            case .expire: "VOLUNTARY"
            case .renew, .refund: nil
            }
        }

        var label: String {
            switch self {
            case .subscribe: "subscribed"
            case .renew: "renewed"
            case .fail: "grace_period_started"
            case .cancel: "auto_renew_disabled"
            case .expire: "expired"
            case .refund: "refunded"
            }
        }
    }

    private struct Event {
        let kind: Kind
        let period: Int

        /// When the store signs it, by the beginning of the period it is about.
        func signed(begin: Int64, month: Int64) -> Int64 {
            switch kind {
            case .subscribe, .renew: begin + 1000
            case .cancel: begin + month / 2
            case .refund: begin + month / 3
            case .fail, .expire: begin + month + 1000
            }
        }
    }

    private func event(_ step: Int) -> Event {
        var step = step
        if let failsAt {
            if step == failsAt { return Event(kind: .fail, period: failsAt - 1) }
            if step > failsAt { step -= 1 }
        }
        if step == 0 { return Event(kind: .subscribe, period: 0) }
        if step < periods { return Event(kind: .renew, period: step) }
        if step > periods { return Event(kind: .expire, period: periods - 1) }
        return Event(kind: isRefunded ? .refund : .cancel, period: periods - 1)
    }

    // MARK: - Ids

    private func words(_ step: Int, _ part: Int) -> SplitMix64 {
        SplitMix64(seed: UInt64(number) &* 0xD6E8_FEB8_6659_FD93 &+ UInt64(step * 4 + part + 1))
    }

    private func uuid(_ step: Int) -> String {
        var random = words(step, 3)
        return random.uuid()
    }

    /// What a hash would be: 32 bytes that no other statement has.
    private func digest(_ step: Int, _ part: Int) -> Digest {
        var random = words(step, part)
        var bytes = [UInt8](repeating: 0, count: 32)
        bytes.withUnsafeMutableBytes { buffer in
            for index in 0..<4 { buffer.storeBytes(of: random.next(), toByteOffset: index * 8, as: UInt64.self) }
        }
        return Digest(bytes) ?? .zero
    }
}

/// Numbers a draft's identities in their order.
private struct IdentityIndices {
    private var count: Int64 = 0

    mutating func next() -> IdentityRef {
        defer { count += 1 }
        return IdentityRef(count)
    }
}
