import Foundation
import Schema
import Testing

/// The repository's own rules, held by the repository.
@Suite("Tidy")
struct TidyTests {
    /// The imports that may stand in each module's sources, beside the standard library's own modules: the arrows of
    /// the design.
    ///
    /// Package.swift says the same to the compiler; this says it to people, and catches a wider manifest.
    private static let arrows: [String: Set<String>] = [
        "EntitlementCore": [],
        "AppStorePayloads": ["EntitlementCore", "Foundation"],
        "EntitlementAPI": ["EntitlementCore", "Foundation"],
        "EntitlementKit": [
            "EntitlementAPI", "AppStorePayloads", "EntitlementCore", "Foundation", "FoundationNetworking", "Combine",
            "StoreKit",
        ],
        "OpenSSLCrypto": ["COpenSSL", "Foundation"],
        "PostgresClient": ["CLibPQ", "Dispatch", "Foundation", "Glibc"],
        "HTTPServer": ["CMicroHTTPD", "Dispatch", "Foundation", "Glibc"],
        "EmbeddedPostgres": ["PostgresClient", "Foundation", "Glibc"],
        "AppStoreServer": ["AppStorePayloads", "EntitlementCore", "OpenSSLCrypto", "Foundation"],
        "Ledger": ["EntitlementCore", "PostgresClient", "OpenSSLCrypto", "Schema"],
        "Service": [
            "Ledger", "AppStoreServer", "EntitlementAPI", "AppStorePayloads", "EntitlementCore", "HTTPServer",
            "Dispatch", "Foundation", "Glibc",
        ],
        "StoreSimulator": ["OpenSSLCrypto", "HTTPServer", "Foundation"],
        "rightful": [
            "Service", "Ledger", "AppStoreServer", "EntitlementAPI", "AppStorePayloads", "EntitlementCore",
            "HTTPServer",
            "PostgresClient", "EmbeddedPostgres", "OpenSSLCrypto", "Dispatch", "Foundation", "FoundationNetworking",
            "Glibc",
        ],
        "store-simulator": ["StoreSimulator", "OpenSSLCrypto", "Foundation", "FoundationNetworking", "Glibc"],
        "rightful-bench": [
            "Ledger", "AppStoreServer", "EntitlementCore", "PostgresClient", "EmbeddedPostgres", "OpenSSLCrypto",
            "StoreSimulator",
            "Dispatch", "Foundation", "Glibc",
        ],
    ]
    private static let anywhere: Set<String> = ["Synchronization"]

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

    @Test("modules import only what the design's arrows allow")
    func imports() throws {
        let modules = try FileManager.default.contentsOfDirectory(atPath: Self.root.appending(path: "Sources").path())
        #expect(Set(modules.filter { !["CLibPQ", "COpenSSL", "CMicroHTTPD"].contains($0) }) == Set(Self.arrows.keys))
        for (module, allowed) in Self.arrows {
            for source in try Self.sources(under: ["Sources/\(module)"]) {
                for line in source.lines {
                    let words = line.split(separator: " ")
                    guard let index = words.firstIndex(of: "import"), index <= 1, words.count > index + 1 else {
                        continue
                    }
                    let name = String(words[index + 1])
                    #expect(allowed.union(Self.anywhere).contains(name), "\(source.path) imports \(name)")
                }
            }
        }
    }

    @Test("files stay short, lines fit, and nothing banned stands in the sources")
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
                let isFold = ["Period", "Segment", "Timeline", "Ownership", "CustomerFold", "OriginalState", "Answer"]
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
