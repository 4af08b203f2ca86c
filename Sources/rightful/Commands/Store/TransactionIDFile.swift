import EntitlementCore
import Foundation
import Glibc
import OpenSSLCrypto

/// A list of transaction ids: one a line, in its first column; empty lines and those that begin with # are passed over.
///
/// A line ends as on any system: with a line feed, a carriage return, or both.
struct TransactionIDFile: Sendable {
    /// The largest file that is taken, in bytes: some three million ids, about a day and a half by the store's limits.
    ///
    /// The list is held in memory, where it takes several times as much.
    private static let sizeLimit = 64 << 20
    /// The longest id, in bytes.
    private static let idLimit = 64

    let ids: [Substring]
    /// Names the list: the same ids in the same order, and nothing else.
    let hash: Digest

    /// - Throws: `CommandFailure` for a file that cannot be read, or that holds anything else.
    init(_ path: String) throws {
        guard let data = try? Data(contentsOf: URL(fileURLWithPath: path), options: .mappedIfSafe) else {
            let reason = access(path, R_OK) == 0 ? "it is not a file" : String(cString: strerror(errno))
            throw CommandFailure(description: "\(path) cannot be read: \(reason)")
        }
        guard data.count <= Self.sizeLimit else {
            throw CommandFailure(description: "\(path) is larger than \(Self.sizeLimit >> 20) MiB: split it")
        }
        var ids: [Substring] = []
        let text = String(decoding: data, as: UTF8.self)
        var rest = text[...].utf8
        var number = 0
        while !rest.isEmpty {
            number += 1
            let line = rest.prefix { $0 != UInt8(ascii: "\n") && $0 != UInt8(ascii: "\r") }
            rest = rest[line.endIndex...]
            let isBoth = rest.starts(with: "\r\n".utf8)
            rest = rest.dropFirst(isBoth ? 2 : 1)
            let id = try Self.id(Substring(line), "\(path), line \(number)")
            if !id.isEmpty { ids.append(id) }
        }
        guard !ids.isEmpty else { throw CommandFailure(description: "\(path) holds no transaction ids") }
        self.ids = ids
        hash = Self.hash(of: ids)
    }

    /// The id of a line; empty where it has none.
    private static func id(_ line: Substring, _ place: String) throws -> Substring {
        var cells = line.utf8.split(omittingEmptySubsequences: false) { ",;\t".utf8.contains($0) }[...].map {
            Substring($0.drop { " \"\u{FEFF}".utf8.contains($0) }.prefix { !" \"".utf8.contains($0) })
        }
        let id = cells.removeFirst()
        if id.isEmpty || id.hasPrefix("#") { return "" }
        guard id.utf8.count <= idLimit, isNumber(id) else {
            throw CommandFailure(
                description: "\(place): '\(id.prefix(40))' is no transaction id of the App Store, "
                    + "which is a number; nothing was imported")
        }
        // Prices, dates and counts may stand beside it.
        if let other = cells.first(where: {
            isNumber($0) && ($0.utf8.count == id.utf8.count || (idLength...idLimit).contains($0.utf8.count))
        }) {
            throw CommandFailure(
                description: "\(place): '\(other)' beside '\(id)' looks like another transaction id; put one on each "
                    + "line, and in a table leave the one column; nothing was imported")
        }
        return id
    }

    /// How many digits the store's ids have at least.
    private static let idLength = 14

    private static func isNumber(_ text: Substring) -> Bool {
        !text.isEmpty && text.utf8.allSatisfy { (48...57).contains($0) }
    }

    /// In pieces, so that a long list is not copied whole.
    private static func hash(of ids: [Substring]) -> Digest {
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
