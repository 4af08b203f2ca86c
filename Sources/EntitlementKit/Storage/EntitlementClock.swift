public import Foundation

/// Time, as an ``EntitlementStore`` is told it.
public protocol EntitlementClock: Sendable {
    /// What the device's calendar clock says; people can set it to anything.
    func now() -> Date
    /// Time that only ever passes, also while the device sleeps, counted from any instant.
    func uptime() -> Duration
    /// Returns once ``uptime()`` is at least this, at once where it is already.
    ///
    /// It is an instant and no duration: a process may be suspended between looking at a clock and falling asleep by it,
    /// and would then sleep for too long.
    func sleep(until uptime: Duration) async throws
}

/// The device's own clocks.
public struct SystemEntitlementClock: EntitlementClock {
    private static let origin = ContinuousClock.now

    /// The clocks of this device.
    public init() {}

    /// What the calendar clock says.
    public func now() -> Date { Date() }

    /// Time since the process first asked.
    public func uptime() -> Duration { Self.origin.duration(to: .now) }

    /// Sleeps by uptime.
    public func sleep(until uptime: Duration) async throws {
        try await ContinuousClock().sleep(until: Self.origin + uptime)
    }
}
