import Ledger
import Synchronization

/// Remembers the streams whose notifications were refused because the ledger could not take them, and tells when to
/// read the store's history for them: the store itself sends them again much later, and in the sandbox never.
///
/// The history is read once the ledger takes notifications again, and once more a while later, because the store lists
/// with a delay what it has sent. It does not matter how many were refused, or for how long.
package final class MissedDeliveries: Sendable {
    /// After how long the history is read once more.
    private static let repetition = Duration.seconds(600)
    /// After how long without a further refusal it is tried, where nothing comes that the ledger could take.
    private static let patience = Duration.seconds(60)

    private struct Stream {
        /// When the last was refused since the ledger took one; `nil`: none was.
        var refusedAt: ContinuousClock.Instant?
        /// When the history is to be read; `nil`: at no time before its turn.
        var dueAt: ContinuousClock.Instant?
        /// Whether it is to be read once more after that.
        var isRepeated = false

        /// What was refused is to be read: at once, or where another reading is on its way, with that and once more.
        mutating func end(at now: ContinuousClock.Instant) {
            refusedAt = nil
            dueAt = dueAt ?? now
            isRepeated = true
        }
    }

    private let streams = Mutex<[StoreStream: Stream]>([:])

    package init() {}

    /// The ledger could not take a notification.
    func refuse(_ stream: StoreStream, at now: ContinuousClock.Instant = .now) {
        streams.withLock { $0[stream, default: Stream()].refusedAt = now }
    }

    /// The ledger took one, of whatever stream.
    func take(at now: ContinuousClock.Instant = .now) {
        streams.withLock { streams in
            for (stream, state) in streams where state.refusedAt != nil { streams[stream]?.end(at: now) }
        }
    }

    /// Whether a stream's history is to be read now; whoever is told so reads it.
    func isDue(_ stream: StoreStream, at now: ContinuousClock.Instant = .now) -> Bool {
        streams.withLock { streams in
            guard var state = streams[stream] else { return false }
            if let last = state.refusedAt, last.duration(to: now) >= Self.patience { state.end(at: now) }
            let isDue = state.dueAt.map { $0 <= now } ?? false
            if isDue { (state.dueAt, state.isRepeated) = (state.isRepeated ? now + Self.repetition : nil, false) }
            streams[stream] = state
            return isDue
        }
    }
}
