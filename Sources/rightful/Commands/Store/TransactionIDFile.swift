import EntitlementCore
import Foundation
import Glibc
import OpenSSLCrypto

/// A list of transaction ids: one a line, in its first column; empty lines and those that begin with # are passed over.
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
        let lines = text.utf8.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false)
        for (number, line) in lines.enumerated() {
            let cell = line.prefix { !",;\t\r".utf8.contains($0) }
            let id = Substring(cell.drop { " \"\u{FEFF}".utf8.contains($0) }.prefix { !" \"".utf8.contains($0) })
            if id.isEmpty || id.hasPrefix("#") { continue }
            guard id.utf8.count <= Self.idLimit, id.utf8.allSatisfy({ (48...57).contains($0) }) else {
                throw CommandFailure(
                    description:
                        "\(path), line \(number + 1): '\(id.prefix(40))' is no transaction id of the App Store, "
                        + "which is a number; nothing was imported")
            }
            ids.append(id)
        }
        guard !ids.isEmpty else { throw CommandFailure(description: "\(path) holds no transaction ids") }
        self.ids = ids
        hash = Self.hash(of: ids)
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
