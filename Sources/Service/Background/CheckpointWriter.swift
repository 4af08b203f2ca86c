import Dispatch
package import Ledger

/// Writes signed checkpoints into a directory, from where they are to be copied to another machine: what is kept there
/// shows any later rewriting of the log.
package struct CheckpointWriter: Sendable {
    private let signer: CheckpointSigner
    private let directory: CheckpointDirectory
    private let watch: WorkWatch
    private let interval: Duration
    /// The directory may be another machine's, which may hang.
    private let files = DispatchQueue(label: "checkpoints")

    /// - Parameters:
    ///   - directory: made where it is missing.
    ///   - interval: between checkpoints.
    package init(
        signer: CheckpointSigner, directory: CheckpointDirectory, watch: WorkWatch,
        interval: Duration = .seconds(3600)
    ) {
        self.signer = signer
        self.directory = directory
        self.watch = watch
        self.interval = interval
    }

    /// Writes one now and then, until the current task is cancelled.
    package func run() async {
        while !Task.isCancelled {
            await write()
            try? await Task.sleep(for: interval)
        }
    }

    /// Writes a checkpoint, unless there is one of this size already; what goes wrong is noted.
    package func write() async {
        await watch.watch(.checkpoints) {
            let (checkpoint, note) = try await signer.sign()
            let name = Self.name(size: checkpoint.size)
            try await withCheckedThrowingContinuation { continuation in
                files.async {
                    continuation.resume(with: Result { try directory.write(note, name: name) })
                }
            }
        }
    }

    /// Names sort by size.
    package static func name(size: Int64) -> String {
        let digits = String(size)
        return "checkpoint-\(String(repeating: "0", count: max(0, 15 - digits.count)))\(digits)"
    }
}
