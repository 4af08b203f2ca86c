import Dispatch
import EntitlementCore
import Foundation
import Synchronization

/// Writes log lines to a file descriptor, whole and in order, on a queue of its own.
///
/// Whoever logs never waits. When the reader at the other end is slower than the log, lines are dropped, and a line
/// says how many.
package final class LogWriter: Sendable {
    /// The most records that wait to be written.
    package static let pendingLimit = 8192

    private let queue = DispatchQueue(label: "log")
    private let file: FileHandle
    private let pending = Atomic(0)
    private let dropped = Atomic(0)

    /// Standard error is descriptor 2; the descriptor stays open.
    package init(descriptor: Int32 = 2) {
        file = FileHandle(fileDescriptor: descriptor, closeOnDealloc: false)
    }

    package func write(_ record: LogRecord) {
        guard pending.add(1, ordering: .relaxed).newValue <= Self.pendingLimit else {
            pending.subtract(1, ordering: .relaxed)
            dropped.add(1, ordering: .relaxed)
            return
        }
        queue.async { [self] in
            let lost = dropped.exchange(0, ordering: .relaxed)
            if lost > 0 {
                put(
                    LogRecord(
                        time: record.time, level: .warning, message: "log lines dropped: their reader is too slow",
                        fields: [("dropped", .integer(Int64(lost)))]))
            }
            put(record)
            pending.subtract(1, ordering: .relaxed)
        }
    }

    /// Returns when everything given so far is written; for an orderly end.
    package func flush() async {
        await withCheckedContinuation { continuation in
            queue.async { continuation.resume() }
        }
    }

    /// With nobody left to read the log there is nobody to tell either.
    private func put(_ record: LogRecord) { try? file.write(contentsOf: Data(record.line)) }
}
