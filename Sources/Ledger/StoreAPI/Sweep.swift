package import EntitlementCore

/// One reading of the store's history of notifications, which this process holds.
///
/// Its window is read in parts, the oldest first, so that what is known only grows, whatever happens to the rest.
package struct Sweep: Sendable, Hashable {
    package let app: String
    package let environment: StoreEnvironment
    /// The part under way begins here; everything before it is in the log.
    package internal(set) var from: Timestamp
    /// The part under way ends before here.
    package internal(set) var until: Timestamp
    /// The whole window ends before here.
    package let end: Timestamp
    /// The page to read next; `nil`: the part's first.
    package internal(set) var cursor: String?
    /// Pages of the part that are in the log.
    package internal(set) var pages: Int
    /// How often in a row reading failed.
    package internal(set) var failures: Int
    /// Whether somebody else began it.
    package let isResumed: Bool
    /// What was wrong with what the database said of it, for whoever runs the service.
    package let warning: String?

    /// The most pages of a part, unless it is of the shortest: at a quarter of a second for each they take two minutes, well
    /// below `SweepRegister.leadMilliseconds`.
    package static let mostPages = 500
    /// No part is split into shorter ones: an hour, in milliseconds.
    package static let shortest: Int64 = 3_600_000

    /// Of the part, in milliseconds.
    package var length: Int64 { until.milliseconds - from.milliseconds }

    /// Whether the part can be read in shorter ones.
    package var canBeShortened: Bool { length > Self.shortest }

    /// Whether the part has more pages than one should.
    package var isTooLong: Bool { pages >= Self.mostPages && canBeShortened }

    /// Lets the part begin here, and anew.
    mutating func begin(at from: Timestamp, length: Int64) {
        self.from = from
        until = min(end, from.adding(milliseconds: max(1, length)))
        (cursor, pages) = (nil, 0)
    }

    /// How long a part is after one that had too much in it, or could not be read.
    var shorterLength: Int64 { max(Self.shortest, length / 4) }

    /// How long the next part is: what had few pages is followed by more.
    var nextLength: Int64 { pages * 4 <= Self.mostPages ? length * 4 : length }
}

/// How far the store's history was read, of one app and environment.
package struct SweepStanding: Sendable, Hashable {
    package let app: String
    package let environment: StoreEnvironment
    /// What the sweep under way has yet to read; `nil` where none is.
    package let window: Range<Timestamp>?
    /// Where the sweep under way, or the last one, began.
    package let from: Timestamp?
    package let isHeld: Bool
    package let read: Int64
    package let recorded: Int64
    package let refused: Int64
    /// From where on something was refused or could not be read that no later reading took, and why; `nil` where nothing is.
    package let refusedFrom: Timestamp?
    package let refusedReason: String?
    /// Whether some of that was not read at all, or is not believed.
    package let hasGap: Bool
    /// Everything that the store sent before is known; `nil` before anything was read to its end.
    package let completedUntil: Timestamp?
    package let completedAt: Timestamp?
    package let lastError: String?
    package let lastErrorAt: Timestamp?
}
