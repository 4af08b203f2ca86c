import EntitlementCore

/// Tells whether the clock may be trusted before something irreversible is done, such as deleting what is old.
///
/// It may not where it has advanced further since the last look than this process's monotonic clock. One that stays
/// ahead for a day is trusted again: then it was behind before, or the machine was suspended.
struct BelievedTime {
    /// By how much the clock may advance further.
    private static let tolerance = Duration.seconds(60)
    /// How long it has to stay ahead.
    private static let probation = Duration.seconds(86_400)

    private var wall: Timestamp
    private var own: ContinuousClock.Instant
    private var doubtedSince: ContinuousClock.Instant?

    /// - Parameters:
    ///   - wall: what the clock says.
    ///   - own: the same moment by this process's own count.
    init(_ wall: Timestamp, at own: ContinuousClock.Instant = .now) { (self.wall, self.own) = (wall, own) }

    /// Takes note of what the clock says now.
    mutating func believes(_ wall: Timestamp, at own: ContinuousClock.Instant = .now) -> Bool {
        let passed = Duration.milliseconds(wall.milliseconds - self.wall.milliseconds)
        if passed > self.own.duration(to: own) + Self.tolerance {
            let since = doubtedSince ?? own
            doubtedSince = since
            guard since.duration(to: own) >= Self.probation else { return false }
        }
        (self.wall, self.own, doubtedSince) = (wall, own, nil)
        return true
    }
}
