/// When a webhook that was not taken is sent again.
package enum DeliverySchedule {
    /// The pauses after the first attempts, in milliseconds; from then on it is the last.
    private static let pauses: [Int64] = [1_000, 5_000, 30_000, 120_000, 600_000, 3_600_000, 21_600_000]
    /// For how long it is tried after the first attempt, in milliseconds.
    package static let patience = 3 * Timestamp.millisecondsPerDay

    /// After how long it is sent next, in milliseconds; `nil` where it is given up.
    ///
    /// - Parameters:
    ///   - attempts: how many failed, this one included.
    ///   - firstAt: when the first was made.
    ///   - wished: how long the receiver wishes to be left alone, in milliseconds.
    ///   - chance: from 0 to 1; up to a tenth of the pause is left out or added, so that not all come at once.
    package static func pause(
        after attempts: Int, firstAt: Timestamp, now: Timestamp, wished: Int64 = 0, chance: Double
    ) -> Int64? {
        let left = firstAt.adding(milliseconds: patience).milliseconds - now.milliseconds
        guard left > 0 else { return nil }
        let pause = pauses[min(max(attempts, 1), pauses.count) - 1]
        let varied = Int64(Double(pause) * (0.9 + 0.2 * chance))
        // The last attempt is made when the time is up.
        return min(max(varied, min(wished, pauses[pauses.count - 1])), left)
    }
}
