/// When a webhook that was not taken is sent again.
package enum DeliverySchedule {
    /// The pauses after the first attempts, in milliseconds; from then on it is the last.
    private static let pauses: [Int64] = [1_000, 5_000, 30_000, 120_000, 600_000, 3_600_000, 21_600_000]
    /// For how long it is tried after the first attempt, in milliseconds.
    package static let patience = 3 * Timestamp.millisecondsPerDay

    /// When it is sent next; `nil` where it is given up.
    ///
    /// - Parameters:
    ///   - attempts: how many failed, this one included.
    ///   - firstAt: when the first was made.
    ///   - wished: how long the receiver wishes to be left alone, in milliseconds.
    ///   - chance: from 0 to 1; up to a tenth of the pause is left out or added, so that not all come at once.
    package static func next(
        after attempts: Int, firstAt: Timestamp, now: Timestamp, wished: Int64 = 0, chance: Double
    ) -> Timestamp? {
        let end = firstAt.adding(milliseconds: patience)
        guard now < end else { return nil }
        let pause = pauses[min(max(attempts, 1), pauses.count) - 1]
        let longest = pauses[pauses.count - 1]
        let varied = Int64(Double(pause) * (0.9 + 0.2 * chance))
        return min(now.adding(milliseconds: max(varied, min(wished, longest))), end)
    }
}
