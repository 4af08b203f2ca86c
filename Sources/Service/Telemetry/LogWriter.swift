import Dispatch
package import EntitlementCore
import Glibc
import Synchronization

/// Writes log lines to a file descriptor, whole and in order, on a queue of its own.
///
/// Whoever logs never waits. When the reader at the other end is slower than the log, or the lines cannot be written, they
/// are dropped, and a line says how many.
package final class LogWriter: Sendable {
    /// The most records that wait to be written.
    package static let pendingLimit = 8192

    private struct Waiting {
        var lines: [@Sendable () -> [UInt8]] = []
        var count = 0
        /// When the last of them was said.
        var time: Timestamp?
    }

    /// What nobody has been told of yet.
    private struct Losses {
        var lines = 0
        /// Why they could not be written; 0 where their reader was too slow.
        var error: Int32 = 0
        /// Whether what was written last is the beginning of a line that was lost.
        var leavesLineOpen = false
    }

    private let queue = DispatchQueue(label: "log")
    private let descriptor: Int32
    private let waiting = Mutex(Waiting())
    private let pending = Atomic(0)
    private let losses = Mutex(Losses())

    /// Standard error is descriptor 2; the descriptor stays open.
    package init(descriptor: Int32 = 2) { self.descriptor = descriptor }

    package func write(_ record: LogRecord) { enqueue(1, at: record.time) { record.line } }

    /// Writes lines that somebody else has made, their ends included: `count` of them, the last at `time`.
    ///
    /// They are written or dropped together.
    package func write(lines: [UInt8], count: Int, time: Timestamp) { enqueue(count, at: time) { lines } }

    private func enqueue(_ count: Int, at time: Timestamp, _ lines: @escaping @Sendable () -> [UInt8]) {
        guard pending.add(count, ordering: .relaxed).newValue <= Self.pendingLimit else {
            pending.subtract(count, ordering: .relaxed)
            losses.withLock { $0.lines += count }
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
        let lost = put(taken.lines.reduce(into: []) { $0 += $1() })
        losses.withLock { $0.lines += lost }
        pending.subtract(taken.count, ordering: .relaxed)
    }

    private func tellLosses(at time: Timestamp) {
        let lost = losses.withLock { losses in
            defer { (losses.lines, losses.error) = (0, 0) }
            return losses
        }
        guard lost.lines > 0 else { return }
        let reason =
            lost.error == 0
            ? "their reader is too slow" : "they could not be written (\(String(cString: strerror(lost.error))))"
        let record = LogRecord(
            time: time, level: .warning, message: "log lines dropped: \(reason)",
            fields: [("dropped", .integer(Int64(lost.lines)))])
        // Where even this cannot be written, it is told later.
        if put(record.line) > 0 { losses.withLock { $0.lines += lost.lines } }
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

    /// Writes lines, on the queue, which waits for a reader that is slow.
    ///
    /// - Returns: how many of them are lost.
    private func put(_ lines: [UInt8]) -> Int {
        // A line that was left half would make the next one unreadable too.
        let bytes = losses.withLock { $0.leavesLineOpen } ? [Self.newline] + lines : lines
        var rest = bytes[...]
        while !rest.isEmpty {
            let written = rest.withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress, $0.count) }
            if written >= 0 {
                rest = rest.dropFirst(written)
            } else if errno == EAGAIN {
                // Whoever started the service may have made its standard error one that never blocks.
                var waiting = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
                poll(&waiting, 1, -1)
            } else if errno != EINTR {
                let error = errno
                losses.withLock { losses in
                    losses.error = error
                    if rest.startIndex > 0 { losses.leavesLineOpen = bytes[rest.startIndex - 1] != Self.newline }
                }
                return rest.suffix(lines.count).count { $0 == Self.newline }
            }
        }
        losses.withLock { $0.leavesLineOpen = false }
        return 0
    }

    private static let newline = UInt8(ascii: "\n")
}
