import EntitlementAPI
import EntitlementCore
import RevenueCatAPI

/// A receiver as teams write them for RevenueCat: it keeps what it was told in a table, and asks nobody.
///
/// Its rows are of a customer, an original transaction and a product, and say what that gives and until when. It knows no more
/// than what is sent, and follows what `docs/revenuecat.md` tells receivers to mind.
struct EventReceiver: CustomStringConvertible {
    /// When a row gives access.
    enum Rule: CaseIterable {
        /// From an event that lets in until EXPIRATION, whatever the time.
        case events
        /// The same, and until the `expiration_at_ms` that was told last.
        case lastEnd
        /// The same, and until the latest `expiration_at_ms` that was ever told.
        case latestEnd
        /// Until the `expiration_at_ms` of the last event, whatever its type.
        case column
    }

    /// What it makes of TRANSFER.
    enum Transfers: CaseIterable {
        /// All rows of the one become the other's.
        case move
        /// All rows of the one are dropped.
        case drop
    }

    private struct Key: Hashable {
        let original: String
        let product: String
    }

    private struct Row: CustomStringConvertible {
        var entitlements: Set<String> = []
        var isOpen = false
        var lastEnd: Timestamp
        var latestEnd = Timestamp.earliest
        /// What PRODUCT_CHANGE said last.
        var nextProduct: String?

        func gives(at instant: Timestamp, by rule: Rule) -> Bool {
            switch rule {
            case .events: isOpen
            case .lastEnd: isOpen && instant < lastEnd
            case .latestEnd: isOpen && instant < latestEnd
            case .column: instant < lastEnd
            }
        }

        var description: String {
            "\(isOpen ? "open" : "closed") until \(lastEnd), \(latestEnd), then \(nextProduct ?? "the same")"
        }
    }

    static let opening: Set<MessageType> = [
        .initialPurchase, .renewal, .nonRenewingPurchase, .subscriptionExtended, .refundReversed,
    ]

    let rule: Rule
    let transfers: Transfers
    private var rows: [IdentityRef: [Key: Row]] = [:]

    init(_ rule: Rule, _ transfers: Transfers) { (self.rule, self.transfers) = (rule, transfers) }

    /// What it lets a customer have.
    func held(by customer: IdentityRef, at instant: Timestamp) -> Set<String> {
        (rows[customer] ?? [:]).values.filter { $0.gives(at: instant, by: rule) }
            .reduce(into: []) { $0.formUnion($1.entitlements) }
    }

    /// Takes an event that was sent about a customer.
    mutating func take(_ body: [UInt8], _ type: MessageType, about customer: IdentityRef) throws {
        guard case .object(let event) = try WireJSON.decode(WireValue.self, from: body) else { return }
        if type == .transfer {
            guard let giver = event.people("transferred_from").first, let taker = event.people("transferred_to").first
            else { return }
            let moved = rows.removeValue(forKey: giver) ?? [:]
            if transfers == .move { rows[taker, default: [:]].merge(moved) { own, _ in own } }
            return
        }
        let key = Key(original: event.text("original_transaction_id"), product: event.text("product_id"))
        if type == .renewal { replace(by: key, of: customer) }
        let end = event.instant("grace_period_expiration_at_ms") ?? event.instant("expiration_at_ms") ?? .endless
        var row = rows[customer]?[key] ?? Row(lastEnd: end)
        // What gives access again says that it renews as what it is, unless PRODUCT_CHANGE follows.
        if Self.opening.contains(type), !row.isOpen { row.nextProduct = nil }
        if Self.opening.contains(type) { (row.isOpen, row.entitlements) = (true, event.entitlementIDs) }
        if rule == .column { row.entitlements = event.entitlementIDs }
        if type == .productChange { row.nextProduct = event.text("new_product_id") }
        if type == .expiration { row.isOpen = false }
        (row.lastEnd, row.latestEnd) = (end, max(row.latestEnd, end))
        rows[customer, default: [:]][key] = row
    }

    /// What was to become this product has become it: there is no EXPIRATION of it.
    private mutating func replace(by new: Key, of customer: IdentityRef) {
        for (key, row) in rows[customer] ?? [:]
        where key.original == new.original && key != new && row.nextProduct == new.product {
            rows[customer]?[key]?.isOpen = false
        }
    }

    var description: String { "\(rule), \(transfers): \(rows)" }
}

extension [String: WireValue] {
    fileprivate func people(_ name: String) -> [IdentityRef] {
        guard case .array(let numbers)? = self[name] else { return [] }
        return numbers.compactMap { if case .int(let number) = $0 { IdentityRef(number) } else { nil } }
    }

    func instant(_ name: String) -> Timestamp? {
        if case .int(let milliseconds)? = self[name] { Timestamp(milliseconds: milliseconds) } else { nil }
    }
}
