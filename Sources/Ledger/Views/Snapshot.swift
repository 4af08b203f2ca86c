import EntitlementCore

/// One row of `original_view`.
struct Snapshot: Sendable {
    /// As the table numbers it.
    let environment: Int16
    let original: String
    let lastPosition: Int64
    /// How many events are folded into it.
    let events: Int64
    /// The canonical bytes of the state.
    let state: [UInt8]

    init(environment: Int16, original: String, state: OriginalState, events: Int64) {
        self.environment = environment
        self.original = original
        lastPosition = state.lastPosition
        self.events = events
        self.state = state.encoded()
    }
}
