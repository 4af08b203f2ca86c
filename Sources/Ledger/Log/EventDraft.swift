package import EntitlementCore

/// Who stated an event.
package enum EventSource: String, Sendable, Hashable, CaseIterable {
    case notification = "app_store_notification"
    case serverAPI = "app_store_api"
    case device
    /// A webhook of Stripe's.
    case stripeNotification = "stripe_notification"
    /// Stripe's API, where it was asked.
    case stripeAPI = "stripe_api"
    /// A command over HTTP.
    case api
    /// A command typed by an operator.
    case operatorCommand = "operator"

    /// Whether its evidence is what Stripe sent.
    var isStripe: Bool {
        switch self {
        case .stripeNotification, .stripeAPI: true
        case .notification, .serverAPI, .device, .api, .operatorCommand: false
        }
    }

    /// Whose word its signed statements are.
    package var statementSource: StatementSource {
        switch self {
        case .notification, .stripeNotification, .api, .operatorCommand: .notification
        case .serverAPI, .stripeAPI: .serverAPI
        case .device: .device
        }
    }

    /// What an event of statements is called that came by themselves, not in a notification.
    package var statementsLabel: String {
        switch self {
        case .serverAPI: "store_report"
        case .notification, .device, .stripeNotification, .stripeAPI, .api, .operatorCommand: StatementsFact.label
        }
    }
}

/// What makes two deliveries one event.
package enum Deduplication: Sendable, Hashable {
    /// A signed statement: the source's own id, such as `notification:production:<uuid>`, with the SHA-256 of the decoded
    /// payload. The same id with another payload is an event of its own, remarked `id_reused`.
    case statement(id: String, payloadHash: Digest)
    /// A command sent with an idempotency key, unique to its sender, and the SHA-256 of the request. The same again
    /// within 24 hours is one event; another request under the same key is refused. When the customer whom it is about is
    /// forgotten, so is the key.
    case command(key: String, requestHash: Digest, about: CustomerID? = nil)
    /// Signed statements of which each may have come before: an event only if they say something that the ledger does
    /// not know, decided when it is appended.
    case news
    /// Every delivery is an event of its own.
    case unique
}

/// What must not have changed between a command's decision and its event.
package struct UnchangedSince: Sendable, Hashable {
    /// The position the decision rests on.
    package var position: Int64
    /// The end of the log at which it was decided, where that is known: a log that has lost it, as after a failover, may be
    /// as long again and hold something else.
    package private(set) var mark: EventMark?
    /// Customers whose links, grants and drift it rests on.
    package var customers: [String]
    /// Original transactions on whose claims, transfers and conflicts it rests, and on what the store was asked or told of
    /// them.
    package var originals: [OriginalKey]
    /// Those about which nothing at all may have been recorded since.
    package var lives: [OriginalKey]

    package init(
        _ position: Int64, customers: [String] = [], originals: [OriginalKey] = [], lives: [OriginalKey] = []
    ) {
        self.position = position
        self.customers = customers
        self.originals = originals
        self.lives = lives
    }

    package init(
        _ mark: EventMark, customers: [String] = [], originals: [OriginalKey] = [], lives: [OriginalKey] = []
    ) {
        self.init(mark.position, customers: customers, originals: originals, lives: lives)
        self.mark = mark
    }
}

/// Why a command was not appended; nothing was written.
package enum AppendRefusal: Error, Sendable, Hashable {
    /// The catalog in force is not the one the command was meant for.
    case catalogChanged(writtenAt: Int64)
    /// Another request was sent under the same idempotency key.
    case idempotencyConflict
    /// What the command was decided on has changed since; decide again.
    case conflict
}

/// The exact signed bytes that an event is taken from.
package enum EventEvidence: Sendable {
    /// A compact JWS, or several, one a line, as received.
    case received([UInt8])
    /// The same, each taken apart by whoever verified it, so that nothing is decoded again.
    case verified([JWSParts])
    /// Signed bytes of any other form, which are kept as they came.
    case plain([UInt8])
}

