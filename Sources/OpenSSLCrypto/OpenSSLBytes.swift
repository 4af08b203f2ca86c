import COpenSSL

/// Runs the body with a read-only BIO over the bytes.
func withMemoryBIO<Result>(_ bytes: [UInt8], _ body: (OpaquePointer) -> Result?) -> Result? {
    bytes.withUnsafeBytes { buffer -> Result? in
        guard let bio = BIO_new_mem_buf(buffer.baseAddress, Int32(clamping: buffer.count)) else { return nil }
        defer { BIO_free(bio) }
        return body(bio)
    }
}

/// The text that the body writes into a BIO; `nil` when the body says that it failed.
func textWritten(by body: (OpaquePointer) -> Bool) -> String? {
    guard let bio = BIO_new(BIO_s_mem()) else { return nil }
    defer { BIO_free(bio) }
    guard body(bio) else { return nil }
    var start: UnsafeMutablePointer<CChar>?
    let count = copenssl_bio_memory(bio, &start)
    return String(decoding: UnsafeRawBufferPointer(start: start, count: Int(count)), as: UTF8.self)
}

/// The DER bytes of one of OpenSSL's `i2d_` functions: asked for the length first, then for the bytes.
func encodeDER(_ encode: (UnsafeMutablePointer<UnsafeMutablePointer<UInt8>?>?) -> Int32) -> [UInt8]? {
    let length = Int(encode(nil))
    guard length > 0 else { return nil }
    return [UInt8](unsafeUninitializedCapacity: length) { buffer, count in
        var cursor = buffer.baseAddress
        count = max(0, Int(encode(&cursor)))
    }
}

/// Answers OpenSSL's question for a passphrase with a refusal; by itself it would ask on the terminal.
func refusePassphrase(
    _ buffer: UnsafeMutablePointer<CChar>?, _ size: Int32, _ forWriting: Int32, _ context: UnsafeMutableRawPointer?
) -> Int32 { -1 }
