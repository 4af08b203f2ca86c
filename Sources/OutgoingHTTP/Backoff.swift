/// Pauses between attempts at something that fails: each is twice as long as the one before it, up to a limit.
package struct Backoff: Sendable, Hashable {
    /// After the first failure.
    package var first: Duration
    package var longest: Duration

    package init(first: Duration, longest: Duration) {
        self.first = first
        self.longest = longest
    }

    /// The pause after so many failures in a row, from 1 on.
    package func pause(after failures: Int) -> Duration {
        min(longest, first * (1 << min(max(0, failures - 1), Self.mostDoublings)))
    }

    /// The same, or up to half of it less, so that those who failed together do not come back together.
    ///
    /// - Parameter fraction: from 0 to 1, chosen by chance.
    package func pause(after failures: Int, fraction: Double) -> Duration {
        let whole = pause(after: failures)
        return whole / 2 + whole / 2 * fraction
    }

    /// A million times the first pause is longer than anybody waits.
    private static let mostDoublings = 20
}
