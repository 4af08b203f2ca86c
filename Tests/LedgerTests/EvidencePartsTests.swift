import EntitlementCore
import OpenSSLCrypto
import Testing

@testable import Ledger

/// Evidence made of JWS that a verifier took apart.
@Suite("Evidence of JWS taken apart")
struct EvidencePartsTests {
    private static let header = Base64.encodeURL(Array(String(repeating: "head", count: 60).utf8))

    /// A JWS around a payload, which carries the JWS given, each at the place of an `@`.
    private static func jws(_ text: String, carrying carried: [JWSParts] = [], header: String = header) throws
        -> JWSParts
    {
        var payload: [UInt8] = []
        var embedded: [JWSParts.Embedded] = []
        for byte in text.utf8 {
            if byte == UInt8(ascii: "@"), embedded.count < carried.count {
                let parts = carried[embedded.count]
                embedded.append(.init(range: payload.count..<(payload.count + parts.compact.count), parts: parts))
                payload += parts.compact
            } else {
                payload.append(byte)
            }
        }
        let signature = SHA256.hash(payload) + SHA256.hash(Array(header.utf8))
        let compact = Array("\(header).\(Base64.encodeURL(payload)).\(Base64.encodeURL(signature))".utf8)
        return JWSParts(
            compact: compact, hash: try #require(Digest(SHA256.hash(compact))),
            header: .init(encoded: Array(header.utf8), hash: try #require(Digest(SHA256.hash(header.utf8)))),
            payload: payload, signature: signature, embedded: embedded)
    }

    private static func notification() throws -> JWSParts {
        let transaction = try jws(#"{"transactionId":"1"}"#)
        let renewal = try jws(#"{"autoRenewStatus":1}"#)
        return try jws(
            #"{"data":{"signedTransactionInfo":"@","signedRenewalInfo":"@"},"x":"y"}"#,
            carrying: [transaction, renewal])
    }

    @Test("it is the evidence that the received bytes give, down to the byte")
    func sameAsReceived() throws {
        let whole = try Self.notification()
        let single = try Self.jws(#"{"transactionId":"1"}"#)
        for statements in [[whole], [single], [single, single], [single, whole, single]] {
            let received = Array(statements.map(\.compact).joined(separator: [UInt8(ascii: "\n")]))
            let evidence = try #require(PreparedEvidence(statements))
            #expect(evidence.received == received)
            #expect(evidence.hash.bytes == SHA256.hash(received))
            #expect(evidence.parts == EvidenceParts(jws: received))
            #expect(evidence == PreparedEvidence(received: received))
            #expect(evidence.parts.headers.count == 1)
            #expect(evidence.parts.bytes.count < received.count / 2)
            let again = try EvidenceParts.assemble(evidence.parts.bytes, headers: evidence.parts.headers)
            #expect(again == received)
        }
        #expect(PreparedEvidence([]) == nil)
    }

    @Test("what would not give the received bytes back is kept as it came")
    func irreversible() throws {
        let good = try Self.notification()
        func changed(
            compact: [UInt8]? = nil, header: JWSParts.Header? = nil, payload: [UInt8]? = nil, signature: [UInt8]? = nil,
            embedded: [JWSParts.Embedded]? = nil
        ) -> JWSParts {
            JWSParts(
                compact: compact ?? good.compact, hash: good.hash, header: header ?? good.header,
                payload: payload ?? good.payload, signature: signature ?? good.signature,
                embedded: embedded ?? good.embedded)
        }
        let first = good.embedded[0]
        let second = good.embedded[1]
        let moved = first.range.lowerBound + 1..<first.range.upperBound + 1
        var otherPayload = good.payload
        otherPayload[3] ^= 1
        var otherCompact = good.compact
        otherCompact[good.header.encoded.count] = UInt8(ascii: "-")
        var otherHeader = good.header.encoded
        otherHeader[100] ^= 1
        let wrong = [
            changed(payload: otherPayload), changed(payload: Array(good.payload.dropLast())), changed(payload: []),
            changed(signature: Array(good.signature.dropLast())), changed(signature: []),
            changed(signature: good.signature.reversed()), changed(compact: otherCompact), changed(compact: []),
            changed(compact: Array(good.compact.dropLast())), changed(compact: good.compact + good.compact),
            changed(header: .init(encoded: otherHeader, hash: good.header.hash)),
            changed(header: .init(encoded: Array(otherHeader.dropLast()), hash: good.header.hash)),
            changed(embedded: [.init(range: moved, parts: first.parts)]),
            changed(embedded: [.init(range: second.range, parts: first.parts)]),
            changed(embedded: [first, first]),
            changed(embedded: [first, .init(range: first.range, parts: second.parts)]),
            changed(embedded: [.init(range: 0..<(good.payload.count + 1), parts: first.parts)]),
            try Self.jws("{}", header: "short"),
        ]
        for (number, parts) in wrong.enumerated() {
            let evidence = EvidenceParts([parts])
            #expect(evidence.headers.isEmpty, "number \(number)")
            #expect(try EvidenceParts.assemble(evidence.bytes, headers: [:]) == parts.compact, "number \(number)")
        }
    }

    @Test("a JWS deep inside others is kept as text once it gets too deep, and still comes back")
    func depth() throws {
        var parts = try Self.jws("{}")
        for _ in 0..<8 {
            parts = try Self.jws(#"{"inner":"@"}"#, carrying: [parts])
            let evidence = EvidenceParts([parts])
            #expect(try EvidenceParts.assemble(evidence.bytes, headers: evidence.headers) == parts.compact)
        }
    }

    @Test("a JWS is stored compressed, and what stands in the steps comes back from it")
    func compressed() throws {
        let evidence = EvidenceParts([try Self.notification()])
        #expect(evidence.bytes.first == EvidenceParts.Step.compressed)
        let steps = try EvidenceParts.steps(of: evidence.bytes)
        #expect(steps.first == EvidenceParts.Step.header && steps.count > evidence.bytes.count)
        #expect(try EvidenceParts.steps(of: steps) == steps)
        #expect(try EvidenceParts.headerNames(in: evidence.bytes) == EvidenceParts.headerNames(in: steps))
    }

    @Test("evidence that is not a JWS, or is too short or too long, is stored uncompressed")
    func uncompressed() throws {
        let plain = Array(String(repeating: "what Stripe sent", count: 100).utf8)
        let short = Array("short".utf8)
        let long = [UInt8](repeating: UInt8(ascii: "x"), count: EvidenceCompression.limit)
        for (received, evidence) in [
            (plain, EvidenceParts(plain: plain)), (short, EvidenceParts(jws: short)), (long, EvidenceParts(jws: long)),
        ] {
            #expect(evidence.bytes.first == EvidenceParts.Step.literal && evidence.bytes.count == received.count + 5)
            #expect(try EvidenceParts.assemble(evidence.bytes, headers: [:]) == received)
        }
        let longest = Array(long.dropLast(5))
        let evidence = EvidenceParts(jws: longest)
        #expect(evidence.bytes.count < 1000)
        #expect(try EvidenceParts.assemble(evidence.bytes, headers: [:]) == longest)
    }

    @Test("more statements than are put together again are kept as they came")
    func many() throws {
        let payload = String(repeating: "x", count: 3 << 20)
        let statement = try Self.jws("{\"x\":\"\(payload)\"}")
        let few = EvidenceParts([statement, statement])
        #expect(try EvidenceParts.assemble(few.bytes, headers: few.headers).count == 2 * statement.compact.count + 1)
        let statements = Array(repeating: statement, count: 9)
        let many = EvidenceParts(statements)
        #expect(many.headers.isEmpty)
        let received = Array(statements.map(\.compact).joined(separator: [UInt8(ascii: "\n")]))
        #expect(received.count > EvidenceParts.receivedLimit)
        #expect(try EvidenceParts.assemble(many.bytes, headers: [:]) == received)
    }

    @Test("the dictionary is the one that evidence was stored with")
    func dictionary() throws {
        #expect(
            Digest(SHA256.hash(PackageResources.evidence_1_dictionary))?.hex
                == "b749c704eccf8b744f8eba271fdf5fb990a8eb150f0f46e277e4cdf390d87f56")
    }

    /// Steps inside steps, as often as given.
    private static func nested(_ count: Int, around literal: [UInt8]) -> [UInt8] {
        var steps = EvidenceParts(plain: literal).bytes
        for _ in 0..<count {
            var writer = CanonicalWriter()
            writer.byte(EvidenceParts.Step.base64URL)
            writer.data(steps)
            steps = writer.bytes
        }
        return steps
    }

    @Test("steps that are nested deeper than any are written, or stand for too much, are refused")
    func hostile() throws {
        #expect(try EvidenceParts.headerNames(in: Self.nested(4, around: [1])).isEmpty)
        #expect(try EvidenceParts.assemble(Self.nested(4, around: [1]), headers: [:]).count > 1)
        for count in [5, 1000] {
            let steps = Self.nested(count, around: [1])
            #expect(throws: LedgerError.self) { try EvidenceParts.assemble(steps, headers: [:]) }
            #expect(throws: LedgerError.self) { try EvidenceParts.headerNames(in: steps) }
        }
        let header = [UInt8](repeating: 7, count: 1 << 20)
        let name = try #require(Digest(SHA256.hash(header)))
        var writer = CanonicalWriter()
        for _ in 0..<33 {
            writer.byte(EvidenceParts.Step.header)
            writer.digest(name)
        }
        #expect(throws: LedgerError.self) { try EvidenceParts.assemble(writer.bytes, headers: [name: header]) }
    }

    @Test("a step of compressed bytes inside others, or one that does not decompress, is refused")
    func damaged() throws {
        let stored = EvidenceParts([try Self.notification()]).bytes
        var writer = CanonicalWriter()
        writer.byte(EvidenceParts.Step.base64URL)
        writer.data(stored)
        let others = [writer.bytes, [EvidenceParts.Step.compressed], Array(stored.dropLast()), stored + [0]]
        for bytes in others {
            #expect(throws: (any Error).self) { try EvidenceParts.assemble(bytes, headers: [:]) }
            #expect(throws: (any Error).self) { try EvidenceParts.headerNames(in: bytes) }
        }
    }
}
