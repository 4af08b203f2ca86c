/// Why the private PostgreSQL cannot be had, in a sentence for whoever started the program.
package struct EmbeddedPostgresError: Error, Sendable, CustomStringConvertible {
    package enum Kind: Sendable {
        /// No PostgreSQL that fits is installed.
        case notInstalled
        /// The data directory or the socket directory cannot be used.
        case directory
        /// There is no account that fits to run as.
        case account
        /// The server (or `initdb`) refused to start.
        case startFailed
        /// A copy could not be made.
        case backupFailed
        /// It took longer than allowed.
        case timedOut
    }

    package let kind: Kind
    package let description: String

    init(_ kind: Kind, _ description: String) {
        self.kind = kind
        self.description = description
    }
}
