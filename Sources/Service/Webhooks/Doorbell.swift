import Synchronization

/// Lets one task sleep until another task rings, or a time has passed.
package final class Doorbell: Sendable {
    private struct State {
        var sleeper: (number: Int, continuation: CheckedContinuation<Void, Never>)?
        var hasRung = false
        var count = 0
        /// The number of the last wait whose time was up, or that was cancelled, before it slept.
        var overslept = 0
    }

    private let state = Mutex(State())

    package init() {}

    /// Wakes the task that sleeps, or lets the next wait return at once.
    package func ring() {
        let sleeper = state.withLock { state in
            guard let sleeper = state.sleeper else {
                state.hasRung = true
                return nil as CheckedContinuation<Void, Never>?
            }
            state.sleeper = nil
            return sleeper.continuation
        }
        sleeper?.resume()
    }

    /// Returns when it is rung, at once where it was since the last time, or when the task is cancelled.
    ///
    /// - Parameter time: after which it returns at the latest; `nil`: it waits for as long as it takes.
    func wait(for time: Duration? = nil) async {
        let number = state.withLock { state in
            state.count += 1
            return state.count
        }
        let alarm = time.map { time in
            Task {
                try? await Task.sleep(for: time)
                wake(number)
            }
        }
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let isOver = state.withLock { state in
                    guard !state.hasRung, state.overslept < number, !Task.isCancelled else {
                        state.hasRung = false
                        return true
                    }
                    state.sleeper = (number, continuation)
                    return false
                }
                if isOver { continuation.resume() }
            }
        } onCancel: {
            wake(number)
        }
        alarm?.cancel()
    }

    private func wake(_ number: Int) {
        let sleeper = state.withLock { state in
            state.overslept = max(state.overslept, number)
            guard let sleeper = state.sleeper, sleeper.number == number else {
                return nil as CheckedContinuation<Void, Never>?
            }
            state.sleeper = nil
            return sleeper.continuation
        }
        sleeper?.resume()
    }
}
