package import Foundation

/// The committed inputs, one directory a target, and the root that what is genuine among them leads to.
///
/// A simulated store has signed them and then lost its keys, so that nobody can make another genuine one.
package struct FuzzCorpus: Sendable {
    package static let directory = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .appending(path: "FuzzCorpus")
    /// The root certificate, as PEM.
    package static let rootFile = "root.pem"
    /// The key that the checkpoints and the exported file are signed with, as it is published.
    package static let logKeyFile = "log-key.txt"

    /// The targets whose inputs are left out.
    private let hidden: Set<String>
    package let root: String
    package let logKey: String

    /// Reads what the targets compare with.
    ///
    /// - Parameter hidden: targets whose inputs are left out, as if nobody had ever signed them.
    package init(hiding hidden: Set<String> = []) throws {
        self.hidden = hidden
        func text(_ name: String) throws -> String {
            try String(contentsOf: Self.directory.appending(path: name), encoding: .utf8)
        }
        root = try text(Self.rootFile)
        logKey = try text(Self.logKeyFile).trimmingCharacters(in: .whitespacesAndNewlines)
    }

    /// The inputs of a target, in the order of their names.
    package func inputs(_ target: String) throws -> [[UInt8]] {
        if hidden.contains(target) { return [] }
        let directory = Self.directory.appending(path: target)
        return try FileManager.default.contentsOfDirectory(atPath: directory.path()).sorted().map {
            Array(try Data(contentsOf: directory.appending(path: $0)))
        }
    }
}
