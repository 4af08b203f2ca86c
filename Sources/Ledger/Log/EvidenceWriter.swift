import EntitlementCore
import OpenSSLCrypto

/// Writes the steps of evidence one after the other, each byte once.
struct EvidenceWriter {
    private(set) var bytes: [UInt8] = []

    init(capacity: Int) { bytes.reserveCapacity(capacity) }

    mutating func literal(_ literal: some Collection<UInt8>) {
        bytes.append(EvidenceParts.Step.literal)
        withUnsafeBytes(of: UInt32(literal.count).bigEndian) { bytes.append(contentsOf: $0) }
        bytes.append(contentsOf: literal)
    }

    mutating func jws(_ parts: JWSParts, headers: inout [Digest: [UInt8]]) {
        headers[parts.header.hash] = parts.header.encoded
        bytes.append(EvidenceParts.Step.header)
        bytes.append(contentsOf: parts.header.hash.bytes)
        literal(CollectionOfOne(UInt8(ascii: ".")))
        base64URL { writer in
            var written = 0
            for embedded in parts.embedded {
                writer.literal(parts.payload[written..<embedded.range.lowerBound])
                writer.jws(embedded.parts, headers: &headers)
                written = embedded.range.upperBound
            }
            writer.literal(parts.payload[written...])
        }
        literal(CollectionOfOne(UInt8(ascii: ".")))
        base64URL { $0.literal(parts.signature) }
    }

    /// A step that holds further ones, whose length is known once they are written.
    private mutating func base64URL(_ write: (inout EvidenceWriter) -> Void) {
        bytes.append(EvidenceParts.Step.base64URL)
        let place = bytes.count
        bytes.append(contentsOf: [0, 0, 0, 0])
        write(&self)
        let length = UInt32(bytes.count - place - 4)
        for index in 0..<4 { bytes[place + index] = UInt8(truncatingIfNeeded: length >> (24 - 8 * UInt32(index))) }
    }
}

extension JWSParts {
    /// Whether header, payload and signature, and the JWS that the payload carries, give exactly the received bytes, and
    /// are worth being kept apart.
    func isReversible(depth: Int) -> Bool {
        let dot = UInt8(ascii: ".")
        let start = header.encoded.count + 1
        let signatureLength = (signature.count * 4 + 2) / 3
        let end = compact.count - signatureLength - 1
        guard depth < EvidenceParts.depthLimit, header.encoded.count >= EvidenceParts.headerMinimum, start <= end,
            compact[start - 1] == dot, compact[end] == dot
        else { return false }
        let isSame =
            isExact
            || compact.withUnsafeBytes { compact in
                header.encoded.withUnsafeBytes { areEqual($0, compact[..<(start - 1)]) }
                    && payload.withUnsafeBytes {
                        Base64.isURLEncoding(UnsafeRawBufferPointer(rebasing: compact[start..<end]), of: $0)
                    }
                    && signature.withUnsafeBytes {
                        Base64.isURLEncoding(UnsafeRawBufferPointer(rebasing: compact[(end + 1)...]), of: $0)
                    }
            }
        guard isSame else { return false }
        var written = 0
        for embedded in embedded {
            guard embedded.range.lowerBound >= written, embedded.range.upperBound <= payload.count,
                isExact
                    || payload.withUnsafeBytes({ payload in
                        embedded.parts.compact.withUnsafeBytes { areEqual($0, payload[embedded.range]) }
                    }),
                embedded.parts.isReversible(depth: depth + 1)
            else { return false }
            written = embedded.range.upperBound
        }
        return true
    }
}

/// Whether the bytes are the same, eight at a time: two headers of a few kilobytes are compared for each notification.
private func areEqual(_ left: UnsafeRawBufferPointer, _ right: Slice<UnsafeRawBufferPointer>) -> Bool {
    let right = UnsafeRawBufferPointer(rebasing: right)
    guard left.count == right.count else { return false }
    let words = left.count / 8
    for word in 0..<words {
        let place = word * 8
        guard
            left.loadUnaligned(fromByteOffset: place, as: UInt64.self)
                == right.loadUnaligned(fromByteOffset: place, as: UInt64.self)
        else { return false }
    }
    return left.dropFirst(words * 8).elementsEqual(right.dropFirst(words * 8))
}
