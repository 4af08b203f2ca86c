import COpenSSL

/// Unpredictable bytes from OpenSSL's generator, which the operating system seeds.
package enum SecureRandom {
    /// That many bytes, fit for keys and tokens.
    ///
    /// Without entropy there is no safe answer, so the process stops rather than return guessable bytes.
    package static func bytes(_ count: Int) -> [UInt8] {
        precondition(count >= 0 && count <= 1 << 20, "at most 1 MiB of random bytes at once, not \(count)")
        return [UInt8](unsafeUninitializedCapacity: count) { buffer, filled in
            let done = count == 0 || RAND_bytes(buffer.baseAddress, Int32(count)) == 1
            precondition(done, "OpenSSL's random generator has no entropy")
            filled = count
        }
    }
}

/// Comparison whose time does not tell where two secrets differ.
package enum ConstantTime {
    /// Whether both hold the same bytes.
    ///
    /// The lengths are not secret.
    package static func equal(_ left: [UInt8], _ right: [UInt8]) -> Bool {
        left.count == right.count && CRYPTO_memcmp(left, right, left.count) == 0
    }
}
