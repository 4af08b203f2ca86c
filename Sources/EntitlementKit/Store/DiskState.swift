import EntitlementCore
import Foundation

/// What is on disk, and what is not yet.
struct DiskState {
    /// One concern each, so that what cannot be read takes nothing else with it.
    enum File: String, CaseIterable {
        case statements = "statements.jsonl"
        case server = "server.json"
        case queue = "queue.json"
        case identity = "identity.json"
        case clock = "clock.json"
        case checkouts = "checkouts.json"
    }

    /// Not read yet; it must not be written before.
    var unread = Set(File.allCases)
    /// What each held when it was last read or written; another process may have changed it since.
    var versions: [File: StorageVersion] = [:]
    /// What the file of statements holds.
    var rows = StatementRowLog()
    /// It holds something that has become wrong, so nothing can be added to it.
    var mustReplaceRows = false
    /// It holds lines that another version of the app wrote, which are kept by for it.
    var hasUnknownRows = false
    /// When each last changed.
    private(set) var changed: [File: Int] = [:]
    /// Up to which change, of whichever file, each is on disk.
    var durable: [File: Int] = [:]
    private(set) var changes = 0
    /// The change with which the app last said who the customer is.
    private var naming = 0
    var writing: Task<Bool, Never>?

    mutating func note(_ file: File) {
        changes += 1
        changed[file] = changes
    }

    /// The app has said who the customer is.
    mutating func noteCustomer() {
        note(.identity)
        naming = changes
    }

    /// Whether the app has said so in this process, and it is not on disk yet: until then it counts more than what is there.
    var namesCustomer: Bool { naming > (durable[.identity] ?? 0) }

    var outdated: [File] { File.allCases.filter(isOutdated) }

    /// Whether it has changed here since it was written.
    func isOutdated(_ file: File) -> Bool { (changed[file] ?? 0) > (durable[file] ?? 0) }

    /// Whether a file is on disk as it was at a change.
    func isDurable(_ file: File, upTo change: Int) -> Bool { (durable[file] ?? 0) >= change }

    /// Whether everything up to a change is on disk.
    func isDurable(upTo change: Int) -> Bool { outdated.allSatisfy { (durable[$0] ?? 0) >= change } }
}

/// Whom the app said the customer is.
struct IdentityFile: Encodable {
    var customerID: CustomerID?
    /// What purchases are signed with where that is not the customer's id, of whoever was logged in here.
    var accountTokens: [IssuedAccountToken]
    /// What each customer has bought here that bears nothing of theirs.
    var purchases: [PurchaseWhileLoggedIn]
    /// What each has begun to buy here, and has not come.
    var begun: [PendingPurchase]
}

/// What a customer has bought on this device while they were logged in, and no account token of theirs was known.
struct PurchaseWhileLoggedIn: Codable, Hashable, Sendable {
    let customerID: CustomerID
    let originalTransactionID: String
}

/// An account token that the server has issued to a customer, for good.
struct IssuedAccountToken: Codable, Hashable, Sendable {
    let customerID: CustomerID
    let token: UUID
}

/// What waits to be sent.
struct QueueFile: Encodable {
    var pending: [SyncQueue.Key]
}
