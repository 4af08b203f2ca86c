import Glibc

/// An encoded answer whose gaps are filled each time it is sent.
///
/// It is made of an answer that was encoded with a marker in the place of each value that changes from one time to the
/// next. A marker has to be found exactly once: text that came from outside may hold the same characters.
struct AnswerTemplate: Sendable {
    private let pieces: [[UInt8]]
    private let order: [Int]

    /// Takes an encoded answer apart.
    ///
    /// - Parameter markers: the text of each gap, in an order that `fill` takes its values in.
    /// - Returns: `nil` where one of them is not there exactly once.
    init?(_ encoded: [UInt8], markers: [String]) {
        var gaps: [(range: Range<Int>, index: Int)] = []
        for (index, marker) in markers.enumerated() {
            guard let range = Self.onlyRange(of: Array(marker.utf8), in: encoded) else { return nil }
            gaps.append((range, index))
        }
        gaps.sort { $0.range.lowerBound < $1.range.lowerBound }
        guard zip(gaps, gaps.dropFirst()).allSatisfy({ $0.range.upperBound <= $1.range.lowerBound }) else { return nil }
        var start = 0
        var pieces: [[UInt8]] = []
        for gap in gaps {
            pieces.append(Array(encoded[start..<gap.range.lowerBound]))
            start = gap.range.upperBound
        }
        pieces.append(Array(encoded[start...]))
        self.pieces = pieces
        order = gaps.map(\.index)
    }

    /// What it takes in memory, in bytes, about.
    var byteCount: Int { pieces.reduce(0) { $0 + $1.count + 32 } + 64 }

    /// How long the answer is with some values.
    func count(_ values: [String]) -> Int {
        pieces.reduce(0) { $0 + $1.count } + order.reduce(0) { $0 + values[$1].utf8.count }
    }

    /// Writes the answer with some values, one for each marker and in their order, into a buffer of `count(values)` bytes.
    func write(_ values: [String], into buffer: UnsafeMutableRawBufferPointer) {
        var position = 0
        func put(_ bytes: some Collection<UInt8>) {
            let end = position + bytes.count
            UnsafeMutableRawBufferPointer(rebasing: buffer[position..<end]).copyBytes(from: bytes)
            position = end
        }
        for (piece, value) in zip(pieces, order) {
            put(piece)
            put(values[value].utf8)
        }
        if let last = pieces.last { put(last) }
    }

    /// The answer with some values.
    func filled(_ values: [String]) -> [UInt8] {
        let count = count(values)
        return [UInt8](unsafeUninitializedCapacity: count) { buffer, initialized in
            write(values, into: UnsafeMutableRawBufferPointer(buffer))
            initialized = count
        }
    }

    private static func onlyRange(of marker: [UInt8], in bytes: [UInt8]) -> Range<Int>? {
        bytes.withUnsafeBytes { bytes in
            func firstRange(from start: Int) -> Range<Int>? {
                guard let base = bytes.baseAddress, let first = marker.first else { return nil }
                var start = start
                while bytes.count - start >= marker.count,
                    let found = memchr(base + start, Int32(first), bytes.count - start - marker.count + 1)
                {
                    let offset = base.distance(to: UnsafeRawPointer(found))
                    if bytes[offset..<offset + marker.count].elementsEqual(marker) {
                        return offset..<offset + marker.count
                    }
                    start = offset + 1
                }
                return nil
            }
            guard let only = firstRange(from: 0), firstRange(from: only.upperBound) == nil else { return nil }
            return only
        }
    }
}
