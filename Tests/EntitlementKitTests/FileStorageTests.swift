import Foundation
import Testing

@testable import EntitlementKit

@Suite("Kit: files", .timeLimit(.minutes(1)))
struct FileStorageTests {
    private func withDirectory(_ body: (URL) async throws -> Void) async throws {
        let directory = FileManager.default.temporaryDirectory.appendingPathComponent("kit-\(UUID().uuidString)")
        defer { try? FileManager.default.removeItem(at: directory) }
        try await body(directory)
    }

    private func lines(_ text: String) -> Data { Data(text.utf8) }

    private func isUnlocked(_ directory: URL) -> Bool {
        guard let lock = try? FileLock(path: directory.appendingPathComponent("lock").path) else { return false }
        _ = consume lock
        return true
    }

    private func holdLock(_ directory: URL, until door: Door) async throws {
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        let lock = try FileLock(path: directory.appendingPathComponent("lock").path)
        await door.pass()
        _ = consume lock
    }

    @Test("a file is replaced as a whole, also after a crash in the middle, and one that was never written is none")
    func replaced() async throws {
        try await withDirectory { directory in
            let storage = FileEntitlementStorage(directory: directory)
            #expect(try await storage.read("a") == StoredContent(data: nil, version: .nothing))
            let first = try await storage.save(.replace(lines("longer than the next")), as: "a", over: .nothing)
            // What a crash while writing leaves behind.
            try lines("half").write(to: directory.appendingPathComponent("a.new"))
            #expect(try await storage.read("a").data == lines("longer than the next"))
            let second = try await storage.save(.replace(lines("short")), as: "a", over: try #require(first))
            let read = try await storage.read("a")
            #expect(read.data == lines("short") && read.version == second && second != first)
            let names = try FileManager.default.contentsOfDirectory(atPath: directory.path)
            #expect(names.sorted() == ["a", "lock"])
            await storage.setAside("a")
            #expect(try await storage.read("a").data == nil)
            #expect(try Data(contentsOf: directory.appendingPathComponent("a.unreadable")) == lines("short"))
        }
    }

    @Test("what was not seen is not written over, and not gone on from")
    func unseen() async throws {
        try await withDirectory { directory in
            let (app, widget) = (
                FileEntitlementStorage(directory: directory), FileEntitlementStorage(directory: directory)
            )
            let seen = try #require(try await app.save(.append(lines("one\n")), as: "a", over: .nothing))
            #expect(try await widget.save(.replace(lines("other\n")), as: "a", over: .nothing) == nil)
            let next = try #require(try await widget.save(.append(lines("two\n")), as: "a", over: seen))
            #expect(try await app.save(.append(lines("three\n")), as: "a", over: seen) == nil)
            #expect(try await app.save(.replace(lines("three\n")), as: "a", over: seen) == nil)
            #expect(try await app.version(of: "a") == next)
            #expect(try await app.read("a").data == lines("one\ntwo\n"))
        }
    }

    @Test("what several append at once is all there, and no line is joined to another")
    func crowd() async throws {
        try await withDirectory { directory in
            try await withThrowingTaskGroup(of: Void.self) { group in
                for writer in 0..<4 {
                    let storage = FileEntitlementStorage(directory: directory)
                    group.addTask {
                        for number in 0..<25 {
                            while true {
                                let version = try await storage.version(of: "a")
                                let line = Data("\(writer) \(number)\n".utf8)
                                if try await storage.save(.append(line), as: "a", over: version) != nil { break }
                            }
                        }
                    }
                }
                try await group.waitForAll()
            }
            let data = try #require(try await FileEntitlementStorage(directory: directory).read("a").data)
            let read = Set(String(decoding: data, as: UTF8.self).split(separator: "\n").map(String.init))
            let written = Set((0..<4).flatMap { writer in (0..<25).map { "\(writer) \($0)" } })
            #expect(read == written)
        }
    }

    @Test("a line that a crash cut off spoils none that comes after it")
    func torn() async throws {
        try await withDirectory { directory in
            let storage = FileEntitlementStorage(directory: directory)
            _ = try await storage.save(.append(lines("one\ntw")), as: "a", over: .nothing)
            let version = try await storage.version(of: "a")
            _ = try await storage.save(.append(lines("three\n")), as: "a", over: version)
            #expect(try await storage.read("a").data == lines("one\ntw\nthree\n"))
        }
    }

    @Test("whatever can be written can be read, and nothing larger is written")
    func limits() async throws {
        try await withDirectory { directory in
            let storage = FileEntitlementStorage(directory: directory)
            let most = Data(repeating: UInt8(ascii: "x"), count: FileEntitlementStorage.sizeLimit)
            let version = try #require(try await storage.save(.replace(most), as: "a", over: .nothing))
            #expect(try await storage.read("a").data?.count == most.count)
            await #expect(throws: CocoaError.self) {
                try await storage.save(.append(lines("y")), as: "a", over: version)
            }
            await #expect(throws: CocoaError.self) {
                try await storage.save(.replace(most + lines("y")), as: "b", over: .nothing)
            }
            #expect(try await storage.version(of: "a") == version)
            #expect(try await storage.read("b").data == nil)
        }
    }

    @Test("what cannot be read now is an error, and not nothing")
    func unreadable() async throws {
        try await withDirectory { directory in
            let storage = FileEntitlementStorage(directory: directory)
            // Whoever is root can read any file, but no directory.
            try FileManager.default.createDirectory(
                at: directory.appendingPathComponent("a"), withIntermediateDirectories: true)
            await #expect(throws: (any Error).self) { try await storage.read("a") }
            await #expect(throws: (any Error).self) {
                try await storage.save(.replace(Data()), as: "a", over: .nothing)
            }
        }
    }

    @Test("a process that may be suspended is not while it has the lock, and does not take it when it is about to be")
    func suspended() async throws {
        try await withDirectory { directory in
            let (ends, end) = AsyncStream<Bool>.makeStream()
            let file = directory.appendingPathComponent("a").path
            let storage = FileEntitlementStorage(
                directory: directory,
                ExpiringActivity { block in
                    Thread.detachNewThread {
                        block(false)
                        // The system may suspend the process from here on.
                        end.yield(FileManager.default.fileExists(atPath: file) && isUnlocked(directory))
                    }
                })
            let door = Door()
            async let other: Void = holdLock(directory, until: door)
            await eventually("somebody else has the lock") { await door.visitors > 0 }
            async let saved = storage.save(.replace(lines("one\n")), as: "a", over: .nothing)
            // Whoever waits for the lock may be suspended meanwhile.
            #expect(await ends.first { _ in true } == false)
            await door.open()
            try await other
            let version = try #require(try await saved)
            #expect(await ends.first { $0 } == true)
            let refused = FileEntitlementStorage(
                directory: directory,
                ExpiringActivity { block in
                    Thread.detachNewThread { block(true) }
                })
            await #expect(throws: POSIXError.self) { try await refused.save(.replace(Data()), as: "a", over: version) }
            #expect(try await refused.version(of: "a") == version)
        }
    }

    @Test("what is saved by a task that was cancelled is on disk", arguments: [true, false])
    func cancelled(_ maySuspend: Bool) async throws {
        try await withDirectory { directory in
            let activity = ExpiringActivity { block in Thread.detachNewThread { block(false) } }
            let storage = FileEntitlementStorage(directory: directory, maySuspend ? activity : nil)
            let text = lines("one\n")
            let saving = Task {
                withUnsafeCurrentTask { $0?.cancel() }
                return try await storage.save(.replace(text), as: "a", over: .nothing)
            }
            let saved = try await saving.value
            #expect(saved != nil)
            #expect(try await storage.read("a").data == text)
        }
    }

    @Test("a system that never answers keeps no file from being written")
    func neverAnswered() async throws {
        try await withDirectory { directory in
            let silent = ExpiringActivity(patience: .milliseconds(10)) { _ in }
            let storage = FileEntitlementStorage(directory: directory, silent)
            _ = try await storage.save(.replace(lines("one\n")), as: "a", over: .nothing)
            #expect(try await storage.read("a").data == lines("one\n"))
        }
    }

    @Test("each app has a directory of its own, and on tvOS it is in Caches")
    func directories() {
        let first = FileEntitlementStorage.standardDirectory(bundleID: "com.example.one")
        let second = FileEntitlementStorage.standardDirectory(bundleID: "com.example.two")
        #expect(first != second && first.path.hasSuffix("/EntitlementKit/com.example.one"))
        let caches = FileEntitlementStorage.standardDirectory(bundleID: "com.example.one", place: .cachesDirectory)
        #expect(caches != first)
        for odd in ["../other", "..", "a/b", ""] {
            let directory = FileEntitlementStorage.standardDirectory(bundleID: odd).standardizedFileURL
            #expect(directory.path.contains("/EntitlementKit"), "\(directory)")
        }
    }
}
