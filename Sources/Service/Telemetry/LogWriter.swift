import Dispatch
package import EntitlementCore
import Foundation
import Synchronization

/// Writes log lines to a file descriptor, whole and in order, on a queue of its own.
///
/// Whoever logs never waits. When the reader at the other end is slower than the log, lines are dropped, and a line
/// says how many.
package final class LogWriter: Sendable {
    /// The most records that wait to be written.
    package static let pendingLimit = 8192

    private struct Waiting {
        var lines: [@Sendable () -> [UInt8]] = []
        var count = 0
        /// When the last of them was said.
        var time: Timestamp?
    }

    private let queue = DispatchQueue(label: "log")
    private let file: FileHandle
    private let waiting = Mutex(Waiting())
    private let pending = Atomic(0)
    private let dropped = Atomic(0)

    /// Standard error is descriptor 2; the descriptor stays open.
    package init(descriptor: Int32 = 2) {
        file = FileHandle(fileDescriptor: descriptor, closeOnDealloc: false)
    }

    package func write(_ record: LogRecord) { enqueue(1, at: record.time) { record.line } }

    /// Writes lines that somebody else has made, their ends included: `count` of them, the last at `time`.
    ///
    /// They are written or dropped together.
    package func write(lines: [UInt8], count: Int, time: Timestamp) { enqueue(count, at: time) { lines } }

    private func enqueue(_ count: Int, at time: Timestamp, _ lines: @escaping @Sendable () -> [UInt8]) {
        guard pending.add(count, ordering: .relaxed).newValue <= Self.pendingLimit else {
            pending.subtract(count, ordering: .relaxed)
            dropped.add(count, ordering: .relaxed)
            return
        }
        waiting.withLock { waiting in
            waiting.lines.append(lines)
            waiting.count += count
            waiting.time = time
            // Whoever finds others waiting leaves its lines to the turn that those have on the queue.
            if waiting.lines.count == 1 { queue.async { [self] in writeWaiting() } }
        }
    }

    /// Writes everything that waits, at once: under load one write then takes many lines.
    private func writeWaiting() {
        let taken = waiting.withLock { waiting in
            defer { waiting = Waiting() }
            return waiting
        }
        if let time = taken.time { tellLosses(at: time) }
        put(taken.lines.reduce(into: []) { $0 += $1() })
        pending.subtract(taken.count, ordering: .relaxed)
    }

    private func tellLosses(at time: Timestamp) {
        let lost = dropped.exchange(0, ordering: .relaxed)
        guard lost > 0 else { return }
        put(
            LogRecord(
                time: time, level: .warning, message: "log lines dropped: their reader is too slow",
                fields: [("dropped", .integer(Int64(lost)))]
            ).line)
    }

    /// How long an end waits for a log whose reader stands still, in seconds.
    private static let flushPatience = 5.0

    /// Returns when everything given so far is written, for an orderly end; where nobody reads it, after five seconds.
    package func flush() async {
        // Also for a task that is cancelled, as whatever a signal ends is.
        await withCheckedContinuation { continuation in
            let written = DispatchGroup()
            queue.async(group: written) {}
            DispatchQueue.global().async {
                _ = written.wait(timeout: .now() + Self.flushPatience)
                continuation.resume()
            }
        }
    }

    /// With nobody left to read the log there is nobody to tell either.
    private func put(_ lines: [UInt8]) { try? file.write(contentsOf: Data(lines)) }
}
