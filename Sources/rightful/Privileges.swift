import EmbeddedPostgres
import Foundation
import Glibc

/// The rights of this process.
enum Privileges {
    /// Gives up root's rights for good, in all threads, and becomes `account`.
    ///
    /// - Throws: `CommandFailure` where anything of root's is left; the process must then end.
    static func giveUp(for account: ServiceAccount) throws {
        // The group first: without root's rights it could not be changed any more.
        guard setgroups(0, nil) == 0, setgid(account.group) == 0, setuid(account.user) == 0 else {
            throw failure("cannot become the user \(account.name): \(String(cString: strerror(errno)))")
        }
        try verify(account)
        // libpq looks for keys and passwords there, and takes a directory that it may not read for an error.
        setenv("HOME", account.home, 1)
    }

    /// Believes nothing that the calls above returned.
    private static func verify(_ account: ServiceAccount) throws {
        guard getuid() == account.user, geteuid() == account.user, getgid() == account.group,
            getegid() == account.group, getgroups(0, nil) == 0
        else { throw failure("did not become the user \(account.name)") }
        // The saved ids and the capabilities show in what would still be allowed.
        guard setuid(0) != 0, seteuid(0) != 0, setgid(0) != 0, setegid(0) != 0, setgroups(0, nil) != 0 else {
            throw failure("became the user \(account.name), and could become root again")
        }
        try verifyThreads(account)
    }

    /// How often, and after how many microseconds each, threads that are about to end are waited for.
    private static let attempts = 200
    private static let pause: UInt32 = 10_000

    /// The kernel keeps these rights for each thread; glibc changes them in all of its own but those that are ending.
    private static func verifyThreads(_ account: ServiceAccount) throws {
        let expected = Credentials(account)
        for attempt in 1... {
            guard let other = try threads().first(where: { $0.credentials != expected }) else { return }
            guard attempt < attempts else {
                throw failure("the thread \(other.name) did not become the user \(account.name): \(other.credentials)")
            }
            usleep(pause)
        }
    }

    /// What the system says of a thread.
    private struct Credentials: Equatable {
        /// Real, effective, saved and of the file system.
        var users: [UInt32] = []
        var groups: [UInt32] = []
        var supplementary: [UInt32] = []
        /// Whether it has none of root's capabilities.
        var isPlain = true

        init(_ account: ServiceAccount) {
            users = Array(repeating: account.user, count: 4)
            groups = Array(repeating: account.group, count: 4)
        }

        /// Reads `/proc/PID/task/TID/status`.
        init(status: String) {
            for line in status.split(separator: "\n") {
                let words = line.split(whereSeparator: \.isWhitespace)
                let numbers = words.dropFirst().compactMap { UInt32($0) }
                switch words.first {
                case "Uid:": users = numbers
                case "Gid:": groups = numbers
                case "Groups:": supplementary = numbers
                case "CapPrm:", "CapEff:", "CapAmb:":
                    isPlain = isPlain && words.count == 2 && words[1].allSatisfy { $0 == "0" }
                case _: continue
                }
            }
        }
    }

    private static func threads() throws -> [(name: String, credentials: Credentials)] {
        let directory = "/proc/self/task"
        let names: [String]
        do {
            names = try FileManager.default.contentsOfDirectory(atPath: directory)
        } catch {
            throw failure("cannot see whether every thread became another user: \(directory) cannot be read")
        }
        return names.compactMap { name in
            // One that has ended meanwhile has no rights either.
            guard let status = try? String(contentsOfFile: "\(directory)/\(name)/status", encoding: .utf8) else {
                return nil
            }
            return (name, Credentials(status: status))
        }
    }

    private static func failure(_ problem: String) -> CommandFailure {
        CommandFailure(description: "will not serve as root: \(problem)")
    }
}
