import Dispatch
import EntitlementCore
import Foundation
import Ledger
import OpenSSLCrypto
import TestSupport
import Testing

@testable import Service

@Suite("Checkpoints in a directory")
struct CheckpointWriterTests {
    private static let customer = "00000000-0000-4000-8000-000000000001"

    private static func writer(
        _ rig: ServiceRig, _ directory: String, _ interval: Duration, retry: Duration = .seconds(1),
        patience: Duration = .seconds(10), files: DispatchQueue = DispatchQueue(label: "checkpoints")
    ) throws -> CheckpointWriter {
        let key = LogKey(name: "example.com/ledger", privateKey: try .generate())
        return CheckpointWriter(
            signer: CheckpointSigner(tree: rig.context.reader.tree, key: key),
            directory: CheckpointDirectory(directory), watch: rig.watch(), interval: interval, retry: retry,
            patience: patience, files: files)
    }

    private static func sizes(_ directory: String) throws -> [Int64] {
        // Beside them may lie one that is being written, under a name of its own.
        let names = try FileManager.default.contentsOfDirectory(atPath: directory).filter {
            $0.hasPrefix("checkpoint-")
        }
        return try names.sorted().map { name in
            let text = try String(contentsOfFile: "\(directory)/\(name)", encoding: .utf8)
            let checkpoint = try #require(SignedNote(text).flatMap { Checkpoint(text: $0.text) })
            #expect(name == CheckpointWriter.name(size: checkpoint.size))
            return checkpoint.size
        }
    }

    @Test("one is written at once and each time the log has grown, and names sort by size")
    func growing() async throws {
        let rig = try await ServiceRig.make()
        let directory = NSTemporaryDirectory() + UUID().uuidString
        defer { try? FileManager.default.removeItem(atPath: directory) }
        let writer = try Self.writer(rig, directory, .milliseconds(20))
        let task = Task { await writer.run() }
        for number in 1...3 {
            let before = number
            // 20 s at most.
            for _ in 0..<1000 {
                if let sizes = try? Self.sizes(directory), sizes.count >= before { break }
                try await Task.sleep(for: .milliseconds(20))
            }
            try await rig.buy("\(number)", by: Self.customer)
        }
        task.cancel()
        await task.value
        await writer.write()
        #expect(try Self.sizes(directory) == [1, 2, 3, 4])
        await writer.write()
        #expect(try Self.sizes(directory) == [1, 2, 3, 4], "one of the same size is left alone")
    }

    @Test("a directory that cannot be written is told in the log, and nothing else happens")
    func unwritable() async throws {
        let rig = try await ServiceRig.make()
        try await Self.writer(rig, "/proc/no-such-place", .seconds(1)).write()
        let told = rig.log.lines.first { $0.contains("no checkpoint could be written to /proc/no-such-place") }
        #expect(told?.contains("NSError") == false && told?.contains("Domain") == false, "\(told ?? "nothing")")
    }

    @Test("a checkpoint that could not be written is tried again soon, not after an hour")
    func triedAgain() async throws {
        let rig = try await ServiceRig.make()
        let directory = NSTemporaryDirectory() + UUID().uuidString
        defer { try? FileManager.default.removeItem(atPath: directory) }
        // In the place of the directory stands a file.
        try Data().write(to: URL(filePath: directory))
        let writer = try Self.writer(rig, directory, .seconds(3600), retry: .milliseconds(20))
        let task = Task { await writer.run() }
        defer { task.cancel() }
        try await eventually { rig.log.lines.contains { $0.contains("no checkpoint could be written") } }
        try FileManager.default.removeItem(atPath: directory)
        try await eventually { (try? Self.sizes(directory)) == [1] }
    }

    @Test("a directory that hangs is told in the log and holds nobody up; it is written to again once it answers")
    func hanging() async throws {
        let rig = try await ServiceRig.make()
        let directory = NSTemporaryDirectory() + UUID().uuidString
        defer { try? FileManager.default.removeItem(atPath: directory) }
        let files = DispatchQueue(label: "hanging")
        let patience = Duration.seconds(3)
        let writer = try Self.writer(rig, directory, .seconds(3600), patience: patience, files: files)
        // What is asked of the directory does not come back, as of another machine's that is away.
        files.suspend()
        let begun = ContinuousClock.now
        let task = Task { await writer.run() }
        for _ in 0..<1000 where !rig.log.lines.contains(where: { $0.contains("does not answer within 3.0 seconds") }) {
            try? await Task.sleep(for: .milliseconds(20))
        }
        task.cancel()
        await task.value
        #expect(rig.log.lines.contains { $0.contains("no checkpoint could be written to \(directory)") })
        #expect(begun.duration(to: .now) < .seconds(15))
        // As the one at the end of the service, which does not wait once more.
        let again = ContinuousClock.now
        #expect(await !writer.write())
        #expect(again.duration(to: .now) < patience)
        files.resume()
        // Behind what had hung.
        files.sync {}
        #expect(await writer.write())
        #expect(try Self.sizes(directory) == [1])
    }

