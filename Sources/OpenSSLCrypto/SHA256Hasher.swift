import COpenSSL

/// SHA-256 of many short messages, one after the other: faster than ``SHA256``, which makes a context for each.
package struct SHA256Hasher: ~Copyable {
    private let context: OpaquePointer

    package init() {
        guard let context = EVP_MD_CTX_new() else {
            preconditionFailure("OpenSSL could not begin a SHA-256 digest: out of memory")
        }
        self.context = context
    }

    deinit { EVP_MD_CTX_free(context) }

    /// Writes the digest of a message over the first 32 bytes of `digest`.
    package func hash(_ message: UnsafeRawBufferPointer, into digest: UnsafeMutableRawBufferPointer) {
        precondition(
            digest.count >= SHA256.length, "a SHA-256 digest has 32 bytes, and there is room for \(digest.count)")
        let done =
            EVP_DigestInit_ex(context, SHA256.algorithm.pointer, nil) == 1
            && EVP_DigestUpdate(context, message.baseAddress, message.count) == 1
            && EVP_DigestFinal_ex(context, digest.assumingMemoryBound(to: UInt8.self).baseAddress, nil) == 1
        precondition(done, "OpenSSL could not compute a SHA-256 digest: out of memory")
    }
}
