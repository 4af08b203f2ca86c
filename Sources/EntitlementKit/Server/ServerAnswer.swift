import EntitlementAPI
import EntitlementCore
import Foundation

/// An answer of the server, as far as this version understands it.
///
/// A server may be years newer than the app. So a word that is not known is kept as a word, a member that is not known is
/// passed over, and a row that is not understood is left out by itself; an answer fails only where it does not say whom,
/// when and what position it is about.
struct ServerAnswer: Sendable {
    /// One entitlement as it reads at ``at``.
    struct EntitlementRow: Hashable, Sendable {
        let id: String
        let productID: String?
        let originalTransactionID: String?
        let ownership: String?
        let willRenew: Bool?
        let offer: PurchaseOffer?
    }

    /// A stretch of an entitlement's timeline.
    struct Interval: Hashable, Sendable {
        let from: Timestamp
        /// `nil`: without end.
        let until: Timestamp?
        let state: String
        let givesAccess: Bool
        let productID: String?
        let source: String
        let originalTransactionID: String?
    }

    struct Timeline: Hashable, Sendable {
        let id: String
        let intervals: [Interval]
    }

    let customerID: CustomerID
    /// In the server's word.
    let environment: String
    let position: Int64
    /// Which log the position is one of; `nil` where the server does not tell.
    let ledgerID: String?
    let at: Timestamp
    private(set) var entitlements: [EntitlementRow]
    private(set) var timelines: [Timeline]
    /// `nil` where there is none that can be read.
    private(set) var catalog: AnsweredCatalog?
    let finish: Set<String>
    /// What told whose device it is; `none` where nothing did.
    private(set) var proof: String
    let pass: String?
    /// The position that counts of it: its own, or what its pass states where the app believes only what is signed; `nil` where
    /// nobody has signed it then.
    private(set) var vouchedPosition: Int64?
    /// What its pass states, where the app believes only what is signed.
    private(set) var claims: PassClaims?
    /// The customer's facts, where this version can read them and what they are folded with.
    private(set) var facts: CustomerFacts?
    /// The numbers by which the facts mean people.
    private(set) var identities: [String: Int64]
    /// The answer as it came, without what is about one request alone.
    let kept: WireValue

    /// Members that are about one request alone.
    private static let passing = ["results", "renewal_results", "app_transaction", "drift", "finish"]

    /// Reads an answer; `nil` where it is none.
    init?(_ answer: WireValue) {
        guard let customerID = answer["customer_id"]?.text.flatMap(CustomerID.init),
            let environment = answer["environment"]?.text,
            let position = answer["position"]?.number, let at = answer["at"]?.instant
        else { return nil }
        (self.customerID, self.environment, self.position, self.at) = (customerID, environment, position, at)
        vouchedPosition = position
        ledgerID = answer["ledger_id"]?.text
        entitlements = answer["entitlements"]?.entries.compactMap { EntitlementRow($0) } ?? []
        timelines = answer["timeline"]?.entries.compactMap { Timeline($0) } ?? []
        let moment = AnswerMoment(at: at, position: position)
        catalog = answer["catalog"].flatMap { AnsweredCatalog($0, answered: moment) }
        finish = Set(answer["finish"]?.entries.compactMap(\.text) ?? [])
        proof = answer["proof"]?.text ?? ReconciliationDocument.Proof.none.rawValue
        pass = answer["pass"]?.text
        identities = answer["facts"]?["identities"]?.members.compactMapValues(\.number) ?? [:]
        // Facts are folded with the catalog; where that is not wholly understood, the server's own reading stands.
        facts = catalog?.isWhole == true ? answer["facts"]?.decoded(FactsCopy.self)?.facts : nil
        var kept = answer.members
        for name in Self.passing { kept[name] = nil }
        self.kept = .object(kept)
    }

    /// Whether what it says of time, and of what anybody holds, counts.
    var isVouched: Bool { vouchedPosition != nil }

    /// Whether it tells everything of the customer, rather than only what was posted.
    var isProven: Bool { proof != ReconciliationDocument.Proof.none.rawValue }

    // MARK: What a pass makes of it

    /// The same where nobody has signed it: it says what became of what was posted, and nothing of what anybody holds.
    var unvouched: ServerAnswer {
        var answer = self
        (answer.entitlements, answer.timelines, answer.facts, answer.catalog) = ([], [], nil, nil)
        answer.identities = [:]
        answer.proof = ReconciliationDocument.Proof.none.rawValue
        (answer.claims, answer.vouchedPosition) = (nil, nil)
        return answer
    }

    /// The same with what its pass states, which limits what it gives; see ``SignedWord``.
    func vouched(by claims: PassClaims) -> ServerAnswer {
        var answer = self
        (answer.claims, answer.vouchedPosition) = (claims, claims.position)
        return answer
    }
}

extension ServerAnswer.EntitlementRow {
    fileprivate init?(_ row: WireValue) {
        guard let id = row["id"]?.text else { return nil }
        self.id = id
        productID = row["product_id"]?.text
        originalTransactionID = row["original_transaction_id"]?.text
        ownership = row["ownership"]?.text
        willRenew = row["will_renew"]?.flag
        offer = row["offer"].flatMap { offer in
            offer["type"]?.text.map { PurchaseOffer(type: $0, discount: offer["discount"]?.text) }
        }
    }
}

extension ServerAnswer.Timeline {
    fileprivate init?(_ row: WireValue) {
        guard let id = row["id"]?.text else { return nil }
        self.id = id
        intervals = row["intervals"]?.entries.compactMap { ServerAnswer.Interval($0) } ?? []
    }
}

