import Foundation
import Synchronization
import TestSupport
import Testing

/// A receiver of docs/receivers, run as a program of its own.
final class ReceiverExample: Sendable {
    enum Language: String, CaseIterable, Sendable, CustomTestStringConvertible {
        case swift, python, node, go

        /// Swift builds this repository, and the tests see to Python; the others may be there or not.
        var isInstalled: Bool { self == .swift || self == .python || Self.program(rawValue) != nil }

        var testDescription: String { rawValue }

        static func program(_ name: String) -> URL? {
            (ProcessInfo.processInfo.environment["PATH"] ?? "").split(separator: ":")
                .map { URL(filePath: String($0)).appending(path: name) }
                .first { FileManager.default.isExecutableFile(atPath: $0.path()) }
        }
    }

    /// What it has said that it keeps.
    struct Kept: Sendable, Hashable {
        let line: ToldLines.Line
        let sequence: Int64
        /// Read from the service, because something was missed.
        let isRead: Bool
        /// What gives access.
        let open: [String]
    }

    let port: UInt16
    private let process: Process
    private let output = LogCollector()
    private let errors = LogCollector()

    /// Compiles or installs what an example needs.
    static func prepare(_ language: Language, in directory: URL) async throws {
        switch language {
        case .swift, .python:
            try await run(
                page("Tests/ReceiverHost/prepare").path(), language.rawValue, directory.path(), in: directory)
        case .go:
            let source = page("docs/receivers/receiver.go").path()
            let go = try #require(Language.program("go")).path()
            try await run(go, "vet", source, in: directory)
            try await run(go, "build", "-o", directory.appending(path: "receiver").path(), source, in: directory)
        case .node: break
        }
    }

    private static func page(_ path: String) -> URL { DocumentationPage.root.appending(path: path) }

    private static func run(_ program: String, _ arguments: String..., in directory: URL) async throws {
        let process = Process()
        process.executableURL = URL(filePath: program)
        process.arguments = arguments
        process.currentDirectoryURL = directory
        let pipe = Pipe()
        process.standardOutput = pipe
        process.standardError = pipe
        try await process.runWithAllSignals()
        let text = await Installation.read(pipe)
        let status = process.waitForEnd()
        guard status == 0 else {
            throw CommandFailure(
                arguments: [program] + arguments, status: status, errors: text)
        }
    }

    /// Starts it and waits until it listens.
    ///
    /// - Parameters:
    ///   - directory: where it was prepared.
    ///   - key: may read entitlements of the service at `url`.
    static func start(
        _ language: Language, in directory: URL, port: UInt16, secret: String, url: URL, key: String
    ) async throws -> ReceiverExample {
        let command: [String] =
            switch language {
            case .swift, .go: [directory.appending(path: "receiver").path()]
            case .python:
                [directory.appending(path: "venv/bin/python").path(), page("docs/receivers/receiver.py").path()]
            case .node: [try #require(Language.program("node")).path(), page("docs/receivers/receiver.mjs").path()]
            }
        let process = Process()
        process.executableURL = URL(filePath: command[0])
        process.arguments = command.dropFirst() + ["\(port)"]
        process.currentDirectoryURL = directory
        process.environment = ProcessInfo.processInfo.environment.merging([
            "WEBHOOK_SECRET": secret, "RIGHTFUL_URL": url.absoluteString, "RIGHTFUL_KEY": key,
        ]) { $1 }
        let example = ReceiverExample(process, port: port)
        try await process.runWithAllSignals()
        let client = HTTPClient(try example.url)
        let end = ContinuousClock.now + .seconds(60)
        // Whatever it says to nonsense, it is there.
        while (try? await client.send("POST", "/hook", body: [])) == nil {
            try #require(process.endStatus == nil && ContinuousClock.now < end, "\(language): \(example.errors.text)")
            try await Task.sleep(for: .milliseconds(50))
        }
        return example
    }

    private init(_ process: Process, port: UInt16) {
        (self.process, self.port) = (process, port)
        process.standardOutput = Self.collect(into: output)
        process.standardError = Self.collect(into: errors)
    }

    private static func collect(into collector: LogCollector) -> Pipe {
        let pipe = Pipe()
        let handle = pipe.fileHandleForReading
        Thread.detachNewThread {
            var pending = Data()
            while case let chunk = handle.availableData, !chunk.isEmpty {
                pending.append(chunk)
                while let end = pending.firstIndex(of: UInt8(ascii: "\n")) {
                    collector.append(String(decoding: pending[pending.startIndex..<end], as: UTF8.self))
                    pending.removeSubrange(pending.startIndex...end)
                }
            }
        }
        return pipe
    }

    var url: URL { get throws { try #require(URL(string: "http://127.0.0.1:\(port)")) } }
    var complaints: String { errors.text }

    /// What it keeps, in the order in which it came to it.
    var kept: [Kept] {
        get throws {
            try output.text.split(separator: "\n").map { text in
                let words = try #require(
                    text.wholeMatch(of: /(.+) (production|sandbox) (\d+) (kept|read): ?(.*)/), "\(text)")
                return Kept(
                    line: ToldLines.Line(customer: String(words.1), environment: String(words.2)),
                    sequence: try #require(Int64(words.3)), isRead: words.4 == "read",
                    open: words.5.split(separator: " ").map(String.init))
            }
        }
    }

    func stop() {
        guard process.endStatus == nil else { return }
        kill(process.processIdentifier, SIGKILL)
        process.waitForEnd()
    }
}
