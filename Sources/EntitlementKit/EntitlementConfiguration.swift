package import Foundation

/// Tells whether the App Store has signed a statement, by the certificates in its header (`x5c`) and Apple's root.
///
/// StoreKit verifies what it hands over, and nothing that was kept. ``AppStoreStatementVerifier`` does that with what Apple's
/// systems have. The certificates have to be valid when the statement was signed, not now.
public protocol SignedStatementVerifier: Sendable {
    /// Whether a compact JWS was signed by the App Store.
    func isSignedByStore(_ jws: String) -> Bool
}

/// What an app tells its ``EntitlementStore``, once.
public struct EntitlementConfiguration: Sendable {
    /// What one product gives, as the app was built to know it.
    public struct Mapping: Sendable, Hashable {
        /// The product.
        public let productID: String
        /// The entitlements it gives.
        public let entitlements: [String]
        /// How long a consumable or non-renewing purchase runs, in ISO 8601 (`P90D`); `nil` for what the store dates.
        public let duration: String?

        /// Puts one together from its parts.
        public init(productID: String, entitlements: [String], duration: String? = nil) {
            self.productID = productID
            self.entitlements = entitlements
            self.duration = duration
        }
    }

    /// The app's bundle id; what the store signed for another app is not looked at.
    public var bundleID: String
    /// The products the app sells, for ``EntitlementStore/products()``.
    public var productIDs: [String]
    /// The environment to read; `nil` takes the one that the store signs for.
    public var environment: StoreEnvironmentName?
    /// What products give while no catalog of the server is known, which is before the first answer, or always where
    /// sync is off.
    ///
    /// Without it a purchase made before the first answer gives nothing until then.
    public var bundledCatalog: [Mapping]
    /// Whether statements are sent to the server.
    ///
    /// Off, nothing leaves the device: then the store's statements and ``bundledCatalog`` are all there is, and a
    /// transaction is finished once it is on disk and in the published state.
    public var isSyncEnabled: Bool
    /// How long what neither server nor store confirmed still gives access; 7 days unless told.
    ///
    /// It holds while sync is on. Without a server only the store could confirm, and one that comes back empty says
    /// nothing.
    public var offlineBound: Duration
    /// How long a subscription goes on giving access beyond its end while the server cannot be asked whether it was
    /// renewed, if its auto-renewal was on; 1 day unless told.
    ///
    /// An ``EntitlementReader`` can ask nobody, and takes ``offlineBound`` where that is longer.
    public var renewalLeeway: Duration
    /// Obtains a token of a customer from your server, whenever one is needed: when the app was launched, when the last one
    /// ran out, and when it was refused.
    ///
    /// Without it a token counts only as long as it is good; after that the server tells nothing more of what the customer
    /// holds elsewhere. Where it throws, it is asked again after a while.
    public typealias TokenProvider = @Sendable (_ request: CustomerTokenRequest) async throws -> CustomerToken
    /// Asked when a customer's token is needed; see ``TokenProvider``.
    public var tokenProvider: TokenProvider?
    /// Lets your server sign a promotional offer, for ``OfferChoice/promotional(_:)``.
    ///
    /// Your server decides who is given it, and may ask Rightful for the signature (`POST /v1/offer_signatures`).
    ///
    /// Where it throws, or takes longer than twenty seconds, nothing is bought.
    public typealias OfferSigner =
        @Sendable (_ request: PromotionalOfferRequest) async throws -> PromotionalOfferSignature
    /// Asked when a promotional offer is bought; `nil`: none can be.
    public var offerSigner: OfferSigner?
    /// Where the store says what it does; Apple's unified log unless told, and nowhere on Linux.
    public var logger: (any EntitlementLogger)?
    /// The kinds of purchases that your app grants by itself, such as the coins of a consumable; none unless told.
    ///
    /// Each of them comes from ``EntitlementStore/unacknowledgedPurchases``, at every launch again, and is not finished
    /// before your app has called ``EntitlementStore/acknowledge(_:)``.
    public var acknowledgedKinds: Set<PurchaseKind>
    /// How the app sells on the web; `nil`: it does not.
    public var webCheckout: WebCheckout?
    /// The keys of your server's passes; none unless told.
    ///
    /// With them nothing gives access, then or later, that a server, a proxy or the disk says of the customer or of a product, beyond
    /// what one of them has signed: each entitlement until when the pass states it. What the store has signed on this device
    /// counts by itself, by ``bundledCatalog`` and by what passes have stated that its product gives; so name your products there.
    /// An answer counts for ``offlineBound`` with its pass, also after that has expired.
    public var passKeys: PassKeySet?
    /// Asked about each statement that is read from the disk, which anybody may have written on a device that is not
    /// guarded.
    ///
    /// On Apple's systems it is an ``AppStoreStatementVerifier`` unless told. `nil` believes them until the server refuses
    /// them. It is asked on a thread of its own, so it may take its time.
    public var statementVerifier: (any SignedStatementVerifier)?
    /// How many transactions are kept without letting go of any.
    package var transactionLimit = StatementBook.transactionLimit
    /// Verifies signatures where the system does not.
    package var es256: (@Sendable (_ key: Data, _ signature: Data, _ message: Data) -> Bool)?

    /// Puts one together from its parts.
    public init(
        bundleID: String, productIDs: [String] = [], environment: StoreEnvironmentName? = nil,
        bundledCatalog: [Mapping] = [], isSyncEnabled: Bool = true, offlineBound: Duration = .seconds(7 * 86_400),
        renewalLeeway: Duration = .seconds(86_400), tokenProvider: TokenProvider? = nil,
        acknowledgedKinds: Set<PurchaseKind> = [],
        webCheckout: WebCheckout? = nil
    ) {
        self.bundleID = bundleID
        self.productIDs = productIDs
        self.environment = environment
        self.bundledCatalog = bundledCatalog
        self.isSyncEnabled = isSyncEnabled
        self.offlineBound = offlineBound
        self.renewalLeeway = renewalLeeway
        self.tokenProvider = tokenProvider
        self.acknowledgedKinds = acknowledgedKinds
        self.webCheckout = webCheckout
        #if canImport(os)
        logger = SystemEntitlementLogger()
        #endif
        #if canImport(Security) && canImport(CryptoKit)
        statementVerifier = AppStoreStatementVerifier(
            believesXcode: AppStoreStatementVerifier.isBuiltForXcode || environment == .xcode)
        #endif
    }
}

/// An environment of the store, in Apple's word.
///
/// New ones may come, so it is no enumeration.
public struct StoreEnvironmentName: RawRepresentable, Sendable, Hashable, Codable {
    /// The word itself.
    public let rawValue: String

    /// Takes any word, known to this version or not.
    public init(rawValue: String) { self.rawValue = rawValue }

    /// What customers pay in.
    public static let production = StoreEnvironmentName(rawValue: "Production")
    /// What testers and TestFlight buy in.
    public static let sandbox = StoreEnvironmentName(rawValue: "Sandbox")
    /// Xcode's own store, which signs nothing that a server can verify; it works on the device alone.
    public static let xcode = StoreEnvironmentName(rawValue: "Xcode")
}