extension ServerAnswer.Interval {
    fileprivate init?(_ row: WireValue) {
        // Whether it gives access is what counts; the state is a word for people.
        guard let from = row["from"]?.instant, let givesAccess = row["gives_access"]?.flag else { return nil }
        (self.from, self.givesAccess) = (from, givesAccess)
        until = row["until"]?.instant
        state = row["state"]?.text ?? (givesAccess ? EntitlementState.active : .expired).rawValue
        productID = row["product_id"]?.text
        source = row["source"]?.text ?? "unknown"
        originalTransactionID = row["original_transaction_id"]?.text
    }
}

/// When an answer was given: by the server's clock, and how far its log went then.
struct AnswerMoment: Hashable, Codable, Sendable {
    let at: Timestamp
    let position: Int64

    /// Whether this answer was overtaken by another one.
    ///
    /// Only where both say so: a clock may have been put right, and a log that lost its end is shorter.
    func isOvertaken(by other: AnswerMoment) -> Bool {
        at <= other.at && position <= other.position && self != other
    }
}

extension AnswerMoment: Comparable {
    static func < (left: AnswerMoment, right: AnswerMoment) -> Bool {
        (left.at, left.position) < (right.at, right.position)
    }
}

/// The catalog inside an answer, as far as it is understood.
struct AnsweredCatalog: Hashable, Sendable {
    let catalog: Catalog
    /// The position at which it was written; 0 where none was.
    let position: Int64
    /// Whether everything it says was understood.
    let isWhole: Bool
    /// The answer that brought it; that alone tells which of two catalogs is the one in force.
    ///
    /// Where they were written does not: a log that loses its end goes back to an earlier one, and grows from there.
    let answered: AnswerMoment
    fileprivate let kept: WireValue

    init?(_ value: WireValue, answered: AnswerMoment) {
        guard let position = value["position"]?.number else { return nil }
        self.position = position
        self.answered = answered
        kept = value
        if let catalog = Self.parse(value.members) {
            (self.catalog, isWhole) = (catalog, true)
            return
        }
        // Row by row: a duration or a policy of a later version takes nothing else with it.
        let products = value["products"]?.entries ?? []
        let rows = products.compactMap { Self.parse(["products": .array([$0])])?.products.first }
        var policy: [String: WireValue] = [:]
        for (name, member) in value["policy"]?.members ?? [:] {
            let known = Self.parse(["products": .array([]), "policy": .object([name: member])])
            if known != nil { policy[name] = member }
        }
        var seen: Set<String> = []
        catalog = Catalog(
            products: rows.filter { seen.insert($0.productID).inserted },
            policy: Self.parse(["products": .array([]), "policy": .object(policy)])?.policy ?? AccessPolicy())
        isWhole = false
    }

    private static func parse(_ members: [String: WireValue]) -> Catalog? {
        (try? WireJSON.encode(WireValue.object(members))).flatMap {
            try? CatalogDocument(parsing: $0, from: .answer).catalog
        }
    }
}

extension AnsweredCatalog: Encodable {
    func encode(to encoder: any Encoder) throws { try kept.encode(to: encoder) }
}

/// What became of the statements of one posting, each by itself.
struct PostingResults: Sendable {
    /// What became of one statement.
    enum Fate: Hashable, Sendable {
        /// The ledger holds it.
        case held
        /// The ledger holds it, and it is not the customer's.
        case conflict(reason: String?, detail: String?)
        /// It was refused, or this version does not understand what became of it.
        case failed(detail: String)
        /// Nobody whom the ledger trusts has signed it.
        case untrusted(detail: String)
    }

    let transactions: [Fate]
    let renewals: [Fate]
    /// Whether nobody whom the ledger trusts has signed the app's own purchase.
    let distrustsApp: Bool

    /// Reads the results of as many transactions and pieces of renewal information as were posted.
    init(_ answer: WireValue, transactions: Int, renewals: Int) {
        self.transactions = Self.fates(answer["results"]?.entries ?? [], count: transactions)
        self.renewals = Self.fates(answer["renewal_results"]?.entries ?? [], count: renewals)
        distrustsApp = answer["app_transaction"].map(Self.isUntrusted) ?? false
    }

    /// Whether a row says that its statement proves nothing, and never will.
    private static func isUntrusted(_ row: WireValue) -> Bool {
        row["status"]?.text == TransactionResult.Status.refused.rawValue
            && ["untrusted_signature", "malformed_jws"].contains(row["code"]?.text)
    }

    private static func fates(_ rows: [WireValue], count: Int) -> [Fate] {
        // They stand in the order of what was posted, so without all of them none can be told from another.
        guard rows.count == count else {
            return Array(repeating: .failed(detail: "the answer does not tell what became of it"), count: count)
        }
        return rows.map { row in
            let detail = row["detail"]?.text
            switch row["status"]?.text {
            case TransactionResult.Status.recorded.rawValue, TransactionResult.Status.known.rawValue: return .held
            case TransactionResult.Status.conflict.rawValue:
                return .conflict(reason: row["reason"]?.text, detail: detail)
            case TransactionResult.Status.refused.rawValue where isUntrusted(row):
                return .untrusted(detail: detail ?? "nobody trusted has signed it")
            case TransactionResult.Status.refused.rawValue:
                return .failed(detail: detail ?? "it was refused")
            case let status:
                return .failed(detail: "the answer is not understood: \(status ?? "no status")")
            }
        }
    }
}
