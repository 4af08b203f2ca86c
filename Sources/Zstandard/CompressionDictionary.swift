import CZstd
import Synchronization

/// Compresses short texts that resemble one another, by what a dictionary already holds of them (Zstandard, RFC 8878).
///
/// A text of a kilobyte is too short for a compressor to learn much from. A dictionary was trained with many such texts,
/// and compressor and decompressor start from what it learned. What was compressed with one dictionary can only be read
/// with the same one; each frame bears the dictionary's number.
///
/// Any number of threads may use one at once.
package final class CompressionDictionary: Sendable {
    /// The number that the frames bear.
    package let number: UInt32

    /// What the compressors refer to.
    private let forCompression: SharedDictionary
    private let forDecompression: SharedDictionary
    private let compressors: ContextPool
    private let decompressors = ContextPool(create: { ZSTD_createDCtx() }, free: { _ = ZSTD_freeDCtx($0) })

    /// - Parameters:
    ///   - bytes: a dictionary as `zstd --train` writes it.
    ///   - level: how thoroughly to compress, as of `zstd`: the higher, the smaller and slower; below zero, faster still.
    /// - Throws: `CompressionError` where the bytes are no dictionary with a number.
    package init(_ bytes: [UInt8], level: Int32) throws(CompressionError) {
        number = bytes.withUnsafeBytes { ZSTD_getDictID_fromDict($0.baseAddress, $0.count) }
        guard number != 0 else { throw CompressionError("these \(bytes.count) bytes are no dictionary with a number") }
        guard let compression = bytes.withUnsafeBytes({ ZSTD_createCDict($0.baseAddress, $0.count, level) }),
            let decompression = bytes.withUnsafeBytes({ ZSTD_createDDict($0.baseAddress, $0.count) })
        else { throw CompressionError("dictionary \(number) does not read") }
        let forCompression = SharedDictionary(compression) { _ = ZSTD_freeCDict($0) }
        self.forCompression = forCompression
        forDecompression = SharedDictionary(decompression) { _ = ZSTD_freeDDict($0) }
        compressors = ContextPool(
            create: {
                let context = ZSTD_createCCtx()
                ZSTD_CCtx_refCDict(context, forCompression.pointer)
                // So that damage is noticed by whoever looks into the bytes without anything to compare them with.
                ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1)
                return context
            }, free: { _ = ZSTD_freeCCtx($0) })
    }

    /// One frame of the bytes, with their length, their checksum and the dictionary's number in it.
    ///
    /// The same bytes always give the same frame, with the same version of the library.
    package func compress(_ bytes: [UInt8]) -> [UInt8] {
        compressors.withContext { context in
            [UInt8](unsafeUninitializedCapacity: ZSTD_compressBound(bytes.count)) { frame, count in
                count = bytes.withUnsafeBytes { bytes in
                    ZSTD_compress2(context, frame.baseAddress, frame.count, bytes.baseAddress, bytes.count)
                }
                // Nothing else can fail with a buffer of that size.
                precondition(ZSTD_isError(count) == 0, "zstd could not compress \(bytes.count) bytes: out of memory")
            }
        }
    }

    /// The bytes that a frame was made of.
    ///
    /// - Parameter limit: the most bytes that the frame may say it holds; more are not decompressed.
    /// - Throws: `CompressionError` where it is no single frame of this dictionary, or holds more.
    package func decompress(_ frame: [UInt8], limit: Int) throws(CompressionError) -> [UInt8] {
        let (length, named, size) = frame.withUnsafeBytes { frame in
            (
                ZSTD_getFrameContentSize(frame.baseAddress, frame.count),
                ZSTD_getDictID_fromFrame(frame.baseAddress, frame.count),
                ZSTD_findFrameCompressedSize(frame.baseAddress, frame.count)
            )
        }
        guard size == frame.count else { throw CompressionError("\(frame.count) bytes are not one zstd frame") }
        guard named == number else {
            throw CompressionError("a zstd frame names dictionary \(named); this is dictionary \(number)")
        }
        // What says that there is no length, or that it cannot be read, is greater than any limit, too.
        guard length <= UInt64(limit) else {
            throw CompressionError("a zstd frame does not say that it holds \(limit) bytes at most")
        }
        var problem: String?
        let bytes = decompressors.withContext { context in
            [UInt8](unsafeUninitializedCapacity: Int(length)) { bytes, count in
                let result = frame.withUnsafeBytes { frame in
                    ZSTD_decompress_usingDDict(
                        context, bytes.baseAddress, bytes.count, frame.baseAddress, frame.count,
                        forDecompression.pointer)
                }
                if ZSTD_isError(result) == 0 {
                    count = result
                } else {
                    problem = String(cString: ZSTD_getErrorName(result))
                }
            }
        }
        if let problem { throw CompressionError("a zstd frame does not read: \(problem)") }
        return bytes
    }
}

/// Why bytes could not be compressed or read.
package struct CompressionError: Error, Hashable, CustomStringConvertible {
    package let description: String

    init(_ description: String) { self.description = description }
}

/// A dictionary made ready by the library, freed with the last reference.
///
/// The library only reads it from then on, so any number of threads may use it at once.
private final class SharedDictionary: @unchecked Sendable {
    let pointer: OpaquePointer
    private let free: @Sendable (OpaquePointer) -> Void

    init(_ pointer: OpaquePointer, free: @escaping @Sendable (OpaquePointer) -> Void) {
        (self.pointer, self.free) = (pointer, free)
    }

    deinit { free(pointer) }
}

/// The library's working memory, some hundred kilobytes, kept from one use to the next.
private final class ContextPool: Sendable {
    /// One that is used or waits to be.
    ///
    /// Whoever took it out of the pool is the only one that has it, until it is put back.
    private struct Context: @unchecked Sendable {
        let pointer: OpaquePointer
    }

    /// As many are kept as threads are likely to work at once.
    private static let limit = 16

    private let create: @Sendable () -> OpaquePointer?
    private let free: @Sendable (OpaquePointer) -> Void
    private let unused = Mutex<[Context]>([])

    init(create: @escaping @Sendable () -> OpaquePointer?, free: @escaping @Sendable (OpaquePointer) -> Void) {
        (self.create, self.free) = (create, free)
    }

    deinit { for context in unused.withLock({ $0 }) { free(context.pointer) } }

    func withContext<Result>(_ body: (OpaquePointer) -> Result) -> Result {
        guard let context = unused.withLock({ $0.popLast() }) ?? create().map(Context.init(pointer:)) else {
            preconditionFailure("zstd has no memory for another context")
        }
        defer {
            let isKept = unused.withLock { contexts in
                guard contexts.count < Self.limit else { return false }
                contexts.append(context)
                return true
            }
            if !isKept { free(context.pointer) }
        }
        return body(context.pointer)
    }
}
