import EntitlementCore
import Ledger
import Synchronization

/// Remembers when each stream delivered last, also what was known already and so became no event.
package final class StreamEars: Sendable {
    private let heard = Mutex<[StoreStream: Timestamp]>([:])

    package init() {}

    func hear(_ stream: StoreStream, at instant: Timestamp) {
        heard.withLock { $0[stream] = max($0[stream] ?? instant, instant) }
    }

    /// What was heard since this was asked last.
    func takeAll() -> [StoreStream: Timestamp] {
        heard.withLock { heard in
            defer { heard = [:] }
            return heard
        }
    }

    /// Remembers again what could not be kept elsewhere.
    func giveBack(_ taken: [StoreStream: Timestamp]) {
        for (stream, instant) in taken { hear(stream, at: instant) }
    }
}
