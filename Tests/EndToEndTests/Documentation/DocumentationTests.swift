import Foundation
import Testing

/// Runs every command of the README and of docs/, against one service, and compares what the README shows.
@Suite("Commands of the documentation", .serialized)
struct DocumentationTests {
    /// In the order in which their commands are run: later ones use what earlier ones set.
    private static let pages = [
        "README.md", "docs/operating.md", "docs/auditing.md", "docs/http.md", "docs/configuration.md", "docs/kit.md",
        "docs/design.md", "docs/privacy.md", "docs/web-checkout.md", "docs/revenuecat.md", "docs/webhooks.md",
        "docs/charts.md",
        "docs/console.md",
    ]

    /// Their commands take minutes, or are none.
    private static let pagesNotRun = ["docs/performance.md", "docs/reliability.md", "SECURITY.md"]

    /// With services of their own; `RehearsalTests` runs them.
    private static let pagesRunAlone = [RehearsalTests.page]

    /// Dates differ from day to day, and what stands around them does not; nor do positions, but for those of Eve's events,
    /// between which the service may record what it has read from Stripe.
    private static func undated(_ text: some StringProtocol) -> String {
        String(text).replacingOccurrences(of: #"\d{4}-\d{2}-\d{2}"#, with: "DATE", options: .regularExpression)
            .replacingOccurrences(of: #"(Eve .*) events? [\d, ]+"#, with: "$1 event", options: .regularExpression)
            .split(separator: " ").joined(separator: " ")
    }

    @Test("the README's first two commands are deploy/run and deploy/test, which continuous integration runs")
    func twoCommands() throws {
        let shell = try DocumentationPage.blocks(of: "README.md").filter { $0.language == "sh" }.map(\.text)
        #expect(shell.prefix(2) == ["deploy/run", "deploy/test"])
        let integration = try DocumentationPage.text(of: ".ci/run")
        #expect(integration.contains("deploy/test"))
        for script in ["deploy/run", "deploy/test", ".ci/run"] {
            #expect(
                FileManager.default.isExecutableFile(atPath: DocumentationPage.root.appending(path: script).path()),
                "\(script)")
        }
    }

    @Test("the README has at most 200 lines, every page of docs/ is read here, and links lead somewhere")
    func pagesAndLinks() throws {
        let readme = try DocumentationPage.text(of: "README.md")
        #expect(readme.split(separator: "\n", omittingEmptySubsequences: false).count <= 201)
        let names = try FileManager.default.contentsOfDirectory(
            atPath: DocumentationPage.root.appending(path: "docs").path())
        let pages = ["README.md", "SECURITY.md"] + names.filter { $0.hasSuffix(".md") }.map { "docs/\($0)" }
        #expect(Set(pages) == Set(Self.pages + Self.pagesNotRun + Self.pagesRunAlone))
        for page in pages {
            let text = try DocumentationPage.text(of: page)
            let folder = DocumentationPage.root.appending(path: page).deletingLastPathComponent()
            for link in text.matches(of: /\]\(([^)#]+)(#[^)]*)?\)/) where !link.1.contains("://") {
                let target = folder.appending(path: String(link.1)).standardizedFileURL
                #expect(FileManager.default.fileExists(atPath: target.path()), "\(page) links to \(link.1)")
                guard let anchor = link.2?.dropFirst(), target.pathExtension == "md" else { continue }
                let headings = try String(contentsOf: target, encoding: .utf8).split(separator: "\n")
                    .filter { $0.hasPrefix("#") }.map(Self.anchor)
                #expect(headings.contains(String(anchor)), "\(page) links to \(link.1)#\(anchor)")
            }
        }
    }

    /// The name by which a heading is linked to.
    private static func anchor(_ heading: Substring) -> String {
        heading.drop { $0 == "#" || $0 == " " }.lowercased().replacing(" ", with: "-")
            .filter { $0.isLetter || $0.isNumber || $0 == "-" || $0 == "_" }
    }

    @Test("deploy/run shows what the README shows, every command works, and a second start keeps everything")
    func everyCommand() async throws {
        let installation = try await Installation(isFresh: true)
        defer { installation.remove() }
        let blocks = try Self.pages.flatMap { try DocumentationPage.blocks(of: $0) }
        let programs = try Products.url("rightful").deletingLastPathComponent()
        try Self.writeStandIn(for: programs, in: installation.directory)
        let environment = [
            "RIGHTFUL_BIN_DIR": programs.path(), "RIGHTFUL_DATA_DIR": installation.dataDirectory.path(),
            "RIGHTFUL_LISTEN": "127.0.0.1:\(try DocumentationPage.freePort())",
            "PATH": "\(installation.directory.path()):\(ProcessInfo.processInfo.environment["PATH"] ?? "")",
        ]
        let first = try await RunningDemo.start(environment)
        let shown = Self.undated(first.output)
        for line in try #require(blocks.first { $0.language == "text" }).text.split(separator: "\n") {
            #expect(shown.contains(Self.undated(line)), "not shown: \(line)")
        }
        let commands = blocks.filter { $0.language == "sh" }.dropFirst(2).map(\.text).joined(separator: "\n")
        let (status, errors) = try await DocumentationPage.bash(
            "set -euxo pipefail\n" + commands, environment, in: installation.directory)
        #expect(status == 0, "\(errors.suffix(2000))")
        first.stop()
        #expect(installation.postmaster == nil, "the last to leave puts PostgreSQL away")

        let key = try String(contentsOf: installation.dataDirectory.appending(path: "api-key"), encoding: .utf8)
        let second = try await RunningDemo.start(environment)
        #expect(second.output.contains(key.trimmingCharacters(in: .whitespacesAndNewlines)))
        #expect(!second.output.contains("SUBSCRIBED"), "the demo is played once")
        #expect(second.output.contains("Bob") && second.output.contains("Eve"))
        second.stop()
        let attributes = try FileManager.default.attributesOfItem(
            atPath: installation.dataDirectory.appending(path: "api-key").path())
        #expect((attributes[.posixPermissions] as? NSNumber)?.intValue == 0o600)
    }

    /// The first look asks the package manager where the programs are; while the tests run it would wait for them.
    private static func writeStandIn(for programs: URL, in directory: URL) throws {
        let real = "\(ProcessInfo.processInfo.environment["PATH"] ?? "")"
        let script = """
            #!/bin/sh
            case "$*" in
                *--show-bin-path*) echo '\(programs.path())' ;;
                *) PATH='\(real)' exec swift "$@" ;;
            esac
            """
        let file = directory.appending(path: "swift")
        try Data(script.utf8).write(to: file)
        try FileManager.default.setAttributes([.posixPermissions: 0o755], ofItemAtPath: file.path())
    }
}
