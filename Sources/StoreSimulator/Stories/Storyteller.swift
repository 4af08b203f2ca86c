import SeededRandom

/// Odd but legitimate habits of the store, as the percentage of statements that show them.
package struct Quirks: Sendable, Equatable {
    /// Timestamps with a fraction of a millisecond.
    package var fractionalMilliseconds = 0
    /// Inner statements without a `signedDate`.
    package var missingSignedDate = 0
    /// Fields nobody has heard of.
    package var unknownFields = 0
    /// Account tokens in upper case.
    package var upperCaseToken = 0
    /// Payments that do not say whether they are purchases or renewals, where the design makes it no difference.
    package var missingReason = 0

    /// No quirks.
    package init() {}

    /// A sprinkling of everything, for lives made up at random.
    package static let some: Quirks = {
        var quirks = Quirks()
        quirks.fractionalMilliseconds = 3
        quirks.missingSignedDate = 5
        quirks.unknownFields = 5
        quirks.upperCaseToken = 5
        quirks.missingReason = 5
        return quirks
    }()
}

/// Invents lives: each action of the simulated store is told twice, to the record and as notifications.
///
/// The two tellings are independent. The record is written from what the storyteller decides; the notifications are
/// snapshots of the store's books at the instant of signing, and nobody here reads them back.
package struct Storyteller: Sendable {
    /// The world the story takes place in.
    package let world: StoreWorld
    /// The truth.
    package internal(set) var record: Record
    /// What the store sends, in the order it was told.
    package internal(set) var notifications: [StoreNotification] = []
    /// The store's odd habits.
    package var quirks = Quirks()
    /// How long after an action its notification is signed, where the story does not say; drawn from one second up
    /// to this, in milliseconds.
    package var latency: Int64 = Span.second
    /// Whether the next statements may share their millisecond with the previous ones.
    package var allowsTies = false

    var random: SplitMix64
    var books: [SimulatedOriginalKey: StoreBook] = [:]
    private var transactionNumber: Int64
    private let idPrefix: String

    /// A storyteller with nothing told yet; equal seeds and actions give equal stories.
    package init(world: StoreWorld, seed: UInt64) {
        self.world = world
        record = Record(world: world)
        random = SplitMix64(seed: seed)
        transactionNumber = 0
        // Ids of different seeds must not meet, so that lives can be told to one ledger. Fixed width keeps the order
        // of ids the same as strings and as numbers.
        let digits = String(seed % 1_000_000)
        idPrefix = "2" + String(repeating: "0", count: 6 - digits.count) + digits
    }

    /// A new Apple account; with `hasToken` the app passes a login of its own.
    package mutating func account(
        _ environment: SimulatedStoreEnvironment = .production, hasToken: Bool = true
    ) -> StoreAccount {
        let token = hasToken ? random.uuid() : nil
        return StoreAccount(environment, appAccountToken: token, appTransactionID: newID())
    }

    /// Another login of the app, for a second person at the same Apple account.
    package mutating func token() -> String {
        random.uuid()
    }

    /// Where the present period of an original transaction ends; nil for what never ends or has no end of its own.
    package func expiry(_ key: SimulatedOriginalKey) -> Int64? {
        book(key).last.expiresDate
    }

    /// The number of payments an original transaction has seen.
    package func paymentCount(_ key: SimulatedOriginalKey) -> Int {
        book(key).payments.count
    }

    mutating func newID() -> String {
        transactionNumber += 1
        let digits = String(transactionNumber)
        return idPrefix + String(repeating: "0", count: max(0, 9 - digits.count)) + digits
    }

    func book(_ key: SimulatedOriginalKey) -> StoreBook {
        guard let book = books[key] else {
            preconditionFailure("no story was told about \(key.originalTransactionID)")
        }
        return book
    }

    /// Reserves the instant at which the next statement about an original is signed: the one asked for, or a little
    /// after the action; always later than the one before.
    mutating func stamp(_ key: SimulatedOriginalKey, action: Int64, signedAt: Int64?) -> Int64 {
        let delay = latency > Span.second ? random.number(in: Span.second...latency) : Span.second
        var signed = signedAt ?? action + delay
        if let last = books[key]?.lastSignedDate, !allowsTies, signed <= last { signed = last + 1 }
        books[key]?.lastSignedDate = signed
        return signed
    }

    /// Sends a notification about an original: snapshots of its books as they are now.
    ///
    /// - Parameters:
    ///   - payment: the number of the payment it refers to; the last where nil.
    ///   - transactionID: another id under which the store knows that payment.
    mutating func notify(
        _ type: String, _ subtype: String? = nil, about key: SimulatedOriginalKey, payment: Int? = nil, signed: Int64,
        transactionID: String? = nil, data extra: [String: PayloadValue] = [:]
    ) {
        let book = book(key)
        let payment = payment.map { book.payments[$0] } ?? book.last
        var data = dataObject(key.environment)
        data["status"] = statusCode(book, at: signed).map(PayloadValue.integer)
        data.merge(extra) { _, new in new }
        notifications.append(
            StoreNotification(
                environment: key.environment, originalTransactionID: key.originalTransactionID, signedDate: signed,
                payload: envelope(type, subtype, signed: signed).merging(["data": .object(data)]) { _, new in new },
                transaction: transactionPayload(book, payment, signed: signed, transactionID: transactionID),
                renewal: renewalPayload(book, signed: signed), testimony: testimony(book, payment, signed: signed)))
        if let renewal = book.renewal {
            record.noteRenewal(key, signedDate: signed, willRenew: renewal.autoRenews)
        }
    }
}
