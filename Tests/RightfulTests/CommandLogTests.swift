import EntitlementCore
import Foundation
import Service
import TestSupport
import Testing

@testable import rightful

@Suite("The log of a command", .timeLimit(.minutes(1)))
struct CommandLogTests {
    private static let context = CommandContext(
        environment: [:], isRoot: false, isTerminal: false, now: { .earliest })

    private struct Failure: Error {}

    @Test("its last line is written before it ends, also where it fails or is interrupted", arguments: [false, true])
    func lastLine(isInterrupted: Bool) async throws {
        let pipe = Pipe()
        let long = String(repeating: "x", count: 200_000)
        let command = Task {
            try await Self.context.logging(to: pipe.fileHandleForWriting.fileDescriptor) { logger in
                if isInterrupted { while !Task.isCancelled { await Task.yield() } }
                // More than fits into the pipe: it is written once somebody reads.
                logger.log(.info, long)
                throw Failure()
            }
        }
        if isInterrupted { command.cancel() }
        async let read = pipe.fileHandleForReading.untilEnd(after: .milliseconds(200))
        await #expect(throws: Failure.self) { try await command.value }
        try pipe.fileHandleForWriting.close()
        #expect(try await read.count > long.utf8.count)
    }
}
