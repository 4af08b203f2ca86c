import Dispatch
package import Ledger

/// Writes signed checkpoints into a directory, from where they are to be copied to another machine: what is kept there
/// shows any later rewriting of the log.
package struct CheckpointWriter: Sendable {
    private let signer: CheckpointSigner
    private let directory: CheckpointDirectory
    private let watch: WorkWatch
    private let interval: Duration
    private let retry: Duration
    /// The directory may be another machine's, which may hang.
    private let files = DispatchQueue(label: "checkpoints")

    /// - Parameters:
    ///   - directory: made where it is missing.
    ///   - interval: between checkpoints.
    ///   - retry: after one that could not be written.
    package init(
        signer: CheckpointSigner, directory: CheckpointDirectory, watch: WorkWatch,
        interval: Duration = .seconds(3600), retry: Duration = .seconds(30)
    ) {
        self.signer = signer
        self.directory = directory
        self.watch = watch
        self.interval = interval
        self.retry = retry
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

    private func onFiles<Value: Sendable>(_ body: @escaping @Sendable () throws -> Value) async throws -> Value {
        try await withCheckedThrowingContinuation { continuation in
            files.async { continuation.resume(with: Result { try body() }) }
        }
    }

    /// Names sort by size.
    package static func name(size: Int64) -> String {
        let digits = String(size)
        return "checkpoint-\(String(repeating: "0", count: max(0, 15 - digits.count)))\(digits)"
    }
}
