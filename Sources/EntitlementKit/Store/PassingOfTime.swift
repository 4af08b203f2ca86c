import EntitlementCore

/// What has been shown of the passing of time.
///
/// Whatever ends may have been renewed without a word to this device. So time alone takes no access away before the
/// store, and the server where it can be reached, were asked about it, for a bounded while.
struct PassingOfTime: Hashable, Sendable {
    /// The instant for which the state was last evaluated.
    private(set) var shown: Timestamp?
    /// Up to which instant the ends of access have been asked about.
    private(set) var checked = Timestamp.earliest
    var isChecking = false

    /// Goes on from what the process before may have shown.
    mutating func resume(at instant: Timestamp) { if shown == nil { shown = instant } }

    /// The state was evaluated for an instant.
    ///
    /// What was asked before by a clock that was ahead was asked by then, and not about what is yet to end.
    mutating func show(_ instant: Timestamp) {
        shown = instant
        checked = min(checked, instant)
    }

    /// Store and server were asked at an instant.
    mutating func check(_ instant: Timestamp) { checked = instant }
}
