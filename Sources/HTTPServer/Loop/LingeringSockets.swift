import Dispatch
import Glibc
import Synchronization

/// Sockets whose answer is sent, kept open until the client has read it.
///
/// Each is read until the client ends it, for at most 2 s and 64 MiB, and only so many are kept; beyond that a client
/// may see a reset in place of the refusal.
final class LingeringSockets: Sendable {
    private static let maxBytes = 64 << 20
    private static let maxSeconds = 2

    private let limit: Int
    private let queue = DispatchQueue(label: "http-lingering")
    private let group = DispatchGroup()
    private let state = Mutex(State())

    private struct State {
        var nextID = 0
        var sockets: [Int: Socket] = [:]
        var isStopped = false
    }

    private struct Socket {
        let source: any DispatchSourceRead
        var received = 0
    }

    /// - Parameter limit: how many are kept at once.
    init(limit: Int) { self.limit = limit }

    /// Takes over a duplicated socket and closes it in the end.
    func adopt(_ descriptor: Int32) {
        shutdown(descriptor, Int32(SHUT_WR))
        let isAdopted = state.withLock { state in
            guard !state.isStopped, state.sockets.count < limit else { return false }
            let id = state.nextID
            state.nextID += 1
            let source = DispatchSource.makeReadSource(fileDescriptor: descriptor, queue: queue)
            source.setEventHandler { [weak self] in self?.discard(from: descriptor, id: id) }
            source.setCancelHandler { [group] in
                close(descriptor)
                group.leave()
            }
            group.enter()
            source.activate()
            queue.asyncAfter(deadline: .now() + .seconds(Self.maxSeconds)) { [weak self] in self?.finish(id) }
            state.sockets[id] = Socket(source: source)
            return true
        }
        if !isAdopted { close(descriptor) }
    }

    /// Closes all of them, and returns when they are closed.
    func stop() async {
        state.withLock { state in
            state.isStopped = true
            for socket in state.sockets.values { socket.source.cancel() }
            state.sockets = [:]
        }
        await withCheckedContinuation { continuation in
            group.notify(queue: queue) { continuation.resume() }
        }
    }

    private func discard(from descriptor: Int32, id: Int) {
        let received = withUnsafeTemporaryAllocation(byteCount: 64 << 10, alignment: 1) { buffer in
            recv(descriptor, buffer.baseAddress, buffer.count, Int32(MSG_DONTWAIT))
        }
        if received < 0, errno == EAGAIN || errno == EINTR { return }
        let total = state.withLock { state in
            state.sockets[id]?.received += received
            return state.sockets[id]?.received ?? 0
        }
        if received <= 0 || total > Self.maxBytes { finish(id) }
    }

    private func finish(_ id: Int) {
        state.withLock { $0.sockets.removeValue(forKey: id)?.source.cancel() }
    }
}
