import EntitlementCore
import Ledger
import Synchronization

extension StoreStream {
    /// How lines of the log name it.
    var logged: [(String, LogValue)] { [("app", .string(app)), ("environment", .string(environment.rawValue))] }
}

/// Remembers when each stream last delivered something, including repetitions, which become no event.
package final class StreamDeliveries: Sendable {
    /// The last delivery that the store had signed and that was refused all the same.
    struct Refusal: Sendable {
        let at: Timestamp
        let reason: String
        fileprivate let saidAt: Timestamp
    }

    private let heard = Mutex<[StoreStream: Timestamp]>([:])
    private let refused = Mutex<Refusal?>(nil)

    package init() {}

    func hear(_ stream: StoreStream, at instant: Timestamp) {
        heard.withLock { $0[stream] = max($0[stream] ?? instant, instant) }
    }

    /// Returns whether it is time to say so again: once an hour.
    func refuse(_ reason: String, at instant: Timestamp) -> Bool {
        refused.withLock { last in
            let isDue = last.map { $0.saidAt.adding(milliseconds: 3_600_000) <= instant || $0.saidAt > instant } ?? true
            last = Refusal(at: instant, reason: reason, saidAt: isDue ? instant : last?.saidAt ?? instant)
            return isDue
        }
    }

    /// The last one; of this process alone.
    var refusal: Refusal? { refused.withLock { $0 } }

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
