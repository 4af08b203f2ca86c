package import EntitlementCore
import OpenSSLCrypto

/// A compact JWS taken apart so that what every JWS of one signer repeats is stored once.
///
/// The parts are a list of steps: literal bytes, the name of a stored header, or further steps whose bytes are to be
/// written in base64url. Putting them together gives the received bytes back exactly; what would not come back
/// exactly is kept as it came. The steps of a JWS are stored compressed.
package struct EvidenceParts: Sendable, Equatable {
    /// What is stored: the canonical bytes of the steps, or one step that holds them compressed.
    package let bytes: [UInt8]
    /// The headers the steps name, by their SHA-256.
    package let headers: [Digest: [UInt8]]

    enum Step {
        static let literal: UInt8 = 0
        static let header: UInt8 = 1
        static let base64URL: UInt8 = 2
        /// All the steps, as a frame of `EvidenceCompression`; the rest of what is stored is that frame.
        static let compressed: UInt8 = 3
    }

    /// Nesting of JWS inside JWS payloads; Apple's notifications have two levels.
    static let depthLimit = 4
    /// The most bytes that are put together from steps which stand for more than they hold: a few times the largest request.
    static let receivedLimit = 32 << 20
    /// A header shorter than this is not worth a reference.
    static let headerMinimum = 128

    /// Takes a compact JWS apart, or several of them, one a line.
    package init(jws: [UInt8]) {
        var headers: [Digest: [UInt8]] = [:]
        let newline = UInt8(ascii: "\n")
        var steps: [UInt8] = []
        for (number, line) in jws.split(separator: newline, omittingEmptySubsequences: false).enumerated() {
            if number > 0 { steps += Self.literal([newline]) }
            steps += Self.steps(ofJWS: line, depth: 0, headers: &headers) ?? Self.literal(line)
        }
        if (try? Self.assemble(steps, depth: 0, headers: headers)) == jws {
            bytes = Self.compressed(steps)
            self.headers = headers
        } else {
            bytes = Self.compressed(Self.literal(jws[...]))
            self.headers = [:]
        }
    }

    /// Keeps bytes as they are, so that the database can look into them.
    package init(plain received: [UInt8]) {
        bytes = Self.literal(received[...])
        headers = [:]
    }

    /// Makes evidence of JWS that a verifier took apart, one a line, without decoding anything again.
    ///
    /// That the received bytes come back is proven by writing what was decoded once more, into nothing; what does not
    /// come back is kept as it came.
    package init(_ statements: [JWSParts]) {
        guard statements.reduce(statements.count, { $0 + $1.compact.count }) <= Self.receivedLimit else {
            // Steps that stand for more would not be read.
            bytes = Self.literal(Array(statements.map(\.compact).joined(separator: [UInt8(ascii: "\n")]))[...])
            headers = [:]
            return
        }
        var headers: [Digest: [UInt8]] = [:]
        var writer = EvidenceWriter(capacity: statements.reduce(64) { $0 + $1.payload.count + 256 })
        for (number, statement) in statements.enumerated() {
            if number > 0 { writer.literal([UInt8(ascii: "\n")]) }
            if statement.isReversible(depth: 0) {
                writer.jws(statement, headers: &headers)
            } else {
                writer.literal(statement.compact)
            }
        }
        bytes = Self.compressed(writer.bytes)
        self.headers = headers
    }

    /// The received bytes again.
    ///
    /// Throws when a header is missing or what is stored does not read.
    package static func assemble(_ stored: [UInt8], headers: [Digest: [UInt8]]) throws -> [UInt8] {
        try assemble(steps(of: stored), depth: 0, headers: headers)
    }

    /// The headers that the steps name.
    package static func headerNames(in stored: [UInt8]) throws -> Set<Digest> {
        try headerNames(steps(of: stored), depth: 0)
    }

    /// The canonical bytes of the steps that are stored, compressed or not.
    package static func steps(of stored: [UInt8]) throws -> [UInt8] {
        guard stored.first == Step.compressed else { return stored }
        return try EvidenceCompression.decompress(Array(stored.dropFirst()))
    }

    private static func compressed(_ steps: [UInt8]) -> [UInt8] {
        EvidenceCompression.compress(steps).map { [Step.compressed] + $0 } ?? steps
    }

    private static func assemble(_ steps: [UInt8], depth: Int, headers: [Digest: [UInt8]]) throws -> [UInt8] {
        try CanonicalReader.read(steps) { reader in
            var output: [UInt8] = []
            while !reader.isAtEnd {
                switch try reader.byte() {
                case Step.literal:
                    output.append(contentsOf: try reader.data())
                case Step.header:
                    let digest = try reader.digest()
                    guard let header = headers[digest] else {
                        throw LedgerError(.corrupt, "evidence names header \(digest.hex), which is not stored")
                    }
                    output.append(contentsOf: header)
                case Step.base64URL:
                    let inner = try assemble(nested(&reader, in: depth), depth: depth + 1, headers: headers)
                    output.append(contentsOf: Base64.encodeURL(inner).utf8)
                case let step:
                    throw LedgerError(.corrupt, "evidence holds a step of kind \(step)")
                }
                // Plain bytes may be more: they are stored as they are.
                guard output.count <= receivedLimit || depth == 0 && output.count <= steps.count else {
                    throw LedgerError(.corrupt, "evidence stands for more than \(receivedLimit >> 20) MiB")
                }
            }
            return output
        }
    }

    private static func headerNames(_ steps: [UInt8], depth: Int) throws -> Set<Digest> {
        try CanonicalReader.read(steps) { reader in
            var names: Set<Digest> = []
            while !reader.isAtEnd {
                switch try reader.byte() {
                case Step.literal: _ = try reader.data()
                case Step.header: names.insert(try reader.digest())
                case Step.base64URL:
                    names.formUnion(try headerNames(nested(&reader, in: depth), depth: depth + 1))
                case let step: throw LedgerError(.corrupt, "evidence holds a step of kind \(step)")
                }
            }
            return names
        }
    }

    /// The steps inside a step; as deep as nothing is ever written, reading them could take any amount of stack.
    private static func nested(_ reader: inout CanonicalReader, in depth: Int) throws -> [UInt8] {
        guard depth < depthLimit else {
            throw LedgerError(.corrupt, "evidence holds steps that are nested more than \(depthLimit) deep")
        }
        return try reader.data()
    }

    private static func steps(ofJWS jws: ArraySlice<UInt8>, depth: Int, headers: inout [Digest: [UInt8]]) -> [UInt8]? {
        let dot = UInt8(ascii: ".")
        guard depth < depthLimit, let first = jws.firstIndex(of: dot), first - jws.startIndex >= headerMinimum,
            let second = jws[(first + 1)...].firstIndex(of: dot), !jws[(second + 1)...].contains(dot),
            let payload = Base64.decodeURL(jws[(first + 1)..<second]),
            let signature = Base64.decodeURL(jws[(second + 1)...])
        else { return nil }
        let header = Array(jws[..<first])
        guard let name = Digest(SHA256.hash(header)) else { return nil }
        headers[name] = header
        var writer = CanonicalWriter()
        writer.byte(Step.header)
        writer.digest(name)
        writer.byte(Step.literal)
        writer.data([UInt8(ascii: ".")])
        writer.byte(Step.base64URL)
        writer.data(steps(ofPayload: payload, depth: depth + 1, headers: &headers))
        writer.byte(Step.literal)
        writer.data([UInt8(ascii: ".")])
        writer.byte(Step.base64URL)
        writer.data(literal(signature[...]))
        return writer.bytes
    }

    /// A JSON payload whose longer strings may be JWS themselves.
    private static func steps(
        ofPayload payload: [UInt8], depth: Int, headers: inout [Digest: [UInt8]]
    ) -> [UInt8] {
        let quote = UInt8(ascii: "\"")
        var output: [UInt8] = []
        var pending = payload.startIndex
        var open = payload.firstIndex(of: quote)
        while let start = open {
            guard let end = payload[(start + 1)...].firstIndex(of: quote) else { break }
            let text = payload[(start + 1)..<end]
            if text.count > headerMinimum, let nested = steps(ofJWS: text, depth: depth, headers: &headers) {
                output += literal(payload[pending...start]) + nested
                pending = end
            }
            open = payload[(end + 1)...].firstIndex(of: quote)
        }
        return output + literal(payload[pending...])
    }

    private static func literal(_ bytes: ArraySlice<UInt8>) -> [UInt8] {
        var writer = CanonicalWriter()
        writer.byte(Step.literal)
        writer.data(Array(bytes))
        return writer.bytes
    }
}
