import EntitlementCore
import Service

/// A team's own list of whose what is at Stripe: on each line an id of Stripe's, the customer, and of a payment the product; empty
/// lines and those that begin with # are passed over.
struct StripeOwnerFile: Sendable {
    /// The largest file that is taken, in bytes: a million entries or more.
    private static let sizeLimit = 64 << 20

    let list: StripeOwnerList
    /// Names the list by the ids of Stripe's: no hash is kept of whose they are, for it could be found out by trying.
    let hash: Digest
    /// The products that are named, and where first.
    let products: [(id: String, place: String)]

    /// - Throws: `CommandFailure` for a file that cannot be read, or that holds anything else.
    init(_ path: String) throws {
        var list = StripeOwnerList()
        var ids: [Substring] = []
        var products: [String: String] = [:]
        var spellings = CustomerSpellings()
        try TableFile.read(path, limit: Self.sizeLimit) { line, place in
            func refusal(_ what: String) -> CommandFailure {
                CommandFailure(description: "\(place): \(what); nothing was imported")
            }
            guard !TableFile.isComment(line) else { return }
            guard var cells = TableFile.texts(line) else {
                throw refusal("a quotation mark has no other in its column")
            }
            while cells.last?.isEmpty ?? false { cells.removeLast() }
            guard let id = cells.first, !id.hasPrefix("#") else { return }
            guard StripeOwnerList.isOfKind(id) else {
                throw refusal(
                    "'\(id.prefix(40))' is no subscription (sub_…), customer (cus_…), payment (pi_…) or session (cs_…) of "
                        + "Stripe's; a heading is to begin with #")
            }
            guard (2...3).contains(cells.count), let customer = CustomerID(cells[1]) else {
                throw refusal(
                    "beside '\(id)' is to stand the customer's id, beside a payment also the product's, and no more")
            }
            let product = cells.count > 2 ? cells[2] : nil
            do throws(StripeOwnerList.Refusal) {
                try list.add(id, of: customer, for: product)
            } catch {
                switch error {
                case .unusable:
                    throw refusal(
                        "'\(id)' is too long, or a product stands beside what is no payment (pi_… or cs_…)")
                case .contradiction: throw refusal("'\(id)' stands in the list before, as another's")
                }
            }
            spellings.note(customer, as: cells[1], place)
            ids.append(id[...])
            if let product, products[product] == nil { products[product] = place }
        }
        try spellings.refuseSeveral()
        guard !list.isEmpty else { throw CommandFailure(description: "\(path) names no customers") }
        self.list = list
        self.products = products.sorted { $0.key < $1.key }.map { ($0.key, $0.value) }
        hash = TableFile.hash(of: ids)
    }
}
