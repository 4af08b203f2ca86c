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
        let start = LoopStart(core, socket)
        // A thread of its own for as long as the server runs, since the loop waits in system calls.
        DispatchQueue(label: "http-loop").async { start.serve(mailbox) }
        guard start.succeeds() else {
            throw HTTPServerError(.systemFailure, "The system has no file descriptors left for an event loop.")
        }
    }

    /// Ends the server, and returns when the loop has ended and everything it held is gone; to be called once.
    func stop(grace: Duration) async {
        await withCheckedContinuation { mailbox.post(.stop(grace: grace, $0)) }
    }
}

/// Carries to the loop's thread what the loop is made of, and back whether it could be made, which takes microseconds.
private final class LoopStart: Sendable {
    /// Taken out by the thread, so that nothing of the server is left when its loop is gone.
    private let parts: Mutex<(core: ServerCore, socket: ListeningSocket)?>
    private let semaphore = DispatchSemaphore(value: 0)
    private let hasLoop = Atomic(false)

    init(_ core: ServerCore, _ socket: ListeningSocket) { parts = Mutex((core, socket)) }

    func succeeds() -> Bool {
        semaphore.wait()
        return hasLoop.load(ordering: .acquiring)
    }

    /// Makes the loop, runs it, and tells who waits for its end when nothing of it is left.
    func serve(_ mailbox: LoopMailbox) {
        guard let (waiters, lingering) = run(mailbox) else { return }
        Task {
            await lingering.stop()
            for waiter in waiters { waiter.resume() }
        }
    }

    private func run(
        _ mailbox: LoopMailbox
    ) -> (waiters: [CheckedContinuation<Void, Never>], lingering: LingeringSockets)? {
        let loop = mailbox.descriptor >= 0 ? makeLoop(mailbox) : nil
        hasLoop.store(loop != nil, ordering: .releasing)
        semaphore.signal()
        return loop?.run()
    }

    /// Leaves nothing behind that refers to the listening socket, which the loop closes.
    private func makeLoop(_ mailbox: LoopMailbox) -> EventLoop? {
        parts.withLock { parts in
            defer { parts = nil }
            return parts.flatMap { EventLoop($0.core, listeningOn: $0.socket, mailbox: mailbox) }
        }
    }
}
