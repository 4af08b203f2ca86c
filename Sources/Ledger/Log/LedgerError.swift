import PostgresClient

/// Why the ledger could not do what was asked.
package struct LedgerError: Error, Sendable, CustomStringConvertible {
    package enum Code: Sendable, Equatable {
        /// The database is away, slow or overloaded, or the wait for it was cancelled; trying again later will do.
        case unavailable
        /// The database's schema is not the one this program was built for, or the role lacks a privilege on it; once
        /// somebody has run `migrate`, trying again will do.
        case schema
        /// A row does not read as what this program writes.
        case corrupt
        /// An answer would rest on more of the log than one may; the description is for whoever asked.
        case tooMuch
        /// What the answer is taken from is still being made in the background; trying again later will do.
        case notReady
        /// What was asked makes no sense; `detail` says what to do.
        case invalid
    }

    package let code: Code
    /// For people: what happened, to what, what to do.
    ///
    /// Never holds identities.
    package let description: String
    /// What is wrong with the database, in words for anybody, which begin a sentence; `nil` where that is not known.
    package let notice: String?
    /// Whether the database refused to write because it only reads, so that what failed was not recorded.
    package private(set) var isOfReadOnlyDatabase = false
    /// What to do about such a database, within a sentence.
    package static let cureOfReadOnlyDatabase = PostgresError.cureOfReadOnlyDatabase

    package init(_ code: Code, _ description: String, notice: String? = nil) {
        self.code = code
        self.description = description
        self.notice = notice
    }

    init(_ error: any Error, doing what: String) {
        switch error {
        case let error as LedgerError:
            self = error
        case let error as PostgresError where error.kind == .insufficientPrivilege || error.isOfMissingTable:
            self.init(.schema, "\(what): \(error)", notice: error.shortage?.notice)
        case let error as PostgresError:
            self.init(
                error.isPassing ? .unavailable : .invalid, "\(what): \(error)", notice: error.shortage?.notice)
            isOfReadOnlyDatabase = error.isOfReadOnlyDatabase
        case is CancellationError:
            self.init(.unavailable, "\(what): cancelled")
        default:
            self.init(.corrupt, "\(what): \(error)")
        }
    }

    /// The same as something that will do later.
    var passing: LedgerError {
        var error = LedgerError(.unavailable, description, notice: notice)
        error.isOfReadOnlyDatabase = isOfReadOnlyDatabase
        return error
    }
}

extension LedgerError {
    /// The same where something was done before, or may have been, of which the database holds nothing yet.
    package var inDoubt: LedgerError { LedgerError(code, description) }
}

extension PostgresPool {
    /// Runs `body` on a connection; what goes wrong, but for a cancellation, is a `LedgerError`.
    ///
    /// - Parameter what: what is being done, for people, such as "reading the ledger".
    func run<Value: Sendable>(
        doing what: String, _ body: @Sendable (isolated PostgresConnection) throws -> Value
    ) async throws -> Value {
        do {
            return try await withConnection(body)
        } catch let error as CancellationError {
            throw error
        } catch {
            // Whoever holds what was waited for may be gone without the server's knowing.
            if (error as? PostgresError)?.kind == .lockTimeout {
                try? await withConnection { try StalledSessions.end(on: $0) }
            }
            throw LedgerError(error, doing: what)
        }
    }
}

/// The one ledger of this installation; it leads every key.
let ledgerID: Int64 = 1

extension PostgresError {
    /// A table is not there, or in a schema that the role may not use any more (42P01).
    fileprivate var isOfMissingTable: Bool { sqlState == "42P01" }

    /// The same may succeed later: nothing is wrong with what was asked.
    var isPassing: Bool {
        switch kind {
        case .connection, .unavailable, .serialization, .deadlock, .lockTimeout, .statementTimeout, .stalePlan,
            .outOfService:
            true
        case .uniqueViolation, .insufficientPrivilege, .invalidValue, .other: false
        }
    }
}
