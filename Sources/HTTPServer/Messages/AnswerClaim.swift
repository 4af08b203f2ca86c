import Synchronization

/// Who answers a request: its handler, or the server in the handler's place, once that has taken too long.
///
/// Whoever claims first answers, and counts and logs the exchange; what the other has to say is lost. So an exchange is
/// written down once, as its client saw it.
package final class AnswerClaim: Sendable {
    private let isTaken = Atomic(false)

    package init() {}

    /// - Returns: whether nobody has claimed before.
    package func take() -> Bool { !isTaken.exchange(true, ordering: .acquiringAndReleasing) }
}
