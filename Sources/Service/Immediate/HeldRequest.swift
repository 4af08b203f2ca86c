import EntitlementCore
import HTTPServer
import Ledger

/// A request that waits for the proof that its answer is fresh, or for its answer to be made.
struct HeldRequest {
    /// What is asked.
    enum Question {
        /// The entitlements now.
        case read(CustomerCacheKey, knownTags: String?)
        /// The entitlements at an instant, or as known at a position of the past.
        case past(PastRead, knownTags: String?)
        /// A device posts what it posted before.
        case launch(LaunchKey)
    }

    let exchange: Exchange
    let question: Question
    /// The key that sends it; `nil` for a customer token.
    let key: RememberedKeys.Key?
    /// The rate limits that were charged for it; they get it back if the general path takes the request.
    let payers: [RateLimiter.Subject]
    let receivedAt: ContinuousClock.Instant
}

/// What the event loop keeps answers under.
enum CachedAnswerKey: Hashable {
    case read(CustomerCacheKey)
    case past(CustomerCacheKey)
    case launch(LaunchKey)
}

/// What the event loop keeps.
enum CachedAnswer {
    case read(EncodedEntitlements)
    case past(CustomerPast)
    case launch(RepeatableLaunch)
}

/// What other threads bring to the responder.
enum ResponderDelivery: Sendable {
    /// A session that follows the log; `nil` when none could be opened.
    case tail(LogTail?)
    /// The answers to a batch of reads, in the order of its keys.
    case loaded(batch: Int, [EntitlementsLoader.Loaded?])
    /// The answers to a batch of reads of the past, in their order, and what was loaded for them.
    case pasts(batch: Int, [PastAnswer?], loaded: [CustomerCacheKey: CustomerPast])
}
