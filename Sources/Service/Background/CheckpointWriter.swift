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

    /// Writes a checkpoint, unless there is one of this size already; what goes wrong is noted.
    ///
    /// - Returns: whether there is one now.
    @discardableResult
    package func write() async -> Bool {
        let written: Void? = await watch.watch(.checkpoints) {
            let (checkpoint, note) = try await signer.sign()
            let name = Self.name(size: checkpoint.size)
            try await withCheckedThrowingContinuation { continuation in
                files.async {
                    continuation.resume(with: Result { try directory.write(note, name: name) })
                }
            }
        }
        return written != nil
    }

    /// Names sort by size.
    package static func name(size: Int64) -> String {
        let digits = String(size)
        return "checkpoint-\(String(repeating: "0", count: max(0, 15 - digits.count)))\(digits)"
    }
}
