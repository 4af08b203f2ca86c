import CMicroHTTPD
import Glibc

/// Accepts connections and hands them to libmicrohttpd, on the event loop's thread.
///
/// Not left to the library, because its way to stop listening (`MHD_quiesce_daemon`, 0.9.75) aborts the process when it
/// turns away from the listening socket at the same moment.
final class LoopAcceptor {
    /// `nil` once nothing is accepted any more.
    private var socket: ListeningSocket?
    /// Until when nothing is tried, since the system had no descriptors or memory left.
    private(set) var pausedUntil: ContinuousClock.Instant?

    /// So many that a burst is taken quickly, and few enough that those who are connected do not wait for it.
    static let batchLimit = 64

    init(_ socket: ListeningSocket) { self.socket = socket }

    /// What to watch for connections; -1 while nothing is accepted.
    func descriptor(at now: ContinuousClock.Instant) -> Int32 {
        if let pausedUntil, now < pausedUntil { return -1 }
        pausedUntil = nil
        return socket?.descriptor ?? -1
    }

    /// Accepts nothing more and closes the listening socket.
    func stop() {
        socket = nil
        pausedUntil = nil
    }

    /// Accepts what came, as far as there is room.
    ///
    /// - Parameters:
    ///   - hasRoom: asked before each; it may close others, so nobody is asked in vain.
    ///   - admits: whether a host may have another.
    func acceptBatch(
        _ daemon: MHDDaemon, at now: ContinuousClock.Instant, hasRoom: () -> Bool,
        admits: (UnsafePointer<sockaddr>) -> Bool
    ) {
        guard let socket else { return }
        for _ in 0..<Self.batchLimit {
            var waiting = pollfd(fd: socket.descriptor, events: Int16(POLLIN), revents: 0)
            guard poll(&waiting, 1, 0) > 0 else { return }
            guard hasRoom() else {
                // A moment later somebody may have gone.
                pausedUntil = now + .milliseconds(20)
                return
            }
            switch accept(from: socket.descriptor, daemon, admits) {
            case 0, ECONNABORTED, EINTR: continue
            case EAGAIN: return
            default:
                // A moment later somebody may have given theirs back.
                pausedUntil = now + .milliseconds(100)
                return
            }
        }
    }

    /// Returns 0 or an error number.
    private func accept(
        from listening: Int32, _ daemon: MHDDaemon, _ admits: (UnsafePointer<sockaddr>) -> Bool
    ) -> Int32 {
        var storage = sockaddr_storage()
        var length = socklen_t(MemoryLayout<sockaddr_storage>.size)
        return withUnsafeMutablePointer(to: &storage) { storage in
            storage.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
                let accepted = cmhd_accept(listening, address, &length)
                guard accepted >= 0 else { return errno }
                if admits(address) { daemon.add(accepted, address, length) } else { close(accepted) }
                return 0
            }
        }
    }
}
