import CMicroHTTPD
import Dispatch
import Glibc
import Synchronization

/// Accepts connections and hands them to libmicrohttpd.
///
/// Not left to the library, because its way to stop listening (`MHD_quiesce_daemon`, 0.9.75) aborts the process when
/// one of its threads turns away from the listening socket at the same moment.
final class Acceptor: Sendable {
    let port: UInt16
    private let gate: ConnectionGate
    private let listening: Int32
    /// Owns `listening`; taken out when the loop has ended.
    private let socket: Mutex<ListeningSocket?>
    private let isStopped = Atomic(false)
    private let loop = DispatchGroup()

    init(_ socket: consuming ListeningSocket, gate: ConnectionGate) {
        self.port = socket.port
        self.listening = socket.descriptor
        self.gate = gate
        self.socket = Mutex(socket)
    }

    /// Starts to accept, on a thread of its own.
    func start(adding daemon: MHDDaemon) {
        DispatchQueue(label: "http-accept").async(group: loop) { [self] in
            while !isStopped.load(ordering: .acquiring) { acceptBatch(daemon) }
        }
    }

    /// Accepts nothing more and closes the listening socket.
    func stop() async {
        isStopped.store(true, ordering: .releasing)
        gate.wake()
        await withCheckedContinuation { continuation in
            loop.notify(queue: .global()) { continuation.resume() }
        }
        socket.withLock { $0 = nil }
    }

    /// Waits for connections, or only for a wake-up when there is no room, and accepts what came.
    private func acceptBatch(_ daemon: MHDDaemon) {
        var watched = [
            pollfd(fd: gate.wakeup, events: Int16(POLLIN), revents: 0),
            pollfd(fd: listening, events: Int16(POLLIN), revents: 0),
        ]
        poll(&watched, gate.hasRoom ? 2 : 1, -1)
        gate.reset()
        while gate.hasRoom, !isStopped.load(ordering: .acquiring) {
            switch acceptOne(daemon) {
            case 0, ECONNABORTED, EINTR: continue
            case EAGAIN: return
            default:
                // Out of descriptors or memory: a moment later somebody may have given theirs back.
                poll(&watched, 1, 100)
                return
            }
        }
    }

    /// Returns 0 or an error number.
    private func acceptOne(_ daemon: MHDDaemon) -> Int32 {
        var storage = sockaddr_storage()
        var length = socklen_t(MemoryLayout<sockaddr_storage>.size)
        return withUnsafeMutablePointer(to: &storage) { storage in
            storage.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
                let accepted = cmhd_accept(listening, address, &length)
                guard accepted >= 0 else { return errno }
                gate.enter()
                // A connection that the library refuses, it also closes.
                if MHD_add_connection(daemon.pointer, accepted, address, length) != .YES { gate.leave() }
                return 0
            }
        }
    }
}
