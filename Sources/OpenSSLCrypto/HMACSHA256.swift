import COpenSSL

/// HMAC with SHA-256 (RFC 2104): says that a message came from a holder of the key, unchanged.
package enum HMACSHA256 {
    /// The length of a code in bytes.
    package static let length = SHA256.length

    /// The code of a message: 32 bytes, to be compared by ``ConstantTime``.
    ///
    /// The key has at least one byte; 32 random ones are as strong as any.
    package static func code(of message: some Collection<UInt8>, key: [UInt8]) -> [UInt8] {
        precondition((1...1024).contains(key.count), "an HMAC key has 1 to 1024 bytes, not \(key.count)")
        let message = Array(message)
        return [UInt8](unsafeUninitializedCapacity: length) { code, count in
            let done = HMAC(
                SHA256.algorithm.pointer, key, Int32(key.count), message, message.count, code.baseAddress, nil)
            precondition(done != nil, "OpenSSL could not compute an HMAC: out of memory")
            count = length
        }
    }
}
