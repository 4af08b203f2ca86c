/// The simulated store's clock: it may begin in the past, and then runs faster until it has caught up with the real one.
///
/// It is never ahead: what the store signs is never of the service's future. All instants are milliseconds since 1970.
package struct StoreClock: Sendable, Equatable {
    /// Where it begins.
    package let start: Int64
    /// How many times faster than the real one it runs until it has caught up.
    package let speed: Int64
    private var begun: Int64?

    /// A clock that stands still until it is begun.
    package init(start: Int64, speed: Int64) {
        self.start = start
        self.speed = speed
    }

    /// Lets it run from its start on.
    ///
    /// - Parameter real: the real instant at which it does.
    package mutating func begin(at real: Int64) { begun = begun ?? real }

    /// What it shows.
    ///
    /// - Parameter real: the real instant.
    package func instant(at real: Int64) -> Int64 {
        guard let begun, real > begun else { return min(start, real) }
        let (passed, overflows) = (real - begun).multipliedReportingOverflow(by: speed)
        return overflows ? real : min(real, start + passed)
    }
}
