import Foundation
import Synchronization
import TestSupport
import Testing

/// `rightful backup`, while the ledger is served and written to.
@Suite("Backups of the embedded ledger", .serialized, .timeLimit(.minutes(5)))
struct BackupTests {
    @Test("a copy made under load holds what was acknowledged before, verifies, and signs as the ledger does")
    func underLoad() async throws {
        let installation = try await Installation()
        defer { installation.remove() }
        let service = try await ServiceProcess.start(installation)
        let client = HTTPClient(service.url, key: try await installation.adminKey())
        let isEnough = Mutex(false)
        let writer = Task {
            var recorded = 0
            while !isEnough.withLock({ $0 }) {
                let path = "/v1/customers/c-\(recorded)/actions/grant"
                let body = #"{"entitlement": "premium", "reason": "test"}"#
                let answer = try await client.send("POST", path, body: Array(body.utf8))
                #expect(answer.status == 200, "\(answer.text)")
                recorded += 1
            }
            return recorded
        }
        try await Task.sleep(for: .seconds(1))
        let before = try await installation.rightful("events")
        let copy = installation.directory.appending(path: "copy").path()
        let said = try await installation.rightful("backup", copy)
        #expect(said.hasPrefix("copied the ledger, with its "), "\(said)")
        #expect(!said.contains("not copied"), "\(said)")
        isEnough.withLock { $0 = true }
        #expect(try await writer.value > 10)

        let copied = try await installation.rightful("events", "--data-dir", copy)
        #expect(copied.hasPrefix(before) && before.contains("grant"), "\(before.suffix(500))")
        #expect(try await installation.rightful("events").hasPrefix(copied))
        try await installation.rightful("verify", "--data-dir", copy)
        let checkpoint = installation.directory.appending(path: "checkpoint").path()
        try await installation.rightful("checkpoint", "--data-dir", copy, "--output", checkpoint)
        try await installation.rightful("verify", "--since", checkpoint)
        #expect(service.stop() == 0)
        #expect(installation.postmaster == nil)
    }

    @Test("a ledger that nobody serves is copied, too, and what is no key is named")
    func idle() async throws {
        let installation = try await Installation()
        defer { installation.remove() }
        _ = try await installation.adminKey()
        let data = installation.dataDirectory
        try FileManager.default.createDirectory(at: data.appending(path: "demo"), withIntermediateDirectories: false)
        try FileManager.default.createSymbolicLink(
            atPath: data.appending(path: "link").path(), withDestinationPath: "/etc/passwd")
        let key = data.appending(path: "api-key")
        try Data("secret".utf8).write(to: key)
        #expect(chmod(key.path(), 0o640) == 0)
        // As the cluster's own files are named, and open to more than the umask gives.
        let other = "postgres-owner.secret"
        try Data("other".utf8).write(to: data.appending(path: other))
        #expect(chmod(data.appending(path: other).path(), 0o666) == 0)
        let copy = installation.directory.appending(path: "copy")
        let said = try await installation.rightful("backup", copy.path())
        #expect(said.contains("not copied: demo, link\n"), "\(said)")
        #expect(try Data(contentsOf: copy.appending(path: other)) == Data("other".utf8))
        let named = try FileManager.default.contentsOfDirectory(atPath: copy.path()).filter { $0.hasPrefix("postgres") }
        #expect(named.sorted() == ["postgres", other], "neither locks nor the log")
        let mode = try FileManager.default.attributesOfItem(atPath: copy.appending(path: other).path())
        #expect(mode[.posixPermissions] as? Int == 0o666)
        let inside = try await installation.rightful("backup", data.appending(path: "inside").path())
        #expect(inside.contains("not copied: demo, link\n"), "not itself: \(inside)")
        #expect(installation.postmaster == nil)
        let attributes = try FileManager.default.attributesOfItem(atPath: copy.appending(path: "api-key").path())
        #expect(attributes[.posixPermissions] as? Int == 0o640)
        #expect(try Data(contentsOf: copy.appending(path: "api-key")) == Data("secret".utf8))
        let directory = try FileManager.default.attributesOfItem(atPath: copy.path())
        #expect(directory[.posixPermissions] as? Int == 0o700)
        try await installation.rightful("verify", "--data-dir", copy.path())
    }

