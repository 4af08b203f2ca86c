import Foundation
import TestSupport
import Testing

/// A running `store-simulator serve`.
final class SimulatorProcess {
    /// The app's entry for the configuration, as printed.
    let app: [String: Any]
    private let process: Process
    private var lines: AsyncStream<String>.Iterator

    /// Starts it and waits until it serves.
    static func start(_ arguments: [String]) async throws -> SimulatorProcess {
        let process = Process()
        process.executableURL = try Products.url("store-simulator")
        process.arguments = arguments
        let output = Pipe()
        process.standardOutput = output
        try await process.runWithAllSignals()
        let (lines, continuation) = AsyncStream<String>.makeStream()
        let handle = output.fileHandleForReading
        Thread.detachNewThread {
            var pending = Data()
            while case let chunk = handle.availableData, !chunk.isEmpty {
                pending.append(chunk)
                while let end = pending.firstIndex(of: UInt8(ascii: "\n")) {
                    continuation.yield(String(decoding: pending[pending.startIndex..<end], as: UTF8.self))
                    pending.removeSubrange(pending.startIndex...end)
                }
            }
            continuation.finish()
        }
        var iterator = lines.makeAsyncIterator()
        guard let first = await iterator.next(),
            let app = try JSONSerialization.jsonObject(with: Data(first.utf8)) as? [String: Any]
        else {
            process.terminate()
            throw CommandFailure(arguments: arguments, status: -1, errors: "it printed no configuration")
        }
        return SimulatorProcess(app: app, process: process, lines: iterator)
    }

    private init(app: [String: Any], process: Process, lines: AsyncStream<String>.Iterator) {
        self.app = app
        self.process = process
        self.lines = lines
    }

    /// The next line that is as wanted.
    func line(_ isWanted: (String) -> Bool) async throws -> String {
        while let line = await lines.next() {
            if isWanted(line) { return line }
        }
        throw CommandFailure(arguments: ["serve"], status: -1, errors: "it ended without saying so")
    }

    func stop() {
        guard process.endStatus == nil else { return }
        process.terminate()
        process.waitForEnd()
    }
}

/// A directory of a test's own.
struct ScratchSpaceDirectory {
    var path = ScratchSpace.directory.appending(path: "store-\(UUID().uuidString)").path()

    func remove() { try? FileManager.default.removeItem(atPath: path) }
}
