import AppStorePayloads
import EntitlementAPI
import EntitlementCore

/// What the server last said of one customer, and which of the device's statements it has answered.
struct ServerMemory: Sendable {
    /// How the server answered one transaction.
    struct Answered: Codable, Hashable, Sendable {
        /// What it was posted as; anything else is news.
        let content: String
        let isConflict: Bool
    }

    let customerID: String
    /// The answer that stands.
    private(set) var document: ReconciliationDocument
    /// The facts it holds, where this version can read them.
    private(set) var facts: CustomerFacts?
    /// When the server last confirmed it, by its own clock.
    private(set) var confirmedAt: Timestamp
    private(set) var answered: [String: Answered] = [:]
    /// The payload hashes of renewal information that was answered.
    private(set) var answeredRenewals: Set<String> = []

    init(_ document: ReconciliationDocument) {
        customerID = document.customerID
        self.document = document
        confirmedAt = document.at
        facts = document.facts?.facts
    }

    /// Whether an answer tells everything of the customer, rather than only what was proven in its request.
    var isProven: Bool { document.proof != .none }

    /// Takes a later answer; one that knows less does not overwrite one that knows more.
    mutating func take(_ next: ReconciliationDocument) {
        let knowsLess = next.proof == .none && document.proof != .none
        // Answers may overtake each other. A log that has become shorter is another log, and nothing is known of it.
        let isOlder = next.position < document.position && next.at <= document.at
        guard !knowsLess, !isOlder else { return }
        if next.position < document.position {
            answered = [:]
            answeredRenewals = []
        }
        document = next
        facts = next.facts?.facts
        confirmedAt = max(confirmedAt, next.at)
    }

    mutating func noteAnswered(_ transactionID: String, as content: Digest, isConflict: Bool) {
        answered[transactionID] = Answered(content: content.hex, isConflict: isConflict)
    }

    mutating func noteAnswered(renewal payloadHash: Digest) { answeredRenewals.insert(payloadHash.hex) }

    /// Forgets about statements that the device no longer has.
    mutating func keep(transactions: Set<String>, renewals: Set<String>) {
        answered = answered.filter { transactions.contains($0.key) }
        answeredRenewals.formIntersection(renewals)
    }

    /// Whether the server has answered about a transaction as it reads now.
    func hasAnswered(_ transaction: DeviceTransaction) -> Bool {
        answered[transaction.payload.transactionID]?.content == transaction.contentHash.hex
    }

    /// The same of renewal information.
    func hasAnswered(_ renewal: DeviceRenewal) -> Bool { answeredRenewals.contains(renewal.payloadHash.hex) }

    /// The same of the statement that a book holds.
    func hasAnswered(_ transactionID: String, in book: StatementBook) -> Bool {
        book.transactions[transactionID].map(hasAnswered) ?? false
    }

    /// Whether it should be told of a transaction.
    func wantsToHear(_ transaction: DeviceTransaction) -> Bool {
        guard hasAnswered(transaction) else { return true }
        // Its newest word is a revocation that the store does not state any more: it is to look again.
        guard transaction.payload.revocation == nil, let facts else { return false }
        let told = facts.originals[transaction.payload.originalTransactionID]?.transactions.filter {
            $0.fact.transactionID == transaction.payload.transactionID
        }
        let newest = told?.max { ($0.fact.signedDate ?? .earliest) < ($1.fact.signedDate ?? .earliest) }?.fact
        guard let newest, newest.revocation != nil else { return false }
        return (newest.signedDate ?? .earliest) < (transaction.payload.signedDate ?? .earliest)
    }
}

extension ServerMemory: Codable {
    init(from decoder: any Decoder) throws {
        let members = try decoder.container(keyedBy: CodingKeys.self)
        self.init(try members.decode(ReconciliationDocument.self, forKey: .document))
        confirmedAt = try members.decode(Timestamp.self, forKey: .confirmedAt)
        answered = try members.decode([String: Answered].self, forKey: .answered)
        answeredRenewals = try members.decode(Set<String>.self, forKey: .answeredRenewals)
    }

    func encode(to encoder: any Encoder) throws {
        var members = encoder.container(keyedBy: CodingKeys.self)
        try members.encode(document, forKey: .document)
        try members.encode(confirmedAt, forKey: .confirmedAt)
        try members.encode(answered, forKey: .answered)
        try members.encode(answeredRenewals, forKey: .answeredRenewals)
    }

    private enum CodingKeys: String, CodingKey {
        case document, confirmedAt, answered, answeredRenewals
    }
}

/// What is kept on disk of the server's answers.
struct ServerFile: Codable, Sendable {
    var catalog: CatalogCopy?
    /// The last used last.
    var memories: [ServerMemory]
}
