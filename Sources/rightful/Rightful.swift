import EntitlementCore
import Foundation
import Glibc

/// The program: the only place that reads the environment and the clock.
@main
struct Rightful {
    static func main() {
        let hasOutput = Descriptors.fillStandard()
        // A reader that goes away is an error of the write, not the end of the process.
        signal(SIGPIPE, SIG_IGN)
        // Whoever ignores the ends of children hands that on, and then nobody could tell how `initdb` ended.
        signal(SIGCHLD, SIG_DFL)
        let context = CommandContext(
            environment: ProcessInfo.processInfo.environment, isRoot: geteuid() == 0,
            isTerminal: isatty(STDERR_FILENO) == 1, hasOutput: hasOutput,
            now: { Timestamp(milliseconds: currentMilliseconds()) })
        let arguments = Array(CommandLine.arguments.dropFirst())
        let work = Task.detached { await run(arguments, context) }
        let interruption = Interruption { work.cancel() }
        Task.detached { exit(await work.value) }
        // An asynchronous `main` would end this thread, which then could never become another user than root: the system
        // would show the whole process as root's.
        withExtendedLifetime(interruption) { while true { pause() } }
    }

    /// Runs a command line to its end.
    ///
    /// - Returns: the exit status: 0 done, 1 failed, 2 a command line that makes no sense.
    static func run(_ arguments: [String], _ context: CommandContext) async -> Int32 {
        do {
            switch try CommandParser(Commands.all).parse(arguments) {
            case .print(let text):
                try context.output.write(text)
            case .run(let command, let arguments):
                // A key, for one, is printed once: without that it must not be made either.
                guard context.hasOutput || !command.prints else {
                    throw CommandFailure(
                        description:
                            "standard output is closed, and nothing was done: open it, to /dev/null where nobody is to "
                            + "read what it prints")
                }
                try await command.init(arguments).run(context)
            }
            return 0
        } catch let error as UsageError {
            context.complain(error.description)
            return 2
        } catch is OutputClosed {
            return 0
        } catch is CancellationError {
            context.complain("interrupted")
            return 1
        } catch {
            context.complain("\(error)")
            return 1
        }
    }

    private static func currentMilliseconds() -> Int64 {
        var time = timespec()
        clock_gettime(CLOCK_REALTIME, &time)
        return Int64(time.tv_sec) * 1000 + Int64(time.tv_nsec) / 1_000_000
    }
}
