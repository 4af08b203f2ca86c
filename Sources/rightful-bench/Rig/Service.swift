import Foundation
import Glibc

/// A running `rightful serve`.
final class Service {
    let port: UInt16
    /// An API key that may do everything.
    let key: String
    /// From the start of the program to its first answer that it is ready.
    let startup: Duration
    private let program: ChildProgram

    var pid: pid_t { program.pid }

    /// Starts it and waits until it is ready.
    init(_ rig: Rig) throws {
        key = try rig.run(["keys", "create", "--name", "bench", "--scopes", "admin"])
            .trimmingCharacters(in: .whitespacesAndNewlines)
        let start = ContinuousClock.now
        program = try ChildProgram(
            [rig.programs.rightful, "serve", "--listen", "127.0.0.1:0"] + rig.common, in: rig.directory)
        do {
            port = try Self.port(of: program)
            try Self.waitUntilReady(port)
        } catch {
            program.terminate()
            throw error
        }
        startup = start.duration(to: .now)
    }

    func stop() { program.terminate() }

    /// The most memory it has held so far, in bytes.
    var peakMemory: Int? { ProcessStatistics.peakMemory(of: pid) }

    /// It says where it listens in its log.
    private static func port(of program: ChildProgram) throws -> UInt16 {
        let end = ContinuousClock.now + .seconds(120)
        while ContinuousClock.now < end {
            for line in program.errors.split(separator: "\n") where line.contains("\"message\":\"listening\"") {
                if let colon = line.range(of: "127.0.0.1:"),
                    let port = UInt16(line[colon.upperBound...].prefix { $0.isNumber })
                {
                    return port
                }
            }
            guard program.isRunning else {
                throw BenchmarkFailure("the service did not start: \(program.errors.suffix(500))")
            }
            usleep(1000)
        }
        throw BenchmarkFailure("the service did not start within 120 s")
    }

    private static func waitUntilReady(_ port: UInt16) throws {
        let end = ContinuousClock.now + .seconds(120)
        let request = HTTPConnection.request("GET", "/readyz")
        while ContinuousClock.now < end {
            if let answer = try? HTTPConnection(port: port).exchange(request), answer.status == 200 { return }
            usleep(1000)
        }
        throw BenchmarkFailure("the service did not become ready within 120 s")
    }
}
