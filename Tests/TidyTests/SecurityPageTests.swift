import Foundation
import Testing

/// Holds SECURITY.md to the tests that there are.
@Suite("The page about security")
struct SecurityPageTests {
    private static let root = URL(filePath: #filePath)
        .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()

    /// The text of every file of tests, by the suite it is named after; several suites may share a name.
    private static func suites() throws -> [String: [String]] {
        let directory = root.appending(path: "Tests")
        var suites: [String: [String]] = [:]
        for name in try FileManager.default.subpathsOfDirectory(atPath: directory.path())
        where name.hasSuffix("Tests.swift") {
            let file = directory.appending(path: name)
            let suite = file.deletingPathExtension().lastPathComponent
            suites[suite, default: []].append(try String(contentsOf: file, encoding: .utf8))
        }
        return suites
    }

    @Test("every test that it names exists, and every threat names one")
    func tests() throws {
        let page = try String(contentsOf: Self.root.appending(path: "SECURITY.md"), encoding: .utf8)
        let suites = try Self.suites()
        var count = 0
        for mention in page.matches(of: /`([A-Z][A-Za-z0-9]*Tests)(?:\.([a-z][A-Za-z0-9]*))?`/) {
            count += 1
            let files = suites[String(mention.1)] ?? []
            #expect(files.contains { $0.contains("@Suite") && $0.contains("struct \(mention.1)") }, "\(mention.1)")
            guard let function = mention.2 else { continue }
            let isTest = files.contains { text in
                guard let place = text.range(of: "func \(function)("),
                    let attribute = text[..<place.lowerBound].range(of: "@Test(", options: .backwards)
                else { return false }
                return !text[attribute.upperBound..<place.lowerBound].contains("func ")
            }
            #expect(isTest, "\(mention.1).\(function)")
        }
        #expect(count > 30, "the page was not understood")
        let threats = page[(page.range(of: "\n## Threats")?.upperBound ?? page.endIndex)...]
            .split(separator: "\n").filter { $0.hasPrefix("| ") && !$0.hasPrefix("| threat ") }
        for threat in threats {
            #expect(threat.split(separator: "|").last?.contains("Tests") == true, "no test: \(threat)")
        }
        #expect(threats.count > 20)
    }
}
