import COpenSSL

/// The two spellings of an ECDSA signature on P-256: JWS writes r and s as 64 bytes, OpenSSL reads and writes DER.
enum ES256Signature {
    static let rawLength = 64

    /// The DER form of `r || s`; `nil` when it is not 64 bytes.
    ///
    /// Whether r and s are in range is for verification.
    static func der(fromRaw raw: UnsafeRawBufferPointer) -> [UInt8]? {
        guard raw.count == rawLength, let bytes = raw.bindMemory(to: UInt8.self).baseAddress else { return nil }
        guard let signature = ECDSA_SIG_new() else { return nil }
        defer { ECDSA_SIG_free(signature) }
        let r = BN_bin2bn(bytes, 32, nil)
        let s = BN_bin2bn(bytes + 32, 32, nil)
        guard ECDSA_SIG_set0(signature, r, s) == 1 else {
            BN_free(r)
            BN_free(s)
            return nil
        }
        return encoded(signature)
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

    private static func encoded(_ signature: OpaquePointer) -> [UInt8]? {
        let capacity = 72
        guard i2d_ECDSA_SIG(signature, nil) <= capacity else { return nil }
        return [UInt8](unsafeUninitializedCapacity: capacity) { buffer, count in
            var cursor = buffer.baseAddress
            count = max(0, Int(i2d_ECDSA_SIG(signature, &cursor)))
        }
    }
}
