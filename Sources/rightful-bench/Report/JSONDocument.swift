import Foundation

/// How the run's document is written and read.
enum JSONDocument {
    static func text(_ document: RunDocument) throws -> String {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
        return String(decoding: try encoder.encode(document), as: UTF8.self) + "\n"
    }

    static func read(_ path: String) throws -> RunDocument {
        try JSONDecoder().decode(RunDocument.self, from: Data(contentsOf: URL(filePath: path)))
    }
}
