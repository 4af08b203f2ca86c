import Synchronization

/// Hands out each number once, to whichever worker asks.
final class Ticket: Sendable {
    private let next = Atomic(0)

    func take() -> Int { next.add(1, ordering: .relaxed).oldValue }
}