    @Test("nothing is written over, and a backup that fails or is interrupted leaves nothing")
    func refused() async throws {
        let installation = try await Installation()
        defer { installation.remove() }
        let directory = installation.directory
        func refusal(_ destination: String, _ arguments: [String] = []) async throws -> String {
            let (status, _, errors) = try await installation.run(["backup", destination] + arguments)
            #expect(status == 1)
            return errors
        }
        let copy = directory.appending(path: "copy").path()
        try FileManager.default.createDirectory(atPath: copy, withIntermediateDirectories: false)
        #expect(try await refusal(copy).contains("is there already"))
        #expect(try FileManager.default.contentsOfDirectory(atPath: copy).isEmpty)
        #expect(try await refusal("\(directory.path())/none/copy").contains("No such file or directory"))
        let inside = installation.dataDirectory.appending(path: "postgres/copy").path()
        #expect(try await refusal(inside).contains("lies in the cluster"))
        let url = ["--database-url", "postgres://127.0.0.1:1/none"]
        #expect(try await refusal("\(copy)-2", url).contains("named by its URL"))

        let small = directory.appending(path: "small")
        try FileManager.default.createDirectory(at: small, withIntermediateDirectories: false)
        if let disk = SmallDisk(mountedOver: small) {
            defer { disk.unmount() }
            disk.fill()
            let full = try await refusal(small.appending(path: "copy").path())
            #expect(full.contains("No space left on device"), "\(full)")
            #expect(try FileManager.default.contentsOfDirectory(atPath: small.path()) == ["filler"])
        }

        let interrupted = Process()
        interrupted.executableURL = try Products.url("rightful")
        interrupted.arguments = ["backup", "\(copy)-3", "--config", installation.configurationFile.path()]
        interrupted.standardError = FileHandle.nullDevice
        try await interrupted.runWithAllSignals()
        while !FileManager.default.fileExists(atPath: "\(copy)-3.unfinished"), interrupted.endStatus == nil {
            try await Task.sleep(for: .milliseconds(1))
        }
        kill(interrupted.processIdentifier, SIGINT)
        #expect(interrupted.waitForEnd() == 1)
        let left = try FileManager.default.contentsOfDirectory(atPath: directory.path())
        #expect(!left.contains { $0.hasPrefix("copy-") }, "\(left)")
        #expect(installation.postmaster == nil)
    }

    @Test("a service that waits for whoever starts PostgreSQL, and is told to stop, stops at the first signal")
    func told() async throws {
        let installation = try await Installation()
        defer { installation.remove() }
        let file = installation.dataDirectory.appending(path: "postgres.start.lock").path()
        let lock = open(file, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
        defer { close(lock) }
        #expect(flock(lock, LOCK_EX | LOCK_NB) == 0)
        let service = Process()
        service.executableURL = try Products.url("rightful")
        service.arguments = ["serve", "--config", installation.configurationFile.path()]
        let errors = Pipe()
        service.standardError = errors
        try await service.runWithAllSignals()
        defer { if service.endStatus == nil { kill(service.processIdentifier, SIGKILL) } }
        // It says what it waits for.
        var said = ""
        while !said.contains("PostgreSQL"), case let chunk = errors.fileHandleForReading.availableData, !chunk.isEmpty {
            said += String(decoding: chunk, as: UTF8.self)
        }
        #expect(said.contains("waiting for another process, which starts or stops PostgreSQL"), "\(said)")
        let told = ContinuousClock.now
        kill(service.processIdentifier, SIGTERM)
        #expect(service.waitForEnd() == 0)
        #expect(told.duration(to: .now) < .seconds(10))
    }
}