/// An event before it has a position: what is to be appended, and what makes appending it idempotent.
package struct EventDraft: Sendable {
    package var environment: StoreEnvironment?
    package var source: EventSource
    /// The event's type: for signed statements what they report, such as `renewed`, a label that decides nothing; for
    /// anything else the fact's `eventType`.
    package var type: String
    package var occurredAt: Timestamp?
    /// Its identity references are indices into `identities`.
    package var fact: LedgerFact
    /// Customer ids in clear; the log gets a number for each.
    package var identities: [String]
    package var deduplication: Deduplication
    /// The append is refused unless the catalog in force was written at this position (0: unless there is none).
    package var expectedCatalogPosition: Int64?
    package var unchangedSince: UnchangedSince?
    /// `nil` where nothing was signed.
    package var evidence: EventEvidence?

    package init(
        environment: StoreEnvironment?, source: EventSource, type: String = "stated", occurredAt: Timestamp?,
        fact: LedgerFact, identities: [String], deduplication: Deduplication, expectedCatalogPosition: Int64? = nil,
        unchangedSince: UnchangedSince? = nil, evidence: EventEvidence? = nil
    ) {
        self.environment = environment
        self.source = source
        self.type = fact.eventType ?? type
        self.occurredAt = occurredAt
        self.fact = fact
        self.identities = identities
        self.deduplication = deduplication
        self.expectedCatalogPosition = expectedCatalogPosition
        self.unchangedSince = unchangedSince
        self.evidence = evidence
    }
}

/// Where an event stands after the commit.
package struct AppendOutcome: Sendable, Hashable {
    package let position: Int64
    /// It had been appended before; nothing was written now.
    package let isDuplicate: Bool
    /// It is an event of its own although another payload came under the same id before.
    package var idIsReused = false
    /// The end of the log after the batch, at the event or behind it: a log that holds this end holds the event, too.
    package internal(set) var end = EventMark.none

    // The end is left out: it differs each time the same event is appended.
    package static func == (left: AppendOutcome, right: AppendOutcome) -> Bool {
        left.position == right.position && left.isDuplicate == right.isDuplicate
            && left.idIsReused == right.idIsReused
    }

    package func hash(into hasher: inout Hasher) {
        hasher.combine(position)
        hasher.combine(isDuplicate)
        hasher.combine(idIsReused)
    }
}

/// One original transaction of one environment.
package struct OriginalKey: Hashable, Sendable, Comparable {
    package let environment: StoreEnvironment
    package let originalTransactionID: String

    package init(environment: StoreEnvironment, originalTransactionID: String) {
        self.environment = environment
        self.originalTransactionID = originalTransactionID
    }

    package static func < (left: OriginalKey, right: OriginalKey) -> Bool {
        (left.environment.rawValue, left.originalTransactionID)
            < (right.environment.rawValue, right.originalTransactionID)
    }
}

extension LedgerFact {
    /// The one transaction it states; several at once are found by their original transaction alone.
    var transaction: TransactionFact? { transactions.count == 1 ? transactions.first : nil }

    /// Whose the fact is, and a second identity it can be found by.
    var indexedIdentities: (first: IdentityRef?, second: IdentityRef?) {
        switch self {
        case .notification, .statements:
            guard let transaction = transactions.first else { return (appTransaction, nil) }
            guard let token = transaction.accountToken else { return (transaction.appTransaction, nil) }
            return (token, transaction.appTransaction)
        case .web(let fact): return (fact.owners.first?.customer, nil)
        case .link(let fact): return (fact.identity, fact.customer)
        case .claim(let fact): return (fact.customer, nil)
        case .transfer(let fact): return (fact.customer, nil)
        case .conflict(let fact): return (fact.claimant, nil)
        case .grant(let fact): return (fact.customer, nil)
        case .grantRevocation(let fact): return (fact.customer, nil)
        case .drift(let fact): return (fact.customer, nil)
        case .forgetting(let fact): return (fact.identities.first, nil)
        case .catalog, .transferUndo, .access, .storeRequest: return (nil, nil)
        }
    }
}
