/// Why a server did not start.
package struct HTTPServerError: Error, CustomStringConvertible {
    /// What kind of failure it was, for code that reacts to it.
    package enum Code: Sendable, Hashable {
        /// Somebody else listens there already.
        case addressInUse
        /// The host is not an address or name of this machine.
        case addressNotAvailable
        /// The port needs rights this process does not have.
        case permissionDenied
        /// A limit or timeout makes no sense.
        case invalidConfiguration
        /// The server was started before.
        case alreadyStarted
        /// The system refused for another reason, which the message names.
        case systemFailure
    }

    /// The kind of failure.
    package let code: Code
    /// What happened, to what, and what to do.
    package let message: String

    /// The message.
    package var description: String { message }

    init(_ code: Code, _ message: String) {
        self.code = code
        self.message = message
    }
}
