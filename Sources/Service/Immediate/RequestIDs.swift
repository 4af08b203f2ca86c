import Glibc

/// Makes the ids that name requests, `req_` and 16 hexadecimal digits, without asking the system for each.
///
/// For one thread.
struct RequestIDs {
    /// How many are asked for at once.
    private static let batch = 256

    private var random: [UInt64] = []
    /// The last id, and a NUL.
    private var text: [UInt8] = Array("req_".utf8) + [UInt8](repeating: 0, count: 17)

    /// Lends the next id, whose 20 bytes a NUL follows.
    mutating func withNext<Result>(_ body: (UnsafeBufferPointer<UInt8>) -> Result) -> Result {
        if random.isEmpty {
            random = [UInt64](unsafeUninitializedCapacity: Self.batch) { words, count in
                count = words.count
                if let start = words.baseAddress { arc4random_buf(start, count * MemoryLayout<UInt64>.size) }
            }
        }
        var bits = random.removeLast()
        for index in (4..<20).reversed() {
            let digit = UInt8(truncatingIfNeeded: bits & 0xF)
            text[index] = digit < 10 ? UInt8(ascii: "0") + digit : UInt8(ascii: "a") + digit - 10
            bits >>= 4
        }
        return text.withUnsafeBufferPointer { body(UnsafeBufferPointer(rebasing: $0[..<20])) }
    }
}
