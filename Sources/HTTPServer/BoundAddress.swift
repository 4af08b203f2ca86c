import Synchronization

/// An address that is taken before the server that is to listen on it starts.
///
/// So a program that has the right to take it can give that right up first. Until the server starts, clients are refused.
package final class BoundAddress: Sendable {
    private let socket: Mutex<ListeningSocket?>

    /// - Parameters:
    ///   - host: a numeric address or a name of this host.
    ///   - port: 0 lets the system choose.
    package init(host: String, port: UInt16) throws(HTTPServerError) {
        socket = Mutex(try ListeningSocket(host: host, port: port))
    }

    /// The socket, for the first who asks; it is that one's to close.
    func take() -> ListeningSocket? {
        socket.withLock { socket in
            defer { socket = nil }
            return socket
        }
    }
}
