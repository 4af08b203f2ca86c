import Synchronization

/// How many a second, over the last few seconds.
final class RateMeter: Sendable {
    private struct State {
        var count = 0.0
        var since = ContinuousClock.now
        var rate = 0.0
    }

    private let state = Mutex(State())

    func add(_ count: Int) {
        state.withLock { state in
            state.count += Double(count)
            let elapsed = state.since.duration(to: .now) / .seconds(1)
            guard elapsed >= 1 || state.rate == 0 && elapsed > 0.05 else { return }
            state.rate = state.count / elapsed
            if elapsed >= 1 {
                state.count = 0
                state.since = .now
            }
        }
    }

    var perSecond: Double { state.withLock { $0.rate } }
}

extension Double {
    /// Rounded to a number of decimal places, for people.
    func rounded(to places: Int) -> Double {
        let factor = (0..<places).reduce(1.0) { factor, _ in factor * 10 }
        return (self * factor).rounded() / factor
    }
}
