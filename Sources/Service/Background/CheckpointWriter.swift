import Dispatch
import Foundation
package import Ledger

/// A checkpoint could not be kept.
private struct CheckpointFailure: Error, CustomStringConvertible {
    let description: String

    init(directory: String, _ error: any Error) {
        let underlying = ((error as NSError).userInfo[NSUnderlyingErrorKey] as? any Error).map { $0 as NSError }
        let code = underlying.flatMap { $0.domain == NSPOSIXErrorDomain ? Int32($0.code) : nil }
        let reason = code.map { String(cString: strerror($0)) } ?? "\(error)"
        description = "no checkpoint could be written to \(directory): \(reason)"
    }
}

/// Writes signed checkpoints into a directory, from where they are to be copied to another machine: what is kept there
/// shows any later rewriting of the log.
package struct CheckpointWriter: Sendable {
    private let signer: CheckpointSigner
    private let directory: String
    private let watch: WorkWatch
    private let interval: Duration
    /// The directory may be another machine's, which may hang.
    private let files = DispatchQueue(label: "checkpoints")

    /// - Parameters:
    ///   - directory: made where it is missing.
    ///   - interval: between checkpoints.
    package init(
        signer: CheckpointSigner, directory: String, watch: WorkWatch, interval: Duration = .seconds(3600)
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
            do {
                try await withCheckedThrowingContinuation { continuation in
                    files.async {
                        continuation.resume(with: Result { try Self.write(note, to: directory, name: name) })
                    }
                }
            } catch {
                throw CheckpointFailure(directory: directory, error)
            }
        }
    }

    /// Names sort by size.
    package static func name(size: Int64) -> String {
        let digits = String(size)
        return "checkpoint-\(String(repeating: "0", count: max(0, 15 - digits.count)))\(digits)"
    }

    /// Writes the whole file or none of it; one that is there stays as it is.
    private static func write(_ note: String, to directory: String, name: String) throws {
        let files = FileManager.default
        try files.createDirectory(atPath: directory, withIntermediateDirectories: true)
        let path = "\(directory)/\(name)"
        guard !files.fileExists(atPath: path) else { return }
        try Data(note.utf8).write(to: URL(fileURLWithPath: path), options: .atomic)
    }
}
