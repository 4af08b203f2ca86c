import Foundation
import TestSupport

/// `deploy/run`, as people start it, once it has said all it has to say.
struct RunningDemo {
    let process: Process
    let output: String

    func stop() {
        process.terminate()
        process.waitForEnd()
    }

    /// Starts it and waits until it is up.
    static func start(_ environment: [String: String]) async throws -> RunningDemo {
        let process = Process()
        process.executableURL = DocumentationPage.root.appending(path: "deploy/run")
        process.environment = ProcessInfo.processInfo.environment.merging(environment) { $1 }
        let pipe = Pipe()
        process.standardOutput = pipe
        process.standardError = pipe
        try await process.runWithAllSignals()
        let (chunks, continuation) = AsyncStream<String>.makeStream()
        let handle = pipe.fileHandleForReading
        Thread.detachNewThread {
            while case let data = handle.availableData, !data.isEmpty {
                continuation.yield(String(decoding: data, as: UTF8.self))
            }
            continuation.finish()
        }
        var output = ""
        for await chunk in chunks {
            output += chunk
            if output.contains("Ctrl-C stops it") { return RunningDemo(process: process, output: output) }
        }
        throw CommandFailure(arguments: ["deploy/run"], status: -1, errors: output)
    }
}
