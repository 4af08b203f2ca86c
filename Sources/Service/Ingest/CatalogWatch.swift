import EntitlementCore
import Ledger
import Synchronization

/// Remarks on products of incoming purchases that the catalog does not know or gives no duration; it decides nothing.
///
/// The catalog is read at most once in `lifetime`, so a notification costs no query. It is waited for only briefly,
/// because a notification must not wait for readers of the database.
final class CatalogWatch: Sendable {
    private struct Known {
        let catalog: Catalog
        let readAt: ContinuousClock.Instant
    }

    private static let patience = Duration.milliseconds(250)

    private let reader: LedgerReader
    private let lifetime: Duration
    private let known = Mutex<Known?>(nil)

    init(reader: LedgerReader, lifetime: Duration) {
        self.reader = reader
        self.lifetime = lifetime
    }

    /// `unmapped_product` for one that gives nothing, `product_without_duration` for a non-renewing one of which
    /// nobody says how long it runs; nothing while the catalog cannot be read.
    func remarks(on fact: TransactionFact) async -> [String] {
        guard let catalog = await current() else { return [] }
        guard let product = catalog.product(fact.productID), !product.entitlements.isEmpty else {
            return ["unmapped_product"]
        }
        if fact.kind == .known(.nonRenewing), product.duration == nil { return ["product_without_duration"] }
        return []
    }

    /// `unmapped_product` where Stripe sold what is no product of ours.
    ///
    /// Where a one-time payment names a product of ours, also what is odd about that. Neither gives anything.
    func remarks(on fact: WebFact) async -> [String] {
        let (sold, named) = (fact.sold, fact.payment?.catalogProductID)
        guard !sold.isEmpty || named != nil, let catalog = await current() else { return [] }
        let remarks = sold.contains { catalog.productID(of: $0) == nil } ? ["unmapped_product"] : []
        guard let named else { return remarks }
        if catalog.product(named) == nil { return remarks + ["unknown_product"] }
        return remarks + (catalog.isEndlessByMistake(named) ? ["subscription_sold_once"] : [])
    }

    private func current() async -> Catalog? {
        let now = ContinuousClock.now
        if let known = known.withLock({ $0 }), known.readAt.duration(to: now) < lifetime { return known.catalog }
        let read = try? await within(Self.patience) { [reader] in try await reader.catalog().catalog }
        guard let catalog = read ?? nil else { return nil }
        known.withLock { $0 = Known(catalog: catalog, readAt: now) }
        return catalog
    }
}
