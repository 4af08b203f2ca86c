import Foundation
import TestSupport

/// A data directory with a migrated PostgreSQL that is stopped, made once and copied for every installation.
///
/// `initdb` and the migrations take a second of processor time, a copy in memory some hundredths. Test processes that
/// share their scratch space share it too.
actor InstalledCluster {
    static let shared = InstalledCluster()

    private var making: Task<URL, any Error>?

    /// Makes `directory`, which must not exist, a copy.
    func copy(to directory: URL) async throws {
        let original = try await original()
        // Foundation would not keep the owner, who is not root.
        try await Self.run("/bin/cp", "--archive", original.path(), directory.path())
    }

    /// Copies everything into `directory`, which must exist and be empty.
    func copy(into directory: URL) async throws {
        let original = try await original()
        try await Self.run("/bin/cp", "--archive", original.path() + "/.", directory.path())
    }

    private func original() async throws -> URL {
        if let making { return try await making.value }
        let task = Task {
            let original = ScratchSpace.directory.appending(path: "installed")
            if FileManager.default.fileExists(atPath: original.path()) { return original }
            let unfinished = ScratchSpace.directory.appending(path: "installed-\(getpid())")
            try await Self.run(Products.url("rightful").path(), "migrate", "--data-dir", unfinished.path())
            // Hundreds of starts would each take a fifth of a second to make buffers that suit the machine.
            let settings = try FileHandle(
                forUpdating: unfinished.appending(path: "postgres/postgresql.conf"))
            try settings.seekToEnd()
            try settings.write(contentsOf: Data("shared_buffers = 64MB\n".utf8))
            try settings.close()
            // Whoever is the first to be done names it; the others' are as good.
            if rename(unfinished.path(), original.path()) != 0 {
                try FileManager.default.removeItem(at: unfinished)
            }
            return original
        }
        making = task
        return try await task.value
    }

    private static func run(_ program: String, _ arguments: String...) async throws {
        let process = Process()
        process.executableURL = URL(filePath: program)
        process.arguments = arguments
        let output = Pipe()
        process.standardOutput = output
        process.standardError = output
        try await process.runWithAllSignals()
        let text = await Installation.read(output)
        let status = process.waitForEnd()
        guard status == 0 else {
            throw CommandFailure(
                arguments: [program] + arguments, status: status, errors: text)
        }
    }
}
