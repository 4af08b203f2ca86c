import Foundation
import FoundationNetworking
import StoreSimulator
import Synchronization
import TestSupport
import Testing

/// The built programs, beside the test bundle.
enum Products {
    static func url(_ name: String) throws -> URL {
        let bundle = try #require(CommandLine.arguments.first.map { URL(filePath: $0).deletingLastPathComponent() })
        let checkout = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "../../../.build/debug")
        for directory in [bundle, bundle.deletingLastPathComponent(), checkout.standardizedFileURL] {
            let url = directory.appending(path: name)
            if FileManager.default.isExecutableFile(atPath: url.path()) { return url }
        }
        throw MissingProduct(name: name)
    }
}

struct MissingProduct: Error { let name: String }

/// One installation: a data directory, a configuration that trusts a simulated authority, and the services run on it.
final class Installation: Sendable {
    let directory: URL
    let authority: SimulatedAuthority
    let world: StoreWorld
    /// The services that were started on it.
    private let services = Mutex<[Process]>([])

    /// - Parameters:
    ///   - isFresh: whether nothing may be there yet; else a migrated PostgreSQL, stopped, is.
    ///   - settings: for the configuration file, beside what every installation has.
    init(
        world: StoreWorld = .standard, environments: [String] = ["production", "sandbox"], isFresh: Bool = false,
        settings: [String: any Sendable] = [:]
    ) async throws {
        self.world = world
        directory = ScratchSpace.directory.appending(path: "installation-\(UUID().uuidString)")
        let authorityDirectory = directory.appending(path: "authority")
        try FileManager.default.createDirectory(at: authorityDirectory, withIntermediateDirectories: true)
        authority = try SimulatedAuthority.kept(in: authorityDirectory.path())
        var configuration: [String: Any] = [
            "listen": "127.0.0.1:0", "data_dir": dataDirectory.path(),
            "apps": [
                ["bundle_id": world.bundleID, "app_apple_id": world.appAppleID, "environments": environments]
            ],
            "root_certificates": [
                authorityDirectory.appending(path: SimulatedAuthority.rootCertificateFile).path()
            ],
        ]
        configuration.merge(settings) { _, new in new }
        try JSONSerialization.data(withJSONObject: configuration).write(to: configurationFile)
        try Data(world.catalogFile.encoded()).write(to: catalogFile)
        if !isFresh { try await InstalledCluster.shared.copy(to: dataDirectory) }
    }

    var dataDirectory: URL { directory.appending(path: "data") }
    var configurationFile: URL { directory.appending(path: "rightful.json") }
    var catalogFile: URL { directory.appending(path: "catalog.json") }

    /// Writes these into the configuration file, in place of what it has of them.
    func configure(_ changes: [String: any Sendable]) throws {
        let data = try Data(contentsOf: configurationFile)
        let configuration = try JSONSerialization.jsonObject(with: data) as? [String: Any] ?? [:]
        try JSONSerialization.data(withJSONObject: configuration.merging(changes) { $1 }).write(to: configurationFile)
    }

    /// Runs a command to its end; throws unless it exits 0.
    @discardableResult
    func rightful(_ arguments: String...) async throws -> String {
        let (status, output, errors) = try await run(arguments)
        guard status == 0 else { throw CommandFailure(arguments: arguments, status: status, errors: errors) }
        return output
    }

    /// Makes a key that may do everything, and returns its secret.
    func adminKey() async throws -> String {
        try await rightful("keys", "create", "--name", "test", "--scopes", "admin")
            .trimmingCharacters(in: .whitespacesAndNewlines)
    }

    /// - Parameter prefix: a program, and its arguments, that runs the command.
    func run(
        _ arguments: [String], through prefix: [String] = []
    ) async throws -> (status: Int32, output: String, errors: String) {
        let command =
            try prefix + [Products.url("rightful").path()] + arguments + ["--config", configurationFile.path()]
        let process = Process()
        process.executableURL = URL(filePath: command[0])
        process.arguments = Array(command.dropFirst())
        let (output, errors) = (Pipe(), Pipe())
        process.standardOutput = output
        process.standardError = errors
        try await process.runWithAllSignals()
        async let outputText = Self.read(output)
        async let errorText = Self.read(errors)
        let texts = await (outputText, errorText)
        return (process.waitForEnd(), texts.0, texts.1)
    }

    static func read(_ pipe: Pipe) async -> String {
        let handle = pipe.fileHandleForReading
        return await withCheckedContinuation { continuation in
            Thread.detachNewThread {
                let data = (try? handle.readToEnd()) ?? Data()
                continuation.resume(returning: String(decoding: data, as: UTF8.self))
            }
        }
    }

    fileprivate func note(_ service: Process) { services.withLock { $0.append(service) } }

