import COpenSSL

/// SHA-256 (FIPS 180-4), in one call.
package enum SHA256 {
    /// The length of a digest in bytes.
    package static let length = 32

    /// The digest of the bytes: 32 bytes.
    package static func hash(_ bytes: UnsafeRawBufferPointer) -> [UInt8] {
        [UInt8](unsafeUninitializedCapacity: length) { digest, count in
            let done = EVP_Digest(bytes.baseAddress, bytes.count, digest.baseAddress, nil, algorithm.pointer, nil)
            precondition(done == 1, "OpenSSL could not compute a SHA-256 digest: out of memory")
            count = length
        }
    }

    /// The digest of the bytes: 32 bytes.
    package static func hash(_ bytes: [UInt8]) -> [UInt8] {
        bytes.withUnsafeBytes { hash($0) }
    }

    /// The digest of any bytes, without a copy where they lie in one piece (`Data`, a slice, a string's UTF-8).
    package static func hash(_ bytes: some Collection<UInt8>) -> [UInt8] {
        bytes.withContiguousStorageIfAvailable { hash(UnsafeRawBufferPointer($0)) } ?? hash(Array(bytes))
    }

    /// The digest of the pieces, as if they were written one after the other.
    ///
    /// Nothing marks where a piece ends; whoever needs that puts lengths between them.
    package static func hash(pieces: [[UInt8]]) -> [UInt8] {
        [UInt8](unsafeUninitializedCapacity: length) { digest, count in
            let context = EVP_MD_CTX_new()
            defer { EVP_MD_CTX_free(context) }
            var done = EVP_DigestInit_ex(context, algorithm.pointer, nil) == 1
            for piece in pieces where done {
                done = piece.withUnsafeBytes { EVP_DigestUpdate(context, $0.baseAddress, $0.count) } == 1
            }
            done = done && EVP_DigestFinal_ex(context, digest.baseAddress, nil) == 1
            precondition(done, "OpenSSL could not compute a SHA-256 digest: out of memory")
            count = length
        }
    }

    /// Looked up once, because OpenSSL 3 otherwise searches its providers on every call.
    static let algorithm = DigestAlgorithm("SHA256")
}

/// A digest algorithm fetched from OpenSSL's providers, for the life of the process.
///
/// `EVP_MD` is immutable once fetched, so any number of threads may use it.
struct DigestAlgorithm: @unchecked Sendable {
    let pointer: OpaquePointer?

    init(_ name: String) {
        pointer = EVP_MD_fetch(nil, name, nil)
        precondition(pointer != nil, "this OpenSSL offers no \(name): its default provider is missing or disabled")
    }
}
