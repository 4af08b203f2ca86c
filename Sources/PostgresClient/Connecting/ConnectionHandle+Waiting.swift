private import CLibPQ
private import Glibc

/// Waiting for the server, never for ever.
///
/// The server ends statements that run too long by itself; but one that is frozen, or behind a network that swallows
/// everything, says nothing at all, and a Unix socket has no keepalive. So whoever waits gives up when the server has been
/// silent for longer than it takes to end the longest statement.
extension ConnectionHandle {
    /// The next result of the command under way; `nil` when there is no other.
    ///
    /// - Parameter silence: how long the server may be silent; `nil`: as long as it likes.
    func nextResult(silence: Duration?) throws(PostgresError) -> OpaquePointer? {
        var unsent = try flush()
        while PQisBusy(pointer) == 1 {
            try pause(Int16(POLLIN | (unsent ? POLLOUT : 0)), silence)
            guard PQconsumeInput(pointer) == 1 else { throw lost }
            unsent = try flush()
        }
        return PQgetResult(pointer)
    }

    /// The last result of the command under way, once all of them have come; `nil` when there was none.
    func lastResult(silence: Duration?) throws(PostgresError) -> OpaquePointer? {
        var last: OpaquePointer?
        do throws(PostgresError) {
            while let next = try nextResult(silence: silence) {
                PQclear(last)
                last = next
                // From a dead connection results would come for ever.
                if PQstatus(pointer) == CONNECTION_BAD { break }
            }
        } catch {
            PQclear(last)
            throw error
        }
        return last
    }

    /// Sends what libpq keeps because the server has not taken it yet.
    func sendAll(silence: Duration?) throws(PostgresError) {
        while try flush() {
            try pause(Int16(POLLIN | POLLOUT), silence)
            guard PQconsumeInput(pointer) == 1 else { throw lost }
        }
    }

    /// Whether something is left to send.
    private func flush() throws(PostgresError) -> Bool {
        let state = PQflush(pointer)
        if state < 0 { throw lost }
        return state == 1
    }

    private func pause(_ events: Int16, _ silence: Duration?) throws(PostgresError) {
        let deadline = silence.map { ContinuousClock.now + $0 }
        while true {
            let left = deadline.map { max(0, (($0 - .now) / .milliseconds(1)).rounded(.up)) }
            var socket = pollfd(fd: PQsocket(pointer), events: events, revents: 0)
            let ready = poll(&socket, 1, left.map { Int32(min($0, 3_600_000)) } ?? -1)
            if ready > 0 { return }
            if ready < 0, errno != EINTR {
                throw PostgresError(kind: .connection, message: "poll: \(String(cString: strerror(errno)))")
            }
            if let deadline, let silence, deadline <= .now {
                throw PostgresError(kind: .connection, message: "the server has said nothing for \(silence)")
            }
        }
    }

    private var lost: PostgresError { PostgresError(connection: pointer, fallback: "the connection is gone") }
}
