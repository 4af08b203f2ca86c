import Foundation
import Schema
import Testing

/// The repository's own rules, held by the repository.
@Suite("The repository's rules")
struct TidyTests {
    /// What every module may import, beside what Package.swift lists for it.
    private static let anywhere: Set<String> = ["Synchronization"]
    /// What the device links, on systems that are older than that.
    private static let deviceModules: Set<String> = [
        "EntitlementCore", "AppStorePayloads", "EntitlementAPI", "EntitlementKit",
    ]

    private static let root = URL(filePath: #filePath)
        .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()

    private struct Source {
        let path: String
        let lines: [Substring]
    }

    private static func sources(under folders: [String]) throws -> [Source] {
        try folders.flatMap { folder -> [Source] in
            let names = try FileManager.default.subpathsOfDirectory(atPath: root.appending(path: folder).path())
            return try names.filter { $0.hasSuffix(".swift") }.sorted().map { name in
                let path = "\(folder)/\(name)"
                let text = try String(contentsOf: root.appending(path: path), encoding: .utf8)
                return Source(path: path, lines: text.split(separator: "\n", omittingEmptySubsequences: false))
            }
        }
    }

    /// What each module may import: the list in Package.swift, which is the only one.
    private static func allowedImports() throws -> [String: Set<String>] {
        let manifest = try String(contentsOf: root.appending(path: "Package.swift"), encoding: .utf8)
        let quoted = /"([A-Za-z-]+)"/
        var allowed: [String: Set<String>] = [:]
        for module in manifest.matches(of: /Module\(\s*"([A-Za-z-]+)"([^()]*)\)/) {
            allowed[String(module.1)] = Set(module.2.matches(of: quoted).map { String($0.1) })
        }
        return allowed
    }

    @Test("every module of Sources/ imports only what Package.swift lists for it")
    func imports() throws {
        let folders = try FileManager.default.contentsOfDirectory(atPath: Self.root.appending(path: "Sources").path())
        let allowedImports = try Self.allowedImports()
        let swiftModules = Set(folders).subtracting([
            "CLibPQ", "COpenSSL", "CMicroHTTPD", "CCurl", "CZstd", "CConsoleFiles",
        ])
        #expect(swiftModules == Set(allowedImports.keys))
        #expect(allowedImports["Ledger"]?.contains("PostgresClient") == true, "Package.swift was not understood")
        for (module, allowed) in allowedImports {
            let allowed = Self.deviceModules.contains(module) ? allowed : allowed.union(Self.anywhere)
            for source in try Self.sources(under: ["Sources/\(module)"]) {
                for line in source.lines {
                    let words = line.split(separator: " ")
                    guard let index = words.firstIndex(of: "import"), index <= 1, words.count > index + 1 else {
                        continue
                    }
                    let name = String(words[index + 1])
                    #expect(allowed.contains(name), "\(source.path) imports \(name)")
                }
            }
        }
    }

    @Test("the manifest for older tools has the device's library as Package.swift has it")
    func olderManifest() throws {
        let manifest = try String(contentsOf: Self.root.appending(path: "Package.swift"), encoding: .utf8)
        let older = try String(contentsOf: Self.root.appending(path: "Package@swift-6.0.swift"), encoding: .utf8)
        let platforms = try #require(manifest.firstMatch(of: /platforms: \[.*\]/))
        #expect(older.contains(String(platforms.0)))
        let quoted = /"([A-Za-z-]+)"/
        let allowed = try Self.allowedImports()
        var targets: [String: Set<String>] = [:]
        for target in older.matches(of: /\.target\(\s*name: "([A-Za-z]+)"(, dependencies: \[([^\]]*)\])?/) {
            targets[String(target.1)] = Set((target.3 ?? "").matches(of: quoted).map { String($0.1) })
        }
        #expect(Set(targets.keys) == Self.deviceModules)
        for (name, dependencies) in targets {
            #expect(allowed[name]?.intersection(targets.keys) == dependencies, "\(name)")
        }
    }

    @Test(
        "the device's library brings a privacy manifest, and uses nothing that Apple wants a reason for but what it gives"
    )
    func privacyManifest() throws {
        let path = "Sources/EntitlementKit/PrivacyInfo.xcprivacy"
        let data = try Data(contentsOf: Self.root.appending(path: path))
        let told = try #require(try PropertyListSerialization.propertyList(from: data, format: nil) as? [String: Any])
        let used = try #require(told["NSPrivacyAccessedAPITypes"] as? [[String: Any]])
        #expect(used.map { $0["NSPrivacyAccessedAPIType"] as? String } == ["NSPrivacyAccessedAPICategoryFileTimestamp"])
        for name in ["Package.swift", "Package@swift-6.0.swift"] {
            let manifest = try String(contentsOf: Self.root.appending(path: name), encoding: .utf8)
            #expect(manifest.contains("\"PrivacyInfo.xcprivacy\""), "\(name)")
        }
        // Of "Describing use of required reason API" in Apple's documentation, but for what tells of a file.
        let others = [
            "systemUptime", "mach_absolute_time", "UserDefaults", "activeInputModes", "volumeAvailableCapacity",
            "volumeTotalCapacity", "systemFreeSize", "systemSize", "statfs", "statvfs", "getattrlist",
        ]
        for source in try Self.sources(under: Self.deviceModules.map { "Sources/\($0)" }) {
            for (index, line) in source.lines.enumerated() {
                for word in others { #expect(!line.contains(word), "\(source.path):\(index + 1) uses \(word)") }
            }
        }
    }

    @Test("no file has more than 400 lines or uses what is banned")
    func shape() throws {
        // Each with the reason that a reader would want.
        let banned = [
            "try!": "an error that nobody hears", "fatal" + "Error(": "a crash instead of an answer",
            "TO" + "DO": "unfinished", "FIX" + "ME": "unfinished",
        ]
        for source in try Self.sources(under: ["Sources", "Tests", "schema"]) {
            #expect(source.lines.count <= 400, "\(source.path) has \(source.lines.count) lines")
            guard !source.path.hasPrefix("Tests/TidyTests") else { continue }
            for (index, line) in source.lines.enumerated() {
                for (word, reason) in banned where line.contains(word) {
                    Issue.record("\(source.path):\(index + 1) has \(word): \(reason)")
                }
                if line.contains("@unchecked Sendable") || line.contains("nonisolated(unsafe)") {
                    let before = source.lines[max(0, index - 8)..<index].joined(separator: "\n")
                    #expect(before.contains("//"), "\(source.path):\(index + 1) must say what guards it")
                }
            }
        }
    }

    @Test("the fold has no default case, no clock and no dependency")
    func pureCore() throws {
        for source in try Self.sources(under: ["Sources/EntitlementCore"]) {
            for (index, line) in source.lines.enumerated() {
                #expect(!line.contains("Date()") && !line.contains("random"), "\(source.path):\(index + 1)")
                let isFold = [
                    "Period", "Segment", "Timeline", "Ownership", "CustomerFacts", "OriginalState", "Answer", "/Web/",
                ]
                .contains { source.path.contains($0) }
                if isFold {
                    #expect(!line.drop(while: { $0 == " " }).hasPrefix("default:"), "\(source.path):\(index + 1)")
                }
            }
        }
    }

    @Test("every file of schema/ is a migration, in order, without gaps")
    func migrations() throws {
        let files = try FileManager.default.contentsOfDirectory(atPath: Self.root.appending(path: "schema").path())
            .filter { $0.hasSuffix(".sql") }.sorted()
        #expect(Migration.all.map { "\($0.name).sql" } == files)
        #expect(Migration.all.map(\.version) == Array(1...files.count))
        for (migration, file) in zip(Migration.all, files) {
            let bytes = try Data(contentsOf: Self.root.appending(path: "schema/\(file)"))
            #expect(Data(migration.sql) == bytes, "\(file) is not what the binary holds")
        }
    }
}
