/// Whether text can be compared and hashed in time that grows no faster than its length.
///
/// Swift compares and hashes text as Unicode normalises it, and for that sorts the combining marks that follow each other
/// by a method whose time grows with the square of their number: a megabyte of marks takes the better part of an hour. No
/// writing needs many, and Unicode's Stream-Safe Text Format (UAX #15, section 13) allows thirty in a row.
enum StreamSafeText {
    /// The most combining marks in a row.
    private static let limit = 30

    /// Whether no more marks than that follow each other.
    ///
    /// - Parameters:
    ///   - bytes: of UTF-8; what is none counts as other characters.
    ///   - readsEscapes: whether `\u0301` counts as the mark that it stands for in JSON.
    static func isSafe(_ bytes: UnsafeBufferPointer<UInt8>, readsEscapes: Bool) -> Bool {
        var run = MarkRun()
        var index = 0
        while index < bytes.count {
            let start = firstNotable(in: bytes, from: index, readsEscapes: readsEscapes)
            if start > index { run = MarkRun() }
            guard start < bytes.count else { return true }
            if bytes[start] < 0x80 {
                let unit = codeUnit(in: bytes, at: start)
                run.add(unit: unit ?? 0)
                index = start + (unit == nil ? 2 : 6)
            } else {
                let (scalar, length) = scalar(in: bytes, at: start)
                run.add(scalar)
                index = start + length
            }
            if run.count > limit { return false }
        }
        return true
    }

    /// The marks that follow each other at a place.
    private struct MarkRun {
        var count = 0
        /// The first half of a surrogate pair that was escaped.
        private var high: UInt16?

        mutating func add(_ scalar: Unicode.Scalar) {
            high = nil
            count = StreamSafeText.isMark(scalar) ? count + 1 : 0
        }

        mutating func add(unit: UInt16) {
            if let high, (0xDC00...0xDFFF).contains(unit) {
                let value = 0x10000 + (UInt32(high) - 0xD800) << 10 + (UInt32(unit) - 0xDC00)
                add(Unicode.Scalar(value) ?? "\u{FFFD}")
            } else if (0xD800...0xDBFF).contains(unit) {
                high = unit
            } else {
                add(Unicode.Scalar(unit) ?? "\u{FFFD}")
            }
        }
    }

    /// Whether Unicode reorders it among those that it follows.
    static func isMark(_ scalar: Unicode.Scalar) -> Bool {
        let value = Int(scalar.value)
        guard value < marks.count * 64 else { return isMarkByUnicode(scalar) }
        return marks[value / 64] & 1 << UInt64(value % 64) != 0
    }

    /// The marks of the first two planes, a bit each: asking Unicode's tables for every character of a body takes as long as
    /// receiving it.
    private static let marks: [UInt64] = {
        var words = [UInt64](repeating: 0, count: 0x20000 / 64)
        for value in 0..<words.count * 64 {
            guard let scalar = Unicode.Scalar(UInt32(value)), isMarkByUnicode(scalar) else { continue }
            words[value / 64] |= 1 << UInt64(value % 64)
        }
        return words
    }()

    private static func isMarkByUnicode(_ scalar: Unicode.Scalar) -> Bool {
        scalar.properties.canonicalCombiningClass != .notReordered || marksInOne.contains(scalar)
    }

    /// What is not reordered itself and stands for two marks that are.
    private static let marksInOne: [Unicode.Scalar] = ["\u{F73}", "\u{F75}", "\u{F81}"]

    /// The next byte that begins anything but a plain character of ASCII; the count of bytes where there is none.
    private static func firstNotable(
        in bytes: UnsafeBufferPointer<UInt8>, from start: Int, readsEscapes: Bool
    ) -> Int {
        let raw = UnsafeRawBufferPointer(bytes)
        let (ones, tops) = (UInt64(0x0101_0101_0101_0101), UInt64(0x8080_8080_8080_8080))
        let backslashes = ones &* UInt64(UInt8(ascii: "\\"))
        var index = start
        // Eight at a time: in a word without a set top bit, a byte that is 0 borrows from its top bit.
        while index + 8 <= bytes.count {
            let word = raw.loadUnaligned(fromByteOffset: index, as: UInt64.self)
            let difference = word ^ backslashes
            let hasBackslash = readsEscapes && (difference &- ones) & ~difference & tops != 0
            if word & tops != 0 || hasBackslash { break }
            index += 8
        }
        while index < bytes.count, bytes[index] < 0x80, !readsEscapes || bytes[index] != UInt8(ascii: "\\") {
            index += 1
        }
        return index
    }

    /// The code unit that JSON escapes as `\uXXXX`; `nil` where another escape is, or none.
    private static func codeUnit(in bytes: UnsafeBufferPointer<UInt8>, at start: Int) -> UInt16? {
        guard start + 6 <= bytes.count, bytes[start + 1] == UInt8(ascii: "u") else { return nil }
        var unit: UInt16 = 0
        for byte in bytes[start + 2..<start + 6] {
            guard let digit = RequestTarget.hexValue(byte) else { return nil }
            unit = unit << 4 | UInt16(digit)
        }
        return unit
    }

    /// The scalar at a place, and how many bytes it takes.
    private static func scalar(in bytes: UnsafeBufferPointer<UInt8>, at start: Int) -> (Unicode.Scalar, length: Int) {
        let lead = bytes[start]
        let length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2
        guard lead >= 0xC0, start + length <= bytes.count else { return ("\u{FFFD}", 1) }
        var value = UInt32(lead) & (0xFF >> UInt32(length + 1))
        for byte in bytes[start + 1..<start + length] {
            guard byte & 0xC0 == 0x80 else { return ("\u{FFFD}", 1) }
            value = value << 6 | UInt32(byte & 0x3F)
        }
        return (Unicode.Scalar(value) ?? "\u{FFFD}", length)
    }

    /// The same of bytes that lie elsewhere.
    static func isSafe(_ bytes: [UInt8], readsEscapes: Bool = false) -> Bool {
        bytes.withUnsafeBufferPointer { isSafe($0, readsEscapes: readsEscapes) }
    }

    /// The same of a text.
    static func isSafe(_ text: String) -> Bool {
        var text = text
        return text.withUTF8 { isSafe($0, readsEscapes: false) }
    }
}

extension HTTPRequest {
    /// Looks through a body that is to be read as JSON in UTF-8, which may be long: so first for who sends it, and how often.
    ///
    /// Throws where text of it would take too long to compare.
    package func examineText() throws(HTTPRefusal) {
        guard StreamSafeText.isSafe(body, readsEscapes: true) else { throw .tooManyMarks }
    }
}

extension HTTPRefusal {
    static let tooManyMarks = HTTPRefusal.malformed(reason: "it has more than 30 combining marks in a row")
}
