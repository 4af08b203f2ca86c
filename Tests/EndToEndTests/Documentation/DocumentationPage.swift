import Foundation
import TestSupport
import Testing

/// What stands in the project's pages, and running it.
enum DocumentationPage {
    struct Block {
        let language: String
        let text: String
    }

    static let root = URL(filePath: #filePath)
        .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent()

    static func text(of page: String) throws -> String {
        try String(contentsOf: root.appending(path: page), encoding: .utf8)
    }

    /// The fenced blocks of a page, in their order.
    static func blocks(of page: String) throws -> [Block] {
        var blocks: [Block] = []
        var open: (language: String, lines: [Substring])?
        for line in try text(of: page).split(separator: "\n", omittingEmptySubsequences: false) {
            if line.hasPrefix("```") {
                if let block = open {
                    blocks.append(Block(language: block.language, text: block.lines.joined(separator: "\n")))
                    open = nil
                } else {
                    open = (String(line.dropFirst(3)), [])
                }
            } else {
                open?.lines.append(line)
            }
        }
        return blocks
    }

    /// Runs a script in a directory; what it printed as errors comes with its status.
    static func bash(
        _ script: String, _ environment: [String: String], in directory: URL
    ) async throws -> (status: Int32, errors: String) {
        let file = directory.appending(path: "documentation.sh")
        try Data(script.utf8).write(to: file)
        let process = Process()
        process.executableURL = URL(filePath: "/bin/bash")
        process.arguments = [file.path()]
        process.currentDirectoryURL = directory
        process.environment = ProcessInfo.processInfo.environment.merging(environment) { $1 }
        process.standardOutput = FileHandle.nullDevice
        let errors = Pipe()
        process.standardError = errors
        try await process.runWithAllSignals()
        let text = await Installation.read(errors)
        return (process.waitForEnd(), text)
    }

    /// A free port that nothing takes by itself, and that no test process beside this one is given while this one runs.
    static func freePort() throws -> UInt16 {
        // Below those that the system gives to connections, and those of `NetworkServer`.
        try #require((UInt16(10_000)..<20_000).shuffled().first { isTaken($0) && isFree($0) })
    }

    /// Whether this process has a port for itself from now on: the lock ends with the process.
    private static func isTaken(_ port: UInt16) -> Bool {
        let file = ScratchSpace.directory.appending(path: "port-\(port).lock").path()
        let descriptor = open(file, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
        return descriptor >= 0 && flock(descriptor, LOCK_EX | LOCK_NB) == 0
    }

    private static func isFree(_ port: UInt16) -> Bool {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        defer { close(descriptor) }
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        return withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size)) == 0
            }
        }
    }
}
