/// What the simulated store remembers of everything it signed, for those who ask its API.
struct StoreArchive: Sendable {
    /// A notification as it was sent, whether or not it arrived.
    struct Sent: Sendable {
        let instant: Int64
        let payload: String
        let type: String
        let subtype: String?
        /// The transaction and the original it is about; none for notices about the app.
        let transactionIDs: Set<String>
        /// The attempts to deliver it.
        var course: DeliveryCourse
        /// Whether it was tried to deliver it, and no attempt succeeded yet.
        var hasFailed: Bool { !course.attempts.isEmpty && !course.isDelivered }
    }

    /// The newest statement of one transaction.
    struct Statement: Sendable {
        let signedDate: Int64
        let jws: String
        let payload: [String: PayloadValue]
    }

    /// One original transaction.
    struct Original: Sendable {
        /// The newest statement of each of its transactions.
        var transactions: [String: Statement] = [:]
        var renewal: Statement?
        /// Whether it is a subscription.
        var isSubscription = false
        /// The Apple account, where its statements name it.
        var appTransactionID: String?
    }

    private(set) var sent: [Sent] = []
    /// The place in `sent` of each payload.
    private var places: [String: Int] = [:]
    private(set) var originals: [String: Original] = [:]
    private var originalOfTransaction: [String: String] = [:]

    /// Keeps a notification with the statements that were signed for it; without a payload the statements alone.
    mutating func keep(
        _ notification: StoreNotification, at instant: Int64, payload: String?, transaction: String?, renewal: String?
    ) {
        var ids: Set<String> = []
        if let fields = notification.transaction, let jws = transaction, let id = text(fields["transactionId"]),
            let original = text(fields["originalTransactionId"])
        {
            ids = [id, original]
            originalOfTransaction[id] = original
            originalOfTransaction[original] = original
            var known = originals[original, default: Original()]
            if known.transactions[id].map({ $0.signedDate <= notification.signedDate }) ?? true {
                known.transactions[id] = Statement(signedDate: notification.signedDate, jws: jws, payload: fields)
            }
            known.isSubscription =
                text(fields["type"]) == SimulatedProductKind.autoRenewable.rawValue || known.isSubscription
            known.appTransactionID = text(fields["appTransactionId"]) ?? known.appTransactionID
            originals[original] = known
        }
        if let fields = notification.renewal, let jws = renewal, let original = text(fields["originalTransactionId"]) {
            var known = originals[original, default: Original()]
            if known.renewal.map({ $0.signedDate <= notification.signedDate }) ?? true {
                known.renewal = Statement(signedDate: notification.signedDate, jws: jws, payload: fields)
            }
            originals[original] = known
        }
        guard let payload else { return }
        places[payload] = sent.count
        sent.append(
            Sent(
                instant: instant, payload: payload, type: notification.type, subtype: notification.subtype,
                transactionIDs: ids, course: DeliveryCourse(notification.environment)))
    }

    /// The attempts to deliver a payload; `nil` where it was never sent.
    func course(of payload: String) -> DeliveryCourse? { places[payload].map { sent[$0].course } }

    /// Notes what came of an attempt to deliver a payload.
    mutating func note(_ answer: DeliveryAnswer, of payload: String, at instant: Int64) {
        guard let place = places[payload] else { return }
        sent[place].course.note(answer, at: instant)
    }

    /// The originals of the customer whom an id names: of one Apple account, where statements tell it.
    func originals(ofCustomer id: String) -> [String: Original] {
        if let original = originalOfTransaction[id] {
            guard let account = originals[original]?.appTransactionID else {
                return originals.filter { $0.key == original }
            }
            return originals.filter { $0.key == original || $0.value.appTransactionID == account }
        }
        return originals.filter { $0.value.appTransactionID == id }
    }

    /// One transaction, by its own id.
    func transaction(_ id: String) -> Statement? {
        originalOfTransaction[id].flatMap { originals[$0]?.transactions[id] }
    }

    private func text(_ value: PayloadValue?) -> String? {
        if case .string(let text) = value { text } else { nil }
    }
}

extension StoreArchive.Original {
    /// The latest purchase, as it was stated last.
    var last: StoreArchive.Statement? {
        purchases.max { ($0.purchaseDate, $0.signedDate) < ($1.purchaseDate, $1.signedDate) }
    }

    /// The newest statement of each purchase: the store may know one by several ids.
    var purchases: [StoreArchive.Statement] {
        var newest: [String: StoreArchive.Statement] = [:]
        for statement in transactions.values {
            let purchase = "\(statement.purchaseDate) \(statement.payload["productId"].map { "\($0)" } ?? "")"
            if let known = newest[purchase], known.signedDate > statement.signedDate { continue }
            newest[purchase] = statement
        }
        return Array(newest.values)
    }

    /// As the store counts them: 1 active, 2 expired, 3 retry, 4 grace, 5 revoked; nil for one-time purchases.
    func status(at now: Int64) -> Int64? {
        guard isSubscription, let last else { return nil }
        if last.payload["revocationDate"] != nil { return 5 }
        guard let expires = last.expiresDate, expires <= now else { return 1 }
        // What was said of an earlier period says nothing of this one.
        guard let renewal, renewal.signedDate >= last.purchaseDate else { return 2 }
        if let grace = renewal.milliseconds("gracePeriodExpiresDate"), grace > now { return 4 }
        let hasGrace = renewal.payload["gracePeriodExpiresDate"] != nil
        let isRetried = renewal.payload["isInBillingRetryPeriod"] == .boolean(true) || hasGrace
        return isRetried && now < expires + 60 * Span.day ? 3 : 2
    }
}

extension StoreArchive.Statement {
    var purchaseDate: Int64 { milliseconds("purchaseDate") ?? .min }
    var expiresDate: Int64? { milliseconds("expiresDate") }

    func milliseconds(_ name: String) -> Int64? {
        switch payload[name] {
        case .integer(let number): number
        case .fraction(let number): Int64(number)
        default: nil
        }
    }
}
