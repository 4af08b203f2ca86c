import Foundation
import TestSupport
import Testing

/// The command of docs/operating.md that copies a data directory, beside commands that use it.
@Suite("Copying the data directory", .serialized, .timeLimit(.minutes(5)))
struct BackupTests {
    /// Runs the command of the documentation; `work` is done in the place of the copying, where it is given.
    private static func copy(
        _ installation: Installation, to backup: String, work: String? = nil
    ) async throws -> (status: Int32, errors: String) {
        let block = try #require(
            try DocumentationPage.blocks(of: "docs/operating.md").first { $0.text.contains("flock ") })
        var command = block.text
        if let work {
            let copying = #"cp --archive "$RIGHTFUL_DATA_DIR" "$backup""#
            #expect(command.contains(copying))
            command = command.replacing(copying, with: "bash -c '\(work)'")
        }
        let environment = ["RIGHTFUL_DATA_DIR": installation.dataDirectory.path(), "backup": backup]
        return try await DocumentationPage.bash(command, environment, in: installation.directory)
    }

    @Test("it copies nothing while somebody uses the ledger, and what it copies afterwards verifies")
    func used() async throws {
        let installation = try await Installation()
        defer { installation.remove() }
        let backup = installation.directory.appending(path: "backup").path()
        let service = try await ServiceProcess.start(installation)
        _ = try await installation.adminKey()
        #expect(try await Self.copy(installation, to: backup).status == 75)
        let follower = Process()
        follower.executableURL = try Products.url("rightful")
        follower.arguments = ["events", "--follow", "--config", installation.configurationFile.path()]
        let output = Pipe()
        follower.standardOutput = output
        try await follower.runWithAllSignals()
        defer { if follower.endStatus == nil { kill(follower.processIdentifier, SIGKILL) } }
        // The event of the key; whoever prints it uses the ledger.
        #expect(!output.fileHandleForReading.availableData.isEmpty)

        #expect(service.stop() == 0)
        #expect(service.logText.contains("PostgreSQL stays up"), "\(service.logText.suffix(2000))")
        #expect(installation.postmaster != nil)
        #expect(try await Self.copy(installation, to: backup).status == 75)
        kill(follower.processIdentifier, SIGTERM)
        #expect(follower.waitForEnd() == 0)
        #expect(installation.postmaster == nil, "the last to leave puts PostgreSQL away")
        #expect(!FileManager.default.fileExists(atPath: backup))

        let copied = try await Self.copy(installation, to: backup)
        #expect(copied.status == 0, "\(copied.errors)")
        let events = try await installation.rightful("events")
        #expect(events.contains("api_key_created"))
        #expect(try await installation.rightful("events", "--data-dir", backup) == events)
        try await installation.rightful("verify", "--data-dir", backup)
        let alone = try await ServiceProcess.start(installation)
        #expect(alone.stop() == 0)
        #expect(!alone.logText.contains("PostgreSQL stays up"), "\(alone.logText)")
        #expect(!alone.logText.contains("may lose what was acknowledged"), "\(alone.logText)")
    }

    @Test("commands wait until the copy is done, and start nothing before")
    func waiting() async throws {
        let installation = try await Installation()
        defer { installation.remove() }
        let begun = installation.directory.appending(path: "begun").path()
        let done = installation.directory.appending(path: "done").path()
        let postmaster = installation.dataDirectory.appending(path: "postgres/postmaster.pid").path()
        // Whoever starts PostgreSQL meanwhile leaves its file.
        let work = "touch \(begun); sleep 4; [[ ! -e \(postmaster) ]] && touch \(done)"
        async let copied = Self.copy(installation, to: "", work: work)
        for _ in 0..<1000 where !FileManager.default.fileExists(atPath: begun) {
            try await Task.sleep(for: .milliseconds(10))
        }
        let status = try await installation.rightful("status")
        #expect(FileManager.default.fileExists(atPath: done), "\(status)")
        let result = try await copied
        #expect(result.status == 0, "\(result.errors)")
        #expect(!status.contains("not durable"), "\(status)")
    }

    @Test("a service that waits for the copy, and is told to stop, stops at the first signal")
    func told() async throws {
        let installation = try await Installation()
        defer { installation.remove() }
        let begun = installation.directory.appending(path: "begun").path()
        async let copied = Self.copy(installation, to: "", work: "touch \(begun); sleep 20")
        for _ in 0..<1000 where !FileManager.default.fileExists(atPath: begun) {
            try await Task.sleep(for: .milliseconds(10))
        }
        let service = Process()
        service.executableURL = try Products.url("rightful")
        service.arguments = ["serve", "--config", installation.configurationFile.path()]
        let errors = Pipe()
        service.standardError = errors
        try await service.runWithAllSignals()
        defer { if service.endStatus == nil { kill(service.processIdentifier, SIGKILL) } }
        // It says what it waits for.
        let said = String(decoding: errors.fileHandleForReading.availableData, as: UTF8.self)
        #expect(said.contains("waiting for another process, which starts, stops or copies PostgreSQL"), "\(said)")
        let told = ContinuousClock.now
        kill(service.processIdentifier, SIGTERM)
        #expect(service.waitForEnd() == 0)
        #expect(told.duration(to: .now) < .seconds(10))
        _ = try await copied
    }
}
