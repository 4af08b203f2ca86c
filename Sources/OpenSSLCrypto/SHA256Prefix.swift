import COpenSSL

/// The first bytes of many messages, hashed once for all of them.
///
/// Sendable, because the context is never changed after `init`, only copied, which OpenSSL lets any number of threads do
/// at once.
package final class SHA256Prefix: @unchecked Sendable {
    private let context: OpaquePointer

    package init(_ bytes: [UInt8]) {
        let context = EVP_MD_CTX_new()
        let done =
            EVP_DigestInit_ex(context, SHA256.algorithm.pointer, nil) == 1
            && EVP_DigestUpdate(context, bytes, bytes.count) == 1
        guard let context, done else { preconditionFailure("OpenSSL could not begin a SHA-256 digest: out of memory") }
        self.context = context
    }

    deinit { EVP_MD_CTX_free(context) }

    /// The digest of the prefix and a message after it.
    package func hash(_ message: UnsafeRawBufferPointer) -> [UInt8] {
        finish(begin(message))
    }

    /// The digest of the prefix and a message after it, and that of all this and some more after it.
    package func hash(
        _ message: UnsafeRawBufferPointer, andThen more: UnsafeRawBufferPointer
    ) -> (message: [UInt8], whole: [UInt8]) {
        let running = begin(message)
        let copy = Self.copy(of: running)
        precondition(
            EVP_DigestUpdate(copy, more.baseAddress, more.count) == 1,
            "OpenSSL could not compute a SHA-256 digest: out of memory")
        return (finish(running), finish(copy))
    }

    private func begin(_ message: UnsafeRawBufferPointer) -> OpaquePointer? {
        let running = Self.copy(of: context)
        precondition(
            EVP_DigestUpdate(running, message.baseAddress, message.count) == 1,
            "OpenSSL could not compute a SHA-256 digest: out of memory")
        return running
    }

    private static func copy(of context: OpaquePointer?) -> OpaquePointer? {
        let copy = EVP_MD_CTX_new()
        precondition(
            EVP_MD_CTX_copy_ex(copy, context) == 1, "OpenSSL could not copy a SHA-256 digest: out of memory")
        return copy
    }

    /// Frees the context.
    private func finish(_ running: OpaquePointer?) -> [UInt8] {
        defer { EVP_MD_CTX_free(running) }
        return [UInt8](unsafeUninitializedCapacity: SHA256.length) { digest, count in
            let done = EVP_DigestFinal_ex(running, digest.baseAddress, nil)
            precondition(done == 1, "OpenSSL could not compute a SHA-256 digest: out of memory")
            count = SHA256.length
        }
    }
}
