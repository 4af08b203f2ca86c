import EntitlementCore
import Foundation
import Glibc
import OpenSSLCrypto

/// A list in a file, or a table as a spreadsheet or a database writes it.
///
/// A line ends as on any system: with a line feed, a carriage return, or both.
enum TableFile {
    /// Reads line by line.
    ///
    /// - Parameters:
    ///   - limit: the largest file that is taken, in bytes; it is held in memory, where it takes several times as much.
    ///   - take: takes a line, and where that stands.
    /// - Throws: `CommandFailure` for a file that cannot be read.
    static func read(_ path: String, limit: Int, _ take: (Substring, String) throws -> Void) throws {
        guard let data = try? Data(contentsOf: URL(fileURLWithPath: path), options: .mappedIfSafe) else {
            let reason = access(path, R_OK) == 0 ? "it is not a file" : String(cString: strerror(errno))
            throw CommandFailure(description: "\(path) cannot be read: \(reason)")
        }
        guard data.count <= limit else {
            throw CommandFailure(description: "\(path) is larger than \(limit >> 20) MiB: split it")
        }
        let text = String(decoding: data, as: UTF8.self)
        var rest = text[...].utf8
        var number = 0
        while !rest.isEmpty {
            number += 1
            let line = rest.prefix { $0 != UInt8(ascii: "\n") && $0 != UInt8(ascii: "\r") }
            rest = rest[line.endIndex...]
            let isBoth = rest.starts(with: "\r\n".utf8)
            rest = rest.dropFirst(isBoth ? 2 : 1)
            try take(Substring(line), "\(path), line \(number)")
        }
    }

    /// Whether a line is a remark.
    static func isComment(_ line: Substring) -> Bool {
        line.unicodeScalars.first { !isMargin($0) } == "#"
    }

    /// What stands in the columns of a line, whatever it is; the first separator outside of quotation marks is the only one.
    ///
    /// - Returns: `nil` where quotation marks do not pair up within a column.
    static func texts(_ line: Substring) -> [String]? {
        var rest = line.unicodeScalars
        var separators: Set<Unicode.Scalar> = [",", ";", "\t"]
        var texts: [String] = []
        while true {
            rest = rest.drop(while: isMargin)
            if rest.first == "\"" {
                guard let text = takeQuoted(&rest) else { return nil }
                texts.append(text)
                rest = rest.drop(while: isMargin)
                guard rest.first.map(separators.contains) ?? true else { return nil }
            } else {
                var cell = rest.prefix { !separators.contains($0) }
                rest = rest[cell.endIndex...]
                while let last = cell.last, isMargin(last) { cell.removeLast() }
                texts.append(String(cell))
            }
            guard let separator = rest.popFirst() else { return texts }
            separators = [separator]
        }
    }

    /// Takes what stands in quotation marks, two of which stand for one.
    private static func takeQuoted(_ rest: inout Substring.UnicodeScalarView) -> String? {
        var text = String.UnicodeScalarView()
        rest.removeFirst()
        while let scalar = rest.popFirst() {
            guard scalar == "\"" else {
                text.append(scalar)
                continue
            }
            guard rest.first == "\"" else { return String(text) }
            rest.removeFirst()
            text.append(scalar)
        }
        return nil
    }

    private static func isMargin(_ scalar: Unicode.Scalar) -> Bool { scalar == " " || scalar == "\u{FEFF}" }

    /// The words that stand in each column of a line, without quotation marks and spaces.
    static func words(_ line: Substring) -> [[Substring]] {
        line.utf8.split(omittingEmptySubsequences: false) { ",;\t".utf8.contains($0) }.map { column in
            column.split { " \"\u{FEFF}".utf8.contains($0) }.map(Substring.init)
        }
    }

    /// Names a list: the same words in the same order, and nothing else.
    ///
    /// In pieces, so that a long list is not copied whole.
    static func hash(of ids: [Substring]) -> Digest {
        var chained = [UInt8](repeating: 0, count: 32)
        var piece: [UInt8] = []
        for (index, id) in ids.enumerated() {
            piece.append(contentsOf: id.utf8)
            piece.append(UInt8(ascii: "\n"))
            if piece.count > 1 << 20 || index == ids.count - 1 {
                chained = SHA256.hash(chained + piece)
                piece.removeAll(keepingCapacity: true)
            }
        }
        return Digest(chained) ?? .zero
    }
}
