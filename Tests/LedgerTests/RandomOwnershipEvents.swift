import EntitlementCore
import SeededRandom
import TestSupport

@testable import Ledger

/// Random words about a few people and original transactions, in any order and of any sense.
struct RandomOwnershipEvents {
    static let people = ["ann", "ben", "cid", "dan", "eve"]
    static let originals = ["1", "2", "3"]
    /// Each original transaction is of one of them.
    static let apps = ["com.example", "com.other"]
    private var random: SplitMix64
    private let seed: UInt64
    /// The transfers and grants said so far: what is undone is often one of them.
    private var transfers: [(original: String, position: Int64)] = []
    private var grants: [String] = []

    init(seed: UInt64) {
        random = SplitMix64(seed: seed)
        self.seed = seed
    }

    mutating func pick<Element>(_ list: [Element]) -> Element {
        list[Int.random(in: 0..<list.count, using: &random)]
    }

    /// The draft of the event that is to have a position.
    mutating func draft(at position: Int64) -> EventDraft {
        let environment: StoreEnvironment = Int.random(in: 0..<5, using: &random) == 0 ? .sandbox : .production
        let original = pick(Self.originals)
        let person = pick(Self.people)
        func command(_ fact: LedgerFact, _ identities: String...) -> EventDraft {
            EventDraft(
                environment: environment, source: .api, occurredAt: nil, fact: fact, identities: identities,
                deduplication: .unique)
        }
        switch Int.random(in: 0..<17, using: &random) {
        case 0..<4:
            return purchase(original, position, environment)
        case 4..<8:
            // Circles and links to oneself among them.
            return command(
                .link(LinkFact(identity: IdentityRef(0), customer: IdentityRef(1))), person, pick(Self.people))
        case 8..<10:
            return command(.claim(ClaimFact(originalTransactionID: original, customer: IdentityRef(0))), person)
        case 10..<12:
            transfers.append((original, position))
            return command(.transfer(TransferFact(originalTransactionID: original, customer: IdentityRef(0))), person)
        case 12:
            let undone = transfers.isEmpty ? (original, position) : pick(transfers)
            return command(.transferUndo(TransferUndoFact(originalTransactionID: undone.0, undoes: undone.1)))
        case 13:
            let id = "grant-\(position)"
            grants.append(id)
            let until = Bool.random(using: &random) ? Timestamp(milliseconds: 1_900_000_000_000) : nil
            return command(
                .grant(
                    GrantFact(
                        grantID: id, customer: IdentityRef(0), entitlementID: pick(["pro", "gift"]), until: until,
                        reason: "")), person)
        case 14:
            return command(
                .grantRevocation(
                    GrantRevocationFact(
                        grantID: grants.isEmpty ? "none" : pick(grants), customer: IdentityRef(0), reason: "")), person)
        case 15:
            // Of no weight for whose anything is.
            return EventDraft(
                StoreRequestFact(
                    bundleID: "com.example", originalTransactionID: original,
                    content: .consumption(transactionID: original, nil), outcome: .tooLate,
                    settles: position > 1 ? position - 1 : nil), in: environment, source: .serverAPI)
        default:
            return command(.conflict(ConflictFact(originalTransactionID: original, claimant: IdentityRef(0))), person)
        }
    }

    private func bundleID(of original: String) -> String { Self.apps[original == Self.originals[0] ? 1 : 0] }

    private mutating func purchase(
        _ original: String, _ position: Int64, _ environment: StoreEnvironment
    ) -> EventDraft {
        let month: Int64 = 30 * Timestamp.millisecondsPerDay
        let number = Int64.random(in: 0..<4, using: &random)
        let start = Timestamp(milliseconds: 1_790_000_000_000 + number * month)
        var identities: [String] = []
        func named(_ person: String) -> IdentityRef {
            identities.append(person)
            return IdentityRef(Int64(identities.count - 1))
        }
        let token = Int.random(in: 0..<3, using: &random) == 0 ? nil : named(pick(Self.people))
        let app = Int.random(in: 0..<3, using: &random) == 0 ? named(pick(Self.people)) : nil
        let hash = RandomDrafts.digest("\(seed) \(position)")
        return EventDraft(
            environment: environment, source: .notification, type: "renewed", occurredAt: start,
            fact: .notification(
                NotificationFact(
                    type: "DID_RENEW", subtype: nil, uuid: "\(position)", signedDate: start, payloadHash: hash,
                    bundleID: bundleID(of: original),
                    transaction: TransactionFact(
                        payloadHash: hash, signedDate: start.adding(milliseconds: position),
                        transactionID: "\(original)-\(number)", originalTransactionID: original,
                        productID: "com.example.pro", bundleID: bundleID(of: original), kind: .known(.autoRenewable),
                        purchaseDate: start, expiresDate: start.adding(milliseconds: month),
                        reason: .known(number == 0 ? .purchase : .renewal), ownership: .known(.purchased),
                        accountToken: token, appTransaction: app),
                    renewal: nil, remarks: [])),
            identities: identities, deduplication: .statement(id: "notification:\(position)", payloadHash: hash))
    }
}
