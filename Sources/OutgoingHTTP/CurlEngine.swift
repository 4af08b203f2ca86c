import CCurl
import Foundation
import Synchronization

/// libcurl's multi interface on a thread of its own, which carries any number of requests at once.
final class CurlEngine: Sendable {
    private struct State {
        /// Of the thread's; others may only wake it; `nil` once the thread has ended.
        var multi: WakeableMulti?
        var submitted: [CurlTransfer] = []
        var cancelled: [CurlTransfer] = []
        var isStopped = false
    }

    private let state: Mutex<State>
    private let allows: @Sendable (OutgoingAddress) -> Bool

    /// Begins the thread.
    init(connections: Int, hostConnections: Int, allows: @escaping @Sendable (OutgoingAddress) -> Bool) {
        self.allows = allows
        _ = Self.isLibraryReady
        state = Mutex(State())
        let thread = Thread { [self] in run(connections: connections, hostConnections: hostConnections) }
        thread.name = "outgoing HTTP"
        thread.start()
    }

    /// libcurl is to be set up once in a process, before it is used.
    private static let isLibraryReady = curl_global_init(Int(CURL_GLOBAL_DEFAULT)) == CURLE_OK

    /// Begins a transfer.
    func submit(_ transfer: CurlTransfer, _ continuation: CheckedContinuation<OutgoingAnswer, any Error>) {
        guard transfer.begin(continuation) else { return }
        let isTaken = state.withLock { state in
            guard !state.isStopped else { return false }
            state.submitted.append(transfer)
            state.multi?.wake()
            return true
        }
        if !isTaken { transfer.finish(.failure(CancellationError())) }
    }

    /// Ends a transfer, begun or not.
    func cancel(_ transfer: CurlTransfer) {
        transfer.finish(.failure(CancellationError()))
        state.withLock { state in
            guard !state.isStopped else { return }
            state.cancelled.append(transfer)
            state.multi?.wake()
        }
    }

    /// Ends the thread, and every transfer.
    func stop() {
        state.withLock { state in
            state.isStopped = true
            state.multi?.wake()
        }
    }

    // MARK: - The thread

    private func run(connections: Int, hostConnections: Int) {
        guard let multi = curl_multi_init() else { preconditionFailure("libcurl has no memory") }
        ccurl_limit(multi, connections, hostConnections)
        var running: [UnsafeMutableRawPointer: RunningTransfer] = [:]
        state.withLock { $0.multi = WakeableMulti(multi) }
        while true {
            let (submitted, cancelled, isStopped) = state.withLock { state in
                defer { (state.submitted, state.cancelled) = ([], []) }
                return (state.submitted, state.cancelled, state.isStopped)
            }
            if isStopped {
                for transfer in submitted { transfer.finish(.failure(CancellationError())) }
                break
            }
            for transfer in submitted where !transfer.isFinished {
                guard let begun = RunningTransfer(transfer, allows: allows) else {
                    transfer.finish(.failure(URLError(.badURL)))
                    continue
                }
                running[begun.handle] = begun
                curl_multi_add_handle(multi, begun.handle)
            }
            for transfer in cancelled {
                guard let begun = running.first(where: { $0.value.transfer === transfer }) else { continue }
                running[begun.key] = nil
                begun.value.end(in: multi)
            }
            var count: Int32 = 0
            curl_multi_perform(multi, &count)
            var code = CURLE_OK
            while let handle = ccurl_finished(multi, &code) {
                guard let ended = running.removeValue(forKey: handle) else { continue }
                let result = ended.result(code)
                ended.end(in: multi)
                ended.transfer.finish(result)
            }
            curl_multi_poll(multi, nil, 0, Self.longestPoll, nil)
        }
        state.withLock { $0.multi = nil }
        for ended in running.values {
            ended.end(in: multi)
            ended.transfer.finish(.failure(CancellationError()))
        }
        curl_multi_cleanup(multi)
    }

    /// In milliseconds; whatever is to be done earlier wakes it.
    private static let longestPoll: Int32 = 10_000
}

/// Wakes the thread that works on a multi handle.
///
/// Sendable although it holds a pointer: `curl_multi_wakeup` may be called from any thread, and ``CurlEngine`` forgets this,
/// under its lock, before it frees the handle.
private struct WakeableMulti: @unchecked Sendable {
    private let multi: UnsafeMutableRawPointer

    init(_ multi: UnsafeMutableRawPointer) { self.multi = multi }

    func wake() { curl_multi_wakeup(multi) }
}
