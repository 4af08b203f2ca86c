import COpenSSL

/// The two spellings of an ECDSA signature on P-256: JWS writes r and s as 64 bytes, OpenSSL reads and writes DER.
enum ES256Signature {
    static let rawLength = 64

    /// The longest DER form: two integers of 33 bytes, each with two bytes in front, in a sequence with two more.
    private static let maximumDERLength = 72

    /// Runs the body with the DER form of `r || s`; `nil` when it is not 64 bytes.
    ///
    /// Whether r and s are in range is for verification.
    static func withDER<Result>(
        fromRaw raw: UnsafeRawBufferPointer, _ body: (UnsafeBufferPointer<UInt8>) -> Result
    ) -> Result? {
        guard raw.count == rawLength else { return nil }
        return withUnsafeTemporaryAllocation(of: UInt8.self, capacity: maximumDERLength) { buffer in
            var count = 2
            for end in [32, 64] {
                // DER writes a number in as few bytes as it takes, the first of them with its highest bit clear.
                var digits = raw[(end - 32)..<end]
                while digits.count > 1, digits.first == 0 { digits.removeFirst() }
                let isPadded = digits.first.map { $0 >= 0x80 } ?? false
                buffer.initializeElement(at: count, to: 0x02)
                buffer.initializeElement(at: count + 1, to: UInt8(digits.count + (isPadded ? 1 : 0)))
                count += 2
                if isPadded {
                    buffer.initializeElement(at: count, to: 0)
                    count += 1
                }
                for digit in digits {
                    buffer.initializeElement(at: count, to: digit)
                    count += 1
                }
            }
            buffer.initializeElement(at: 0, to: 0x30)
            buffer.initializeElement(at: 1, to: UInt8(count - 2))
            return body(UnsafeBufferPointer(rebasing: buffer.prefix(count)))
        }
    }

    /// The `r || s` form of a DER signature; `nil` when it is none of P-256.
    static func raw(fromDER der: [UInt8]) -> [UInt8]? {
        let parsed = der.withUnsafeBufferPointer { bytes in
            var cursor = bytes.baseAddress
            return d2i_ECDSA_SIG(nil, &cursor, bytes.count)
        }
        guard let signature = parsed else { return nil }
        defer { ECDSA_SIG_free(signature) }
        var raw = [UInt8](repeating: 0, count: rawLength)
        let written = raw.withUnsafeMutableBufferPointer { buffer -> Bool in
            guard let base = buffer.baseAddress else { return false }
            return BN_bn2binpad(ECDSA_SIG_get0_r(signature), base, 32) == 32
                && BN_bn2binpad(ECDSA_SIG_get0_s(signature), base + 32, 32) == 32
        }
        return written ? raw : nil
    }
}
