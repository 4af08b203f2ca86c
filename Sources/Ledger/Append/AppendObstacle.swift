import PostgresClient

/// What keeps a writer from appending.
package enum AppendObstacle: Error, Sendable, Hashable, CustomStringConvertible {
    /// Somebody else's transaction.
    case held(LogHolder)
    /// The database refuses everything that is to be appended, as one does whose disk is full.
    case refused(DatabaseRefusal)

    /// For operators: what it is, and what to do.
    package var description: String {
        switch self {
        case .held(let holder): holder.description
        case .refused(let refusal): "\(refusal.notice), so nothing can be recorded: \(refusal.cure) (\(refusal.reason))"
        }
    }
}

/// Why a database does not do what it was asked for, though it answers.
package struct DatabaseRefusal: Sendable, Hashable {
    /// What is wrong with it, in words for anybody, which begin a sentence.
    let notice: String
    /// What an operator does about it, within a sentence.
    let cure: String
    /// In the database's own words, for operators.
    let reason: String

    /// - Returns: `nil` where the error does not say that the database refused, rather than that it is away or busy, or that
    ///   whoever asked has gone.
    init?(_ error: any Error) {
        let known: (notice: String, cure: String)?
        switch error {
        case let error as PostgresError:
            guard error.isRefusal else { return nil }
            known = error.shortage
        case let error as LedgerError where error.code == .unavailable: return nil
        case is CancellationError: return nil
        default: known = nil
        }
        notice = known?.notice ?? "The database refuses whatever is to be written"
        cure = known?.cure ?? "see the reason in the log, and what the database's own log says"
        reason = (error as? PostgresError)?.serverWords ?? "\(error)"
    }
}

extension PostgresError {
    /// Whether the database answered that it will not do it, and not that it is away, or busy with others.
    fileprivate var isRefusal: Bool {
        switch kind {
        case .outOfService, .statementTimeout, .uniqueViolation, .insufficientPrivilege, .invalidValue, .other: true
        case .connection, .unavailable, .serialization, .deadlock, .lockTimeout, .stalePlan: false
        }
    }

    /// What the database lacks, in words for anybody, and what an operator does about it; `nil` where its code does not say.
    var shortage: (notice: String, cure: String)? {
        switch sqlState {
        case "53100": ("The disk of the database is full", "make room on it, or enlarge it")
        case "53200": ("The database has no memory left", "see what else on its machine uses so much")
        case "54000" where kind == .outOfService:
            ("The database has no numbers left for transactions", "`rightful status` says what keeps it from vacuuming")
        case "25006": ("The database only reads", PostgresError.cureOfReadOnlyDatabase)
        case "42501": ("The database does not allow it to this service's role", "run `rightful migrate`")
        case "XX001", "XX002":
            (
                "A table or an index of the database is damaged",
                "see its disk, and which one the log names: `REINDEX` makes an index anew, a backup has the table"
            )
        case let state? where state.hasPrefix("58"):
            ("The disk of the database fails", "see its own log, and the system's")
        default: nil
        }
    }
}
