import Foundation

/// The file that a run's document is written to and read from.
enum RunDocumentFile {
    static func text(_ document: RunDocument) throws -> String {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
        return String(decoding: try encoder.encode(document), as: UTF8.self) + "\n"
    }

    static func read(_ path: String) throws -> RunDocument {
        try JSONDecoder().decode(RunDocument.self, from: Data(contentsOf: URL(filePath: path)))
    }
}
