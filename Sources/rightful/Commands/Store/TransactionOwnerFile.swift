import EntitlementCore
import Ledger
import Service

/// A team's own list of whose the App Store's purchases are: on each line a transaction id and the customer; empty lines and those
/// that begin with # are passed over.
struct TransactionOwnerFile: Sendable {
    /// The largest file that is taken, in bytes: a million lines or more.
    private static let sizeLimit = 64 << 20
    /// With what the ids begin that RevenueCat makes up for devices where nobody has logged in.
    private static let anonymousPrefix = "$RCAnonymousID:"

    /// What is asked about: of every line, in their order.
    let ids: [Substring]
    /// Names the list by its ids, as that of the same ids without customers.
    let hash: Digest
    /// Of lines that say the same the first one alone.
    let list: [ListedOwner]

    /// - Throws: `CommandFailure` for a file that cannot be read, or that holds anything else.
    init(_ path: String) throws {
        var ids: [Substring] = []
        var list: [ListedOwner] = []
        var known: [Substring: ListedOwner] = [:]
        var spellings = CustomerSpellings()
        var number = 0
        try TableFile.read(path, limit: Self.sizeLimit) { line, place in
            number += 1
            func refusal(_ what: String) -> CommandFailure {
                CommandFailure(description: "\(place): \(what); nothing was imported")
            }
            guard !TableFile.isComment(line) else { return }
            guard let cells = TableFile.texts(line) else {
                throw refusal("a quotation mark has no other in its column")
            }
            guard !cells.allSatisfy(\.isEmpty) else { return }
            let id = Substring(cells[0])
            guard TransactionIDFile.isID(id) else {
                throw refusal(
                    "'\(id.prefix(40))' is no transaction id of the App Store, which is a number; "
                        + "\(TransactionIDFile.headingHint)")
            }
            guard cells.count > 1, let customer = CustomerID(cells[1]) else {
                throw refusal("beside '\(id)' is to stand the customer's id, in the second column")
            }
            ids.append(id)
            spellings.note(customer, as: cells[1], place)
            let isAnonymous = customer.value.hasPrefix(Self.anonymousPrefix)
            let listed = ListedOwner(transactionID: id, customer: isAnonymous ? nil : customer, line: number)
            guard let before = known[id] else {
                known[id] = listed
                list.append(listed)
                return
            }
            guard let owner = listed.customer, let earlier = before.customer else {
                // Whom a made-up id stands for is not known, so it contradicts nobody.
                if before.customer == nil, listed.customer != nil { known[id] = listed }
                list.append(listed)
                return
            }
            guard owner == earlier else {
                throw refusal("'\(id)' stands in the list before, in line \(before.line), as another customer's")
            }
        }
        try spellings.refuseSeveral()
        guard !ids.isEmpty else { throw CommandFailure(description: "\(path) names no customers") }
        self.ids = ids
        self.list = list
        hash = TableFile.hash(of: ids)
    }
}
