package import EntitlementCore
package import OpenSSLCrypto

/// How long the log was and what it held: a C2SP `tlog-checkpoint`.
///
/// See https://c2sp.org/tlog-checkpoint.
package struct Checkpoint: Sendable, Hashable {
    /// The name of the log.
    package let origin: String
    /// How many events it covers.
    package let size: Int64
    /// The root of the tree over them.
    package let root: Digest

    package init(origin: String, size: Int64, root: Digest) {
        self.origin = origin
        self.size = size
        self.root = root
    }

    /// What is signed; it ends in a line feed.
    package var text: String { "\(origin)\n\(size)\n\(Base64.encode(root.bytes))\n" }

    /// Reads the text of a note; `nil` for what is none of a checkpoint.
    ///
    /// Lines after the third are extensions.
    package init?(text: String) {
        let lines = text.split(separator: "\n", omittingEmptySubsequences: false)
        guard text.hasSuffix("\n"), lines.count >= 4, LogKey.isName(String(lines[0])),
            let size = Int64(lines[1]), size >= 0, String(size) == lines[1],
            let root = Base64.decode(String(lines[2])).flatMap({ Digest($0) })
        else { return nil }
        self.init(origin: String(lines[0]), size: size, root: root)
    }
}

/// A text with signatures under it: a C2SP `signed-note`.
///
/// See https://c2sp.org/signed-note.
package struct SignedNote: Sendable, Hashable {
    /// One signature line.
    package struct Signature: Sendable, Hashable {
        package let name: String
        /// The first four bytes of the hash that names the key.
        package let keyID: [UInt8]
        package let bytes: [UInt8]
    }

    /// The longest note that is read, in bytes.
    package static let limit = 64 << 10

    /// Ends in a line feed.
    package let text: String
    package let signatures: [Signature]

    /// A text, signed.
    package init(_ text: String, signedBy key: LogKey) throws {
        self.text = text
        signatures = [
            Signature(name: key.name, keyID: key.id, bytes: try key.privateKey.sign(Array(text.utf8)))
        ]
    }

    /// Reads a note; `nil` for what is none.
    package init?(_ note: String) {
        var lines = note.split(separator: "\n", omittingEmptySubsequences: false)
        // What follows the last line feed is empty, and so is the line between the text and the signatures.
        guard note.utf8.count <= Self.limit, lines.popLast() == "", let end = lines.lastIndex(of: "") else {
            return nil
        }
        text = lines[..<end].map { $0 + "\n" }.joined()
        var signatures: [Signature] = []
        for line in lines[(end + 1)...] {
            let words = line.split(separator: " ", omittingEmptySubsequences: false)
            guard words.count == 3, words[0] == "—", LogKey.isName(String(words[1])),
                let bytes = Base64.decode(String(words[2])), bytes.count > 4
            else { return nil }
            signatures.append(
                Signature(name: String(words[1]), keyID: Array(bytes.prefix(4)), bytes: Array(bytes.dropFirst(4))))
        }
        guard !text.isEmpty, !signatures.isEmpty else { return nil }
        self.signatures = signatures
    }

    /// The note as it is written to a file or sent.
    package var note: String {
        text + "\n"
            + signatures.map { "— \($0.name) \(Base64.encode($0.keyID + $0.bytes))\n" }.joined()
    }

    /// Whether one of the signatures is a key's.
    package func isSigned(by key: LogVerifier) -> Bool {
        signatures.contains { signature in
            signature.name == key.name && signature.keyID == key.id
                && Ed25519.isValid(
                    signature: signature.bytes, message: Array(text.utf8), publicKey: key.publicKey)
        }
    }
}

/// The key that signs the checkpoints of a log, under the log's name.
package struct LogKey: Sendable {
    package let name: String
    let privateKey: Ed25519PrivateKey

    /// - Parameter name: as `isName` allows.
    package init(name: String, privateKey: Ed25519PrivateKey) {
        self.name = name
        self.privateKey = privateKey
    }

    /// The half of it that everybody may have.
    package var verifier: LogVerifier { LogVerifier(name: name, publicKey: privateKey.publicKey) }

    var id: [UInt8] { verifier.id }

    /// Whether something can be the name of a key: not empty, without spaces, control characters and `+`.
    package static func isName(_ name: String) -> Bool {
        !name.isEmpty && name.utf8.count <= 256
            && name.unicodeScalars.allSatisfy {
                $0 != "+" && $0.value > 32 && $0.value != 127 && !$0.properties.isWhitespace
            }
    }
}

/// What checks the checkpoints of a log.
package struct LogVerifier: Sendable, Hashable {
    /// The kind of key: Ed25519.
    private static let algorithm: UInt8 = 1

    package let name: String
    /// 32 bytes.
    package let publicKey: [UInt8]

    package init(name: String, publicKey: [UInt8]) {
        self.name = name
        self.publicKey = publicKey
    }

    /// Reads `name+hash+key`; `nil` for what is none, or a key of another kind.
    package init?(_ text: String) {
        let parts = text.split(separator: "+", maxSplits: 2, omittingEmptySubsequences: false).map(String.init)
        guard parts.count == 3, LogKey.isName(parts[0]), let key = Base64.decode(parts[2]),
            key.first == Self.algorithm, key.count == 1 + Ed25519.keyLength
        else { return nil }
        self.init(name: parts[0], publicKey: Array(key.dropFirst()))
        guard parts[1] == hexID else { return nil }
    }

    /// Four bytes that tell this key from others of the same name.
    var id: [UInt8] {
        Array(SHA256.hash(Array(name.utf8) + [0x0A, Self.algorithm] + publicKey).prefix(4))
    }

    private var hexID: String { Hexadecimal.text(id) }

    /// The key as it is published: `name+hash+key`.
    package var text: String { "\(name)+\(hexID)+\(Base64.encode([Self.algorithm] + publicKey))" }
}