    /// Waits for something, 20 s at most.
    private func eventually(_ condition: () -> Bool, sourceLocation: SourceLocation = #_sourceLocation) async throws {
        for _ in 0..<1000 where !condition() { try await Task.sleep(for: .milliseconds(20)) }
        #expect(condition(), sourceLocation: sourceLocation)
    }

    @Test("so it does where this program may not pass the directories above, as once it has given up root's rights")
    func restoredBehindClosedDoors() async throws {
        let rig = try await ServiceRig.make()
        let parent = NSTemporaryDirectory() + UUID().uuidString
        let (directory, moved) = ("\(parent)/checkpoints", "\(parent)-moved")
        let files = FileManager.default
        defer { for path in [parent, moved] { try? files.removeItem(atPath: path) } }
        try files.createDirectory(atPath: directory, withIntermediateDirectories: true)
        await (try Self.writer(rig, directory, .seconds(1))).write()
        let real = try String(contentsOfFile: "\(directory)/\(CheckpointWriter.name(size: 1))", encoding: .utf8)
        try real.replacing("\n1\n", with: "\n7\n")
            .write(toFile: "\(directory)/\(CheckpointWriter.name(size: 7))", atomically: true, encoding: .utf8)
        let writer = try Self.writer(rig, directory, .seconds(1))
        try files.moveItem(atPath: parent, toPath: moved)
        try Data().write(to: URL(filePath: parent))
        await writer.write()
        #expect(rig.log.lines.contains { $0.contains("is shorter than it was") }, "\(rig.log.lines)")
    }

    @Test(
        "a directory that holds a checkpoint of a longer log, or of another one as long, says that a backup was restored"
    )
    func restored() async throws {
        let rig = try await ServiceRig.make()
        let directory = NSTemporaryDirectory() + UUID().uuidString
        defer { try? FileManager.default.removeItem(atPath: directory) }
        let writer = try Self.writer(rig, directory, .seconds(1))
        await writer.write()
        let name = CheckpointWriter.name(size: 1)
        let real = try String(contentsOfFile: "\(directory)/\(name)", encoding: .utf8)
        for (forged, said) in [
            (real.replacing("\n1\n", with: "\n7\n"), "is shorter than it was"),
            (
                real.replacing(/\n[A-Za-z0-9+\/]{43}=\n/, with: "\n\(String(repeating: "A", count: 43))=\n"),
                "is not the one"
            ),
        ] {
            let size: Int64 = said.contains("shorter") ? 7 : 1
            let path = "\(directory)/\(CheckpointWriter.name(size: size))"
            try forged.write(toFile: path, atomically: true, encoding: .utf8)
            let again = try Self.writer(rig, directory, .seconds(1))
            await again.write()
            #expect(rig.log.lines.contains { $0.contains(said) && $0.contains("was a backup restored") }, "\(said)")
            #expect(try await WorkFailures(pool: rig.pool).list().map(\.work) == ["checkpoints"])
            try FileManager.default.removeItem(atPath: path)
            await again.write()
        }
        // The log has grown beyond a checkpoint of another past.
        let forged = real.replacing(/\n[A-Za-z0-9+\/]{43}=\n/, with: "\n\(String(repeating: "A", count: 43))=\n")
        try forged.write(toFile: "\(directory)/\(name)", atomically: true, encoding: .utf8)
        try await rig.buy("1", by: Self.customer)
        let told = rig.log.lines.count { $0.contains("is not the one") }
        let longer = try Self.writer(rig, directory, .seconds(1))
        await longer.write()
        #expect(rig.log.lines.count { $0.contains("is not the one") } == told + 1)
        #expect(try Self.sizes(directory) == [1], "nothing is added to it")
        try real.write(toFile: "\(directory)/\(name)", atomically: true, encoding: .utf8)
        await longer.write()
        #expect(try Self.sizes(directory) == [1, 2])
        // Another log's checkpoints are no business of this one's.
        try real.replacing("example.com/ledger", with: "example.com/other").write(
            toFile: "\(directory)/\(CheckpointWriter.name(size: 9))", atomically: true, encoding: .utf8)
        let lines = rig.log.lines.count { $0.contains("was a backup restored") }
        await (try Self.writer(rig, directory, .seconds(1))).write()
        #expect(rig.log.lines.count { $0.contains("was a backup restored") } == lines)
    }
}
