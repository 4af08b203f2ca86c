import Foundation
import Glibc

/// The program: measures what the product does, each figure beside its limit on the same machine in the same run.
@main
struct RightfulBench {
    /// On the process's first thread, which may block as long as it likes: Swift's own few are for asynchronous work.
    static func main() {
        // A connection that the other side closes is an error of the write, not the end of the process.
        signal(SIGPIPE, SIG_IGN)
        let words = Array(CommandLine.arguments.dropFirst())
        do {
            switch words.first {
            case "worker": try Workers.run(Array(words.dropFirst()))
            case "page": try Page(Array(words.dropFirst())).write()
            case "samples": try EvidenceSamples(Array(words.dropFirst())).write()
            default: try measure(words)
            }
            exit(0)
        } catch let error as BenchmarkUsageError {
            complain("rightful-bench: \(error.description); see `rightful-bench --help`\n")
            exit(2)
        } catch {
            // Whoever interrupted the run knows; the clean-up under way ends the program.
            while LivingChildren.isInterrupted { sleep(1) }
            complain("rightful-bench: \(error)\n")
            exit(1)
        }
    }

    private static func measure(_ words: [String]) throws {
        let options = try Options(words)
        if options.wantsHelp { return say(BenchmarkHelp.text) }
        let programs = try Programs()
        let directory = try WorkDirectory(under: options.directory)
        LivingChildren.whenInterrupted { directory.remove() }
        LivingChildren.watchSignals()
        defer { if !LivingChildren.isInterrupted { directory.remove() } }
        let start = Date().formatted(.iso8601)
        let document = RunDocument(
            object: "benchmark", machine: Machine(directory: directory), versions: Versions(programs, directory),
            commit: Commit.current(directory), startedAt: start, endedAt: start,
            command: (["rightful-bench"] + words).joined(separator: " "), seconds: options.seconds,
            rounds: options.rounds, others: 0, figures: [])
        let report = Report(document, isJSON: options.isJSON)
        let bench = try Bench(options, directory, programs, report)
        for (name, make) in Options.allRows where options.rows.contains(name) {
            report.step(name)
            try make().run(bench)
            // After each, so that a long run that is broken off leaves what it has measured.
            if let output = options.output {
                try RunDocumentFile.text(report.finish()).write(toFile: output, atomically: true, encoding: .utf8)
            }
        }
        if options.isJSON { say(try RunDocumentFile.text(report.finish())) }
    }
}
