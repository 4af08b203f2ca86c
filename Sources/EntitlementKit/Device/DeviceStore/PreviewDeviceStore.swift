import EntitlementAPI
import Foundation

/// A store in memory, for previews and tests of your app: nobody is charged, and nothing leaves the process.
///
/// What it states is signed by nobody, so it must not stand behind an app that people use.
public actor PreviewDeviceStore: DeviceStore {
    /// What a purchase comes to.
    public enum Behavior: Sendable, Hashable {
        case succeeds
        /// Until ``PreviewDeviceStore/approve()``.
        case waitsForApproval
        case isCancelled
        case fails(PurchaseError)
    }

    private struct Row {
        let id: String
        let product: StoreProduct
        let purchasedAt: Date
        var until: Date?
        var offer: SubscriptionOffer?
        var revokedAt: Date?
        var revokedPercentage: Double?
        var options: StorePurchaseOptions
        /// Apple's number for the offer's type.
        var offerType = 1
    }

    /// The bundle id in all that it states.
    public static let bundleID = "preview.app"
    /// Who has this copy of the app, before anybody logs in.
    public static let customerID = "apple:" + appTransactionID
    private static let appTransactionID = "1"

    /// In the ids of its transactions, which those of another device must not have.
    private let device: String
    private let sold: [String: StoreProduct]
    private let clock: any EntitlementClock
    private var behavior = Behavior.succeeds
    private var country: String? = "USA"
    private var rows: [Row] = []
    private var unfinished: Set<String> = []
    private var waiting: [(product: StoreProduct, options: StorePurchaseOptions)] = []
    private nonisolated let stream: AsyncStream<SignedStatement>
    private let continuation: AsyncStream<SignedStatement>.Continuation

    /// A store with products, some of which were bought a moment ago.
    ///
    /// - Parameters:
    ///   - products: what it sells.
    ///   - owned: the ids of those that were bought; an id that is not sold is passed over.
    ///   - clock: by which periods begin and end.
    public init(
        products: [StoreProduct], owned: [String] = [], clock: any EntitlementClock = SystemEntitlementClock()
    ) {
        sold = Dictionary(products.map { ($0.id, $0) }, uniquingKeysWith: { first, _ in first })
        self.clock = clock
        let device = String(UUID().uuidString.prefix(8))
        self.device = device
        (stream, continuation) = AsyncStream.makeStream(of: SignedStatement.self)
        for (number, id) in owned.enumerated() {
            guard let product = sold[id] else { continue }
            rows.append(Self.row("\(device)-\(number + 1)", product, at: clock.now(), StorePurchaseOptions()))
        }
    }

    // MARK: What a test does

    /// Says what purchases come to from now on.
    public func set(_ behavior: Behavior) { self.behavior = behavior }

    /// Says in which country the store is, in ISO 3166-1 alpha-3; the United States unless told, `nil`: it does not tell.
    public func setStorefront(_ country: String?) { self.country = country }

    /// Somebody approves everything that waits for it.
    public func approve() {
        for (product, options) in waiting { tell(add(product, options)) }
        waiting = []
    }

    /// The last purchase of a product is refunded.
    ///
    /// - Parameters:
    ///   - productID: what is refunded.
    ///   - percentage: how much of the price goes back, in all, in per cent; `nil`: all of it.
    public func refund(_ productID: String, percentage: Double? = nil) {
        guard let index = rows.lastIndex(where: { $0.product.id == productID }) else { return }
        (rows[index].revokedAt, rows[index].revokedPercentage) = (clock.now(), percentage)
        tell(rows[index])
    }

    /// A subscription is renewed by the store, from the end of its last period on.
    public func renew(_ productID: String) {
        guard let last = rows.last(where: { $0.product.id == productID }), let start = last.until else { return }
        let accountToken = last.options.appAccountToken
        var row = Self.row(
            nextID, last.product, at: start, StorePurchaseOptions(appAccountToken: accountToken))
        row.offer = nil
        row.until = last.product.subscription?.period.end(from: start)
        rows.append(row)
        tell(row)
    }

    private func tell(_ row: Row) {
        unfinished.insert(row.id)
        continuation.yield(statement(row))
    }

    private func add(_ product: StoreProduct, _ options: StorePurchaseOptions) -> Row {
        let row = Self.row(nextID, product, at: clock.now(), options)
        rows.append(row)
        unfinished.insert(row.id)
        return row
    }

    private var nextID: String { "\(device)-\(rows.count + 1)" }

    private static func row(
        _ id: String, _ product: StoreProduct, at instant: Date, _ options: StorePurchaseOptions
    ) -> Row {
        let (offer, type) = offer(product.subscription, options.offer)
        let period = offer?.period ?? product.subscription?.period
        return Row(
            id: id, product: product, purchasedAt: instant, until: period?.end(from: instant), offer: offer,
            options: options, offerType: type)
    }

    /// The offer that a purchase is made under, and Apple's number for its type.
    private static func offer(
        _ subscription: StoreProduct.Subscription?, _ choice: StoreOffer?
    ) -> (SubscriptionOffer?, Int) {
        switch choice {
        case nil: (subscription?.offerForThisCustomer, 1)
        case .promotional(let id, _): (subscription?.promotionalOffers.first { $0.id == id }, 2)
        case .winBack(let id): (subscription?.winBackOffersForThisCustomer.first { $0.id == id }, 4)
        }
    }

    private func statement(_ row: Row) -> SignedStatement {
        let kind = row.product.kind ?? (row.product.subscription == nil ? .nonConsumable : .autoRenewable)
        func milliseconds(_ date: Date) -> WireValue { .int(Int64((date.timeIntervalSince1970 * 1000).rounded())) }
        var members: [String: WireValue] = [
            "transactionId": .string(row.id), "originalTransactionId": .string(original(of: row)),
            "productId": .string(row.product.id), "bundleId": .string(Self.bundleID), "type": .string(kind.rawValue),
            "purchaseDate": milliseconds(row.purchasedAt), "signedDate": milliseconds(row.revokedAt ?? row.purchasedAt),
            "environment": .string(StoreEnvironmentName.sandbox.rawValue), "inAppOwnershipType": .string("PURCHASED"),
            "appTransactionId": .string(Self.appTransactionID), "quantity": .int(Int64(row.options.quantity)),
        ]
        members["expiresDate"] = row.until.map(milliseconds)
        members["revocationDate"] = row.revokedAt.map(milliseconds)
        if row.revokedAt != nil {
            let thousandths = row.revokedPercentage.flatMap { Int64(exactly: ($0 * 1000).rounded()) }
            members["revocationType"] = .string(thousandths == nil ? "REFUND_FULL" : "REFUND_PRORATED")
            members["revocationPercentage"] = .int(thousandths ?? 100_000)
        }
        members["appAccountToken"] = row.options.appAccountToken.map { .string($0.uuidString.lowercased()) }
        if let offer = row.offer {
            members["offerType"] = .int(Int64(row.offerType))
            members["offerIdentifier"] = offer.id.map { .string($0) }
            members["offerDiscountType"] = .string(offer.discount.uppercased())
        }
        return Self.stated(members)
    }

    private static func stated(_ members: [String: WireValue]) -> SignedStatement {
        let payload = (try? WireJSON.encode(WireValue.object(members))) ?? []
        let text = Data(payload).base64EncodedString().replacingOccurrences(of: "+", with: "-")
            .replacingOccurrences(of: "/", with: "_").replacingOccurrences(of: "=", with: "")
        return SignedStatement(jws: "e30.\(text).cHJldmlldw")
    }

    private func original(of row: Row) -> String {
        guard row.product.subscription != nil else { return row.id }
        return rows.first { $0.product.id == row.product.id }?.id ?? row.id
    }

    // MARK: What the Kit asks for

    /// That of ``customerID``.
    public func appTransaction() -> SignedStatement? {
        Self.stated([
            "bundleId": .string(Self.bundleID), "receiptType": .string(StoreEnvironmentName.sandbox.rawValue),
            "appTransactionId": .string(Self.appTransactionID),
        ])
    }

    /// What neither ran out nor was refunded.
    public func currentEntitlements() -> [SignedStatement] {
        let now = clock.now()
        return rows.filter { row in
            row.revokedAt == nil && row.product.kind != .consumable && row.until.map { $0 > now } ?? true
        }.map(statement)
    }

    /// Everything that was bought.
    public func allTransactions() -> [SignedStatement] { rows.map(statement) }

    /// What was not finished.
    public func unfinishedTransactions() -> [SignedStatement] {
        rows.filter { unfinished.contains($0.id) }.map(statement)
    }

    /// None.
    public func subscriptionStatuses() -> [SubscriptionStatement] { [] }

    /// What is approved, renewed and refunded; for one listener.
    public nonisolated func updates() -> AsyncStream<SignedStatement> { stream }

    /// None: auto-renewal cannot be turned off here.
    public nonisolated func statusUpdates() -> AsyncStream<SubscriptionStatement> { AsyncStream { $0.finish() } }

    /// Those that were given.
    public func products(_ ids: [String]) -> [StoreProduct] { ids.compactMap { sold[$0] } }

    /// Does what ``set(_:)`` said; while an earlier purchase of the product is not finished, that is handed over once more, as
    /// by the App Store, and nothing is sold.
    public func purchase(_ productID: String, options: StorePurchaseOptions) throws -> StorePurchaseResult {
        guard let product = sold[productID] else { throw PurchaseError(.productNotFound) }
        if options.offer != nil, Self.offer(product.subscription, options.offer).0 == nil {
            throw PurchaseError(.ineligibleForOffer)
        }
        switch behavior {
        case .succeeds:
            let earlier = rows.last { $0.product.id == productID && unfinished.contains($0.id) }
            return .success(statement(earlier ?? add(product, options)))
        case .waitsForApproval:
            waiting.append((product, options))
            return .pending
        case .isCancelled: return .userCancelled
        case .fails(let error): throw error
        }
    }

    /// Takes it from what is unfinished.
    public func finish(transactionID: String) -> Bool { unfinished.remove(transactionID) != nil }

    /// Does nothing.
    public func sync() {}

    /// Yes.
    public func canMakePayments() -> Bool { true }

    /// What ``setStorefront(_:)`` said.
    public func storefront() -> String? { country }
}

extension EntitlementStore {
    /// A store for previews of your app's views, and for tests: everything is in memory, and nobody is asked.
    ///
    /// - Parameters:
    ///   - catalog: what products give.
    ///   - device: a store with the products, which a test can keep to let it approve, renew and refund.
    ///   - clock: the same as the device's.
    public static func preview(
        catalog: [EntitlementConfiguration.Mapping], device: PreviewDeviceStore,
        clock: any EntitlementClock = SystemEntitlementClock()
    ) -> EntitlementStore {
        EntitlementStore(
            configuration: EntitlementConfiguration(
                bundleID: PreviewDeviceStore.bundleID, productIDs: catalog.map(\.productID), bundledCatalog: catalog,
                isSyncEnabled: false),
            store: device, server: nil, storage: InMemoryEntitlementStorage(), clock: clock)
    }

    /// The same with products that have no price, some of which are owned.
    public static func preview(
        catalog: [EntitlementConfiguration.Mapping], owned: [String] = []
    ) -> EntitlementStore {
        let products = catalog.map { StoreProduct(id: $0.productID, displayName: $0.productID, displayPrice: "") }
        return preview(catalog: catalog, device: PreviewDeviceStore(products: products, owned: owned))
    }
}
