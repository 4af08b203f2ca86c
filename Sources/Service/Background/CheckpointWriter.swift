package import Dispatch
package import Ledger
import Synchronization

/// Writes signed checkpoints into a directory, from where they are to be copied to another machine: what is kept there
/// shows any later rewriting of the log.
package struct CheckpointWriter: Sendable {
    private let signer: CheckpointSigner
    private let directory: CheckpointDirectory
    private let watch: WorkWatch
    private let interval: Duration
    private let retry: Duration
    private let patience: Duration
    /// The directory may be another machine's, which may hang, and a thread of this queue with it.
    private let files: DispatchQueue
    private let question = OpenQuestion()

    /// - Parameters:
    ///   - directory: made where it is missing.
    ///   - interval: between checkpoints.
    ///   - retry: after one that could not be written.
    ///   - patience: how long the directory may take to be read, and to be written.
    ///   - files: where that is done, one after the other.
    package init(
        signer: CheckpointSigner, directory: CheckpointDirectory, watch: WorkWatch,
        interval: Duration = .seconds(3600), retry: Duration = .seconds(30), patience: Duration = .seconds(10),
        files: DispatchQueue = DispatchQueue(label: "checkpoints")
    ) {
        self.signer = signer
        self.directory = directory
        self.watch = watch
        self.interval = interval
        self.retry = retry
        self.patience = patience
        self.files = files
    }

    /// Writes one now and then, until the current task is cancelled.
    package func run() async {
        while !Task.isCancelled {
            let isWritten = await write()
            try? await Task.sleep(for: isWritten ? interval : retry)
        }
    }

    /// Writes a checkpoint, unless there is one of this size already, or the last one is of another past, as after a backup was
    /// restored; what goes wrong is noted.
    ///
    /// - Returns: whether there is one now.
    @discardableResult
    package func write() async -> Bool {
        let written: Void? = await watch.watch(.checkpoints) {
            let (checkpoint, note) = try await signer.sign()
            if let (last, name) = try await onFiles({ directory.longest(of: checkpoint.origin) }) {
                try await check(last, name)
            }
            try await onFiles { try directory.write(note, name: Self.name(size: checkpoint.size)) }
        }
        return written != nil
    }

    /// Compares the log with a checkpoint that was written of it.
    private func check(_ last: Checkpoint, _ name: String) async throws {
        let root = try await signer.root(size: last.size)
        guard root != last.root else { return }
        let difference =
            root == nil
            ? "the log is shorter than it was when \(directory.path)/\(name) was written"
            : "the log is not the one that \(directory.path)/\(name) was made of, though it is as long or longer"
        throw Difference(description: "\(difference): was a backup restored? `rightful verify --since` tells")
    }

    private struct Difference: Error, CustomStringConvertible { let description: String }
    private struct Silence: Error, CustomStringConvertible { let description: String }

    /// Reads or writes the directory, and does not wait longer than `patience`: else the service could not be stopped while the
    /// directory hangs.
    ///
    /// What hangs is left to itself, and until it comes back nothing else is asked of the directory.
    private func onFiles<Value: Sendable>(_ body: @escaping @Sendable () throws -> Value) async throws -> Value {
        let silence = Silence(
            description: "no checkpoint could be written to \(directory.path): it does not answer within \(patience)")
        guard question.open() else { throw silence }
        return try await withCheckedThrowingContinuation { continuation in
            let answer = FirstResult(to: continuation)
            files.async {
                let result: Result<Value, any Error> = Result { try body() }
                question.close()
                answer.give(result)
            }
            let limit = DispatchTimeInterval.milliseconds(Int((patience / .milliseconds(1)).rounded(.up)))
            DispatchQueue.global().asyncAfter(deadline: .now() + limit) { answer.give(.failure(silence)) }
        }
    }

    /// Names sort by size.
    package static func name(size: Int64) -> String {
        let digits = String(size)
        return "checkpoint-\(String(repeating: "0", count: max(0, 15 - digits.count)))\(digits)"
    }
}

/// Whether something was asked of the directory that has not come back.
private final class OpenQuestion: Sendable {
    private let isOpen = Atomic(false)

    /// - Returns: whether nothing was open.
    func open() -> Bool { !isOpen.exchange(true, ordering: .acquiringAndReleasing) }

    func close() { isOpen.store(false, ordering: .releasing) }
}

/// Goes on with what comes first: the answer that is waited for, or the end of the patience.
private final class FirstResult<Value: Sendable>: Sendable {
    private let continuation: Mutex<CheckedContinuation<Value, any Error>?>

    init(to continuation: CheckedContinuation<Value, any Error>) { self.continuation = Mutex(continuation) }

    func give(_ result: Result<Value, any Error>) {
        let waiting = continuation.withLock { held in
            defer { held = nil }
            return held
        }
        waiting?.resume(with: result)
    }
}
