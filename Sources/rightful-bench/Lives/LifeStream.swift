import EntitlementCore
import Ledger
import Synchronization

/// The events of many lives as a store sends them: thousands of lives at a time, each a step further in turn.
///
/// The same shape always gives the same stream, so another process can go on where one stopped.
final class LifeStream: Sendable {
    /// What kind of lives there are.
    struct Shape: Codable, Sendable {
        /// How many months are paid, at least and at most.
        var fewestPeriods = 1
        var mostPeriods = 11
        /// How many lives are under way at a time.
        var window = 4096
        /// The number of the first life; lives of different streams must not share numbers.
        var firstLife = 0
        /// How many lives there are altogether, after which the stream ends; 0 for a stream without end.
        var lives = 0
    }

    private struct State {
        var slots: [(life: Int, step: Int, count: Int)]
        var cursor = 0
        var nextLife: Int
    }

    private let shape: Shape
    private let evidence: [JWSParts]
    private let state: Mutex<State>

    /// - Parameter evidence: signed bytes that the events carry in turn.
    init(_ shape: Shape, evidence: [JWSParts]) {
        self.shape = shape
        self.evidence = evidence
        let window = shape.lives > 0 ? min(shape.window, shape.lives) : shape.window
        let numbers = (0..<window).map { shape.firstLife + $0 }
        state = Mutex(
            State(
                slots: numbers.map {
                    ($0, 0, SubscriberLife($0, periods: shape.fewestPeriods...shape.mostPeriods).count)
                },
                nextLife: shape.firstLife + window))
    }

    private var periods: ClosedRange<Int> { shape.fewestPeriods...shape.mostPeriods }

    /// The next event; `nil` when all lives are told.
    func next() -> EventDraft? {
        guard let place = advance() else { return nil }
        let pick = (place.life &* 31 &+ place.step) % evidence.count
        return SubscriberLife(place.life, periods: periods).draft(place.step, evidence: evidence[pick])
    }

    /// Passes over events that are in the log already.
    func skip(_ count: Int) {
        for _ in 0..<count where advance() == nil { return }
    }

    /// The customers whose first event has been told.
    func customers() -> [String] {
        state.withLock { state in
            let waiting = Set(state.slots.filter { $0.step == 0 }.map(\.life))
            return (shape.firstLife..<state.nextLife).filter { !waiting.contains($0) }
                .map { SubscriberLife($0, periods: periods).token }
        }
    }

    private func advance() -> (life: Int, step: Int)? {
        state.withLock { state in
            guard !state.slots.isEmpty else { return nil }
            if state.cursor >= state.slots.count { state.cursor = 0 }
            let (life, step, count) = state.slots[state.cursor]
            if step + 1 < count {
                state.slots[state.cursor].step += 1
                state.cursor += 1
            } else if shape.lives == 0 || state.nextLife < shape.firstLife + shape.lives {
                let next = state.nextLife
                state.nextLife += 1
                state.slots[state.cursor] = (next, 0, SubscriberLife(next, periods: periods).count)
                state.cursor += 1
            } else {
                state.slots.remove(at: state.cursor)
            }
            return (life, step)
        }
    }
}
