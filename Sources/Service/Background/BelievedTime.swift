import EntitlementCore

/// Says whether the clock is believed before what cannot be undone, such as letting go of what is old.
///
/// It is not where it went further than time did since it was believed last, by this process's own count. One that stays ahead
/// is believed after a day: then it was behind before, or the machine stood still.
struct BelievedTime {
    /// By how much the clock may go further.
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
