import Foundation
import Glibc

/// Another program, started by the benchmark: in a process group of its own, and ended when the benchmark ends, however
/// that comes about.
///
/// Its output goes to files, so that it never waits for a reader. To be used on the main thread, to which the kernel
/// ties the child's life.
final class ChildProgram {
    /// How a program ended.
    struct Ending: Sendable {
        /// Its exit status; 128 and the signal's number when a signal ended it.
        let status: Int32
        /// User and system time of the program and of the children it waited for.
        let processorTime: Duration
    }

    let pid: pid_t
    /// What it was started with, for messages.
    let name: String
    private let outputPath: String
    private let errorPath: String?
    /// Closing it tells a program that reads its standard input to end.
    private var inputWriter: Int32?
    private var ending: Ending?

    /// Starts a program found by its absolute path or on the `PATH`.
    ///
    /// - Parameters:
    ///   - keepsInput: its standard input stays open until `closeInput`; else it is empty.
    ///   - showsErrors: its standard error is the benchmark's own; else it is kept for `errors`.
    init(
        _ arguments: [String], in directory: WorkDirectory, keepsInput: Bool = false, showsErrors: Bool = false
    ) throws {
        name = arguments[0].split(separator: "/").last.map(String.init) ?? arguments[0]
        let number = directory.nextNumber()
        outputPath = directory.path("\(number)-\(name).out")
        errorPath = showsErrors ? nil : directory.path("\(number)-\(name).err")
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        var pipe: [Int32] = [-1, -1]
        if keepsInput {
            guard Glibc.pipe(&pipe) == 0 else { throw BenchmarkFailure("there is no room for a pipe") }
            for end in pipe { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
            posix_spawn_file_actions_adddup2(&actions, pipe[0], 0)
        } else {
            posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0)
        }
        posix_spawn_file_actions_addopen(&actions, 1, outputPath, O_WRONLY | O_CREAT | O_TRUNC, 0o600)
        if let errorPath {
            posix_spawn_file_actions_addopen(&actions, 2, errorPath, O_WRONLY | O_CREAT | O_TRUNC, 0o600)
        }
        var attributes = posix_spawnattr_t()
        posix_spawnattr_init(&attributes)
        defer { posix_spawnattr_destroy(&attributes) }
        var (all, none) = (sigset_t(), sigset_t())
        sigfillset(&all)
        sigemptyset(&none)
        posix_spawnattr_setsigdefault(&attributes, &all)
        posix_spawnattr_setsigmask(&attributes, &none)
        posix_spawnattr_setpgroup(&attributes, 0)
        posix_spawnattr_setflags(
            &attributes,
            Int16(POSIX_SPAWN_SETPGROUP) | Int16(POSIX_SPAWN_SETSIGDEF) | Int16(POSIX_SPAWN_SETSIGMASK))
        // The kernel then ends the child with us, even if we are killed.
        let command = ["/usr/bin/setpriv", "--pdeathsig", "TERM", "--"] + arguments
        var child = pid_t()
        let code = command.map { strdup($0) }.withCStrings { argv in
            posix_spawn(&child, command[0], &actions, &attributes, argv, environ)
        }
        if pipe[0] >= 0 { close(pipe[0]) }
        inputWriter = pipe[1] >= 0 ? pipe[1] : nil
        guard code == 0 else {
            throw BenchmarkFailure("cannot start \(name): \(String(cString: strerror(code)))")
        }
        pid = child
        LivingChildren.add(child)
    }

    /// What it has printed so far.
    var output: String { (try? String(contentsOfFile: outputPath, encoding: .utf8)) ?? "" }

    /// What it has complained about so far.
    var errors: String { errorPath.flatMap { try? String(contentsOfFile: $0, encoding: .utf8) } ?? "" }

    /// Whether it still runs; collects it when it has ended.
    var isRunning: Bool {
        collect()
        return ending == nil
    }

    /// Waits for its end, and ends it when that takes too long.
    ///
    /// - Parameter watch: called every few milliseconds meanwhile.
    func wait(limit: Duration, _ watch: () -> Void = {}) throws -> Ending {
        let end = ContinuousClock.now + limit
        while isRunning {
            watch()
            guard ContinuousClock.now < end else {
                terminate()
                throw BenchmarkFailure("\(name) did not end within \(limit)")
            }
            usleep(2000)
        }
        guard let ending else { throw BenchmarkFailure("\(name) was lost") }
        return ending
    }

    /// Waits for its end and gives what it printed.
    ///
    /// Throws unless it succeeds.
    func finish(limit: Duration) throws -> (output: String, ending: Ending) {
        let ending = try wait(limit: limit)
        guard ending.status == 0 else {
            let lines = (errors + output).split(whereSeparator: \.isNewline).suffix(3).joined(separator: " · ")
            throw BenchmarkFailure("\(name) ended with status \(ending.status): \(lines)")
        }
        return (output, ending)
    }

    /// Tells a program that reads its standard input that there is nothing more.
    func closeInput() {
        if let inputWriter { close(inputWriter) }
        inputWriter = nil
    }

    /// Ends it in order, and by force when it does not within half a minute.
    func terminate() {
        closeInput()
        for (number, limit) in [(SIGTERM, Duration.seconds(30)), (SIGKILL, .seconds(10))] where isRunning {
            kill(pid, number)
            let end = ContinuousClock.now + limit
            while isRunning, ContinuousClock.now < end { usleep(2000) }
        }
    }

    private func collect() {
        guard ending == nil else { return }
        var (status, usage) = (Int32(), rusage())
        let result = wait4(pid, &status, WNOHANG, &usage)
        guard result != 0, !(result < 0 && errno == EINTR) else { return }
        LivingChildren.remove(pid)
        let code = status & 0x7f == 0 ? (status >> 8) & 0xff : 128 + (status & 0x7f)
        ending = Ending(
            status: result < 0 ? 127 : code, processorTime: Duration(usage.ru_utime) + Duration(usage.ru_stime))
    }
}

extension Duration {
    fileprivate init(_ time: timeval) {
        self = .seconds(time.tv_sec) + .microseconds(time.tv_usec)
    }
}

extension [UnsafeMutablePointer<CChar>?] {
    /// Lends the strings as C takes them, and frees them.
    fileprivate func withCStrings<Result>(_ body: ([UnsafeMutablePointer<CChar>?]) -> Result) -> Result {
        defer { for string in self { free(string) } }
        return body(self + [nil])
    }
}