    /// Ends whatever still runs on the data directory and removes it.
    func remove() {
        for service in services.withLock({ $0 }) where service.endStatus == nil {
            kill(service.processIdentifier, SIGKILL)
        }
        if let pid = postmaster { kill(pid, SIGQUIT) }
        try? FileManager.default.removeItem(at: directory)
    }

    /// The process id of the embedded PostgreSQL, while its pid file stands.
    var postmaster: pid_t? {
        let file = dataDirectory.appending(path: "postgres/postmaster.pid")
        guard let text = try? String(contentsOf: file, encoding: .utf8) else { return nil }
        return text.split(separator: "\n").first.flatMap { pid_t($0) }
    }
}

struct CommandFailure: Error {
    let arguments: [String]
    let status: Int32
    let errors: String
}

/// A running `rightful serve`.
final class ServiceProcess: Sendable {
    let url: URL
    private let process: Process
    private let collector: LogCollector

    /// The longest that a service may take to start, or to end.
    private static let patience = Duration.seconds(120)

    /// Starts the service and waits until it says where it listens.
    ///
    /// - Parameter prefix: a program, and its arguments, that becomes the service.
    /// - Throws: `CommandFailure` where it ends before, or has to be killed because it says nothing for two minutes.
    static func start(_ installation: Installation, through prefix: [String] = []) async throws -> ServiceProcess {
        let process = Process()
        let command =
            try prefix + [Products.url("rightful").path(), "serve", "--config", installation.configurationFile.path()]
        process.executableURL = URL(filePath: command[0])
        process.arguments = Array(command.dropFirst())
        let errors = Pipe()
        process.standardError = errors
        process.standardOutput = FileHandle.nullDevice
        try await process.runWithAllSignals()
        installation.note(process)
        let (lines, continuation) = AsyncStream<String>.makeStream()
        let handle = errors.fileHandleForReading
        let collector = LogCollector()
        Thread.detachNewThread {
            var pending = Data()
            while case let chunk = handle.availableData, !chunk.isEmpty {
                pending.append(chunk)
                while let end = pending.firstIndex(of: UInt8(ascii: "\n")) {
                    let line = String(decoding: pending[pending.startIndex..<end], as: UTF8.self)
                    pending.removeSubrange(pending.startIndex...end)
                    collector.append(line)
                    continuation.yield(line)
                }
            }
            collector.end()
            continuation.finish()
        }
        let watch = Task {
            try await Task.sleep(for: patience)
            collector.append("it is killed: it has not said in \(patience) where it listens")
            kill(process.processIdentifier, SIGKILL)
        }
        defer { watch.cancel() }
        for await line in lines {
            guard let object = try? JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any],
                let text = object["url"] as? String, let url = URL(string: text)
            else { continue }
            return ServiceProcess(url: url, process: process, collector: collector)
        }
        throw CommandFailure(arguments: ["serve"], status: process.waitForEnd(), errors: collector.text)
    }

    private init(url: URL, process: Process, collector: LogCollector) {
        self.url = url
        self.process = process
        self.collector = collector
    }

    var logText: String { collector.text }
    var processIdentifier: pid_t { process.processIdentifier }

    func signal(_ number: Int32) {
        if isRunning { kill(process.processIdentifier, number) }
    }

    func killWithoutWarning() { end(by: SIGKILL) }

    /// Asks it to stop, and returns its exit status.
    @discardableResult
    func stop() -> Int32 { end(by: SIGTERM) }

    /// Sends it a signal that ends it, waits for the end, and returns its exit status.
    @discardableResult
    func end(by signal: Int32) -> Int32 {
        kill(process.processIdentifier, signal)
        let end = ContinuousClock.now + Self.patience
        while true {
            if let status = process.endStatus {
                collector.waitForEnd()
                return status
            }
            if ContinuousClock.now > end {
                Issue.record(
                    "process \(processIdentifier) runs \(Self.patience) after signal \(signal): \(logText.suffix(2000))"
                )
                kill(process.processIdentifier, SIGKILL)
                return process.waitForEnd()
            }
            usleep(5000)
        }
    }

    /// The process itself, while it runs.
    var processID: pid_t { process.processIdentifier }

    /// Whether it runs.
    var isRunning: Bool { process.endStatus == nil }
}

/// What a process wrote to its log so far.
final class LogCollector: Sendable {
    private let lines = Mutex<[String]>([])
    private let ended = DispatchSemaphore(value: 0)

    /// Says that nothing follows.
    func end() { ended.signal() }

    /// Waits until the last line is here: it may be read after its process has ended.
    func waitForEnd() {
        #expect(ended.wait(timeout: .now() + 30) == .success, "somebody keeps the log open: \(text.suffix(2000))")
        ended.signal()
    }

    func append(_ line: String) { lines.withLock { $0.append(line) } }

    var text: String { lines.withLock { $0.joined(separator: "\n") } }
}
