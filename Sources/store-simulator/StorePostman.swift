import Foundation
import StoreSimulator
import Synchronization

/// The store's clock while it runs.
final class RunningClock: Sendable {
    private let clock: Mutex<StoreClock>

    init(_ clock: StoreClock) { self.clock = Mutex(clock) }

    var now: Int64 {
        let real = StoreSimulatorProgram.currentMilliseconds()
        return clock.withLock { $0.instant(at: real) }
    }

    /// Whether it shows the real time.
    var hasCaughtUp: Bool {
        let real = StoreSimulatorProgram.currentMilliseconds()
        return clock.withLock { $0.instant(at: real) } == real
    }

    func begin() { clock.withLock { $0.begin(at: StoreSimulatorProgram.currentMilliseconds()) } }
}

/// Makes the attempts to deliver, each at its instant of the store's clock.
struct StorePostman: Sendable {
    /// What came of the attempts so far.
    struct Tally: Sendable {
        var deliveries = 0
        var retries = 0
        var duplicates = 0
        var failed = 0
    }

    private let dispatch: StoreDispatch
    /// `nil`: nothing the store sends arrives.
    private let service: StoreClient?
    private(set) var tally = Tally()
    private var lastFailure: DeliveryAnswer?

    init(_ dispatch: StoreDispatch, to service: StoreClient?) {
        self.dispatch = dispatch
        self.service = service
    }

    /// Makes every attempt that is due.
    ///
    /// - Parameter instant: how far the store's clock has come.
    mutating func deliver(until instant: Int64) async {
        while let attempt = dispatch.nextAttempt(until: instant) {
            guard let service else {
                dispatch.note(.noResponse, of: attempt)
                continue
            }
            tally.deliveries += 1
            tally.retries += attempt.isRetry ? 1 : 0
            // A service that is stopped meanwhile is to find the store's API when it comes back.
            let (answer, isDuplicate, complaint) = await service.attempt(attempt.payload)
            dispatch.note(answer, of: attempt)
            tally.duplicates += isDuplicate ? 1 : 0
            tally.failed += answer.isSuccess ? 0 : 1
            // The same again is said once, whatever else it says.
            if let complaint, answer != lastFailure { say("not delivered: \(complaint)") }
            lastFailure = complaint == nil ? nil : answer
        }
    }

    /// Begins to count anew, and returns what was counted.
    mutating func takeTally() -> Tally {
        defer { tally = Tally() }
        return tally
    }
}
