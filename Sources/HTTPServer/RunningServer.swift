import Dispatch
import Synchronization

/// A started server: its event loop on a thread, and the way to end it.
final class RunningServer: Sendable {
    let port: UInt16
    private let mailbox: LoopMailbox

    init(_ core: ServerCore) throws(HTTPServerError) {
        try core.configuration.validate()
        let configuration = core.configuration
        let socket: ListeningSocket
        if let bound = configuration.boundAddress?.take() {
            socket = bound
        } else {
            socket = try ListeningSocket(host: configuration.host, port: configuration.port)
        }
        try socket.listen()
        let mailbox = LoopMailbox()
        port = socket.port
        self.mailbox = mailbox
        guard mailbox.descriptor >= 0, let loop = EventLoop(core, listeningOn: socket, mailbox: mailbox) else {
            throw HTTPServerError(.systemFailure, "The system has no file descriptors left for an event loop.")
        }
        let start = LoopStart(loop)
        // A thread of its own for as long as the server runs, since the loop waits in system calls.
        DispatchQueue(label: "http-loop").async { start.serve() }
    }

    /// Ends the server, and returns when the loop has ended and everything it held is gone; to be called once.
    func stop(grace: Duration) async {
        await withCheckedContinuation { mailbox.post(.stop(grace: grace, $0)) }
    }
}

/// Carries the loop to its thread.
private final class LoopStart: Sendable {
    /// Taken out by the thread, so that nothing of the server is left when its loop is gone.
    private let loop: Mutex<EventLoop?>

    init(_ loop: sending EventLoop) { self.loop = Mutex(loop) }

    /// Runs the loop, and tells who waits for its end when nothing of it is left.
    func serve() {
        guard let (waiters, lingering) = run() else { return }
        Task {
            await lingering.stop()
            for waiter in waiters { waiter.resume() }
        }
    }

    private func run() -> (waiters: [CheckedContinuation<Void, Never>], lingering: LingeringSockets)? {
        loop.withLock { $0.take() }?.run()
    }
}
