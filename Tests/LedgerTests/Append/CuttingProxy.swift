import Foundation
import SeededRandom
import Synchronization
import TestSupport

/// Stands between a client and its PostgreSQL, and cuts connections where it hurts.
final class CuttingProxy: Sendable {
    enum Cut: Sendable {
        case never
        /// Once: when the server has answered a request to prepare `COMMIT`, the answer is lost.
        case answerToCommit
        /// Once: a request to prepare `COMMIT` does not reach the server.
        case requestToCommit
        /// Each connection, after a random number of bytes in either direction.
        case randomly(seed: UInt64, within: Int)
    }

    /// Like the server's, through the proxy.
    let conninfo: String
    private let serverPath: String
    private let listener: Int32
    private let directory: URL
    private let state: Mutex<State>

    private struct State {
        var cut: Cut
        var connections: UInt64 = 0
        var cuts = 0
    }

    init(_ conninfo: String, cut: Cut) throws {
        directory = FileManager.default.temporaryDirectory.appending(path: "rp-\(UUID().uuidString.prefix(8))")
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        self.conninfo = conninfo + " host=\(directory.path())"
        serverPath = ConninfoSettings(conninfo).socketPath
        state = Mutex(State(cut: cut))
        let listener = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
        self.listener = listener
        let status = withUnixAddress(ConninfoSettings(self.conninfo).socketPath) { bind(listener, $0, $1) }
        guard status == 0, listen(listener, 64) == 0 else {
            throw RawSession.Failure(description: "bind: \(String(cString: strerror(errno)))")
        }
        Thread.detachNewThread { [self] in
            while case let client = accept(listener, nil, nil), client >= 0 {
                Thread.detachNewThread { [self] in serve(client) }
            }
        }
    }

    /// How many connections were cut.
    var cuts: Int { state.withLock { $0.cuts } }

    /// From now on everything passes.
    func calm() { state.withLock { $0.cut = .never } }

    func stop() {
        shutdown(listener, Int32(SHUT_RDWR))
        close(listener)
        try? FileManager.default.removeItem(at: directory)
    }

    private func serve(_ client: Int32) {
        defer { close(client) }
        guard let server = try? connectUnix(serverPath) else { return }
        defer { close(server) }
        var budget = state.withLock { state -> Int? in
            state.connections += 1
            guard case .randomly(let seed, let within) = state.cut else { return nil }
            var random = SplitMix64(seed: seed &+ state.connections)
            return Int.random(in: 1...within, using: &random)
        }
        var isCommitting = false
        var buffer = [UInt8](repeating: 0, count: 65_536)
        var sockets = [client, server].map { pollfd(fd: $0, events: Int16(POLLIN), revents: 0) }
        while poll(&sockets, 2, -1) > 0 {
            for index in 0..<2 where sockets[index].revents != 0 {
                let count = recv(sockets[index].fd, &buffer, buffer.count, 0)
                guard count > 0 else { return }
                if index == 0, buffer[..<count].contains(sequence: "COMMIT\0") {
                    if cutsNow({ if case .requestToCommit = $0 { true } else { false } }) { return }
                    isCommitting = true
                }
                if index == 1, isCommitting, cutsNow({ if case .answerToCommit = $0 { true } else { false } }) {
                    return
                }
                if let left = budget {
                    budget = left - count
                    if left <= count {
                        _ = send(sockets[1 - index].fd, buffer, left, noSignal)
                        state.withLock { $0.cuts += 1 }
                        return
                    }
                }
                var sent = 0
                while sent < count {
                    let rest = Array(buffer[sent..<count])
                    let written = send(sockets[1 - index].fd, rest, rest.count, noSignal)
                    guard written > 0 else { return }
                    sent += written
                }
            }
        }
    }

    private func cutsNow(_ applies: (Cut) -> Bool) -> Bool {
        state.withLock { state in
            guard applies(state.cut) else { return false }
            state.cut = .never
            state.cuts += 1
            return true
        }
    }
}

extension ArraySlice<UInt8> {
    fileprivate func contains(sequence text: String) -> Bool {
        Data(self).range(of: Data(text.utf8)) != nil
    }
}
