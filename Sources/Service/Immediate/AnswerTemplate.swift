import Glibc

/// An encoded answer whose gaps are filled each time it is sent.
struct AnswerTemplate: Sendable {
    private let pieces: [[UInt8]]
    /// Which value fills each gap.
    private let order: [Int]

    /// Takes an encoded answer apart at gaps that follow each other.
    init(_ encoded: [UInt8], gaps: [Range<Int>]) { self.init(encoded, gaps: gaps, order: Array(gaps.indices)) }

    /// Takes an answer apart that was encoded with a marker in the place of each value that changes from one time to the
    /// next.
    ///
    /// A marker has to be found exactly once: text that came from outside may hold the same characters.
    ///
    /// - Parameter markers: the text of each gap, in the order in which `write` takes its values.
    /// - Returns: `nil` where one of them is not there exactly once.
    init?(_ encoded: [UInt8], markers: [String]) {
        var gaps: [(range: Range<Int>, index: Int)] = []
        for (index, marker) in markers.enumerated() {
            guard let range = Self.onlyRange(of: Array(marker.utf8), in: encoded) else { return nil }
            gaps.append((range, index))
        }
        gaps.sort { $0.range.lowerBound < $1.range.lowerBound }
        guard zip(gaps, gaps.dropFirst()).allSatisfy({ $0.range.upperBound <= $1.range.lowerBound }) else { return nil }
        self.init(encoded, gaps: gaps.map(\.range), order: gaps.map(\.index))
    }

    private init(_ encoded: [UInt8], gaps: [Range<Int>], order: [Int]) {
        let ends = gaps.map(\.lowerBound) + [encoded.count]
        pieces = zip([0] + gaps.map(\.upperBound), ends).map { Array(encoded[$0..<$1]) }
        self.order = order
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
