/// What went wrong between this program and PostgreSQL.
///
/// `description` is for logs and people and never shows parameter values; `debugDescription` adds the server's detail,
/// which may quote stored values.
package struct PostgresError: Error, Sendable {
    /// The classes of failure that callers act upon.
    package enum Kind: String, Sendable {
        /// No connection could be made, or the connection is gone. What was in flight may or may not have committed.
        case connection
        /// The pool had no connection to give in time, or is closed. Nothing was sent.
        case unavailable
        /// Two transactions could not be put in an order (40001).
        case serialization
        /// Transactions waited for each other, and this one was ended (40P01).
        case deadlock
        /// A lock was not granted within `lock_timeout` (55P03).
        case lockTimeout
        /// The statement ran longer than `statement_timeout`, or was cancelled (57014).
        case statementTimeout
        /// A prepared statement no longer fits the schema. Already forgotten: running it again prepares it anew.
        case stalePlan
        /// The server cannot do it at the moment: its disk is full or fails, it has no memory or no number of a transaction left,
        /// or it only reads since a failover (53xxx, 58xxx, 54000 of a number, 25006).
        case outOfService
        /// A unique or primary key is already taken (23505).
        case uniqueViolation
        /// The role may not do this (42501).
        case insufficientPrivilege
        /// A column or parameter is not what the caller takes it for: a programming error, found before or after the
        /// server did its work.
        case invalidValue
        /// Everything else; see `sqlState`.
        case other
    }

    package let kind: Kind
    /// The five characters of the server's SQLSTATE; `nil` when the failure arose on this side.
    package let sqlState: String?
    /// The primary message, in the server's or libpq's words.
    package let message: String
    /// The server's detail and hint, which may quote stored values.
    package let detail: String?
    /// The first line of the SQL, never its parameters.
    package let statement: String?

    package init(
        kind: Kind, sqlState: String? = nil, message: String, detail: String? = nil, statement: String? = nil
    ) {
        self.kind = kind
        self.sqlState = sqlState
        self.message = message
        self.detail = detail
        self.statement = statement
    }

    /// Whether the server refused to write because it only reads (25006).
    package var isOfReadOnlyDatabase: Bool { sqlState == "25006" }

    /// What to do about such a database, within a sentence: the server's refusal is the same for either cause.
    package static let cureOfReadOnlyDatabase =
        "where it is a standby, use the server that writes (`target_session_attrs=read-write`); where default_transaction_read_only "
        + "is on, as some providers turn it on while the disk is nearly full, make room on the disk and turn it off"

    /// Whether a session has not what was prepared in it, or has what another client prepared (26000, 42P05).
    private var isOfPreparedStatement: Bool { sqlState == "26000" || sqlState == "42P05" }

    /// Whether the same transaction, run again from its start, may well succeed.
    package var isRetryable: Bool {
        switch kind {
        case .serialization, .deadlock, .lockTimeout, .stalePlan: true
        case .connection, .unavailable, .statementTimeout, .outOfService, .uniqueViolation, .insufficientPrivilege,
            .invalidValue,
            .other:
            false
        }
    }
}

extension PostgresError: CustomStringConvertible, CustomDebugStringConvertible {
    package var description: String {
        if isOfReadOnlyDatabase {
            return "the database only reads, so nothing can be written: \(Self.cureOfReadOnlyDatabase)"
        }
        guard isOfPreparedStatement else { return serverWords }
        // A statement is tried once more after that, so it is told only where it comes again and again.
        return serverWords
            + ": a pooler in transaction mode that knows no prepared statements does this; let it know of them (PgBouncer from "
            + "1.21 on, with max_prepared_statements of 256 or more), or let it pool sessions"
    }

    /// The same without what to do about it.
    package var serverWords: String {
        var text = "PostgreSQL: "
        // Messages of class 22 (data exceptions) quote the offending value.
        if let sqlState, sqlState.hasPrefix("22") {
            text += "a value was refused"
        } else {
            text += message
        }
        if let sqlState { text += " (SQLSTATE \(sqlState))" }
        if let statement { text += " in: \(statement)" }
        return text
    }

    package var debugDescription: String {
        description + " [\(kind.rawValue)] \(message)" + (detail.map { " — \($0)" } ?? "")
    }
}

extension PostgresError.Kind {
    /// Sorts a SQLSTATE (PostgreSQL manual, appendix A) into the class that callers act upon.
    init(sqlState: String) {
        switch sqlState {
        case "40001": self = .serialization
        case "40P01": self = .deadlock
        case "55P03": self = .lockTimeout
        case "57014": self = .statementTimeout
        case "23505": self = .uniqueViolation
        case "42501": self = .insufficientPrivilege
        // invalid_sql_statement_name, duplicate_prepared_statement: somebody deallocated it, or has prepared it before (a
        // pooler, DISCARD ALL).
        case "26000", "42P05": self = .stalePlan
        // Shutting down, crashed, starting up; timeouts by which the server ends the session; too many connections.
        case "57P01", "57P02", "57P03", "57P04", "57P05", "25P03", "25P04", "53300": self = .connection
        case "25006": self = .outOfService
        default:
            switch sqlState.prefix(2) {
            case "08": self = .connection
            // Insufficient resources; system errors, such as of input and output.
            case "53", "58": self = .outOfService
            default: self = .other
            }
        }
    }
}
