public import Foundation

/// Something that happened to what is to be sent to the server.
public struct SyncEvent: Sendable, Hashable {
    /// What happened; new kinds may come, so it is no enumeration.
    public struct Kind: RawRepresentable, Sendable, Hashable {
        /// The word itself.
        public let rawValue: String

        /// Takes any word, known to this version or not.
        public init(rawValue: String) { self.rawValue = rawValue }

        /// The server holds it.
        public static let succeeded = Kind(rawValue: "succeeded")
        /// It was tried in vain, and will be tried again.
        public static let failed = Kind(rawValue: "failed")
        /// It was tried in vain as often as it may be, and rests until the server answers something else, the
        /// network returns, or the app is launched or comes to the front.
        public static let resting = Kind(rawValue: "resting")
        /// The server holds it, and says it is somebody else's.
        public static let conflict = Kind(rawValue: "conflict")
        /// The store handed over something the device does not believe: it neither grants nor is sent.
        public static let unverified = Kind(rawValue: "unverified")
        /// Something could not be kept on disk; nothing is finished until it can.
        public static let storageFailed = Kind(rawValue: "storage_failed")
        /// The server did not take the customer's token; identify the customer again with a new one, unless there is an
        /// ``EntitlementConfiguration/tokenProvider``, which is asked again after a while.
        public static let tokenRejected = Kind(rawValue: "token_rejected")
    }

    /// What happened.
    public let kind: Kind
    /// What it happened to; empty where it concerns no transaction.
    public let transactionIDs: [String]
    /// A sentence for people who read logs.
    public let detail: String?
    /// How often it has been tried since it last rested.
    public let attempts: Int
    /// When it is tried again by itself.
    public let nextAttempt: Date?

    /// Puts one together from its parts.
    public init(
        kind: Kind, transactionIDs: [String], detail: String? = nil, attempts: Int = 0, nextAttempt: Date? = nil
    ) {
        self.kind = kind
        self.transactionIDs = transactionIDs
        self.detail = detail
        self.attempts = attempts
        self.nextAttempt = nextAttempt
    }
}

/// Hears what becomes of what is sent to the server; beside it there is ``EntitlementStore/syncEvents``.
public protocol EntitlementSyncDelegate: AnyObject, Sendable {
    /// Called in the order in which things happened; must not block.
    func entitlementStore(didReport event: SyncEvent)
}
