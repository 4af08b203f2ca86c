import Foundation
import TestSupport
import Testing

/// A `ledger-worker` that can be killed without warning.
final class WorkerProcess: Sendable {
    private let process: Process
    private let output: Pipe
    private let lines: AsyncStream<String>
    private let firstLine: AsyncStream<Void>
    private let collected: Task<[String], Never>

    init(_ arguments: [String]) throws {
        let process = Process()
        process.executableURL = try Self.executable()
        process.arguments = arguments
        let output = Pipe()
        process.standardOutput = output
        let (lines, continuation) = AsyncStream<String>.makeStream()
        let (firstLine, first) = AsyncStream<Void>.makeStream()
        try process.runAlone()
        let handle = output.fileHandleForReading
        Thread.detachNewThread {
            var pending = Data()
            while case let chunk = handle.availableData, !chunk.isEmpty {
                pending.append(chunk)
                while let end = pending.firstIndex(of: UInt8(ascii: "\n")) {
                    continuation.yield(String(decoding: pending[pending.startIndex..<end], as: UTF8.self))
                    pending.removeSubrange(pending.startIndex...end)
                    first.yield()
                }
            }
            first.finish()
            continuation.finish()
        }
        self.process = process
        self.output = output
        self.lines = lines
        self.firstLine = firstLine
        collected = Task { await lines.reduce(into: []) { $0.append($1) } }
    }

    /// Beside the test bundle, where the package manager puts every product.
    private static func executable() throws -> URL {
        let directory = try #require(CommandLine.arguments.first.map { URL(filePath: $0).deletingLastPathComponent() })
        for candidate in [directory, directory.deletingLastPathComponent()] {
            let url = candidate.appending(path: "ledger-worker")
            if FileManager.default.isExecutableFile(atPath: url.path()) { return url }
        }
        let build = URL(filePath: #filePath).deletingLastPathComponent().appending(
            path: "../../../.build/debug/ledger-worker")
        return build.standardizedFileURL
    }

    func waitForFirstLine() async throws {
        for await _ in firstLine { return }
    }

    func kill() { Foundation.kill(process.processIdentifier, SIGKILL) }

    /// What it said until it ended: the draft's number and its position.
    func acknowledged() async throws -> [(Int, Int64)] {
        let lines = await collected.value
        process.waitForEnd()
        return try lines.map { line in
            let parts = line.split(separator: " ")
            return (try #require(Int(parts[0])), try #require(Int64(parts[1])))
        }
    }
}
