import EmbeddedPostgres
import EntitlementCore
import Foundation
import Glibc
import Service

/// What a command knows of the world around the process.
struct CommandContext: Sendable {
    let environment: [String: String]
    let isRoot: Bool
    /// Whether somebody watches standard error.
    let isTerminal: Bool
    /// Whether there was a standard output when the program was started.
    var hasOutput = true
    let now: @Sendable () -> Timestamp
    let output = Output()

    /// Reads the configuration that applies to a command.
    func configuration(_ arguments: ParsedArguments) throws(ConfigurationError) -> Configuration {
        var flags: [ConfigurationKey: String] = [:]
        for key in ConfigurationKey.allCases {
            if let flag = key.flag, let value = arguments.value(flag) { flags[key] = value }
        }
        var file: (path: String, content: [UInt8])?
        if let path = arguments.value("--config") { file = (path, try Files.read(path)) }
        return try Configuration(
            ConfigurationInput(
                flags: flags, environment: environment, file: file, isRoot: isRoot,
                memory: MachineMemory.available()))
    }

    /// Says why the command failed, as one line.
    func complain(_ text: String) {
        let line = text.split(whereSeparator: \.isNewline).map { $0.trimmingCharacters(in: .whitespaces) }
            .joined(separator: " ")
        try? FileHandle.standardError.write(contentsOf: Data(Array("rightful: \(line)\n".utf8).printable))
    }

    /// Runs what logs to standard error; however it ends, its last line is written then.
    func logging<Value>(to descriptor: Int32 = STDERR_FILENO, _ body: (Logger) async throws -> Value) async throws
        -> Value
    {
        let log = LogWriter(descriptor: descriptor)
        let logger = Logger(
            now: now, lines: { log.write(lines: $0, count: $1, time: $2) }, sink: { log.write($0) })
        do {
            let value = try await body(logger)
            await log.flush()
            return value
        } catch {
            await log.flush()
            throw error
        }
    }

    /// Says what takes so long, if anybody watches.
    func progress(_ text: String) {
        if isTerminal { complain(text) }
    }

    /// Draws a line of the terminal over, without going to the next.
    func draw(_ text: String) {
        try? FileHandle.standardError.write(contentsOf: Data("\r\u{1B}[K\(text)".utf8))
    }
}

/// The reader of standard output has gone; nothing is left to do.
struct OutputClosed: Error, CustomStringConvertible {
    var description: String { "the reader of standard output has gone" }
}

/// Standard output, for text.
struct Output: Sendable {
    func write(_ text: String) throws { try write(Array(text.utf8)) }

    /// Writes what an exit status or a failure comes after, and which neither depends on: a reader that has gone leaves them as
    /// they are.
    func report(_ text: String) throws { try report(Array(text.utf8)) }

    func report(_ bytes: [UInt8]) throws {
        do { try write(bytes) } catch is OutputClosed {}
    }

    func write(_ bytes: [UInt8]) throws {
        var rest = bytes.printable[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { Glibc.write(STDOUT_FILENO, $0.baseAddress, $0.count) }
            if count > 0 {
                rest = rest.dropFirst(count)
            } else if errno == EPIPE {
                throw OutputClosed()
            } else if errno != EINTR {
                throw CommandFailure(
                    description: "cannot write to standard output: \(String(cString: strerror(errno)))")
            }
        }
    }
}

/// Files that the configuration or the command line names.
enum Files {
    /// The most bytes taken from one file.
    static let sizeLimit = 8 << 20

    /// Reads a whole file that is the configuration, or is named by a key of it.
    static func read(_ path: String, for key: String? = nil) throws(ConfigurationError) -> [UInt8] {
        do throws(Unusable) {
            return try content(path)
        } catch {
            throw ConfigurationError(file: path, (key.map { "\($0): " } ?? "") + error.reason)
        }
    }

    /// Reads a whole file that the command line names; `subject` is what it holds, as in "the catalog".
    static func read(_ path: String, as subject: String) throws(CommandFailure) -> [UInt8] {
        do throws(Unusable) {
            return try content(path)
        } catch {
            throw CommandFailure(description: "\(path): \(subject) \(error.reason)")
        }
    }

    /// Why a file is of no use; whoever wanted it knows what it is.
    private struct Unusable: Error {
        let reason: String
    }

    private static func content(_ path: String) throws(Unusable) -> [UInt8] {
        let data: Data?
        do {
            let handle = try FileHandle(forReadingFrom: URL(fileURLWithPath: path))
            data = try handle.read(upToCount: sizeLimit + 1)
        } catch {
            // Foundation's words are for programs; the system's are for people.
            let reason = access(path, R_OK) == 0 ? "it is not a file" : String(cString: strerror(errno))
            throw Unusable(reason: "cannot be read: \(reason)")
        }
        let bytes = Array(data ?? Data())
        guard bytes.count <= sizeLimit else {
            throw Unusable(reason: "is larger than \(sizeLimit) bytes")
        }
        return bytes
    }
}
