package import EntitlementCore

/// The first place where the database is not what its log says it must be.
package struct VerificationDifference: Error, Sendable, Hashable, CustomStringConvertible {
    /// Such as `event`.
    package let table: String
    /// Which row: `position 17`, or `production 2000000123456780`.
    package let key: String
    /// What is there, and what was expected; never an identity in clear.
    package let problem: String

    init(_ table: String, _ key: String, _ problem: String) {
        self.table = table
        self.key = key
        self.problem = problem
    }

    init(checkpoint: Checkpoint, _ problem: String) {
        self.init("checkpoint", "\(checkpoint.origin) at \(checkpoint.size)", problem)
    }

    init(event position: Int64, _ problem: String) { self.init("event", "position \(position)", problem) }

    package var description: String { "\(table), \(key): \(problem)" }
}

/// What was found to be as it must be.
package struct VerificationSummary: Sendable, Hashable {
    /// The end of the log when verification began, and its hash; everything up to there was checked.
    package internal(set) var position: Int64
    package internal(set) var hash: Digest
    /// Pieces of evidence that are there, each with the hash its event names.
    package internal(set) var evidence: Int64 = 0
    /// Whether every signature of it was checked, and every fact derived from it again.
    package internal(set) var isProven = false
    /// Pieces of evidence whose facts were derived again, though nobody here knows the secret any more that they were
    /// signed with.
    package internal(set) var uncheckedSignatures: Int64 = 0
    /// Pieces of evidence whose facts were derived again, and that nobody signed: a server said so that was asked.
    package internal(set) var unsignedEvidence: Int64 = 0
    /// Pieces of evidence that a later event says were erased.
    package internal(set) var erasedEvidence: Int64 = 0
    /// The root of the tree over the events.
    package internal(set) var root = TreeHash.ofNothing
    /// Snapshots equal to their fold.
    package internal(set) var views: Int64 = 0
    /// Snapshots that count for nothing, because another version of the fold wrote them.
    package internal(set) var outdatedViews: Int64 = 0
    /// Original transactions long enough for a snapshot that have none yet; reads fold them from the log.
    package internal(set) var missingViews: Int64 = 0
    /// Stretches of the log whose contributions to charts are those of their events.
    package internal(set) var chartParts: Int64 = 0
}

/// How far verification has come.
package struct VerificationProgress: Sendable, Hashable {
    package enum Stage: String, Sendable {
        case headers
        case log
        case names
        case views
        case seen
        case watch
        case drift
        case charts
    }

    package let stage: Stage
    /// Rows checked in this stage.
    package let done: Int64
    /// Rows there are, where that is known without counting them.
    package let total: Int64?
}
