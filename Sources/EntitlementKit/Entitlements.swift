import EntitlementCore
public import Foundation

/// What the customer holds at an instant: the published state of an ``EntitlementStore``.
public struct Entitlements: Sendable, Hashable {
    /// How far a state can be relied on.
    ///
    /// A later major version may add cases; write `default:` where you switch over it.
    public enum Kind: Sendable, Hashable {
        /// The app was just launched, or somebody has just logged in, and what store and server say first is still
        /// waited for. Do not lock features in this state. What ``Entitlements/all`` gives access to is given all the
        /// same. It takes two seconds at most, unless the files cannot be read yet, as before the device was first
        /// unlocked.
        case loading
        /// The server has answered, and this rests on its log up to a position.
        case live(position: Int64)
        /// Computed on the device from what was known last; `asOf` is when the server answered last, `nil`: never.
        case offline(asOf: Date?, reason: OfflineReason)
    }

    /// Why the device computed a state by itself; new reasons may come, so it is no enumeration.
    public struct OfflineReason: RawRepresentable, Sendable, Hashable {
        /// The word itself.
        public let rawValue: String

        /// Takes any word, known to this version or not.
        public init(rawValue: String) { self.rawValue = rawValue }

        /// The server has not been asked yet since the app was launched.
        public static let notYetAsked = OfflineReason(rawValue: "not_yet_asked")
        /// The server could not be reached.
        public static let unreachable = OfflineReason(rawValue: "unreachable")
        /// The server could be reached and had no usable answer.
        public static let refused = OfflineReason(rawValue: "refused")
        /// The server answered, and nothing proves whose device this is: it told what was posted, and no more.
        public static let unproven = OfflineReason(rawValue: "unproven")
        /// Sync is off.
        public static let syncOff = OfflineReason(rawValue: "sync_off")
        /// An ``EntitlementReader`` has read it, which asks nobody.
        public static let readOnly = OfflineReason(rawValue: "read_only")
    }

    /// How far it can be relied on.
    public let kind: Kind
    /// Whose entitlements these are; `nil` while nobody is known.
    public let customerID: String?
    /// The same as it is compared, so that two spellings of one name are two states.
    let customer: CustomerID?
    /// The store's environment they are of, such as `Sandbox` in TestFlight; `nil` while it is not known.
    public let environment: StoreEnvironmentName?
    /// The instant for which they were read.
    public let at: Date
    /// In the order of their ids; lapsed ones included.
    public let all: [Entitlement]

    /// Puts one together from its parts.
    public init(
        kind: Kind, customerID: String? = nil, environment: StoreEnvironmentName? = nil, at: Date,
        all: [Entitlement] = []
    ) {
        self.kind = kind
        self.customerID = customerID
        customer = customerID.flatMap(CustomerID.init)
        self.environment = environment
        self.at = at
        self.all = all
    }

    /// Before anything has been read.
    public static let loading = Entitlements(kind: .loading, at: Date(timeIntervalSince1970: 0))

    /// The entitlement of that id; `nil` where it was never held.
    public subscript(id: String) -> Entitlement? { all.first { $0.id == id } }

    /// Whether the entitlement of that id gives access.
    public func givesAccess(to id: String) -> Bool { self[id]?.givesAccess ?? false }

    /// What a view is to show that needs the entitlement of that id.
    public func access(to id: String) -> EntitlementAccess {
        if let entitlement = self[id], entitlement.givesAccess { return .given(entitlement) }
        return kind == .loading ? .loading : .denied(self[id])
    }

    /// Whether the server stands behind it.
    public var isLive: Bool {
        if case .live = kind { true } else { false }
    }
}

/// Whether somebody may enter, or it is too early to tell.
public enum EntitlementAccess: Sendable, Hashable {
    /// It is not known yet, which takes two seconds at most: show neither what was paid for nor a paywall.
    case loading
    /// They may, and why.
    case given(Entitlement)
    /// They may not; what they held before, such as one that was refunded or is in billing retry, `nil`: nothing.
    case denied(Entitlement?)
}
