import Foundation
import Synchronization

/// Asks for a service's health again and again, and judges the answers that came while it was alive all the time.
final class HealthProbe: Sendable {
    /// The longest that an answer may take.
    static let limit = Duration.seconds(5)

    struct Findings: Sendable {
        var answers = 0
        var slowest = Duration.zero
        /// Probes of a living service that had no answer in time, or a bad one.
        var faults: [String] = []
    }

    private struct State {
        /// Where the service listens while it lives and is not frozen.
        var url: URL?
        /// Counts the changes of the line above.
        var change = 0
        var isOver = false
        var isEnded = false
        var findings = Findings()
    }

    private let state = Mutex(State())

    init() { Thread.detachNewThread { self.run() } }

    /// From here on the service is expected to answer there; `nil` when something is about to happen to it.
    func expect(_ url: URL?) {
        state.withLock { state in
            state.url = url
            state.change += 1
        }
    }

    /// Ends the probing, and tells what was found.
    func end() async -> Findings {
        state.withLock { $0.isOver = true }
        while !state.withLock(\.isEnded) { try? await Task.sleep(for: .milliseconds(20)) }
        return state.withLock(\.findings)
    }

    private func run() {
        while true {
            let (url, change, isOver) = state.withLock { ($0.url, $0.change, $0.isOver) }
            if isOver { break }
            if let url {
                let start = ContinuousClock.now
                let outcome = Self.ask(url)
                let duration = ContinuousClock.now - start
                state.withLock { state in
                    guard state.change == change else { return }
                    state.findings.answers += 1
                    state.findings.slowest = max(state.findings.slowest, duration)
                    if outcome != "200" { state.findings.faults.append("\(outcome) after \(duration)") }
                }
            }
            usleep(50_000)
        }
        state.withLock { $0.isEnded = true }
    }

    private static func ask(_ url: URL) -> String {
        do {
            let socket = try RawSocket(url, limit: limit)
            try socket.send("GET /healthz HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n".utf8)
            let received = socket.receive(until: RawSocket.isResponse)
            return received.status.map { "\($0)" } ?? "no answer"
        } catch {
            return "\(error)"
        }
    }
}
