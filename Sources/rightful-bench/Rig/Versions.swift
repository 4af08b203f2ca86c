import Foundation

/// The programs that took part.
struct Versions: Codable, Sendable {
    let rightful: String
    let postgresql: String
    let pgbench: String
    let wrk: String
    let openssl: String
    let swift: String

    /// Asks each; `unknown` where one does not say.
    init(_ programs: Programs, _ directory: WorkDirectory) {
        func line(_ command: [String]) -> String {
            guard let program = try? ChildProgram(command, in: directory) else { return "unknown" }
            // wrk answers with its usage and status 1.
            _ = try? program.wait(limit: .seconds(20))
            let text = program.output + program.errors
            return text.split(separator: "\n").first.map(String.init) ?? "unknown"
        }
        rightful = line([programs.rightful, "--version"])
        postgresql = line([programs.postgres("postgres"), "--version"])
        pgbench = line([programs.postgres("pgbench"), "--version"])
        wrk = line(["/usr/bin/env", "wrk", "-v"])
        openssl = line(["/usr/bin/env", "openssl", "version"])
        #if compiler(>=6.4)
        swift = "6.4 or later"
        #elseif compiler(>=6.3)
        swift = "6.3"
        #else
        swift = "6.2"
        #endif
    }
}
