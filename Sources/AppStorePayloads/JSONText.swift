import EntitlementCore

/// The inside of JSON's quotes: finding its end, checking it, putting escapes in and taking them away.
package enum JSONText {
    /// A text between JSON's quotes; control characters are escaped, those beyond ASCII too, which a terminal would obey.
    package static func quoted(_ text: String) -> String {
        // 0xC2 begins the control characters beyond ASCII, and others.
        let isPlain = text.utf8.allSatisfy {
            $0 >= 0x20 && $0 != 0x7F && $0 != 0xC2 && $0 != UInt8(ascii: "\"") && $0 != UInt8(ascii: "\\")
        }
        if isPlain { return "\"\(text)\"" }
        var quoted = "\""
        // By scalars: to `Character`, a quotation mark with a combining mark behind it is no quotation mark.
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\"": quoted += "\\\""
            case "\\": quoted += "\\\\"
            case _ where scalar.isControl: quoted += "\\u" + Hexadecimal.text(scalar.value, digits: 4)
            default: quoted.unicodeScalars.append(scalar)
            }
        }
        return quoted + "\""
    }

    /// The next byte that is a quote, a backslash, a control character or not ASCII; the end of the text if there is none.
    ///
    /// Eight bytes are looked at at once. The tests of single bytes may be wrong about what stands beside a true find,
    /// never about whether there is one.
    static func firstNotable(in text: UnsafeRawBufferPointer, from start: Int) -> Int {
        let ones: UInt64 = 0x0101_0101_0101_0101
        let highs: UInt64 = 0x8080_8080_8080_8080
        var index = start
        while index + 8 <= text.count {
            let word = text.loadUnaligned(fromByteOffset: index, as: UInt64.self)
            let quote = word ^ (ones &* UInt64(UInt8(ascii: "\"")))
            let backslash = word ^ (ones &* UInt64(UInt8(ascii: "\\")))
            let found =
                (word | (quote &- ones) & ~quote | (backslash &- ones) & ~backslash
                    | (word &- ones &* 0x20) & ~word) & highs
            if found != 0 { break }
            index += 8
        }
        while index < text.count {
            switch text[index] {
            case UInt8(ascii: "\""), UInt8(ascii: "\\"), ..<0x20, 0x80...: return index
            default: index += 1
            }
        }
        return index
    }

    /// How many bytes the escape at this backslash has; `nil` for one that JSON does not know.
    static func escapeLength(in text: UnsafeRawBufferPointer, at index: Int) -> Int? {
        guard index + 1 < text.count else { return nil }
        switch text[index + 1] {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"), UInt8(ascii: "b"), UInt8(ascii: "f"),
            UInt8(ascii: "n"), UInt8(ascii: "r"), UInt8(ascii: "t"):
            return 2
        case UInt8(ascii: "u"):
            return codeUnit(in: text, at: index) == nil ? nil : 6
        default:
            return nil
        }
    }

    /// How many bytes the UTF-8 of the scalar at this place has, which is not ASCII; `nil` where it is not well formed
    /// (Unicode 15, table 3-7).
    static func scalarLength(in text: UnsafeRawBufferPointer, at index: Int) -> Int? {
        func isContinuation(_ offset: Int, _ range: ClosedRange<UInt8> = 0x80...0xBF) -> Bool {
            index + offset < text.count && range.contains(text[index + offset])
        }
        switch text[index] {
        case 0xC2...0xDF:
            return isContinuation(1) ? 2 : nil
        case 0xE0...0xEF:
            let second: ClosedRange<UInt8> =
                switch text[index] {
                case 0xE0: 0xA0...0xBF
                case 0xED: 0x80...0x9F
                default: 0x80...0xBF
                }
            return isContinuation(1, second) && isContinuation(2) ? 3 : nil
        case 0xF0...0xF4:
            let second: ClosedRange<UInt8> =
                switch text[index] {
                case 0xF0: 0x90...0xBF
                case 0xF4: 0x80...0x8F
                default: 0x80...0xBF
                }
            return isContinuation(1, second) && isContinuation(2) && isContinuation(3) ? 4 : nil
        default:
            return nil
        }
    }

    /// The text that a checked inside of quotes stands for.
    ///
    /// Half of a surrogate pair, as a program leaves that cuts a text by UTF-16 units, becomes U+FFFD: what is signed must
    /// not be lost for a value that no Swift string can hold, and that nobody may ask for.
    static func unescaped(_ text: UnsafeRawBufferPointer) -> String {
        var output: [UInt8] = []
        output.reserveCapacity(text.count)
        var index = 0
        while index < text.count {
            guard text[index] == UInt8(ascii: "\\"), index + 1 < text.count else {
                output.append(text[index])
                index += 1
                continue
            }
            guard let unit = codeUnit(in: text, at: index) else {
                output.append(meaning(ofEscape: text[index + 1]))
                index += 2
                continue
            }
            index += 6
            if let scalar = Unicode.Scalar(UInt32(unit)) {
                output.append(contentsOf: UTF8.encode(scalar).unsafelyUnwrapped)
            } else if UTF16.isLeadSurrogate(unit), let low = codeUnit(in: text, at: index),
                UTF16.isTrailSurrogate(low)
            {
                index += 6
                output.append(contentsOf: Array(String(decoding: [unit, low], as: UTF16.self).utf8))
            } else {
                output.append(contentsOf: "\u{FFFD}".utf8)
            }
        }
        return String(decoding: output, as: UTF8.self)
    }

    private static func meaning(ofEscape byte: UInt8) -> UInt8 {
        switch byte {
        case UInt8(ascii: "b"): 0x08
        case UInt8(ascii: "f"): 0x0C
        case UInt8(ascii: "n"): 0x0A
        case UInt8(ascii: "r"): 0x0D
        case UInt8(ascii: "t"): 0x09
        default: byte
        }
    }

    /// The unit that a `\u` escape at this place stands for; `nil` where there is none.
    private static func codeUnit(in text: UnsafeRawBufferPointer, at index: Int) -> UInt16? {
        guard index + 6 <= text.count, text[index] == UInt8(ascii: "\\"), text[index + 1] == UInt8(ascii: "u") else {
            return nil
        }
        var unit: UInt16 = 0
        for digit in text[(index + 2)..<(index + 6)] {
            guard let value = Hexadecimal.value(digit) else { return nil }
            unit = unit << 4 | UInt16(value)
        }
        return unit
    }
}
