/// Which sources were measured.
enum Commit {
    /// The checkout's commit, with `-dirty` where something was changed since; `unknown` outside a checkout.
    static func current(_ directory: WorkDirectory) -> String {
        let command = ["/usr/bin/env", "git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
        guard let program = try? ChildProgram(command, in: directory),
            let text = try? program.finish(limit: .seconds(20)).output.split(separator: "\n").first
        else { return "unknown" }
        return String(text)
    }
}
