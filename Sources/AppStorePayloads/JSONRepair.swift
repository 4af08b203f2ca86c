/// Makes JSON readable that is well formed by its grammar and still holds what no Swift value can: half of a surrogate
/// pair, as a program leaves that cuts a text by UTF-16 units, or a number beyond `Double`.
///
/// What is signed must not be lost for a value nobody asks for. The half becomes U+FFFD, the number the largest there
/// is; everything else stays as it is, also what is not JSON at all.
struct JSONRepair {
    private let bytes: [UInt8]
    private var output: [UInt8] = []
    private var position = 0

    static func repaired(_ bytes: [UInt8]) -> [UInt8] {
        var repair = JSONRepair(bytes: bytes)
        repair.run()
        return repair.output
    }

    private init(bytes: [UInt8]) {
        self.bytes = bytes
        output.reserveCapacity(bytes.count)
    }

    private mutating func run() {
        var isInString = false
        while position < bytes.count {
            let byte = bytes[position]
            switch byte {
            case UInt8(ascii: "\"") where isInString:
                isInString = false
                copy(1)
            case UInt8(ascii: "\\") where isInString:
                copyEscape()
            case UInt8(ascii: "\""):
                isInString = true
                copy(1)
            case UInt8(ascii: "-") where !isInString, UInt8(ascii: "0")...UInt8(ascii: "9") where !isInString:
                copyNumber()
            default:
                copy(1)
            }
        }
    }

    private mutating func copy(_ count: Int) {
        let end = min(position + count, bytes.count)
        output += bytes[position..<end]
        position = end
    }

    private mutating func copyEscape() {
        guard let unit = codeUnit(at: position) else { return copy(2) }
        switch unit {
        case 0xD800...0xDBFF:
            if let low = codeUnit(at: position + 6), (0xDC00...0xDFFF).contains(low) { return copy(12) }
        case 0xDC00...0xDFFF: break
        default: return copy(6)
        }
        output += Array(#"\ufffd"#.utf8)
        position += 6
    }

    /// The unit that a `\u` escape at this place stands for.
    private func codeUnit(at index: Int) -> UInt16? {
        guard index + 6 <= bytes.count, bytes[index] == UInt8(ascii: "\\"), bytes[index + 1] == UInt8(ascii: "u") else {
            return nil
        }
        return UInt16(String(decoding: bytes[(index + 2)..<(index + 6)], as: UTF8.self), radix: 16)
    }

    private mutating func copyNumber() {
        let end = bytes[position...].firstIndex { !Self.numeric.contains($0) } ?? bytes.count
        let text = String(decoding: bytes[position..<end], as: UTF8.self)
        if let value = Double(text), value.isInfinite {
            output += Array(String(value < 0 ? -Double.greatestFiniteMagnitude : .greatestFiniteMagnitude).utf8)
            position = end
        } else {
            copy(end - position)
        }
    }

    private static let numeric = Set("+-.0123456789Ee".utf8)
}
