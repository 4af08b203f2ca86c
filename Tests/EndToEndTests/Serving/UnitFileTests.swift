import EmbeddedPostgres
import Foundation
import Testing

/// What `deploy/rightful.service` has to say, so that systemd does with the service what docs/operating.md says.
@Suite("The unit for systemd")
struct UnitFileTests {
    /// The unit's settings, by their names.
    private static func settings() throws -> [String: String] {
        let lines = try DocumentationPage.text(of: "deploy/rightful.service").split(whereSeparator: \.isNewline)
        let pairs = lines.filter { !$0.hasPrefix("#") }.compactMap { line -> (String, String)? in
            guard let sign = line.firstIndex(of: "=") else { return nil }
            return (String(line[..<sign]), String(line[line.index(after: sign)...]))
        }
        return Dictionary(pairs, uniquingKeysWith: { first, _ in first })
    }

    @Test("it starts a command that there is, signals the service alone, and gives it the time that it may need")
    func stopping() async throws {
        let settings = try Self.settings()
        let command = try #require(settings["ExecStart"]).split(separator: " ")
        #expect(command.prefix(2) == ["/usr/local/bin/rightful", "serve"])
        let installation = try await Installation(isFresh: true)
        defer { installation.remove() }
        let help = try await installation.run(["serve", "--help"])
        for option in command.dropFirst(2) where option.hasPrefix("--") {
            #expect(help.output.contains(option), "\(option)")
        }
        #expect(settings["KillMode"] == "mixed")
        // PostgreSQL's stop, and a minute and a half for requests, appends, checkpoints and what does not end when asked to.
        let limit = try #require(settings["TimeoutStopSec"].flatMap { Int64($0) })
        #expect(Duration.seconds(limit) >= EmbeddedCluster.stopLimit + .seconds(90))
    }

    @Test("the service and commands beside it look for PostgreSQL's socket in the same place")
    func sockets() throws {
        let settings = try Self.settings()
        #expect(settings["RuntimeDirectory"] == "rightful")
        #expect(settings["RuntimeDirectoryPreserve"] == "yes")
        #expect(settings["PrivateTmp"] == "no")
        #expect(settings["User"] == "rightful")
        #expect(settings["Environment"] == "RIGHTFUL_DATA_DIR=/var/lib/\(settings["StateDirectory"] ?? "")")
    }
}
