import HTTPServer
import Ledger

/// A read that waits for the proof that its answer is fresh, or to be loaded.
struct HeldRead {
    let exchange: Exchange
    let key: CustomerCacheKey
    let reader: RememberedReaders.Reader
    /// The value of `If-None-Match`.
    let knownTags: String?
    let receivedAt: ContinuousClock.Instant
}

/// What other threads bring to the responder.
enum ResponderDelivery: Sendable {
    /// A session that follows the log; `nil` when none could be opened.
    case tail(LogTail?)
    /// The answers to a batch of reads, in the order of its keys.
    case loaded(batch: Int, [EntitlementsLoader.Loaded?])
}
